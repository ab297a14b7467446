//! READDIR and READDIRPLUS of large directories.
//!
//! Ten thousand entries in pages of several sizes, with and without removals between pages.

use std::collections::BTreeSet;

use nfs_proto::nfs3::{Call, FileHandle, Reply, Status, Verifier};
use nfs_server::fs::{Context, CreateMode, SetAttributes};
use nfs_server::{Server, ServerConfig};

use crate::client::{Client, ROOT, start};

const ENTRIES: usize = 10_000;

/// A page: names with their cookies, the verifier, and whether the directory ends.
type Page = (Vec<(String, u64)>, Verifier, bool);

fn filled() -> (Server, Client, FileHandle) {
    let server = start(ServerConfig::default());
    let fs = server.file_system();
    let (directory, _) = fs.find_path("/export").unwrap();
    let set = SetAttributes::default();
    let context = Context::default();
    for n in 0..ENTRIES {
        let name = format!("entry-{n}");
        fs.create(directory, name.as_bytes(), CreateMode::Guarded, &set, &context).unwrap();
    }
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    (server, client, root)
}

fn readdir(client: &mut Client, dir: FileHandle, cursor: (u64, Verifier), count: u32) -> Page {
    let answer =
        client.nfs(Call::Readdir { dir: &dir, cookie: cursor.0, verifier: cursor.1, count });
    let Reply::Readdir { result, .. } = answer.nfs3() else { unreachable!() };
    let page = result.unwrap();
    let name = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
    let entries = page.entries.iter().map(|entry| (name(entry.name), entry.cookie)).collect();
    (entries, page.verifier, page.eof)
}

fn readdirplus(client: &mut Client, dir: FileHandle, cursor: (u64, Verifier)) -> Page {
    let (cookie, verifier) = cursor;
    let call = Call::Readdirplus { dir: &dir, cookie, verifier, dircount: 8192, maxcount: 32_768 };
    let answer = client.nfs(call);
    let Reply::Readdirplus { result, .. } = answer.nfs3() else { unreachable!() };
    let page = result.unwrap();
    let mut entries = Vec::new();
    for plus in &page.entries {
        let attributes = plus.attributes.unwrap();
        assert_eq!(attributes.fileid, plus.entry.fileid);
        assert!(plus.file.is_some());
        let name = String::from_utf8(plus.entry.name.to_vec()).unwrap();
        entries.push((name, plus.entry.cookie));
    }
    (entries, page.verifier, page.eof)
}

fn all(mut next: impl FnMut((u64, Verifier)) -> Page) -> Vec<String> {
    let mut cursor = (0, Verifier::default());
    let mut names = Vec::new();
    loop {
        let (entries, verifier, eof) = next(cursor);
        cursor = (entries.last().expect("every page has entries").1, verifier);
        names.extend(entries.into_iter().map(|(name, _)| name));
        if eof {
            return names;
        }
    }
}

fn expected() -> BTreeSet<String> {
    let dots = [".", ".."].map(str::to_owned);
    (0..ENTRIES).map(|n| format!("entry-{n}")).chain(dots).collect()
}

#[test]
fn every_entry_comes_exactly_once() {
    let (_server, mut client, root) = filled();
    for count in [512, 4096, 1 << 20] {
        let names = all(|cursor| readdir(&mut client, root, cursor, count));
        assert_eq!(names.len(), ENTRIES + 2, "count {count}");
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), expected());
    }
    let names = all(|cursor| readdirplus(&mut client, root, cursor));
    assert_eq!(names.len(), ENTRIES + 2);
    assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), expected());
}

#[test]
fn removes_during_listing_without_gaps() {
    let (server, mut client, root) = filled();
    let mut remover = Client::connect(&server);
    remover.user = ROOT;
    let names = all(|cursor| {
        let page = readdir(&mut client, root, cursor, 8192);
        for (name, _) in page.0.iter().filter(|(name, _)| name.starts_with("entry")) {
            remover.nfs(Call::Remove { dir: &root, name: name.as_bytes() });
        }
        page
    });
    assert_eq!(names.len(), ENTRIES + 2);
    assert_eq!(server.list_directory("/export").unwrap(), Vec::<String>::new());
}

#[test]
fn rejects_small_pages_and_foreign_cookies() {
    let (_server, mut client, root) = filled();
    let mut status = |cookie, verifier, count| {
        let answer = client.nfs(Call::Readdir { dir: &root, cookie, verifier, count });
        let Reply::Readdir { result, .. } = answer.nfs3() else { unreachable!() };
        result.map(|page| page.eof)
    };
    assert_eq!(status(0, Verifier::default(), 100), Err(Status::TooSmall));
    assert_eq!(status(5, Verifier([1; 8]), 4096), Err(Status::BadCookie));
    assert_eq!(status(0, Verifier([1; 8]), 4096), Ok(false));
}
