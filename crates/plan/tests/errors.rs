//! Every bad plan says where, what, the value and a hint.

mod common;

use common::plan;

/// Asserts the one line that each plan is refused with.
fn refused(cases: &[(String, &str)]) {
    for (text, expected) in cases {
        let error = plan(text).expect_err(text).to_string();
        assert_eq!(error, *expected, "of this plan:\n{text}");
    }
}

/// A plan whose `[factors]` hold one line, the third.
fn factor(line: &str) -> String {
    format!(
        "name = \"t\"\n[factors]\n{line}\n[[target]]\nname = \"n\"\npath = \"m\"\n\
         backend = [\"posix\", \"uring\"]\n[[workload]]\nkind = \"random\"\n"
    )
}

/// A plan whose `[[target]]` holds these lines, from the fourth.
fn target(lines: &str) -> String {
    let head = "name = \"t\"\n[[target]]\nname = \"n\"\n";
    format!("{head}{lines}\n[[workload]]\nkind = \"stream\"\n")
}

/// A plan whose `[[workload]]` holds these lines, from the seventh.
fn workload(lines: &str) -> String {
    let head = "name = \"t\"\n[[target]]\nname = \"n\"\npath = \"m\"\nbackend = \"uring\"\n";
    format!("{head}[[workload]]\n{lines}\n")
}

#[test]
fn text_that_is_not_toml() {
    refused(&[
        (
            r#"name = "t"#.to_owned(),
            "p.toml:1:10: not TOML: invalid basic string, expected `\"` in `name = \"t`",
        ),
        (
            "name = ".to_owned(),
            "p.toml:1:8: not TOML: string values must be quoted, expected literal string in \
             `name =`",
        ),
        (
            "[[target]".to_owned(),
            "p.toml:1:10: not TOML: unclosed array table, expected `]` in `[[target]`",
        ),
        ("a = 1\na = 2\n".to_owned(), "p.toml:2:1: not TOML: duplicate key in `a = 2`"),
        (
            r#"x = "é" é = 1"#.to_owned(),
            "p.toml:1:9: not TOML: unexpected key or value, expected newline, `#` in `x = \"é\" \
             é = 1`",
        ),
    ]);
}

