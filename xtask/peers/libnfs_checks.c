/*
 * libnfs against a server: one list of checks over NFS v3 or v4, byte for byte.
 *
 * usage: libnfs_checks URL_OF_A_FILE_TO_MAKE ENTRIES
 *
 * The URL says the version. Works in a folder of its own and removes it. Prints one line for each
 * check and exits with 1 at the first that fails.
 *
 * Over v4 libnfs 4.0 can't encode a WRITE of more than some kilobytes, so it writes in small pieces.
 *
 * Source: libnfs 4.0, include/nfsc/libnfs.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <nfsc/libnfs.h>

enum { PIECE_BYTES = 1000, FILE_BYTES = 300001 };

static struct nfs_context *nfs;
static const char *check = "mount";

static void must(bool right, const char *what)
{
    if (!right) {
        printf("libnfs: %s ... FAILED\n    %s: %s\n", check, what, nfs_get_error(nfs));
        exit(1);
    }
}

static void passed(void)
{
    printf("libnfs: %s ... ok\n", check);
}

/* The content of any file, by offset. */
static void fill(char *bytes, uint64_t offset, size_t len)
{
    for (size_t at = 0; at < len; at++) {
        uint64_t word = ((offset + at) >> 3) * UINT64_C(0x9e3779b97f4a7c15);
        bytes[at] = (char)((word ^ word >> 29) >> (8 * ((offset + at) & 7)));
    }
}

static void put(struct nfsfh *file, uint64_t offset, size_t len)
{
    char bytes[PIECE_BYTES];
    for (size_t at = 0; at < len;) {
        size_t piece = len - at < PIECE_BYTES ? len - at : PIECE_BYTES;
        fill(bytes, offset + at, piece);
        must(nfs_pwrite(nfs, file, offset + at, piece, bytes) == (int)piece, "pwrite");
        at += piece;
    }
}

static void same(struct nfsfh *file, uint64_t offset, size_t len, bool zeros)
{
    char *got = malloc(len), *want = calloc(1, len);
    if (!zeros) {
        fill(want, offset, len);
    }
    for (size_t at = 0; at < len;) {
        int count = nfs_pread(nfs, file, offset + at, len - at, got + at);
        must(count > 0, "pread");
        at += (size_t)count;
    }
    must(memcmp(got, want, len) == 0, "other bytes came back");
    free(got);
    free(want);
}

static uint64_t size_of(const char *path)
{
    struct nfs_stat_64 attributes;
    must(nfs_stat64(nfs, path, &attributes) == 0, "stat");
    return attributes.nfs_size;
}

static struct nfsfh *create(const char *path)
{
    struct nfsfh *file = NULL;
    /* Over v4 its creat opens for reading only, and a WRITE then is NFS4ERR_OPENMODE. */
    must(nfs_open2(nfs, path, O_CREAT | O_RDWR, 0644, &file) == 0, "open2");
    return file;
}

static void data(void)
{
    check = "data is written and read";
    struct nfsfh *file = create("/d/data");
    put(file, 0, FILE_BYTES);
    must(nfs_fsync(nfs, file) == 0, "fsync");
    must(nfs_close(nfs, file) == 0, "close");
    must(nfs_open(nfs, "/d/data", O_RDWR, &file) == 0, "open");
    same(file, 0, FILE_BYTES, false);
    must(size_of("/d/data") == FILE_BYTES, "size");
    must(nfs_close(nfs, file) == 0, "close");
    passed();
}

static void sparse(void)
{
    check = "a sparse file beyond 4 GiB";
    const uint64_t far = (UINT64_C(1) << 32) + 12345;
    struct nfsfh *file = create("/d/sparse");
    put(file, 0, 5000);
    put(file, far, 5000);
    must(nfs_close(nfs, file) == 0, "close");
    must(nfs_open(nfs, "/d/sparse", O_RDONLY, &file) == 0, "open");
    same(file, 0, 5000, false);
    same(file, far, 5000, false);
    same(file, UINT64_C(1) << 31, 100000, true);
    must(size_of("/d/sparse") == far + 5000, "size");
    must(nfs_close(nfs, file) == 0, "close");
    passed();
}

