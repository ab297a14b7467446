//! Checks of names, attributes, links and listings.
//!
//! They compare identities, protocol numbers and complete sets of names.

use std::collections::HashSet;

use nfs_client::proto::client::{Operation, ProtocolVersion};
use nfs_client::proto::nfs3::{FileType, MknodWhat, Sattr, SetTime, Status, Time};

use crate::Done;
use crate::rig::{Name, Rig};

/// Creates, looks up, renames over another file, and removes.
pub fn life(rig: &mut Rig) -> Done {
    let dir = rig.dir;
    let sub = rig.mkdir(&dir, "sub")?;
    let file = rig.create("file")?;
    let found = rig.lookup(&dir, "file")?;
    same("handle of LOOKUP and CREATE", &found.handle, &file.handle)?;
    rig.close(&file)?;
    let fileid = rig.attributes(&found)?.fileid;
    let other = rig.create("other")?;
    rig.close(&other)?;
    let (from, to) = (b"file", b"other");
    rig.done(&Operation::Rename { from_dir: &dir, from, to_dir: &dir, to })?;
    let over = rig.lookup(&dir, "other")?;
    same("file after RENAME", &rig.attributes(&over)?.fileid, &fileid)?;
    rig.fails(&Operation::Lookup { dir: &dir, name: b"file" }, Status::NoEnt)?;
    let from = b"other";
    rig.done(&Operation::Rename { from_dir: &dir, from, to_dir: &sub, to: b"moved" })?;
    let moved = rig.lookup(&sub, "moved")?;
    same("file after RENAME to another directory", &rig.attributes(&moved)?.fileid, &fileid)?;
    rig.done(&Operation::Remove { dir: &sub, name: b"moved" })?;
    rig.fails(&Operation::Lookup { dir: &sub, name: b"moved" }, Status::NoEnt)?;
    rig.done(&Operation::Rmdir { dir: &dir, name: b"sub" })
}

/// Each error has its own number.
pub fn errors(rig: &mut Rig) -> Done {
    let dir = rig.dir;
    let sub = rig.mkdir(&dir, "sub")?;
    let attributes = Sattr::with_mode(0o755);
    rig.fails(&Operation::Mkdir { dir: &dir, name: b"sub", attributes }, Status::Exist)?;
    rig.fails(&Operation::Lookup { dir: &dir, name: b"missing" }, Status::NoEnt)?;
    rig.fails(&Operation::Remove { dir: &dir, name: b"missing" }, Status::NoEnt)?;
    rig.mkdir(&sub, "below")?;
    rig.fails(&Operation::Rmdir { dir: &dir, name: b"sub" }, Status::NotEmpty)?;
    rig.done(&Operation::Rmdir { dir: &sub, name: b"below" })?;
    let file = rig.create("file")?;
    rig.close(&file)?;
    if !rig.version.is_stateful() {
        // Version 4 has one REMOVE for both.
        rig.fails(&Operation::Rmdir { dir: &dir, name: b"file" }, Status::NotDir)?;
    }
    let gone = rig.lookup(&dir, "file")?;
    rig.done(&Operation::Remove { dir: &dir, name: b"file" })?;
    rig.fails(&Operation::Getattr { file: &gone }, Status::Stale)
}

/// Mode, owner, size and times, one at a time.
pub fn attributes(rig: &mut Rig) -> Done {
    let file = rig.create("file")?;
    let before = rig.attributes(&file)?;
    same("type", &before.file_type, &FileType::Regular)?;
    same("mode", &(before.mode & 0o7777), &0o644)?;
    let time = Time { seconds: 1_000_000_000, nanos: 123_456_000 };
    let (atime, mtime) = (SetTime::Client(time), SetTime::Client(time));
    let changes = [
        Sattr { mode: Some(0o600), ..Sattr::default() },
        Sattr { uid: Some(1234), gid: Some(567), ..Sattr::default() },
        Sattr { size: Some(54_321), ..Sattr::default() },
        Sattr { atime, mtime, ..Sattr::default() },
    ];
    for attributes in changes {
        rig.done(&Operation::Setattr { file: &file, attributes })?;
    }
    let after = rig.attributes(&file)?;
    same("mode", &(after.mode & 0o7777), &0o600)?;
    same("owner", &(after.uid, after.gid), &(1234, 567))?;
    same("size", &after.size, &54_321)?;
    same("seconds of mtime", &after.mtime.seconds, &time.seconds)?;
    same("microseconds of mtime", &(after.mtime.nanos / 1000), &(time.nanos / 1000))?;
    same("id", &after.fileid, &before.fileid)?;
    if rig.version > ProtocolVersion::V2 {
        rig.done(&Operation::Access { file: &file, access: 0x3f })?;
    }
    rig.close(&file)
}

