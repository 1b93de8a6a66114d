// Preloaded into a process, moves its time of day by HEADWATER_CLOCK_OFF_S seconds. Timers go on as they should.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
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

// A deadline of the time of day, which only such a one is as large as, is told to the kernel in its own time.
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec real = *until;
    if (!wait) wait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    if (real.tv_sec > 1000000000) real.tv_sec -= off_s();
    return wait(condition, mutex, &real);
}