static void metadata(void)
{
    check = "attributes, links and names";
    struct nfs_stat_64 attributes;
    must(nfs_close(nfs, create("/d/file")) == 0, "close");
    must(nfs_chmod(nfs, "/d/file", 0600) == 0, "chmod");
    must(nfs_truncate(nfs, "/d/file", 54321) == 0, "truncate");
    must(nfs_stat64(nfs, "/d/file", &attributes) == 0, "stat");
    must((attributes.nfs_mode & 07777) == 0600 && attributes.nfs_size == 54321, "mode and size");
    must(S_ISREG(attributes.nfs_mode), "type");
    char target[100] = "";
    must(nfs_symlink(nfs, "some/where", "/d/symbolic") == 0, "symlink");
    must(nfs_readlink(nfs, "/d/symbolic", target, sizeof target) == 0, "readlink");
    must(strcmp(target, "some/where") == 0, "target of the link");
    must(nfs_link(nfs, "/d/file", "/d/hard") == 0, "link");
    must(nfs_stat64(nfs, "/d/hard", &attributes) == 0 && attributes.nfs_nlink == 2, "links");
    must(nfs_rename(nfs, "/d/hard", "/d/moved") == 0, "rename");
    must(nfs_stat64(nfs, "/d/hard", &attributes) != 0, "the old name is gone");
    must(size_of("/d/moved") == 54321, "size");
    passed();
}

static void listing(long entries)
{
    check = "a directory of many entries";
    char path[64];
    must(nfs_mkdir(nfs, "/d/many") == 0, "mkdir");
    for (long number = 0; number < entries; number++) {
        snprintf(path, sizeof path, "/d/many/entry-%06ld", number);
        must(nfs_close(nfs, create(path)) == 0, "close");
    }
    struct nfsdir *dir = NULL;
    struct nfsdirent *entry = NULL;
    char *seen = calloc(1, (size_t)entries);
    long count = 0;
    must(nfs_opendir(nfs, "/d/many", &dir) == 0, "opendir");
    while ((entry = nfs_readdir(nfs, dir)) != NULL) {
        if (entry->name[0] == '.') {
            continue;
        }
        long number = strtol(entry->name + strlen("entry-"), NULL, 10);
        must(number >= 0 && number < entries && !seen[number], "a name that was not made once");
        seen[number] = 1;
        count++;
    }
    nfs_closedir(nfs, dir);
    must(count == entries, "number of entries");
    for (long number = 0; number < entries; number++) {
        snprintf(path, sizeof path, "/d/many/entry-%06ld", number);
        must(nfs_unlink(nfs, path) == 0, "unlink");
    }
    must(nfs_rmdir(nfs, "/d/many") == 0, "rmdir");
    passed();
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: libnfs_checks URL ENTRIES\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    nfs = nfs_init_context();
    struct nfs_url *url = nfs_parse_url_dir(nfs, argv[1]);
    must(url != NULL, "the address");
    must(nfs_mount(nfs, url->server, url->path) == 0, url->path);
    must(nfs_mkdir(nfs, "/d") == 0, "mkdir");
    data();
    sparse();
    metadata();
    listing(strtol(argv[2], NULL, 10));
    check = "everything is removed";
    const char *left[] = {"/d/data", "/d/sparse", "/d/file", "/d/symbolic", "/d/moved"};
    for (size_t at = 0; at < sizeof left / sizeof *left; at++) {
        must(nfs_unlink(nfs, left[at]) == 0, left[at]);
    }
    must(nfs_rmdir(nfs, "/d") == 0, "rmdir");
    passed();
    nfs_destroy_url(url);
    nfs_destroy_context(nfs);
    return 0;
}
