//! Checks of names, attributes, links and listings.
//!
//! They compare identities, protocol numbers and complete sets of names.

use std::collections::HashSet;

use nfs_client::proto::client::{Operation, ProtocolVersion};
use nfs_client::proto::nfs3::{FileType, MknodWhat, Sattr, SetTime, Status, Time};

use crate::CheckResult;
use crate::tested_client::{Name, TestedClient};

/// Creates, looks up, renames over another file, and removes.
pub fn life(client: &mut TestedClient) -> CheckResult {
    let dir = client.dir;
    let sub = client.mkdir(&dir, "sub")?;
    let file = client.create("file")?;
    let found = client.lookup(&dir, "file")?;
    same("handle of LOOKUP and CREATE", &found.handle, &file.handle)?;
    client.close(&file)?;
    let fileid = client.attributes(&found)?.fileid;
    let other = client.create("other")?;
    client.close(&other)?;
    let from = b"file";
    let to = b"other";
    client.done(&Operation::Rename { from_dir: &dir, from, to_dir: &dir, to })?;
    let over = client.lookup(&dir, "other")?;
    same("file after RENAME", &client.attributes(&over)?.fileid, &fileid)?;
    client.fails(&Operation::Lookup { dir: &dir, name: b"file" }, Status::NoEnt)?;
    let from = b"other";
    client.done(&Operation::Rename { from_dir: &dir, from, to_dir: &sub, to: b"moved" })?;
    let moved = client.lookup(&sub, "moved")?;
    same("file after RENAME to another directory", &client.attributes(&moved)?.fileid, &fileid)?;
    client.done(&Operation::Remove { dir: &sub, name: b"moved" })?;
    client.fails(&Operation::Lookup { dir: &sub, name: b"moved" }, Status::NoEnt)?;
    client.done(&Operation::Rmdir { dir: &dir, name: b"sub" })
}

/// Each error has its own number.
pub fn errors(client: &mut TestedClient) -> CheckResult {
    let dir = client.dir;
    let sub = client.mkdir(&dir, "sub")?;
    let attributes = Sattr::with_mode(0o755);
    client.fails(&Operation::Mkdir { dir: &dir, name: b"sub", attributes }, Status::Exist)?;
    client.fails(&Operation::Lookup { dir: &dir, name: b"missing" }, Status::NoEnt)?;
    client.fails(&Operation::Remove { dir: &dir, name: b"missing" }, Status::NoEnt)?;
    client.mkdir(&sub, "below")?;
    client.fails(&Operation::Rmdir { dir: &dir, name: b"sub" }, Status::NotEmpty)?;
    client.done(&Operation::Rmdir { dir: &sub, name: b"below" })?;
    let file = client.create("file")?;
    client.close(&file)?;
    if !client.version.is_stateful() {
        // Version 4 has one REMOVE for both.
        client.fails(&Operation::Rmdir { dir: &dir, name: b"file" }, Status::NotDir)?;
    }
    let gone = client.lookup(&dir, "file")?;
    client.done(&Operation::Remove { dir: &dir, name: b"file" })?;
    client.fails(&Operation::Getattr { file: &gone }, Status::Stale)
}

/// Mode, owner, size and times, one at a time.
pub fn attributes(client: &mut TestedClient) -> CheckResult {
    let file = client.create("file")?;
    let before = client.attributes(&file)?;
    same("type", &before.file_type, &FileType::Regular)?;
    same("mode", &(before.mode & 0o7777), &0o644)?;
    let time = Time { seconds: 1_000_000_000, nanos: 123_456_000 };
    let mtime = SetTime::Client(time);
    let changes = [
        Sattr { mode: Some(0o600), ..Sattr::default() },
        Sattr { uid: Some(1234), gid: Some(567), ..Sattr::default() },
        Sattr { size: Some(54_321), ..Sattr::default() },
        Sattr { atime: SetTime::Client(time), mtime, ..Sattr::default() },
    ];
    for attributes in changes {
        client.done(&Operation::Setattr { file: &file, attributes })?;
    }
    let after = client.attributes(&file)?;
    same("mode", &(after.mode & 0o7777), &0o600)?;
    same("owner", &(after.uid, after.gid), &(1234, 567))?;
    same("size", &after.size, &54_321)?;
    same("seconds of mtime", &after.mtime.seconds, &time.seconds)?;
    same("microseconds of mtime", &(after.mtime.nanos / 1000), &(time.nanos / 1000))?;
    same("id", &after.fileid, &before.fileid)?;
    if client.version > ProtocolVersion::V2 {
        client.done(&Operation::Access { file: &file, access: 0x3f })?;
    }
    client.close(&file)
}

