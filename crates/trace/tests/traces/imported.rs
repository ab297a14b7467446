//! Imports of strace's output and fio's logs: which operations on which files come of each line.

use trace::{
    Entry, ImportError, ImportSettings, ImportSource, ImportSummary, Names, Op, Section,
    TraceReader, import,
};

fn settings(source: ImportSource) -> ImportSettings {
    ImportSettings {
        source,
        root: (source == ImportSource::Strace).then(|| "/r".to_owned()),
        directory: Some("/r".to_owned()),
        names: Names::Kept,
        made_by: String::new(),
    }
}

/// What a trace contains: the operations of each client in order, and what existed at the start.
#[derive(Debug, Default)]
struct Imported {
    /// `client kind file:offset+count`.
    lines: Vec<String>,
    entries: Vec<Entry>,
    ops: Vec<Op>,
    summary: ImportSummary,
}

fn read(text: &[u8], settings: &ImportSettings) -> Result<Imported, ImportError> {
    let mut file = Vec::new();
    let summary = import(text, settings, &mut file)?;
    let mut found = Imported { summary, ..Imported::default() };
    let mut reader = TraceReader::new(&file[..]).unwrap();
    while let Some(section) = reader.next_section().unwrap() {
        match section {
            Section::Block { calls, entries } => {
                found.entries.extend(entries);
                for call in calls {
                    for op in &call.ops {
                        let kind = call.version.kind_name(op.kind);
                        let status = op.status.unwrap_or(99);
                        let failed =
                            if status == 0 { String::new() } else { format!(" !{status}") };
                        found.lines.push(format!(
                            "{} {kind} {}:{}+{}{failed}",
                            call.connection,
                            op.file.max(op.result),
                            op.offset,
                            op.count
                        ));
                        found.ops.push(*op);
                    }
                }
            }
            Section::End(end) => {
                assert_eq!(end.counters.calls, found.summary.calls);
                assert_eq!(end.counters.files_mapped, found.summary.mapped_files);
            }
            _ => {}
        }
    }
    Ok(found)
}

fn strace(text: &str) -> Imported {
    read(text.as_bytes(), &settings(ImportSource::Strace)).unwrap()
}

/// Numbers lines with a thread and the time.
fn timed(lines: &[(u32, &str)]) -> String {
    let line = |(at, (pid, call)): (usize, &(u32, &str))| format!("{pid} 100.{at:06} {call}\n");
    lines.iter().enumerate().map(line).collect()
}

#[test]
fn follows_offsets_of_descriptors() {
    let found = strace(&timed(&[
        (1, "openat(AT_FDCWD, \"a\", O_RDONLY) = 3 <0.000010>"),
        (1, "read(3, \"x\"..., 100) = 60 <0.000010>"),
        (1, "dup(3) = 4 <0.000010>"),
        (1, "read(4, \"x\"..., 10) = 10 <0.000010>"),
        (1, "lseek(3, 500, SEEK_SET) = 500 <0.000010>"),
        (1, "pread64(3, \"x\"..., 7, 20) = 7 <0.000010>"),
        (1, "readv(4, [{iov_base=\"x\", iov_len=5}, {iov_base=\"y\", iov_len=5}], 2) = 10 <0.1>"),
        (1, "close(3) = 0 <0.000010>"),
        (1, "close(4) = 0 <0.000010>"),
        (1, "read(3, \"\", 10) = -1 EBADF (Bad file descriptor) <0.000010>"),
    ]));
    assert_eq!(
        found.lines,
        [
            "0 OPEN 2:1+0",
            "0 READ 2:0+60",
            "0 READ 2:60+10",
            "0 READ 2:20+7",
            "0 READ 2:500+10",
            // Only the last descriptor closes the file.
            "0 CLOSE 2:0+0",
        ]
    );
    // As much existed as was read.
    assert_eq!((found.entries.len(), found.entries[0].size), (1, Some(510)));
    assert_eq!(found.summary.read_bytes, 87);
}

