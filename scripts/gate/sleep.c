/* Makes a server slower: preloaded, it sleeps SLEEP_US microseconds (1,000 unless told) before one of SLEEP_EVERY (100) calls that send
 * datagrams. It counts calls and draws nothing, so that two runs differ in nothing else. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define REAL(name) static __typeof__(&name) real_##name
REAL(sendto);
REAL(sendmsg);
REAL(sendmmsg);
static unsigned every = 100, us = 1000;
static atomic_uint calls;

__attribute__((constructor)) static void begin(void) {
  const char *every_given = getenv("SLEEP_EVERY"), *us_given = getenv("SLEEP_US");
  if (every_given && atoi(every_given) > 0) every = atoi(every_given);
  if (us_given) us = atoi(us_given);
  real_sendto = dlsym(RTLD_NEXT, "sendto");
  real_sendmsg = dlsym(RTLD_NEXT, "sendmsg");
  real_sendmmsg = dlsym(RTLD_NEXT, "sendmmsg");
}

static void perhaps_sleep(void) {
  if (atomic_fetch_add(&calls, 1) % every == every - 1) usleep(us);
}

ssize_t sendto(int s, const void *data, size_t n, int flags, const struct sockaddr *to, socklen_t length) {
  perhaps_sleep();
  return real_sendto(s, data, n, flags, to, length);
}

ssize_t sendmsg(int s, const struct msghdr *message, int flags) {
  perhaps_sleep();
  return real_sendmsg(s, message, flags);
}

int sendmmsg(int s, struct mmsghdr *messages, unsigned count, int flags) {
  perhaps_sleep();
  return real_sendmmsg(s, messages, count, flags);
}
