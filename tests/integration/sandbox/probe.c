/* Runs under the sandbox's lock in place of Deno: sends HELLO, then tries what a taken-over Deno would try,
   from the main thread and from a second one. Answers one frame: a line "name=errno" per attempt, 0 = it worked. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static char report[1 << 16];
static int length;

static void note(const char *thread, const char *name, long result) {
  length += snprintf(report + length, sizeof report - length, "%s %s=%d\n", thread, name, result < 0 ? errno : 0);
}

#define TRY(name, call) do { errno = 0; note(thread, name, (long)(call)); } while (0)
#define RAW(name, ...) TRY(#name, syscall(SYS_##name, ##__VA_ARGS__))

static long map(size_t size, int protection, int flags, int file) {
  return mmap(NULL, size, protection, flags, file, 0) == MAP_FAILED ? -1 : 0;
}

static void attempts(const char *thread) {
  char buffer[512] = {0};
  char *program[] = {"/bin/true", NULL};
  struct msghdr message = {0};
  pid_t parent = (pid_t)*(int *)(report + sizeof report - sizeof(int));
  const int private = MAP_PRIVATE | MAP_ANONYMOUS, writable = PROT_READ | PROT_WRITE;
  /* files */
  RAW(open, "/etc/passwd", O_RDONLY);
  RAW(openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
  TRY("open own program", syscall(SYS_openat, AT_FDCWD, "/proc/self/exe", O_RDONLY));
  RAW(openat2, AT_FDCWD, "/etc/passwd", buffer, 24);
  RAW(stat, "/etc/passwd", buffer);
  RAW(readlink, "/proc/self/exe", buffer, sizeof buffer);
  RAW(getdents64, 0, buffer, sizeof buffer);
  RAW(mkdir, "/tmp/headwater-probe", 0700);
  RAW(unlink, "/tmp/headwater-probe");
  RAW(rename, "/tmp/headwater-a", "/tmp/headwater-b");
  RAW(memfd_create, "m", 0);
  RAW(mount, "none", "/tmp", "tmpfs", 0, NULL);
  RAW(name_to_handle_at, AT_FDCWD, "/etc", buffer, buffer + 64, 0);
  RAW(io_uring_setup, 4, buffer);
  RAW(pread64, 0, buffer, 1, 0);
  /* the network */
  TRY("socket inet", socket(AF_INET, SOCK_STREAM, 0));
  TRY("socket unix", socket(AF_UNIX, SOCK_STREAM, 0));
  TRY("socket netlink", socket(AF_NETLINK, SOCK_RAW, 0));
  RAW(connect, 0, buffer, 16);
  RAW(bind, 0, buffer, 16);
  RAW(sendto, 1, "x", 1, 0, NULL, 0);
  RAW(sendmsg, 1, &message, 0);
  RAW(recvmsg, 0, &message, MSG_DONTWAIT);
  RAW(socketpair, AF_UNIX, SOCK_STREAM, 0, buffer);
  RAW(setsockopt, 0, SOL_SOCKET, SO_SNDBUF, buffer, 4);
  /* processes */
  RAW(execve, "/bin/true", program, NULL);
  RAW(execveat, AT_FDCWD, "/bin/true", program, NULL, 0);
  RAW(fork);
  RAW(vfork);
  TRY("clone a process", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  TRY("clone a user namespace", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  TRY("clone a thread and more", syscall(SYS_clone, 0x3d0f00L | CLONE_NEWUSER, 0, 0, 0, 0));
  TRY("clone high flags", syscall(SYS_clone, 0x100003d0f00L, 0, 0, 0, 0));
  RAW(clone3, buffer, 88);
  RAW(unshare, CLONE_NEWUSER);
  RAW(setns, 0, 0);
  RAW(setuid, 0);
  RAW(capset, buffer, buffer + 64);
  RAW(ptrace, 16, parent, 0, 0);
  RAW(process_vm_readv, parent, buffer, 1, buffer + 64, 1, 0);
  TRY("kill the parent", syscall(SYS_kill, parent, 0));
  TRY("kill all", syscall(SYS_kill, -1, 0));
  TRY("tgkill another", syscall(SYS_tgkill, parent, parent, 0));
  RAW(tkill, parent, 0);
  RAW(rt_sigqueueinfo, parent, 0, buffer);
  RAW(pidfd_open, parent, 0);
  /* the kernel */
  TRY("prctl dumpable", prctl(PR_SET_DUMPABLE, 1));
  TRY("prctl seccomp", prctl(PR_SET_SECCOMP, 2, buffer));
  TRY("prctl pdeathsig", prctl(PR_SET_PDEATHSIG, 0));
  RAW(seccomp, 0, 0, NULL);
  RAW(landlock_create_ruleset, NULL, 0, 1);
  RAW(bpf, 0, buffer, 72);
  RAW(perf_event_open, buffer, 0, -1, -1, 0);
  RAW(userfaultfd, 0);
  RAW(keyctl, 0, 0);
  RAW(ioctl, 0, 0x5412, "x");
  TRY("fcntl own", fcntl(0, F_SETOWN, 1));
  TRY("fcntl flags", fcntl(0, F_GETFL));
  RAW(prlimit64, 0, 7, NULL, buffer);
  RAW(arch_prctl, 0x1002, buffer);
  RAW(modify_ldt, 0, buffer, 1);
  RAW(personality, 0xffffffffL);
  RAW(dup, 0);
  RAW(pipe2, buffer, 0);
  RAW(eventfd2, 0, 0);
  RAW(epoll_create1, 0);
  RAW(timer_create, 0, NULL, buffer);
  RAW(shmget, 0, 4096, 01600);
  RAW(msgget, 0, 01600);
  RAW(getppid);
  RAW(uname, buffer);
  /* memory */
  TRY("map a file", map(4096, PROT_READ, MAP_PRIVATE, 0));
  TRY("map code", map(4096, PROT_READ | PROT_EXEC, private, -1));
  TRY("map writable code", map(4096, writable | PROT_EXEC, private, -1));
  void *page = mmap(NULL, 4096, writable, private, -1, 0);
  TRY("make code", mprotect(page, 4096, PROT_READ | PROT_EXEC));
  RAW(pkey_mprotect, page, 4096, PROT_READ | PROT_EXEC, -1);
  TRY("map 2 GB", map(2UL << 30, writable, private, -1));
  TRY("map 2 GB shared", map(2UL << 30, writable, MAP_SHARED | MAP_ANONYMOUS, -1));
  TRY("map 2 GB growing", map(2UL << 30, writable, private | MAP_GROWSDOWN, -1));
  TRY("map huge pages", map(2UL << 21, writable, private | MAP_HUGETLB, -1));
  /* what must go on working */
  TRY("allowed: map 1 MB", map(1 << 20, writable, private, -1));
  TRY("allowed: getpid", getpid());
  TRY("allowed: name", prctl(PR_SET_NAME, "probe"));
  TRY("allowed: own signal", syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0));
}

static void *second_thread(void *unused) {
  attempts("second");
  return unused;
}

static void send_frame(unsigned char kind, const char *payload, unsigned size) {
  unsigned char header[5] = {kind, size, size >> 8, size >> 16, size >> 24};
  if (write(1, header, 5) != 5 || write(1, payload, size) != (ssize_t)size) _exit(1);
}

int main(void) {
  pid_t parent = getppid();
  memcpy(report + sizeof report - sizeof(int), &parent, sizeof(int));
  send_frame(0, "", 0);
  char go[5];
  if (read(0, go, 5) != 5) return 1;
  attempts("main");
  pthread_t thread;
  if (pthread_create(&thread, NULL, second_thread, NULL) == 0) pthread_join(thread, NULL);
  send_frame(3, report, length);
  return read(0, go, 1) < 0;
}