#[test]
fn appends_after_all_writers() {
    let found = strace(&timed(&[
        (1, "open(\"/r/log\", O_WRONLY|O_CREAT|O_APPEND|O_DSYNC, 0644) = 3"),
        (1, "write(3, \"x\", 30) = 30"),
        (1, "clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD) = 2"),
        (2, "write(3, \"y\", 5) = 5"),
        (1, "write(3, \"z\", 7) = 7"),
        (1, "fsync(3) = 0"),
        (1, "ftruncate(3, 4) = 0"),
        (2, "write(3, \"w\", 2) = 2"),
    ]));
    let writes: Vec<&String> = found.lines.iter().filter(|it| it.contains("WRITE")).collect();
    assert_eq!(writes, ["0 WRITE 2:0+30", "1 WRITE 2:30+5", "0 WRITE 2:35+7", "1 WRITE 2:4+2"]);
    // O_DSYNC: each write is DATA_SYNC.
    assert!(found.ops.iter().filter(|op| op.count > 0).all(|op| op.how == 2));
    // Created, and nothing was read before.
    assert!(found.entries.is_empty());
}

#[test]
fn children_inherit_until_exec() {
    let found = strace(&timed(&[
        (1, "openat(AT_FDCWD, \"a\", O_RDONLY) = 3"),
        (1, "openat(AT_FDCWD, \"b\", O_RDONLY|O_CLOEXEC) = 4"),
        (1, "chdir(\"/r/sub\") = 0"),
        // The child's calls come before its parent's vfork returns.
        (1, "vfork( <unfinished ...>"),
        (2, "execve(\"/bin/x\", [\"x\"], 0x7ff /* 39 vars */ <unfinished ...>"),
        (1, "<... vfork resumed>) = 2 <0.000510>"),
        (2, "<... execve resumed>) = 0 <0.004980>"),
        (2, "read(3, \"x\", 10) = 10"),
        (2, "read(4, \"x\", 10) = 10"),
        (2, "stat(\"c\", {st_mode=S_IFREG|0644, st_size=77, ...}) = 0"),
        (2, "+++ exited with 0 +++"),
        (1, "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---"),
        (1, "read(4, \"x\", 10) = 10"),
    ]));
    assert_eq!(
        found.lines,
        [
            "0 OPEN 2:1+0",
            "0 OPEN 3:1+0",
            "1 READ 2:0+10",
            // Descriptor 4 was closed by the exec, so it is no longer b.
            "1 LOOKUP 5:0+0",
            "0 READ 3:0+10",
        ]
    );
    assert_eq!(found.entries.iter().find(|it| it.file == 5).unwrap().size, Some(77));
    assert_eq!((found.summary.processes, found.summary.unfinished), (2, 0));
}

#[test]
fn threads_share_descriptors() {
    let found = strace(&timed(&[
        (
            1,
            "clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD} => {parent_tid=[2]}, 88) = 2",
        ),
        (2, "openat(AT_FDCWD, \"a\", O_RDWR|O_CREAT|O_EXCL, 0600) = 3"),
        (1, "pwrite64(3, \"x\"..., 4096, 8192 <unfinished ...>"),
        (2, "pwrite64(3, \"y\"..., 4096, 0) = 4096 <0.000100>"),
        (1, "<... pwrite64 resumed>) = 4096 <0.000900>"),
        (2, "+++ exited with 0 +++"),
        (1, "fdatasync(3) = 0"),
    ]));
    assert_eq!(
        found.lines,
        ["0 OPEN 2:3+0", "0 WRITE 2:8192+4096", "0 WRITE 2:0+4096", "0 COMMIT 2:0+0"]
    );
}