#[test]
fn what_every_plan_has() {
    refused(&[
        (
            "".to_owned(),
            "p.toml: key `name` is missing at top level (hint: begin with a line such as `name = \
             \"example\"`)",
        ),
        (
            "name = \"t\"\n".to_owned(),
            "p.toml: key `target` is missing at top level (hint: say what is measured: \
             [[target]] with name and url, path, embedded or null)",
        ),
        (
            "name = \"t\"\n[[target]]\nname = \"n\"\nnull = true\n".to_owned(),
            "p.toml: key `workload` is missing at top level (hint: say what is done: \
             [[workload]] with kind = \"stream\", \"random\" or \"metadata\")",
        ),
        (
            "name = 5".to_owned(),
            "p.toml:1:8: name: must be a string, but `5` is an integer (hint: for example `name \
             = \"example\"`)",
        ),
        (
            r#"name = """#.to_owned(),
            "p.toml:1:8: name: must be 1 to 64 characters, not `` (hint: it heads tables and \
             files)",
        ),
        (
            r#"nmae = "t""#.to_owned(),
            "p.toml:1:1: unknown key `nmae` at top level (hint: did you mean `name`?)",
        ),
        (
            "name = \"t\"\ntrails = 3".to_owned(),
            "p.toml:2:1: unknown key `trails` at top level (hint: did you mean `trials`?)",
        ),
        (
            "name = \"t\"\nio_size = \"4k\"".to_owned(),
            "p.toml:2:1: unknown key `io_size` at top level (hint: it belongs in [factors] or a \
             [[workload]])",
        ),
        (
            "name = \"t\"\ntrials = 0".to_owned(),
            "p.toml:2:10: trials: must be 1 to 1000, not `0`",
        ),
        (
            "name = \"t\"\ntrials = \"five\"".to_owned(),
            "p.toml:2:10: trials: must be an integer, but `\"five\"` is a string (hint: for \
             example `trials = 1`)",
        ),
        (
            "name = \"t\"\ntrials = -1".to_owned(),
            "p.toml:2:10: trials: must be 1 to 1000, not `-1`",
        ),
        (
            "name = \"t\"\nseed = 1.5".to_owned(),
            "p.toml:2:8: seed: must be an integer, but `1.5` is a float (hint: for example `seed \
             = 1`)",
        ),
        (
            "name = \"t\"\ntarget = []".to_owned(),
            "p.toml:2:10: target: the list is empty (hint: say what is measured: [[target]] with \
             name and url, path, embedded or null)",
        ),
        (
            "name = \"t\"\n[target]\nnull = true".to_owned(),
            "p.toml:2:1: target: must be written as [[target]] (hint: put [[target]] on a line \
             of its own, its keys below)",
        ),
        (
            "name = \"t\"\n[[target]]\nnull = true".to_owned(),
            "p.toml:2:1: key `name` is missing in [[target]] (hint: such as `name = \"nfs\"`)",
        ),
        (
            "name = \"t\"\n[[target]]\nname = \"a b\"\nnull = true".to_owned(),
            "p.toml:3:8: name: `a b` can't name a target (hint: 1 to 64 letters, digits, `-`, \
             `_` or `.`, so that it can be typed in filters)",
        ),
        (
            "name = \"t\"\n[[target]]\nname = \"a\"\nnull = true\n[[target]]\nname = \"a\"\nnull = true".to_owned(),
            "p.toml:6:8: name: `a` is the name of two targets (hint: give each target its own \
             name)",
        ),
        (
            "name = \"t\"\n[server]\nthread = 1".to_owned(),
            "p.toml:3:1: unknown key `thread` in [server] (hint: did you mean `threads`?)",
        ),
        (
            "name = \"t\"\n[server]\nthreads = 99".to_owned(),
            "p.toml:3:11: threads: must be 1 to 64, not `99` (hint: each thread runs an event \
             loop; more than cores is waste)",
        ),
        (
            "name = \"t\"\n[server]\nmemory = \"10kB\"".to_owned(),
            "p.toml:3:10: memory: must be 1 MiB to 1 TiB, not `10kB`",
        ),
        (
            "name = \"t\"\n[server]\nmemory = 5".to_owned(),
            "p.toml:3:10: memory: must be 1 MiB to 1 TiB, not `5`",
        ),
        (
            "name = \"t\"\n[server]\nmemory = true".to_owned(),
            "p.toml:3:10: memory: must be a size, but `true` is a boolean (hint: for example \
             `memory = \"192MiB\"`)",
        ),
        (
            "name = \"t\"\nserver = 5".to_owned(),
            "p.toml:2:10: server: must be written as [server] (hint: put [server] on a line of \
             its own, its keys below)",
        ),
    ]);
}

