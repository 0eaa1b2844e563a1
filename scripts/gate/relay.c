/* A proxy for DNS over UDP on IPv4 whose own tail is short: what comes to `listen` goes to `backend` under an ID of its own, and the
 * answer back; one answer in `late_every` (none where that is 0) waits for `late_us` microseconds. It counts and draws nothing, so that two
 * runs differ in nothing else. Started as `relay … FILE`, where FILE has lines of a word and its value: listen ADDRESS:PORT,
 * backend ADDRESS:PORT, late_every N, late_us N. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { IDS = 65536, MOST = 4096 };
struct client { struct sockaddr_in from; unsigned char id[2]; };
struct waiting { long long due; struct sockaddr_in to; int length; unsigned char data[MOST]; };
static struct client clients[IDS];
static struct waiting queue[1024]; /* of a constant delay, so that the first in is the first out */
static unsigned head, tail, answers, next_id, late_every, late_us = 1000;
static int front, back;

static long long now_ns(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static struct sockaddr_in address(const char *text) {
  struct sockaddr_in found = {.sin_family = AF_INET};
  char ip[64];
  unsigned port;
  if (sscanf(text, "%63[^:]:%u", ip, &port) != 2 || inet_pton(AF_INET, ip, &found.sin_addr) != 1) exit(2);
  found.sin_port = htons(port);
  return found;
}

static void configure(const char *file) {
  char word[32], value[96];
  FILE *lines = fopen(file, "r");
  if (!lines) exit(2);
  while (fscanf(lines, "%31s %95s", word, value) == 2) {
    struct sockaddr_in at;
    if (!strcmp(word, "listen")) { at = address(value); if (bind(front, (void *)&at, sizeof at)) exit(1); }
    else if (!strcmp(word, "backend")) { at = address(value); if (connect(back, (void *)&at, sizeof at)) exit(1); }
    else if (!strcmp(word, "late_every")) late_every = atoi(value);
    else if (!strcmp(word, "late_us")) late_us = atoi(value);
  }
  fclose(lines);
}

static void forward(void) {
  unsigned char data[MOST];
  struct sockaddr_in from;
  socklen_t size = sizeof from;
  int length = recvfrom(front, data, sizeof data, MSG_DONTWAIT, (void *)&from, &size);
  if (length < 12) return;
  struct client *client = &clients[next_id % IDS];
  client->from = from;
  memcpy(client->id, data, 2);
  data[0] = next_id >> 8, data[1] = next_id;
  next_id++;
  send(back, data, length, 0);
}

static void give_back(void) {
  struct waiting *last = &queue[tail % 1024];
  last->length = recv(back, last->data, sizeof last->data, MSG_DONTWAIT);
  if (last->length < 12) return;
  struct client *client = &clients[last->data[0] << 8 | last->data[1]];
  memcpy(last->data, client->id, 2);
  last->to = client->from;
  if (late_every && ++answers % late_every == 0 && tail - head < 1023) {
    last->due = now_ns() + late_us * 1000LL;
    tail++;
  } else {
    sendto(front, last->data, last->length, 0, (void *)&last->to, sizeof last->to);
  }
}

static void send_due(void) {
  for (; head != tail && queue[head % 1024].due <= now_ns(); head++) {
    struct waiting *first = &queue[head % 1024];
    sendto(front, first->data, first->length, 0, (void *)&first->to, sizeof first->to);
  }
}

int main(int count, char **arguments) {
  if (count == 2 && !strcmp(arguments[1], "--version")) return puts("relay 1") == EOF;
  front = socket(AF_INET, SOCK_DGRAM, 0), back = socket(AF_INET, SOCK_DGRAM, 0);
  configure(arguments[count - 1]);
  for (;;) {
    struct pollfd sockets[] = {{front, POLLIN, 0}, {back, POLLIN, 0}};
    long long left = head == tail ? -1 : queue[head % 1024].due - now_ns();
    struct timespec pause = {0, left > 0 ? left : 0};
    ppoll(sockets, 2, head == tail ? NULL : &pause, NULL);
    if (sockets[0].revents) forward();
    if (sockets[1].revents) give_back();
    send_due();
  }
}
