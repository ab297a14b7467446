/*
 * The libnfs peer: reads one file from start to end, several READs in flight, and says how fast.
 *
 * usage: libnfs_read URL DEPTH IO_SIZE PASSES
 *
 * Uses libnfs' asynchronous interface on one connection, the fastest way to read that it offers,
 * and touches no byte of the payload. Opening and mounting are outside the clock. Prints one JSON
 * object.
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include <nfsc/libnfs.h>

/* One sequential read of a file: what is asked, what is in flight, what has come. */
struct reader {
    struct nfs_context *nfs;
    struct nfsfh *file;
    uint64_t size_bytes;
    uint64_t io_size_bytes;
    uint64_t next_offset;
    uint64_t done_bytes;
    unsigned int in_flight;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "libnfs_read: %s: %s\n", what, why);
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

static void submit(struct reader *reader);

static void on_read(int status, struct nfs_context *nfs, void *data, void *private_data)
{
    struct reader *reader = private_data;
    (void)data;
    if (status <= 0) {
        fail("READ", status < 0 ? nfs_get_error(nfs) : "ended early");
    }
    reader->in_flight--;
    reader->done_bytes += (uint64_t)status;
    submit(reader);
}

/* Puts the next READ in flight; does nothing where all are asked for. */
static void submit(struct reader *reader)
{
    if (reader->next_offset >= reader->size_bytes) {
        return;
    }
    uint64_t left = reader->size_bytes - reader->next_offset;
    uint64_t count = left < reader->io_size_bytes ? left : reader->io_size_bytes;
    uint64_t offset = reader->next_offset;
    reader->next_offset += count;
    reader->in_flight++;
    if (nfs_pread_async(reader->nfs, reader->file, offset, count, on_read, reader) != 0) {
        fail("pread", nfs_get_error(reader->nfs));
    }
}

static void read_once(struct reader *reader, uint64_t depth)
{
    reader->next_offset = 0;
    for (uint64_t slot = 0; slot < depth; slot++) {
        submit(reader);
    }
    while (reader->in_flight > 0) {
        struct pollfd pollfd = {
            .fd = nfs_get_fd(reader->nfs),
            .events = (short)nfs_which_events(reader->nfs),
        };
        if (poll(&pollfd, 1, 10000) <= 0) {
            fail("poll", "the server is silent");
        }
        if (nfs_service(reader->nfs, pollfd.revents) < 0) {
            fail("service", nfs_get_error(reader->nfs));
        }
    }
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void print_result(const struct reader *reader, double elapsed, const struct rusage *before)
{
    struct rusage after;
    getrusage(RUSAGE_SELF, &after);
    char congestion[16] = "";
    socklen_t length = sizeof congestion - 1;
    getsockopt(nfs_get_fd(reader->nfs), IPPROTO_TCP, TCP_CONGESTION, congestion, &length);
    printf("{\"bytes\": %" PRIu64 ", \"seconds\": %.6f, \"bytes_per_s\": %.0f, "
           "\"user_s\": %.6f, \"system_s\": %.6f, \"congestion_control\": \"%s\", "
           "\"libnfs_read_max\": %" PRIu64 "}\n",
           reader->done_bytes, elapsed, (double)reader->done_bytes / elapsed,
           seconds(after.ru_utime) - seconds(before->ru_utime),
           seconds(after.ru_stime) - seconds(before->ru_stime), congestion,
           (uint64_t)nfs_get_readmax(reader->nfs));
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fail("usage", "libnfs_read URL DEPTH IO_SIZE PASSES");
    }
    struct reader reader = {.nfs = nfs_init_context(), .io_size_bytes = number(argv[3])};
    uint64_t depth = number(argv[2]);
    uint64_t passes = number(argv[4]);
    struct nfs_url *url = nfs_parse_url_full(reader.nfs, argv[1]);
    if (url == NULL) {
        fail(argv[1], nfs_get_error(reader.nfs));
    }
    if (nfs_mount(reader.nfs, url->server, url->path) != 0) {
        fail("mount", nfs_get_error(reader.nfs));
    }
    struct nfs_stat_64 attributes;
    if (nfs_open(reader.nfs, url->file, O_RDONLY, &reader.file) != 0 ||
        nfs_fstat64(reader.nfs, reader.file, &attributes) != 0) {
        fail("open", nfs_get_error(reader.nfs));
    }
    reader.size_bytes = attributes.nfs_size;

    struct rusage before;
    getrusage(RUSAGE_SELF, &before);
    double started = seconds_now();
    for (uint64_t pass = 0; pass < passes; pass++) {
        read_once(&reader, depth);
    }
    print_result(&reader, seconds_now() - started, &before);
    nfs_close(reader.nfs, reader.file);
    nfs_destroy_url(url);
    nfs_destroy_context(reader.nfs);
    return 0;
}