#[test]
fn unknown_keys_and_words() {
    refused(&[
        (
            workload("kind = \"stream\"\nio_szie = \"4k\""),
            "p.toml:8:1: unknown key `io_szie` in [[workload]] (hint: did you mean `io_size`?)",
        ),
        (
            workload("kind = \"stream\"\nbs = \"4k\""),
            "p.toml:8:1: unknown key `bs` in [[workload]] (hint: it is called `io_size` here)",
        ),
        (
            workload("kind = \"stream\"\ntrials = 4"),
            "p.toml:8:1: unknown key `trials` in [[workload]] (hint: it belongs at top level, \
             before any table)",
        ),
        (
            workload("kind = \"stream\"\ntarget = \"n\""),
            "p.toml:8:1: unknown key `target` in [[workload]] (hint: it belongs at top level, \
             before any table; in [[workload]] you may mean `targets`)",
        ),
        (
            workload("kind = \"stream\"\ncolour = \"red\""),
            "p.toml:8:1: unknown key `colour` in [[workload]] (hint: known keys: kind, targets, \
             backends, workers, files, file_size, io_size, queue_depth, transfer_size, \
             read_percent, duration, direct, durability, invalidate, verify, timeout)",
        ),
        (
            workload(r#"kind = "stram""#),
            "p.toml:7:8: kind: unknown workload `stram` (hint: did you mean `stream`?)",
        ),
        (
            workload(r#"io_size = "4k""#),
            "p.toml:6:1: key `kind` is missing in [[workload]] (hint: write kind = \"stream\", \
             \"random\" or \"metadata\")",
        ),
        (
            workload("kind = \"stream\"\ntargets = [\"m\"]"),
            "p.toml:8:12: targets: unknown target `m` (hint: write n)",
        ),
        (
            workload("kind = \"stream\"\nread_percent = 5"),
            "p.toml:8:16: read_percent: has no meaning for a stream workload (hint: leave it out \
             here; in [factors] it serves the workloads it concerns)",
        ),
        (
            workload("kind = \"metadata\"\nio_size = \"4k\""),
            "p.toml:8:11: io_size: has no meaning for a metadata workload (hint: leave it out \
             here; in [factors] it serves the workloads it concerns)",
        ),
        (
            workload("kind = \"stream\"\nbackends = [\"psix\"]"),
            "p.toml:8:13: backends: unknown backend `psix` (hint: did you mean `posix`?)",
        ),
        (
            workload("kind = \"stream\"\nbackends = [\"posix\"]"),
            "p.toml:8:13: backends: no target of this workload has backend `posix` (hint: name \
             it under `backend` of a [[target]])",
        ),
        (
            workload("kind = \"stream\"\ntargets = []"),
            "p.toml:8:11: targets: the list is empty (hint: write at least one value, or leave \
             the key out for its default)",
        ),
    ]);
}

#[test]
fn levels_out_of_their_limits() {
    refused(&[
        (factor("workers = 0"), "p.toml:3:11: workers: must be 1 to 1024, not `0`"),
        (factor("workers = [1, 0]"), "p.toml:3:15: workers: must be 1 to 1024, not `0`"),
        (
            factor("workers = 2000"),
            "p.toml:3:11: workers: must be 1 to 1024, not `2000` (hint: each worker is a thread \
             of its own)",
        ),
        (factor("workers = -4"), "p.toml:3:11: workers: must be 1 to 1024, not `-4`"),
        (
            factor("workers = 99999999999999999999"),
            "p.toml:3:11: workers: must be 1 to 1024, not `99999999999999999999`",
        ),
        (factor("io_size = -1"), "p.toml:3:11: io_size: must be 1 B to 64 MiB, not `-1`"),
        (factor("queue_depth = 0"), "p.toml:3:15: queue_depth: must be 1 to 4096, not `0`"),
        (
            factor("queue_depth = 5000"),
            "p.toml:3:15: queue_depth: must be 1 to 4096, not `5000` (hint: an io_uring or a \
             connection holds no more in flight)",
        ),
        (factor("files = 0"), "p.toml:3:9: files: must be 1 to 10000000, not `0`"),
        (
            factor("files = 20_000_000"),
            "p.toml:3:9: files: must be 1 to 10000000, not `20_000_000` (hint: the state of each \
             file is kept in memory)",
        ),
        (factor("io_size = 0"), "p.toml:3:11: io_size: must be 1 B to 64 MiB, not `0`"),
        (
            factor(r#"io_size = "128MiB""#),
            "p.toml:3:11: io_size: must be 1 B to 64 MiB, not `128MiB` (hint: each op in flight \
             holds a buffer of this size)",
        ),
        (
            factor(r#"file_size = "2TiB""#),
            "p.toml:3:13: file_size: must be 0 B to 1 TiB, not `2TiB` (hint: a larger set is \
             better spread over more files)",
        ),
        (
            factor("read_percent = 101"),
            "p.toml:3:16: read_percent: must be 0 to 100, not `101` (hint: it is the share of \
             reads, in percent)",
        ),
        (
            factor(r#"duration = "2d""#),
            "p.toml:3:12: duration: `2d` is not a time (hint: write a number with ms, s, m or h, \
             such as `500ms` or `2s`)",
        ),
        (
            factor(r#"duration = "25h""#),
            "p.toml:3:12: duration: must be 1ms to 24h, not `25h` (hint: a trial is a sample, \
             not a soak: at most a day)",
        ),
        (
            factor(r#"duration = "1us""#),
            "p.toml:3:12: duration: `1us` is not a whole number of milliseconds",
        ),
        (factor(r#"timeout = "0s""#), "p.toml:3:11: timeout: must be 1ms to 1h, not `0s`"),
        (
            factor(r#"transfer_size = "512""#),
            "p.toml:3:17: transfer_size: must be 1 KiB to 4 MiB, or \"server\", not `512`",
        ),
        (
            factor(r#"durability = "fsync""#),
            "p.toml:3:14: durability: must be \"sync\" or \"none\", not `fsync`",
        ),
    ]);
}

#[test]
fn levels_of_a_wrong_type() {
    refused(&[
        (
            factor("workers = []"),
            "p.toml:3:11: workers: the list is empty (hint: write at least one value, or leave \
             the key out for its default)",
        ),
        (
            factor(r#"workers = "4""#),
            "p.toml:3:11: workers: must be an integer, but `\"4\"` is a string (hint: for \
             example `workers = 4`)",
        ),
        (
            factor("workers = 1.5"),
            "p.toml:3:11: workers: must be an integer, but `1.5` is a float (hint: for example \
             `workers = 4`)",
        ),
        (
            factor(r#"io_size = "12XB""#),
            "p.toml:3:11: io_size: `12XB` is not a size (hint: write a whole number with B, KiB, \
             MiB, GiB or TiB, such as `64KiB`)",
        ),
        (
            factor("io_size = true"),
            "p.toml:3:11: io_size: must be a size, but `true` is a boolean (hint: for example \
             `io_size = \"64KiB\"`)",
        ),
        (
            factor(r#"io_size = [["4k"]]"#),
            "p.toml:3:12: io_size: must be a size, but `[\"4k\"]` is an array (hint: for example \
             `io_size = \"64KiB\"`)",
        ),
        (
            factor(r#"io_size = "99999999999TiB""#),
            "p.toml:3:11: io_size: `99999999999TiB` is too large for a size",
        ),
        (
            factor("duration = 5"),
            "p.toml:3:12: duration: must be a time, but `5` is an integer (hint: for example \
             `duration = \"500ms\"`)",
        ),
        (
            factor(r#"duration = "5 parsecs""#),
            "p.toml:3:12: duration: `5 parsecs` is not a time (hint: write a number with ms, s, \
             m or h, such as `500ms` or `2s`)",
        ),
        (
            factor(r#"direct = "yes""#),
            "p.toml:3:10: direct: must be true or false, but `\"yes\"` is a string (hint: for \
             example `direct = true`)",
        ),
        (
            factor("durability = true"),
            "p.toml:3:14: durability: must be \"sync\" or \"none\", but `true` is a boolean \
             (hint: for example `durability = \"sync\"`)",
        ),
        (
            factor("verify = 1"),
            "p.toml:3:10: verify: must be true or false, but `1` is an integer (hint: for \
             example `verify = true`)",
        ),
        (
            factor("timeout = 1979-05-27"),
            "p.toml:3:11: timeout: must be a time, but `1979-05-27` is a date (hint: for example \
             `timeout = \"500ms\"`)",
        ),
        (
            factor(r#"transfer_size = "any""#),
            "p.toml:3:17: transfer_size: `any` is not a size (hint: write a whole number with B, \
             KiB, MiB, GiB or TiB, such as `64KiB`)",
        ),
        (
            factor("files = { a = 1 }"),
            "p.toml:3:9: files: must be an integer, but `{ a = 1 }` is a table (hint: for \
             example `files = 4`)",
        ),
    ]);
}

#[test]
fn settings_that_contradict_each_other() {
    refused(&[
        (
            workload("kind = \"stream\"\nfile_size = \"64KiB\"\nio_size = \"1MiB\""),
            "p.toml:9:11: io_size: stream workload: io_size 1 MiB is larger than file_size 64 \
             KiB (hint: at most \"64KiB\")",
        ),
        (
            workload("kind = \"stream\"\nfile_size = \"1MiB\"\nio_size = [\"1KiB\", \"3KiB\"]"),
            "p.toml:8:13: file_size: stream workload: file_size 1MiB is no multiple of io_size \
             3KiB (hint: every op has the same size: \"1023KiB\" would do)",
        ),
        (
            workload("kind = \"stream\"\nfile_size = 0"),
            "p.toml:8:13: file_size: stream workload: an empty file has nothing to read or write \
             (hint: only metadata files may be empty)",
        ),
        (
            workload(
                "kind = \"stream\"\nfile_size = \"100000B\"\nio_size = \"1000B\"\ndirect = [false, true]",
            ),
            "p.toml:9:11: io_size: stream workload: direct I/O can't move 1000 B at a time \
             (hint: O_DIRECT needs an io_size that is a multiple of 512 bytes, such as \"1KiB\")",
        ),
        (
            workload("kind = \"stream\"\nfiles = 2\nworkers = [1, 4]"),
            "p.toml:8:9: files: stream workload: 2 files are too few for 4 workers (hint: each \
             worker has files of its own: at least 4)",
        ),
        (
            workload("kind = \"metadata\"\nfiles = 2\nworkers = [1, 4]"),
            "p.toml:8:9: files: metadata workload: 2 files are too few for 4 workers (hint: each \
             worker has files of its own: at least 4)",
        ),
        (
            workload("kind = \"metadata\"\nfile_size = \"2MiB\""),
            "p.toml:8:13: file_size: metadata workload: 2 MiB is too large a file (hint: its \
             files are written with one op: at most 1 MiB; give the workload a file_size of its \
             own, or leave it out with --workload stream)",
        ),
        (
            workload("kind = \"random\"\nqueue_depth = 4096\nworkers = 1024\nio_size = \"1MiB\""),
            "p.toml:8:15: queue_depth: random workload: 4194304 ops in flight need 4 TiB of \
             buffers (hint: workers x queue_depth x io_size may be 4 GiB at most)",
        ),
        (
            workload("kind = \"stream\"\nfile_size = \"1536KiB\""),
            "p.toml:8:13: file_size: stream workload: file_size 1536KiB is no multiple of \
             io_size 1MiB (hint: every op has the same size: \"1MiB\" would do)",
        ),
    ]);
}

#[test]
fn targets_that_are_unclear() {
    refused(&[
        (
            target(""),
            "p.toml:2:1: [[target]] does not say what it is (hint: one of url, path, temporary, \
             embedded or null)",
        ),
        (
            target("null = true\nembedded = true"),
            "p.toml:2:1: [[target]] says more than once what it is (hint: one of url, path, \
             temporary, embedded or null)",
        ),
        (
            target("embedded = false"),
            "p.toml:2:1: [[target]] does not say what it is (hint: one of url, path, temporary, \
             embedded or null)",
        ),
        (
            target("embedded = 1"),
            "p.toml:4:12: embedded: must be true or false, but `1` is an integer (hint: for \
             example `embedded = true`)",
        ),
        (
            target(r#"path = """#),
            "p.toml:4:8: path: the path is empty (hint: write `.` for this directory)",
        ),
        (
            target(r#"path = "~/x""#),
            "p.toml:4:8: path: `~/x`: `~` is not expanded (hint: write the whole path of your \
             home directory)",
        ),
        (
            target(r#"path = "srv:/export""#),
            "p.toml:4:8: path: `srv:/export` is an address, not a directory (hint: write \
             `nfs://srv/export`, or `./srv:/export` for a directory)",
        ),
        (
            target(r#"path = "nfs://h/e""#),
            "p.toml:4:8: path: `nfs://h/e` is an address, not a directory (hint: write `url = \
             \"nfs://h/e\"`)",
        ),
        (
            target(r#"paht = "/m""#),
            "p.toml:4:1: unknown key `paht` in [[target]] (hint: did you mean `path`?)",
        ),
        (
            target("path = \"/m\"\nuid = 5"),
            "p.toml:5:7: uid: is only for `embedded = true` (hint: write a url as \
             `nfs://host/path?uid=..&gid=..`; a path has the caller's)",
        ),
        (
            target("embedded = true\nuid = 5000000000"),
            "p.toml:5:7: uid: must be 0 to 4294967295, not `5000000000` (hint: ids have 32 bits)",
        ),
        (
            target("path = \"/m\"\nbackend = []"),
            "p.toml:5:11: backend: the list is empty (hint: write at least one value, or leave \
             the key out for its default)",
        ),
        (
            target("path = \"/m\"\nbackend = \"nfs\""),
            "p.toml:5:11: backend: `nfs` can't be used on a directory (hint: write posix or \
             uring)",
        ),
        (
            target("embedded = true\nbackend = [\"nfs\", \"posix\"]"),
            "p.toml:5:19: backend: `posix` can't be used on an NFS server (hint: write nfs)",
        ),
        (
            target("null = true\nbackend = \"posix\""),
            "p.toml:5:11: backend: `posix` can't be used on the null target (hint: write null)",
        ),
        (
            target("path = \"/m\"\nbackend = \"psix\""),
            "p.toml:5:11: backend: unknown backend `psix` (hint: did you mean `posix`?)",
        ),
    ]);
}

#[test]
fn addresses_that_lead_nowhere() {
    refused(&[
        (
            target(r#"url = "http://h/e""#),
            "p.toml:4:7: url: `http://h/e`: the address does not begin with `nfs://` (hint: the \
             form is nfs://host[:port]/path)",
        ),
        (
            target(r#"url = "nfs:/h/e""#),
            "p.toml:4:7: url: `nfs:/h/e`: the address does not begin with `nfs://` (hint: the \
             form is nfs://host[:port]/path)",
        ),
        (
            target(r#"url = "nfs:///e""#),
            "p.toml:4:7: url: `nfs:///e`: the host is missing (hint: the form is \
             nfs://host[:port]/path)",
        ),
        (
            target(r#"url = "nfs://:2049/e""#),
            "p.toml:4:7: url: `nfs://:2049/e`: empty host (hint: the form is \
             nfs://host[:port]/path)",
        ),
        (
            target(r#"url = "nfs://h""#),
            "p.toml:4:7: url: `nfs://h`: the path to mount is missing (hint: the form is \
             nfs://host[:port]/path)",
        ),
        (
            target(r#"url = "nfs://h?version=3""#),
            "p.toml:4:7: url: `nfs://h?version=3`: the path to mount is missing (hint: the form \
             is nfs://host[:port]/path)",
        ),
        (
            target(r#"url = "nfs://h/e?version=4.1""#),
            "p.toml:4:7: url: NFS v4.1 is not supported yet (hint: version=3)",
        ),
        (
            target(r#"url = "nfs://h/e?version=2""#),
            "p.toml:4:7: url: NFS v2 is not supported yet (hint: version=3)",
        ),
        (
            target(r#"url = "nfs://h/e?version=7""#),
            "p.toml:4:7: url: `version=7` is no version of NFS (hint: version=3)",
        ),
        (
            target(r#"url = "nfs://h/e?verison=3""#),
            "p.toml:4:7: url: unknown key in the address `verison` (hint: did you mean \
             `version`?)",
        ),
        (
            target(r#"url = "nfs://h/e?uid=bob""#),
            "p.toml:4:7: url: `uid=bob` is not a number from 0 to 4294967295",
        ),
        (
            target(r#"url = "nfs://h/e?uid=1&uid=2""#),
            "p.toml:4:7: url: `uid` stands twice in the address",
        ),
        (
            target(r#"url = "nfs://h/e?mountport=0""#),
            "p.toml:4:7: url: `mountport=0` can't be used",
        ),
        (
            target(r#"url = "nfs://h:99999/e""#),
            "p.toml:4:7: url: `nfs://h:99999/e`: invalid port number (hint: the form is \
             nfs://host[:port]/path)",
        ),
        (
            target(r#"url = "nfs://h:0/e""#),
            "p.toml:4:7: url: `nfs://h:0/e`: port 0 can't be used (hint: the form is \
             nfs://host[:port]/path)",
        ),
        (
            target(r#"url = "nfs://u@h/e""#),
            "p.toml:4:7: url: `nfs://u@h/e`: NFS has no user names here (hint: write \
             ?uid=..&gid=.. at the end)",
        ),
        (
            target(r#"url = "nfs://h/e#f""#),
            "p.toml:4:7: url: `nfs://h/e#f`: `#` ends the path (hint: write %23 for a `#` in a \
             name)",
        ),
        (
            target(r#"url = "nfs://[::1/e""#),
            "p.toml:4:7: url: `nfs://[::1/e`: invalid IPv6 address (hint: the form is \
             nfs://host[:port]/path)",
        ),
        (
            target(r#"url = "nfs://h/%ff""#),
            "p.toml:4:7: url: `nfs://h/%ff`: the address is not UTF-8 (hint: the form is \
             nfs://host[:port]/path)",
        ),
        (
            target(r#"url = "nfs://h/%00""#),
            "p.toml:4:7: url: `nfs://h/%00`: the address holds a NUL (hint: the form is \
             nfs://host[:port]/path)",
        ),
    ]);
}
