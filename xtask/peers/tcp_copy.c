/*
 * The bare peer of streams over a store that keeps data: the copies of a READ or WRITE and
 * nothing else.
 *
 * usage: tcp_copy read|keep|write STORE_BYTES IO_BYTES SECONDS
 *
 * A child process plays the server, with a store of STORE_BYTES that is larger than the caches of
 * a core. For `read` and `keep` it sends IO_BYTES at a time from the store, and the parent drops
 * them in the kernel or receives them into one buffer. For `write` the parent sends IO_BYTES at a
 * time from one buffer, and the child receives them into the store. Prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

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

/* Allocates memory whose pages exist. */
static char *filled(size_t bytes)
{
    char *memory = malloc(bytes);
    if (memory == NULL) {
        fail("malloc");
    }
    memset(memory, 1, bytes);
    return memory;
}

static int tcp_socket(void)
{
    int one = socket(AF_INET, SOCK_STREAM, 0);
    if (one < 0 || setsockopt(one, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0) {
        fail("socket");
    }
    return one;
}

/* Sends or receives all of the store, IO_BYTES at a time, again and again, after a byte that shows
 * that the store is filled. */
static void serve(int listener, int sends, size_t store_bytes, size_t io_bytes)
{
    char *store = filled(store_bytes);
    int socket = accept(listener, NULL, NULL);
    if (socket < 0 || send(socket, store, 1, 0) != 1) {
        fail("accept");
    }
    for (size_t at = 0;;) {
        size_t most = store_bytes - at < io_bytes ? store_bytes - at : io_bytes;
        ssize_t moved =
            sends ? send(socket, store + at, most, 0) : recv(socket, store + at, most, 0);
        if (moved <= 0) {
            exit(0);
        }
        at = (at + (size_t)moved) % store_bytes;
    }
}

int main(int argc, char **argv)
{
    int writes = argc == 5 && strcmp(argv[1], "write") == 0;
    int keeps = argc == 5 && strcmp(argv[1], "keep") == 0;
    if (argc != 5 || !(writes || keeps || strcmp(argv[1], "read") == 0)) {
        fprintf(stderr, "usage: tcp_copy read|keep|write STORE_BYTES IO_BYTES SECONDS\n");
        return 2;
    }
    size_t store_bytes = (size_t)atol(argv[2]), io_bytes = (size_t)atol(argv[3]);
    double seconds = atof(argv[4]);
    int listener = tcp_socket();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, len) != 0 || listen(listener, 1) != 0
        || getsockname(listener, (struct sockaddr *)&address, &len) != 0) {
        fail("listen");
    }
    pid_t server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener, !writes, store_bytes, io_bytes);
    }
    int client = tcp_socket();
    if (connect(client, (struct sockaddr *)&address, len) != 0) {
        fail("connect");
    }
    char *buffer = filled(io_bytes);
    if (recv(client, buffer, 1, 0) != 1) {
        fail("recv");
    }
    double begin = now_s(CLOCK_MONOTONIC), cpu = now_s(CLOCK_PROCESS_CPUTIME_ID), time = 0;
    uint64_t bytes = 0;
    while ((time = now_s(CLOCK_MONOTONIC) - begin) < seconds) {
        ssize_t moved = writes ? send(client, buffer, io_bytes, 0)
                               : recv(client, buffer, io_bytes, keeps ? 0 : MSG_TRUNC);
        if (moved <= 0) {
            fail("transfer");
        }
        bytes += (uint64_t)moved;
    }
    cpu = now_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    kill(server, SIGKILL);
    printf("{\"ops\": %llu, \"bytes\": %llu, \"seconds\": %f, \"cpu_s\": %f}\n",
           (unsigned long long)(bytes / io_bytes), (unsigned long long)bytes, time, cpu);
    return 0;
}
