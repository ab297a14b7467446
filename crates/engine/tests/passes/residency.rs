//! Pages of files in the page cache, on a file system with storage under it.

use std::fs::{self, File};

use engine::residency::Residency;

#[test]
fn separates_cached_from_stored_pages() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let directories = [folder.path().to_owned()];
    assert_eq!(Residency::sample(&directories), None);
    let page = rustix::param::page_size();
    for name in ["a", "b"] {
        // A tail of less than a page is not counted.
        fs::write(folder.path().join(name), vec![1; 600 * page + 100]).unwrap();
    }
    let found = Residency::sample(&directories).unwrap();
    assert_eq!(found, Residency { resident_pages: 1200, pages: 1200 });
    let file = File::open(folder.path().join("a")).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let found = Residency::sample(&directories).unwrap();
    assert_eq!(found, Residency { resident_pages: 600, pages: 1200 });
    assert!((found.share() - 0.5).abs() < 1e-9);
}

#[test]
fn samples_whole_files_within_bound() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for number in 0..100 {
        let file = File::create(folder.path().join(format!("f{number:03}"))).unwrap();
        file.set_len(1 << 30).unwrap();
    }
    let found = Residency::sample(&[folder.path().to_owned()]).unwrap();
    assert!((8 * 8 * 256..=16 * 8 * 256).contains(&found.pages), "{found:?}");
    assert_eq!(found.resident_pages, 0);
}