#[test]
fn names_are_created_moved_and_removed() {
    let found = strace(&timed(&[
        (1, "mkdir(\"d\", 0755) = 0"),
        (1, "creat(\"d/new\", 0644) = 3"),
        (1, "mkdir(\"d\", 0755) = -1 EEXIST (File exists)"),
        (1, "renameat2(AT_FDCWD, \"d/new\", AT_FDCWD, \"moved\", RENAME_NOREPLACE) = 0"),
        (1, "link(\"moved\", \"d/again\") = 0"),
        (1, "symlink(\"moved\", \"ln\") = 0"),
        (1, "unlink(\"old\") = 0"),
        (1, "unlink(\"none\") = -1 ENOENT (No such file or directory)"),
        (1, "unlinkat(AT_FDCWD, \"d\", AT_REMOVEDIR) = -1 ENOTEMPTY (Directory not empty)"),
        (1, "openat(AT_FDCWD, \".\", O_RDONLY|O_DIRECTORY) = 4"),
        (1, "getdents64(4, 0x55 /* 4 entries */, 32768) = 112"),
        (1, "getdents64(4, 0x55 /* 0 entries */, 32768) = 0"),
        (1, "access(\"/etc/passwd\", R_OK) = 0"),
    ]));
    assert_eq!(
        found.lines,
        [
            "0 CREATE 2:0+0",
            "0 OPEN 3:2+0",
            "0 CREATE 1:0+0 !17",
            "0 RENAME 2:0+0",
            "0 LINK 3:0+0",
            "0 CREATE 4:0+0",
            "0 REMOVE 1:0+0",
            "0 REMOVE 1:0+0 !2",
            "0 REMOVE 1:0+0 !66",
            "0 GETATTR 1:0+0",
            "0 READDIR 1:0+4",
            "0 READDIR 1:1+0",
        ]
    );
    // Only `old` existed.
    assert_eq!(found.entries.len(), 1);
    assert_eq!(found.summary.outside, 1);
}

#[test]
fn copies_and_mappings_are_known() {
    let found = strace(&timed(&[
        (1, "openat(AT_FDCWD</r>, \"a\", O_RDONLY) = 3</r/a>"),
        (1, "openat(AT_FDCWD</r>, \"b\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 4</r/b>"),
        (1, "copy_file_range(3</r/a>, NULL, 4</r/b>, NULL, 9223372035781033984, 0) = 5000"),
        (1, "copy_file_range(3</r/a>, [0] => [10], 4</r/b>, NULL, 10, 0) = 10"),
        (1, "sendfile(1</dev/null>, 3</r/a>, [100] => [150], 50) = 50"),
        (1, "mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</r/a>, 0) = 0x7f86d2af1000"),
        (1, "mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f86d2af1000"),
        (1, "fallocate(4</r/b>, 0, 0, 8192) = 0"),
        (1, "fallocate(4</r/b>, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0"),
        (1, "fallocate(4</r/b>, FALLOC_FL_COLLAPSE_RANGE, 0, 4096) = 0"),
        (1, "io_uring_enter(5, 1, 1, IORING_ENTER_GETEVENTS, NULL, 8) = 1"),
        (1, "write(7</r/inherited>, \"x\", 1) = 1"),
        (1, "write(8<socket:[123]>, \"x\", 1) = 1"),
    ]));
    assert_eq!(
        found.lines,
        [
            "0 OPEN 2:1+0",
            "0 OPEN 3:2+0",
            "0 COPY 3:0+5000",
            "0 COPY 3:5000+10",
            "0 READ 2:100+50",
            "0 ALLOCATE 3:0+0",
            "0 DEALLOCATE 3:0+0",
            "0 WRITE 4:0+1",
        ]
    );
    assert_eq!((found.ops[2].other, found.ops[2].source_offset), (2, 0));
    let ImportSummary { mapped_files, inherited, skipped, .. } = &found.summary;
    assert_eq!((*mapped_files, *inherited), (1, 1));
    let skipped: Vec<(&str, u64)> = skipped.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(skipped, [("fallocate", 1), ("io_uring_enter", 1)]);
}

