/*
 * The libnfs peer: the same operation again and again, from many clients, several in flight.
 *
 * usage: libnfs_load URL OP CLIENTS DEPTH SECONDS BYTES
 *
 * OP is getattr, read or write, on one file that is there and as long as read and written. Uses
 * libnfs' asynchronous interface, the fastest that it offers, on one thread, with one context and
 * so one connection for each client; touches no byte of the payload. Opening and mounting are
 * outside the clock. Prints one JSON object.
 *
 * Source: libnfs 4.0, include/nfsc/libnfs.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <nfsc/libnfs.h>

enum op { GETATTR, READ, WRITE };

/* What all clients do, and what they have done. */
static struct {
    enum op op;
    uint64_t file_bytes;
    uint64_t io_bytes;
    uint64_t next_offset;
    uint64_t done;
    uint64_t moved;
    bool stopping;
    char *payload;
} work;

struct client {
    struct nfs_context *nfs;
    struct nfsfh *file;
    struct nfs_stat_64 attributes;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "libnfs_load: %s: %s\n", what, why);
    exit(1);
}

static uint64_t number(const char *text)
{
    char *end = NULL;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || value == 0) {
        fail(text, "is no number above 0");
    }
    return value;
}

static void submit(struct client *client);

static void on_done(int status, struct nfs_context *nfs, void *data, void *private_data)
{
    (void)data;
    if (status < 0) {
        fail("an operation", nfs_get_error(nfs));
    }
    if (work.op != GETATTR && (uint64_t)status != work.io_bytes) {
        fail("an operation", "moved fewer bytes");
    }
    work.done++;
    work.moved += work.op == GETATTR ? 0 : (uint64_t)status;
    if (!work.stopping) {
        submit(private_data);
    }
}

static void submit(struct client *client)
{
    uint64_t offset = work.next_offset;
    int error = 0;
    switch (work.op) {
    case GETATTR:
        error = nfs_fstat64_async(client->nfs, client->file, on_done, client);
        break;
    case READ:
        error = nfs_pread_async(client->nfs, client->file, offset, work.io_bytes, on_done, client);
        break;
    case WRITE:
        error = nfs_pwrite_async(client->nfs, client->file, offset, work.io_bytes, work.payload,
                                 on_done, client);
        break;
    }
    if (error != 0) {
        fail("submit", nfs_get_error(client->nfs));
    }
    uint64_t next = offset + work.io_bytes;
    work.next_offset = next + work.io_bytes > work.file_bytes ? 0 : next;
}

static void open_client(struct client *client, const char *address)
{
    client->nfs = nfs_init_context();
    struct nfs_url *url = nfs_parse_url_full(client->nfs, address);
    if (url == NULL) {
        fail(address, nfs_get_error(client->nfs));
    }
    if (nfs_mount(client->nfs, url->server, url->path) != 0) {
        fail("mount", nfs_get_error(client->nfs));
    }
    int flags = work.op == WRITE ? O_RDWR : O_RDONLY;
    if (nfs_open(client->nfs, url->file, flags, &client->file) != 0 ||
        nfs_fstat64(client->nfs, client->file, &client->attributes) != 0) {
        fail("open", nfs_get_error(client->nfs));
    }
    /* The same as dfsbench asks for; where it is refused the default stays. */
    (void)setsockopt(nfs_get_fd(client->nfs), IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    nfs_destroy_url(url);
}

static double now_s(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void turn(struct client *clients, struct pollfd *sockets, uint64_t count)
{
    for (uint64_t at = 0; at < count; at++) {
        sockets[at].fd = nfs_get_fd(clients[at].nfs);
        sockets[at].events = (short)nfs_which_events(clients[at].nfs);
    }
    if (poll(sockets, (nfds_t)count, 10000) <= 0) {
        fail("poll", "the server is silent");
    }
    for (uint64_t at = 0; at < count; at++) {
        if (sockets[at].revents != 0 && nfs_service(clients[at].nfs, sockets[at].revents) < 0) {
            fail("service", nfs_get_error(clients[at].nfs));
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fail("usage", "libnfs_load URL getattr|read|write CLIENTS DEPTH SECONDS BYTES");
    }
    work.op = strcmp(argv[2], "read") == 0 ? READ : strcmp(argv[2], "write") == 0 ? WRITE : GETATTR;
    uint64_t count = number(argv[3]), depth = number(argv[4]), seconds = number(argv[5]);
    work.io_bytes = number(argv[6]);
    work.payload = calloc(1, work.io_bytes);
    struct client *clients = calloc(count, sizeof *clients);
    struct pollfd *sockets = calloc(count, sizeof *sockets);
    for (uint64_t at = 0; at < count; at++) {
        open_client(&clients[at], argv[1]);
    }
    work.file_bytes = clients[0].attributes.nfs_size;
    if (work.op == WRITE) {
        work.file_bytes = UINT64_C(256) << 20;
    }
    double begin = now_s(CLOCK_MONOTONIC), cpu = now_s(CLOCK_PROCESS_CPUTIME_ID), time = 0;
    for (uint64_t at = 0; at < count * depth; at++) {
        submit(&clients[at % count]);
    }
    while ((time = now_s(CLOCK_MONOTONIC) - begin) < (double)seconds) {
        turn(clients, sockets, count);
    }
    cpu = now_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"ops\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seconds\": %f, \"cpu_s\": %f}\n",
           work.done, work.moved, time, cpu);
    /* What is still in flight goes with the process. */
    return 0;
}
