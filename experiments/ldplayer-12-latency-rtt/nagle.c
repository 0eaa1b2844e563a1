/* Preloaded, it turns Nagle's algorithm (RFC 896) of a server on or off, whatever the server asks for: NAGLE=on or NAGLE=off.
 * The socket option is set on each connection as it is accepted, and what the server says of it is left unheard. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define REAL(name) static __typeof__(&name) real_##name
REAL(accept);
REAL(accept4);
REAL(setsockopt);
static int is_set, no_delay;

static int says(const char *word) {
  const char *given = getenv("NAGLE");
  return given && strcmp(given, word) == 0;
}

__attribute__((constructor)) static void begin(void) {
  real_accept = (__typeof__(&accept))dlsym(RTLD_NEXT, "accept");
  real_accept4 = (__typeof__(&accept4))dlsym(RTLD_NEXT, "accept4");
  real_setsockopt = (__typeof__(&setsockopt))dlsym(RTLD_NEXT, "setsockopt");
  no_delay = says("off");
  is_set = no_delay || says("on");
}

static int told(int s) {
  if (s >= 0 && is_set) real_setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
  return s;
}

int accept(int s, struct sockaddr *address, socklen_t *length) { return told(real_accept(s, address, length)); }

int accept4(int s, struct sockaddr *address, socklen_t *length, int flags) {
  return told(real_accept4(s, address, length, flags));
}

int setsockopt(int s, int level, int option, const void *value, socklen_t length) {
  if (is_set && level == IPPROTO_TCP && option == TCP_NODELAY) return 0;
  return real_setsockopt(s, level, option, value, length);
}
