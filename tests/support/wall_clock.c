// Preloaded into a process, moves its time of day by HEADWATER_CLOCK_OFF_S seconds. Timers go on as they should.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static long off_s(void) {
    const char *text = getenv("HEADWATER_CLOCK_OFF_S");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += off_s();
    return status;
}

int gettimeofday(struct timeval *now, void *zone) {
    int status = syscall(SYS_gettimeofday, now, zone);
    if (status == 0) now->tv_sec += off_s();
    return status;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

// Waits until a time of day: the kernel is given the deadline in its own time. Only a time of day is as large as this.
static struct timespec kernel_time(const struct timespec *until) {
    struct timespec real = *until;
    if (real.tv_sec > 1000000000) real.tv_sec -= off_s();
    return real;
}

#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    struct timespec real = kernel_time(until);
    return NEXT(pthread_cond_timedwait)(condition, mutex, &real);
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until) {
    struct timespec real = kernel_time(until);
    return NEXT(pthread_cond_clockwait)(condition, mutex, clock, &real);
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    struct timespec real = kernel_time(until);
    return NEXT(pthread_mutex_timedlock)(mutex, &real);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    struct timespec real = kernel_time(until);
    return NEXT(sem_timedwait)(semaphore, &real);
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    struct timespec real = kernel_time(until);
    return NEXT(cnd_timedwait)(condition, mutex, &real);
}
