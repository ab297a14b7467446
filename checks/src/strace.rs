//! Parses strace's output into calls of the measured loop: one [`Call`] per line.
//!
//! Only calls on our files are kept, and `getppid`, which has no effect. Opens are distinguished by
//! their purpose; calls by which a worker opens its files before the pass are left out.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::ours::file_number;

/// System calls that transfer data or work on names.
pub const TRACED: &str = "trace=mkdir,openat,pread64,pwrite64,fsync,fdatasync,fstat,newfstatat,\
    statx,fchmodat,faccessat,readlinkat,getdents64,fstatfs,getppid,mkdirat,symlinkat,linkat,\
    renameat,unlinkat";

/// Prefix of the name of every working directory.
const WORK: &str = ".dfsbench-";

/// One system call of a worker.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name; opens that create a file or list a directory have names of our own.
    pub name: String,
    /// Number of the data file.
    pub file: Option<u32>,
    /// Length and offset of a transfer, in bytes.
    pub moved: Option<(u64, u64)>,
    /// Number of entries that a listing returned.
    pub entries: usize,
}

/// Opens that create a file which must not exist.
pub const OPEN_NEW: &str = "openat to create";

/// Opens of directories for listing.
pub const OPEN_DIRECTORY: &str = "openat to list";

/// Listings whose entries were all stat'ed.
pub const LISTED_PLUS: &str = "getdents64 with attributes";

/// Reads the calls of each thread except the one that creates working directories.
///
/// # Errors
/// If a file of strace can't be read, or only some entries of a listing were stat'ed.
pub fn read_workers(folder: &Path) -> Result<Vec<Call>> {
    let mut calls = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if !name.to_string_lossy().starts_with("calls.") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        if !text.contains("mkdir(") {
            calls.extend(read_thread(&text)?);
        }
    }
    Ok(calls)
}

/// Parses the calls of one thread, in order.
fn read_thread(text: &str) -> Result<Vec<Call>> {
    let mut calls: Vec<Call> = Vec::new();
    let mut unlooked: Option<(usize, usize)> = None;
    let mut opened = false;
    for line in text.lines() {
        let Some(call) = parse_call(line) else { continue };
        // The size of a file is checked right after it is opened.
        let of_open = std::mem::replace(&mut opened, call.name == "openat");
        if of_open && call.name == "fstat" {
            continue;
        }
        if call.name == "newfstatat"
            && let Some((at, left)) = &mut unlooked
        {
            LISTED_PLUS.clone_into(&mut calls[*at].name);
            *left = left.checked_sub(1).context("more entries looked at than were listed")?;
            continue;
        }
        if let Some((at, left)) = unlooked.take() {
            let all = calls[at].entries;
            ensure!(left == 0 || left == all, "{left} of {all} entries were not looked at");
        }
        if call.name == "getdents64" {
            unlooked = Some((calls.len(), call.entries));
        }
        calls.push(call);
    }
    Ok(calls)
}

/// Parses a line such as `pread64(5</w/f00000001>, ""..., 65536, 131072) = 65536`; `None` if the
/// call failed for another reason than a missing name, or is about something else.
fn parse_call(line: &str) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, result) = match rest.rsplit_once(") = ") {
        Some(parts) => parts,
        // strace aligns the results of short calls, so spaces may follow the parenthesis.
        None => rest.rsplit_once(" = ")?,
    };
    let is_lookup = matches!(name, "statx" | "newfstatat") && result.contains("ENOENT");
    let is_ours = arguments.contains(WORK) || name == "getppid";
    if !is_ours || (result.starts_with('-') && !is_lookup) {
        return None;
    }
    let words: Vec<&str> = arguments.trim_end().trim_end_matches(')').split(", ").collect();
    let moved = match words.as_slice() {
        [.., len, offset] if name.starts_with('p') => {
            Some((len.parse().ok()?, offset.parse().ok()?))
        }
        _ => None,
    };
    let name = match name {
        "openat" if arguments.contains("O_EXCL") => OPEN_NEW,
        "openat" if arguments.contains("O_DIRECTORY") => OPEN_DIRECTORY,
        name => name,
    };
    Some(Call {
        name: name.to_owned(),
        file: read_file_number(&words),
        moved,
        entries: count_entries(arguments)?,
    })
}

/// Parses the number of a call's file: from the name after a directory's descriptor, or else from
/// the path that strace prints with the descriptor, as in `5</w/f00000001>`.
fn read_file_number(words: &[&str]) -> Option<u32> {
    if let Some(name) = words.get(1)
        && let Some(number) = file_number(name.trim_matches('"'))
    {
        return Some(number);
    }
    let (_, path) = words[0].split_once('<')?;
    file_number(path.trim_end_matches('>'))
}

/// Parses the 2 in `/* 2 entries */`; 0 without such a comment, `None` if it is not a number.
fn count_entries(arguments: &str) -> Option<usize> {
    let Some((_, comment)) = arguments.split_once("/* ") else { return Some(0) };
    let Some((count, _)) = comment.split_once(" entries") else { return Some(0) };
    count.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, moved: Option<(u64, u64)>) -> Call {
        Call { name: name.to_owned(), file: Some(1), moved, entries: 0 }
    }

    #[test]
    fn lines_of_strace_are_read() {
        let read =
            parse_call("pread64(5</w/.dfsbench-0/f00000001>, \"\"..., 65536, 131072) = 65536");
        assert_eq!(read, Some(call("pread64", Some((65_536, 131_072)))));
        let made = "openat(4</w/.dfsbench-0>, \"f00000001\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 9<x>";
        assert_eq!(parse_call(made), Some(call(OPEN_NEW, None)));
        let synced = "fsync(5</w/.dfsbench-0/f00000001>)        = 0";
        assert_eq!(parse_call(synced), Some(call("fsync", None)));
        let failed = "unlinkat(4</w/.dfsbench-0>, \"f00000001\", 0) = -1 ENOENT (No such file)";
        assert_eq!(parse_call(failed), None);
        let missing = "statx(4</w/.dfsbench-0>, \"m00000001\", 0, 0, 0x7f) = -1 ENOENT (No such)";
        assert_eq!(parse_call(missing).unwrap().name, "statx");
        assert_eq!(parse_call("fstat(3</proc/self/io>, {st_mode=S_IFREG|0400, ...}) = 0"), None);
        assert_eq!(
            parse_call("getppid()                               = 17").unwrap().name,
            "getppid"
        );
        assert_eq!(parse_call("+++ exited with 0 +++"), None);
    }

    #[test]
    fn separates_opens_from_listings() {
        let text = "openat(4</.dfsbench-0>, \"f00000001\", O_RDWR) = 9</.dfsbench-0/f00000001>\n\
            fstat(9</.dfsbench-0/f00000001>, {...}) = 0\n\
            fstat(9</.dfsbench-0/f00000001>, {...}) = 0\n\
            getdents64(5</.dfsbench-0>, 0x7f /* 2 entries */, 4096) = 48\n\
            getppid() = 1\n\
            getdents64(5</.dfsbench-0>, 0x7f /* 2 entries */, 4096) = 48\n\
            newfstatat(5</.dfsbench-0>, \".\", {...}, 0) = 0\n";
        let looked = "newfstatat(5</.dfsbench-0>, \"..\", {...}, 0) = 0\n";
        let calls = read_thread(&format!("{text}{looked}getppid() = 1\n")).unwrap();
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        let expected = ["openat", "fstat", "getdents64", "getppid", LISTED_PLUS, "getppid"];
        assert_eq!(names, expected);
        assert!(read_thread(&format!("{text}getppid() = 1\n")).is_err());
    }
}
