/*
 * libnfs against a server over NFS v2, by its raw interface: the only other client of v2 there is.
 *
 * usage: libnfs2_checks PORT EXPORT ENTRIES
 *
 * MOUNT v1 and NFS v2 are on the same port of 127.0.0.1. Works in a folder of its own and removes
 * it. Prints one line for each check and exits with 1 at the first that fails.
 *
 * Source: libnfs 4.0, include/nfsc/libnfs-raw.h; RFC 1094.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

/* libnfs 4.0 can't encode a longer WRITE of v2. */
enum { WRITE_BYTES = 1024, PIECE_BYTES = 8192, FILE_BYTES = 300001, HANDLE_BYTES = 32 };

static struct rpc_context *rpc;
static const char *check = "mount";
static bool answered;
/* Takes what is needed out of a reply, which lives only as long as the callback. */
static void (*take)(void *reply);

static char root[HANDLE_BYTES], made[HANDLE_BYTES], bytes[PIECE_BYTES];
static int status;
static u_int length, cookie;
static bool eof;
static char *seen;
static long entries, count;

static void must(bool right, const char *what)
{
    if (!right) {
        printf("libnfs v2: %s ... FAILED\n    %s (status %d): %s\n", check, what, status,
               rpc_get_error(rpc));
        exit(1);
    }
}

static void passed(void)
{
    printf("libnfs v2: %s ... ok\n", check);
}

static void on_reply(struct rpc_context *context, int state, void *data, void *private_data)
{
    (void)context;
    (void)private_data;
    must(state == RPC_STATUS_SUCCESS, "no reply");
    if (take != NULL) {
        take(data);
    }
    answered = true;
}

static void finish(int error)
{
    must(error == 0, "submit");
    while (!answered) {
        struct pollfd pollfd = {.fd = rpc_get_fd(rpc), .events = (short)rpc_which_events(rpc)};
        must(poll(&pollfd, 1, 10000) > 0, "the server is silent");
        must(rpc_service(rpc, pollfd.revents) >= 0, "service");
    }
    answered = false;
    take = NULL;
}

static void connect_to(int port, int program, int version)
{
    rpc = rpc_init_context();
    finish(rpc_connect_port_async(rpc, "127.0.0.1", port, program, version, on_reply, NULL));
}

static void take_mount(void *reply)
{
    mountres1 *result = reply;
    status = (int)result->fhs_status;
    memcpy(root, result->mountres1_u.mountinfo.fhandle, HANDLE_BYTES);
}

static void take_made(void *reply)
{
    CREATE2res *result = reply;
    status = (int)result->status;
    if (status == 0) {
        memcpy(made, result->CREATE2res_u.resok.file, HANDLE_BYTES);
        length = result->CREATE2res_u.resok.attributes.size;
    }
}

static void take_status(void *reply)
{
    status = *(int *)reply;
}

static void take_size(void *reply)
{
    GETATTR2res *result = reply;
    status = (int)result->status;
    length = result->GETATTR2res_u.resok.attributes.size;
}

static void take_data(void *reply)
{
    READ2res *result = reply;
    status = (int)result->status;
    if (status == 0) {
        length = result->READ2res_u.resok.data.nfsdata2_len;
        must(length <= PIECE_BYTES, "more than was asked for");
        memcpy(bytes, result->READ2res_u.resok.data.nfsdata2_val, length);
    }
}

static void take_page(void *reply)
{
    READDIR2res *result = reply;
    status = (int)result->status;
    must(status == 0, "READDIR");
    eof = result->READDIR2res_u.resok.eof != 0;
    for (entry2 *entry = result->READDIR2res_u.resok.entries; entry; entry = entry->nextentry) {
        memcpy(&cookie, &entry->cookie, sizeof cookie);
        if (entry->name[0] != '.') {
            long number = strtol(entry->name + strlen("entry-"), NULL, 10);
            must(number >= 0 && number < entries && !seen[number], "a name not made once");
            seen[number] = 1;
            count++;
        }
    }
}

static diropargs2 name_in(const char *dir, char *name)
{
    diropargs2 where = {.name = name};
    memcpy(where.dir, dir, HANDLE_BYTES);
    return where;
}

static void make(bool directory, const char *dir, char *name)
{
    sattr2 attributes = {.mode = directory ? 0755 : 0644, .uid = 0, .gid = 0};
    attributes.size = directory ? UINT32_MAX : 0;
    attributes.atime.seconds = attributes.atime.nseconds = UINT32_MAX;
    attributes.mtime = attributes.atime;
    take = take_made;
    if (directory) {
        MKDIR2args arguments = {.where = name_in(dir, name), .attributes = attributes};
        finish(rpc_nfs2_mkdir_async(rpc, on_reply, &arguments, NULL));
    } else {
        CREATE2args arguments = {.where = name_in(dir, name), .attributes = attributes};
        finish(rpc_nfs2_create_async(rpc, on_reply, &arguments, NULL));
    }
    must(status == 0, directory ? "MKDIR" : "CREATE");
}