#[test]
fn reads_logs_of_both_versions() {
    let of = |text: &str| read(text.as_bytes(), &settings(ImportSource::Iolog));
    let second = "fio version 2 iolog\n/m/x/a add\n/m/y b add\n/m/x/a open\n/m/x/a write 0 4096\n\
                  /m/x/a wait 5000 0\n/m/y b read 8192 4096\n/m/x/a sync 0 0\n/m/x/a trim 0 512\n\
                  /m/x/a close\n";
    let found = of(second).unwrap();
    assert_eq!(
        found.lines,
        [
            "0 OPEN 3:3+0",
            "0 WRITE 3:0+4096",
            "0 READ 4:8192+4096",
            "0 COMMIT 3:0+0",
            "0 DEALLOCATE 3:0+0",
            "0 CLOSE 3:0+0",
        ]
    );
    assert_eq!((found.summary.root.as_str(), found.summary.read_bytes), ("/m", 4096));
    let third = of("fio version 3 iolog\n23 d/f add\n126 d/f open\n8177 d/f read 0 512\n").unwrap();
    assert_eq!(third.lines, ["0 OPEN 2:3+0", "0 READ 2:0+512"]);
    for (text, words) in [
        ("fio version 1 iolog\n", "first line"),
        ("", "first line"),
        ("fio version 2 iolog\n/a read 5\n", "line 2"),
        ("fio version 3 iolog\n/a add\n", "line 2"),
        ("fio version 2 iolog\n/a frobnicate 0 1\n", "line 2"),
    ] {
        let error = of(text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn refuses_other_texts() {
    for text in ["", "hello\nworld\n", "close(3) = 0\n", "12:00:01 close(3) = 0\n"] {
        let error = read(text.as_bytes(), &settings(ImportSource::Strace)).unwrap_err();
        assert!(error.to_string().contains("strace -f -ttt"), "{error}");
    }
}

#[test]
fn damaged_texts_never_panic() {
    let text = timed(&[
        (1, "openat(AT_FDCWD</r>, \"a\\\"\\303\", O_RDWR|O_CREAT, 0600) = 3</r/a>"),
        (1, "clone(child_stack=NULL, flags=CLONE_FILES <unfinished ...>"),
        (2, "pwrite64(3, \"x\"..., 4096, 8192 <unfinished ...>"),
        (1, "<... clone resumed>) = 2"),
        (2, "<... pwrite64 resumed>) = 4096 <0.000900>"),
        (1, "copy_file_range(3</r/a>, [18446744073709551615] => [10], 3, NULL, 10, 0) = 10"),
        (1, "lseek(3, -1, SEEK_END) = 18446744073709551615"),
        (1, "ftruncate(3, 9223372036854775807) = 0"),
        (1, "write(3, \"\", 9223372036854775807) = 9223372036854775807"),
        (1, "renameat(3, \"..\", AT_FDCWD, \"../../..\") = 0"),
        (2, "+++ killed by SIGKILL +++"),
    ]);
    let log = "fio version 3 iolog\n1 /a add\n2 /a open\n18446744073709551615 /a read 1 2\n\
               5 /a write 18446744073709551615 18446744073709551615\n";
    for (source, text) in [(ImportSource::Strace, text.as_str()), (ImportSource::Iolog, log)] {
        let mut bytes = text.as_bytes().to_vec();
        let _ = read(&bytes, &settings(source));
        for round in 0..1500_u64 {
            if round % 25 == 0 {
                bytes = text.as_bytes().to_vec();
            }
            let draw = |n: u64| model::random::draw(3, 4 * round + n) as usize;
            let at = draw(0) % bytes.len();
            match draw(1) % 3 {
                0 => bytes[at] = draw(2) as u8,
                1 => bytes[at] = b"()<>\"\\,= 09\n"[draw(2) % 12],
                _ => drop(bytes.splice(at..at + draw(2) % (bytes.len() - at).min(9), [])),
            }
            let _ = read(&bytes, &settings(source));
        }
    }
}
