/*
 * The bare peer of small calls: a TCP echo with the sizes of a call and of its reply.
 *
 * usage: tcp_echo CONNECTIONS DEPTH SECONDS CALL_BYTES REPLY_BYTES
 *
 * A child process answers every CALL_BYTES with REPLY_BYTES; the parent keeps DEPTH calls in
 * flight on each connection. Both wait in epoll_wait, take no copy that a program without any
 * protocol wouldn't take, and do nothing with what they receive. Prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 65536, EVENTS_MAX = 256 };

static char buffer[BUFFER_BYTES];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now_s(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void no_delay(int socket)
{
    int on = 1;
    if (setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        fail("TCP_NODELAY");
    }
}

static void watch(int poll, int socket)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = socket};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event) != 0) {
        fail("epoll_ctl");
    }
}

/* Sends `count` messages of `size` bytes in as few system calls as the buffer allows. */
static void send_messages(int socket, size_t count, size_t size)
{
    size_t left = count * size;
    while (left > 0) {
        ssize_t sent = send(socket, buffer, left < BUFFER_BYTES ? left : BUFFER_BYTES, 0);
        if (sent <= 0) {
            fail("send");
        }
        left -= (size_t)sent;
    }
}

/* Receives what is there, and returns how many whole messages that completes. */
static size_t receive_messages(int socket, size_t *partial, size_t size)
{
    ssize_t got = recv(socket, buffer, BUFFER_BYTES, 0);
    if (got <= 0) {
        return 0;
    }
    *partial += (size_t)got;
    size_t whole = *partial / size;
    *partial %= size;
    return whole;
}

static void serve(int listener, int connections, size_t call_bytes, size_t reply_bytes)
{
    int poll = epoll_create1(0);
    size_t *partial = calloc(65536, sizeof *partial);
    for (int number = 0; number < connections; number++) {
        int socket = accept(listener, NULL, NULL);
        if (socket < 0 || socket >= 65536) {
            fail("accept");
        }
        no_delay(socket);
        watch(poll, socket);
    }
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int ready = epoll_wait(poll, events, EVENTS_MAX, -1);
        for (int at = 0; at < ready; at++) {
            int socket = events[at].data.fd;
            size_t whole = receive_messages(socket, &partial[socket], call_bytes);
            if (whole > 0) {
                send_messages(socket, whole, reply_bytes);
            }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: tcp_echo CONNECTIONS DEPTH SECONDS CALL_BYTES REPLY_BYTES\n");
        return 2;
    }
    int connections = atoi(argv[1]), depth = atoi(argv[2]);
    double seconds = atof(argv[3]);
    size_t call_bytes = (size_t)atol(argv[4]), reply_bytes = (size_t)atol(argv[5]);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, len) != 0 || listen(listener, 4096) != 0
        || getsockname(listener, (struct sockaddr *)&address, &len) != 0) {
        fail("listen");
    }
    pid_t server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener, connections, call_bytes, reply_bytes);
        return 0;
    }
    int poll = epoll_create1(0);
    size_t *partial = calloc(65536, sizeof *partial);
    for (int number = 0; number < connections; number++) {
        int one = socket(AF_INET, SOCK_STREAM, 0);
        if (one < 0 || one >= 65536 || connect(one, (struct sockaddr *)&address, len) != 0) {
            fail("connect");
        }
        no_delay(one);
        watch(poll, one);
        send_messages(one, (size_t)depth, call_bytes);
    }
    double begin = now_s(CLOCK_MONOTONIC), cpu = now_s(CLOCK_PROCESS_CPUTIME_ID), time = 0;
    uint64_t done = 0;
    struct epoll_event events[EVENTS_MAX];
    while ((time = now_s(CLOCK_MONOTONIC) - begin) < seconds) {
        int ready = epoll_wait(poll, events, EVENTS_MAX, 1000);
        for (int at = 0; at < ready; at++) {
            int socket = events[at].data.fd;
            size_t whole = receive_messages(socket, &partial[socket], reply_bytes);
            done += whole;
            send_messages(socket, whole, call_bytes);
        }
    }
    cpu = now_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    kill(server, SIGKILL);
    printf("{\"ops\": %llu, \"bytes\": 0, \"seconds\": %f, \"cpu_s\": %f}\n",
           (unsigned long long)done, time, cpu);
    return 0;
}