/// A symbolic link keeps its text, a hard link its file.
pub fn links(client: &mut TestedClient) -> CheckResult {
    let dir = client.dir;
    let file = client.create("file")?;
    let target = b"../some/where else".as_slice();
    let attributes = Sattr::with_mode(0o777);
    client.done(&Operation::Symlink { dir: &dir, name: b"symbolic", attributes, target })?;
    let link = client.lookup(&dir, "symbolic")?;
    same("type of the link", &client.attributes(&link)?.file_type, &FileType::Symlink)?;
    same("its target", &client.target(&link)?, &target.to_vec())?;
    client.done(&Operation::Link { file: &file, dir: &dir, name: b"hard" })?;
    let hard = client.lookup(&dir, "hard")?;
    let one = client.attributes(&file)?;
    let two = client.attributes(&hard)?;
    same("file of the hard link", &two.fileid, &one.fileid)?;
    same("links", &one.nlink, &2)?;
    client.close(&file)
}

/// A named pipe, a socket.
pub fn special(client: &mut TestedClient) -> CheckResult {
    let dir = client.dir;
    let attributes = Sattr::with_mode(0o644);
    let kinds = [
        ("pipe", MknodWhat::Fifo(attributes), FileType::Fifo),
        ("socket", MknodWhat::Socket(attributes), FileType::Socket),
    ];
    for (name, what, file_type) in kinds {
        client.done(&Operation::Mknod { dir: &dir, name: name.as_bytes(), what })?;
        let made = client.lookup(&dir, name)?;
        same(name, &client.attributes(&made)?.file_type, &file_type)?;
    }
    Ok(())
}

/// Every name exactly once and no others, in as many pages as necessary.
pub fn listing(client: &mut TestedClient) -> CheckResult {
    let made = make_many(client, client.entries)?;
    let dir = client.dir;
    compare(&client.list(&dir, false)?, &made)
}

/// The same with attributes, for a tenth of the entries.
pub fn listing_plus(client: &mut TestedClient) -> CheckResult {
    let made = make_many(client, client.entries.div_ceil(10))?;
    let dir = client.dir;
    let listed = client.list(&dir, true)?;
    compare(&listed, &made)?;
    for entry in &listed {
        let attributes = entry.attributes.ok_or("an entry has no attributes")?;
        same("file id of an entry and of its attributes", &attributes.fileid, &entry.fileid)?;
    }
    Ok(())
}

fn make_many(client: &mut TestedClient, count: usize) -> Result<HashSet<Vec<u8>>, String> {
    let mut names = HashSet::new();
    for number in 0..count {
        let name = format!("entry-{number:06}-{}", "x".repeat(number % 40));
        let file = client.create(&name)?;
        client.close(&file)?;
        names.insert(name.into_bytes());
    }
    Ok(names)
}

fn compare(listed: &[Name], made: &HashSet<Vec<u8>>) -> CheckResult {
    same("number of entries", &listed.len(), &made.len())?;
    let names: HashSet<Vec<u8>> = listed.iter().map(|entry| entry.name.clone()).collect();
    if &names == made { Ok(()) } else { Err("the listing has different names".to_owned()) }
}

/// Compares two values; `what` describes them.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> CheckResult {
    if got == want { Ok(()) } else { Err(format!("{what}: {got:?}, not {want:?}")) }
}
