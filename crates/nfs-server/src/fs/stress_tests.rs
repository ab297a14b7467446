//! Large directories and several threads.
//!
//! Invariants for any order of events: every entry that stays is listed once, and a tree that was
//! emptied uses no memory.

use super::tests::{CONTEXT, NONE, empty, file};
use super::*;

#[test]
fn lists_each_entry_once_during_removal() {
    let fs = empty();
    for n in 0..10_000 {
        file(&fs, &format!("f{n}"));
    }
    let mut cookie = 0;
    let mut page = 0;
    let mut seen = Vec::new();
    loop {
        let mut room = 100;
        let listing = fs
            .list(fs.root(), cookie, &CONTEXT.caller, |_| {
                room -= 1;
                room >= 0
            })
            .unwrap();
        seen.extend(listing.entries.iter().map(|e| String::from_utf8(e.name.to_vec()).unwrap()));
        cookie = listing.entries.last().unwrap().cookie;
        // Remove a name that was listed (the last of the page), and one far ahead.
        let last = listing.entries.last().unwrap().name.clone();
        fs.remove(fs.root(), &last, &CONTEXT).unwrap();
        fs.remove(fs.root(), format!("f{}", 9_999 - page).as_bytes(), &CONTEXT).ok();
        page += 1;
        if listing.eof {
            break;
        }
    }
    let survivors = fs.list_path("/").unwrap().len();
    let total = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), total, "an entry was listed twice");
    let kept = seen
        .iter()
        .filter(|name| fs.lookup(fs.root(), name.as_bytes(), &CONTEXT.caller).is_ok())
        .count();
    assert_eq!(kept, survivors + 2, "`.`, `..` and every remaining entry");
}

#[test]
fn threads_on_one_tree_end_consistent() {
    let fs = empty();
    let empty_bytes = fs.memory_bytes();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let fs = &fs;
            scope.spawn(move || churn(fs, thread));
        }
    });
    assert_eq!(fs.list_path("/").unwrap(), Vec::<Vec<u8>>::new());
    assert_eq!(
        (fs.memory_bytes(), fs.space().total_files - fs.space().free_files),
        (empty_bytes, 1)
    );
}

fn churn(fs: &FileSystem, thread: u32) {
    let root = fs.root();
    for round in 0..300 {
        let own = format!("own{thread}");
        let id = file(fs, &own);
        fs.write(id, round, &[thread as u8; 3000], &CONTEXT).unwrap();
        // All threads compete for these names; only one can win each step.
        fs.rename(
            DirectoryName::new(root, own.as_bytes()),
            DirectoryName::new(root, b"shared"),
            &CONTEXT,
        )
        .unwrap();
        fs.make(root, b"d", NewObject::Directory, &NONE, &CONTEXT).ok();
        if let Ok(found) = fs.lookup(root, b"d", &CONTEXT.caller) {
            fs.rename(
                DirectoryName::new(root, b"shared"),
                DirectoryName::new(found.id, b"in"),
                &CONTEXT,
            )
            .ok();
            fs.list(found.id, 0, &CONTEXT.caller, |_| true).ok();
            fs.remove(found.id, b"in", &CONTEXT).ok();
        }
        fs.remove_directory(root, b"d", &CONTEXT).ok();
        fs.remove(root, b"shared", &CONTEXT).ok();
    }
    // A rename can put `in` into `d` after another thread's remove.
    if let Ok(found) = fs.lookup(root, b"d", &CONTEXT.caller) {
        fs.remove(found.id, b"in", &CONTEXT).ok();
        fs.remove_directory(root, b"d", &CONTEXT).ok();
    }
    fs.remove(root, b"shared", &CONTEXT).ok();
}