/// A symbolic link keeps its text, a hard link its file.
pub fn links(rig: &mut Rig) -> Done {
    let dir = rig.dir;
    let file = rig.create("file")?;
    let target = b"../some/where else".as_slice();
    let attributes = Sattr::with_mode(0o777);
    rig.done(&Operation::Symlink { dir: &dir, name: b"symbolic", attributes, target })?;
    let link = rig.lookup(&dir, "symbolic")?;
    same("type of the link", &rig.attributes(&link)?.file_type, &FileType::Symlink)?;
    same("its target", &rig.target(&link)?, &target.to_vec())?;
    rig.done(&Operation::Link { file: &file, dir: &dir, name: b"hard" })?;
    let hard = rig.lookup(&dir, "hard")?;
    let (one, two) = (rig.attributes(&file)?, rig.attributes(&hard)?);
    same("file of the hard link", &two.fileid, &one.fileid)?;
    same("links", &one.nlink, &2)?;
    rig.close(&file)
}

/// A named pipe, a socket.
pub fn special(rig: &mut Rig) -> Done {
    let dir = rig.dir;
    let attributes = Sattr::with_mode(0o644);
    let kinds = [
        ("pipe", MknodWhat::Fifo(attributes), FileType::Fifo),
        ("socket", MknodWhat::Socket(attributes), FileType::Socket),
    ];
    for (name, what, file_type) in kinds {
        rig.done(&Operation::Mknod { dir: &dir, name: name.as_bytes(), what })?;
        let made = rig.lookup(&dir, name)?;
        same(name, &rig.attributes(&made)?.file_type, &file_type)?;
    }
    Ok(())
}

/// Every name exactly once and no others, in as many pages as necessary.
pub fn listing(rig: &mut Rig) -> Done {
    let made = make_many(rig, rig.entries)?;
    let dir = rig.dir;
    compare(&rig.list(&dir, false)?, &made)
}

/// The same with attributes, for a tenth of the entries.
pub fn listing_plus(rig: &mut Rig) -> Done {
    let made = make_many(rig, rig.entries.div_ceil(10))?;
    let dir = rig.dir;
    let listed = rig.list(&dir, true)?;
    compare(&listed, &made)?;
    for entry in &listed {
        let attributes = entry.attributes.ok_or("an entry has no attributes")?;
        same("id of an entry and of its attributes", &attributes.fileid, &entry.fileid)?;
    }
    Ok(())
}

fn make_many(rig: &mut Rig, count: usize) -> Result<HashSet<Vec<u8>>, String> {
    let mut names = HashSet::new();
    for number in 0..count {
        let name = format!("entry-{number:06}-{}", "x".repeat(number % 40));
        let file = rig.create(&name)?;
        rig.close(&file)?;
        names.insert(name.into_bytes());
    }
    Ok(names)
}

fn compare(listed: &[Name], made: &HashSet<Vec<u8>>) -> Done {
    same("number of entries", &listed.len(), &made.len())?;
    let names: HashSet<Vec<u8>> = listed.iter().map(|entry| entry.name.clone()).collect();
    if &names == made { Ok(()) } else { Err("the listing has other names".to_owned()) }
}

/// Compares two values; `what` describes them.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> Done {
    if got == want { Ok(()) } else { Err(format!("{what}: {got:?}, not {want:?}")) }
}