static void take_away(bool directory, const char *dir, char *name)
{
    take = take_status;
    if (directory) {
        RMDIR2args arguments = {.what = name_in(dir, name)};
        finish(rpc_nfs2_rmdir_async(rpc, on_reply, &arguments, NULL));
    } else {
        REMOVE2args arguments = {.what = name_in(dir, name)};
        finish(rpc_nfs2_remove_async(rpc, on_reply, &arguments, NULL));
    }
    must(status == 0, directory ? "RMDIR" : "REMOVE");
}

/* The content of any file, by offset. */
static void fill(char *to, u_int offset, u_int len)
{
    for (u_int at = 0; at < len; at++) {
        to[at] = (char)((offset + at) * 2654435761U >> 16);
    }
}

static void data(const char *dir)
{
    check = "data is written and read";
    char file[HANDLE_BYTES], want[PIECE_BYTES];
    make(false, dir, "data");
    memcpy(file, made, HANDLE_BYTES);
    for (u_int at = 0; at < FILE_BYTES; at += WRITE_BYTES) {
        u_int len = FILE_BYTES - at < WRITE_BYTES ? FILE_BYTES - at : WRITE_BYTES;
        fill(want, at, len);
        WRITE2args arguments = {.offset = at, .data = {.nfsdata2_len = len, .nfsdata2_val = want}};
        memcpy(arguments.file, file, HANDLE_BYTES);
        take = take_size;
        finish(rpc_nfs2_write_async(rpc, on_reply, &arguments, NULL));
        must(status == 0 && length == at + len, "WRITE");
    }
    for (u_int at = 0; at < FILE_BYTES; at += length) {
        READ2args arguments = {.offset = at, .count = PIECE_BYTES};
        memcpy(arguments.file, file, HANDLE_BYTES);
        take = take_data;
        finish(rpc_nfs2_read_async(rpc, on_reply, &arguments, NULL));
        must(status == 0 && length > 0, "READ");
        fill(want, at, length);
        must(memcmp(want, bytes, length) == 0, "other bytes came back");
    }
    GETATTR2args arguments;
    memcpy(arguments.fhandle, file, HANDLE_BYTES);
    take = take_size;
    finish(rpc_nfs2_getattr_async(rpc, on_reply, &arguments, NULL));
    must(status == 0 && length == FILE_BYTES, "size");
    passed();
}

static void names(const char *dir)
{
    check = "names are changed and found";
    RENAME2args rename = {.from = name_in(dir, "data"), .to = name_in(dir, "moved")};
    take = take_status;
    finish(rpc_nfs2_rename_async(rpc, on_reply, &rename, NULL));
    must(status == 0, "RENAME");
    LOOKUP2args old = {.what = name_in(dir, "data")}, new = {.what = name_in(dir, "moved")};
    take = take_status;
    finish(rpc_nfs2_lookup_async(rpc, on_reply, &old, NULL));
    must(status == NFS3ERR_NOENT, "LOOKUP of the old name");
    take = take_made;
    finish(rpc_nfs2_lookup_async(rpc, on_reply, &new, NULL));
    must(status == 0 && length == FILE_BYTES, "LOOKUP of the new name");
    take_away(false, dir, "moved");
    passed();
}

static void listing(const char *dir)
{
    check = "a directory of many entries";
    char name[32];
    for (long number = 0; number < entries; number++) {
        snprintf(name, sizeof name, "entry-%06ld", number);
        make(false, dir, name);
    }
    seen = calloc(1, (size_t)entries);
    while (!eof) {
        long before = count;
        READDIR2args arguments = {.count = PIECE_BYTES};
        memcpy(arguments.dir, dir, HANDLE_BYTES);
        memcpy(&arguments.cookie, &cookie, sizeof cookie);
        take = take_page;
        finish(rpc_nfs2_readdir_async(rpc, on_reply, &arguments, NULL));
        must(eof || count > before, "a page without entries");
    }
    must(count == entries, "number of entries");
    for (long number = 0; number < entries; number++) {
        snprintf(name, sizeof name, "entry-%06ld", number);
        take_away(false, dir, name);
    }
    passed();
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: libnfs2_checks PORT EXPORT ENTRIES\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    int port = atoi(argv[1]);
    entries = strtol(argv[3], NULL, 10);
    connect_to(port, MOUNT_PROGRAM, MOUNT_V1);
    take = take_mount;
    finish(rpc_mount1_mnt_async(rpc, on_reply, argv[2], NULL));
    must(status == 0, "MNT");
    rpc_destroy_context(rpc);
    connect_to(port, NFS_PROGRAM, NFS_V2);
    char dir[HANDLE_BYTES];
    make(true, root, "libnfs2");
    memcpy(dir, made, HANDLE_BYTES);
    data(dir);
    names(dir);
    listing(dir);
    take_away(true, root, "libnfs2");
    rpc_destroy_context(rpc);
    return 0;
}
