/* A proxy for DNS over UDP whose own tail is short: what comes to a `listen` goes to `backend` under an ID of its own, and the answer
 * back; one answer in `late_every` (none where that is 0) waits for `late_us` microseconds. It counts and draws nothing, so that two runs
 * differ in nothing else. Started as `relay … FILE`, where FILE has lines of a word and its value: listen ADDRESS:PORT (up to four),
 * backend ADDRESS:PORT (the first counts), late_every N, late_us N. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { IDS = 65536, LONGEST = 4096, LATE = 1024, FRONTS = 4 };
struct client { int front; struct sockaddr_storage from; socklen_t size; unsigned char id[2]; };
struct answer { long long due; struct client to; int length; unsigned char data[LONGEST]; };
static struct client clients[IDS];
static struct answer late[LATE]; /* all wait equally long, so that the first in is the first out */
static unsigned head, tail, answers, next_id, late_every, late_us = 1000;
static int back = -1, fronts;
static struct pollfd sockets[FRONTS + 1];

static long long now_ns(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void fail(const char *what) {
  perror(what);
  exit(2);
}

/* A socket at 192.0.2.1:53 or [2001:db8::1]:53, or connected to it. */
static int opened(const char *text, int type, int (*join)(int, const struct sockaddr *, socklen_t)) {
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  char ip[64];
  unsigned port;
  int is_v4 = sscanf(text, "%63[^]:]:%u", ip, &port) == 2 && inet_pton(AF_INET, ip, &v4.sin_addr) == 1;
  if (!is_v4 && (sscanf(text, "[%63[^]]]:%u", ip, &port) != 2 || inet_pton(AF_INET6, ip, &v6.sin6_addr) != 1)) fail(text);
  v4.sin_port = v6.sin6_port = htons(port);
  int made = socket(is_v4 ? AF_INET : AF_INET6, type, 0);
  if (join(made, is_v4 ? (void *)&v4 : (void *)&v6, is_v4 ? sizeof v4 : sizeof v6)) fail(text);
  return made;
}

static void configure(const char *file) {
  char word[32], value[96];
  FILE *lines = fopen(file, "r");
  if (!lines) fail(file);
  while (fscanf(lines, "%31s %95s", word, value) == 2) {
    if (!strcmp(word, "listen") && fronts < FRONTS) {
      sockets[fronts++].fd = opened(value, SOCK_DGRAM, bind);
      /* An experiment waits until a server takes connections, too. Nobody sends queries on them. */
      if (listen(opened(value, SOCK_STREAM, bind), 16)) fail(value);
    } else if (!strcmp(word, "backend") && back < 0) back = opened(value, SOCK_DGRAM, connect);
    else if (!strcmp(word, "late_every")) late_every = atoi(value);
    else if (!strcmp(word, "late_us")) late_us = atoi(value);
  }
  fclose(lines);
  sockets[fronts].fd = back;
}

static void forward(int front) {
  unsigned char data[LONGEST];
  struct client *client = &clients[next_id % IDS];
  client->front = front;
  client->size = sizeof client->from;
  int length = recvfrom(front, data, sizeof data, MSG_DONTWAIT, (void *)&client->from, &client->size);
  if (length < 12) return;
  memcpy(client->id, data, 2);
  data[0] = next_id >> 8, data[1] = next_id;
  next_id++;
  send(back, data, length, 0);
}

static void give(const struct answer *answer) {
  sendto(answer->to.front, answer->data, answer->length, 0, (void *)&answer->to.from, answer->to.size);
}

static void take_answer(void) {
  struct answer *next = &late[tail % LATE];
  next->length = recv(back, next->data, sizeof next->data, MSG_DONTWAIT);
  if (next->length < 12) return;
  next->to = clients[next->data[0] << 8 | next->data[1]];
  memcpy(next->data, next->to.id, 2);
  if (late_every && ++answers % late_every == 0 && tail - head < LATE - 1) {
    next->due = now_ns() + late_us * 1000LL;
    tail++;
  } else {
    give(next);
  }
}

int main(int count, char **arguments) {
  if (count == 2 && !strcmp(arguments[1], "--version")) return puts("relay 1") == EOF;
  configure(arguments[count - 1]);
  for (int at = 0; at <= fronts; at++) sockets[at].events = POLLIN;
  for (;;) {
    long long left = head == tail ? 0 : late[head % LATE].due - now_ns();
    struct timespec pause = {0, left > 0 ? left : 0};
    ppoll(sockets, fronts + 1, head == tail ? NULL : &pause, NULL);
    for (int at = 0; at < fronts; at++) if (sockets[at].revents) forward(sockets[at].fd);
    if (sockets[fronts].revents) take_answer();
    for (; head != tail && late[head % LATE].due <= now_ns(); head++) give(&late[head % LATE]);
  }
}
