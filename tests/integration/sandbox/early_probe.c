/* Runs under the sandbox's lock in place of Deno, before HELLO: only Landlock keeps it from files now.
   Says hello and then answers one frame: a line "name=errno" per attempt, 0 = it worked. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static char report[4096];
static int length;

#define TRY(name, call) do { errno = 0; long result = (call); length += snprintf(report + length, \
  sizeof report - length, "%s=%d\n", name, result < 0 ? errno : 0); } while (0)

static void send_frame(unsigned char kind, const char *payload, unsigned size) {
  unsigned char header[5] = {kind, size, size >> 8, size >> 16, size >> 24};
  if (write(1, header, 5) != 5 || write(1, payload, size) != (ssize_t)size) _exit(1);
}

int main(void) {
  char *program[] = {"/bin/true", NULL};
  TRY("passwd", open("/etc/passwd", O_RDONLY));
  TRY("environment of init", open("/proc/1/environ", O_RDONLY));
  TRY("own maps", open("/proc/self/maps", O_RDONLY));
  TRY("root directory", open("/", O_RDONLY | O_DIRECTORY));
  TRY("create", open("/tmp/headwater-probe", O_CREAT | O_WRONLY, 0600));
  TRY("create in memory", open("/dev/shm/headwater-probe", O_CREAT | O_WRONLY, 0600));
  TRY("write libc", open("/lib64/ld-linux-x86-64.so.2", O_WRONLY));
  TRY("exec", execve("/bin/true", program, NULL));
  TRY("socket", socket(AF_INET, SOCK_STREAM, 0));
  TRY("allowed: read the loader", open("/lib64/ld-linux-x86-64.so.2", O_RDONLY));
  send_frame(0, "", 0);
  send_frame(3, report, length);
  return 0;
}
