//! Bundles: the same bytes for the same campaign, and no changed byte goes unnoticed.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use results::Store;
use results::bundle::{BundledCampaign, BundledTexts, UnpackError, pack, unpack};

use crate::material::{campaign, keep};

fn texts() -> BundledTexts {
    BundledTexts {
        plan_toml: b"name = \"x\"\n".to_vec(),
        facts_json: b"[]\n".to_vec(),
        // Exactly one block, so without padding.
        verdicts_json: vec![b' '; 512],
    }
}

fn header() -> BundledCampaign {
    BundledCampaign {
        uuid: "u".into(),
        name: "x".into(),
        measured_by: "0.1.0".into(),
        started_unix_ms: 1,
        kernels: vec!["Linux 6.12".into()],
    }
}

/// A bundle whose results are these bytes instead of a database.
fn packed(results: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results");
    fs::write(&path, results).unwrap();
    let mut out = Vec::new();
    pack(&mut out, "0.1.0", header(), &texts(), &path).unwrap();
    out
}

static SMALL: LazyLock<Vec<u8>> = LazyLock::new(|| packed(&[7; 700]));

fn damage(bytes: &[u8]) -> String {
    match unpack(bytes, &mut Vec::new()) {
        Err(UnpackError::Damaged(problems)) => problems.join("; "),
        other => panic!("{other:?}"),
    }
}

/// The members of a bundle as ranges of its bytes: header, content and padding together.
fn members(bundle: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while bundle[at] != 0 {
        let size = std::str::from_utf8(&bundle[at + 124..at + 135]).unwrap();
        let size = usize::from_str_radix(size, 8).unwrap();
        let end = at + 512 + size.next_multiple_of(512);
        ranges.push(at..end);
        at = end;
    }
    ranges
}

#[test]
fn unpacks_what_was_packed() {
    let bundle = packed(b"not a database");
    let mut results = Vec::new();
    let unpacked = unpack(bundle.as_slice(), &mut results).unwrap();
    assert_eq!(results, b"not a database");
    assert_eq!(unpacked.texts, texts());
    assert_eq!(unpacked.manifest.campaign, header());
    assert_eq!(bundle, packed(b"not a database"));
    assert_eq!(unpacked.sha256.len(), 64);
}

#[test]
fn names_changed_member() {
    let bundle = packed(&[7; 3000]);
    let names =
        ["manifest.json", "manifest.sha256", "plan.toml", "facts", "verdicts", "results.db"];
    for (range, name) in std::iter::zip(members(&bundle), names) {
        // The first byte of the content, which in the manifest ends its being JSON.
        let mut changed = bundle.clone();
        changed[range.start + 512] ^= 1;
        let what = damage(&changed);
        assert!(what.contains(name), "{name}: {what}");
    }
}

#[test]
fn refuses_other_members() {
    let bundle = packed(b"rows");
    let ranges = members(&bundle);
    let plan = &ranges[2];
    let without = [&bundle[..plan.start], &bundle[plan.end..]].concat();
    assert!(damage(&without).contains("`facts.json` where `plan.toml` belongs"));
    let end = ranges.last().unwrap().end;
    let last = &ranges[5];
    let cut = [&bundle[..last.start], &bundle[end..]].concat();
    assert!(damage(&cut).contains("`results.db` is missing"));
    let twice = [&bundle[..plan.end], &bundle[plan.start..]].concat();
    assert!(damage(&twice).contains("`plan.toml` where `facts.json` belongs"));
    let more = [&bundle[..end], &bundle[plan.clone()], &bundle[end..]].concat();
    assert!(damage(&more).contains("a member too many, `plan.toml`"));
    assert!(damage(&[&bundle[..], b"x"].concat()).contains("behind the end"));
    assert!(damage(&bundle[..bundle.len() - 1]).contains("the end of the file is missing"));
}

#[test]
fn refuses_paths_and_sizes() {
    let bundle = packed(b"rows");
    let plan = members(&bundle)[2].clone();
    for (path, size) in [("../plan.toml", 11), ("/etc/passwd", 11), ("plan.toml", 1 << 32)] {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(size);
        header.set_cksum();
        let mut changed = bundle.clone();
        changed[plan.start..plan.start + 512].copy_from_slice(header.as_bytes());
        let what = damage(&changed);
        let expected = if path == "plan.toml" { "the limit of" } else { path };
        assert!(what.contains(expected), "{what}");
    }
    let other = String::from_utf8_lossy(&bundle).replace("\"format\": 1", "\"format\": 2");
    assert!(matches!(unpack(other.as_bytes(), &mut Vec::new()), Err(UnpackError::OtherFormat(2))));
    for not_a_bundle in [&b""[..], b"SQLite format 3\0", &[0; 2048]] {
        let refused = unpack(not_a_bundle, &mut Vec::new());
        assert!(matches!(refused, Err(UnpackError::NotABundle)), "{refused:?}");
    }
}

#[test]
fn extracts_same_bytes_from_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut alone = Store::open_or_create(&path("alone.db")).unwrap();
    keep(&mut alone, &campaign());
    // The same campaign as number 3 of another file.
    let mut many = Store::open_or_create(&path("many.db")).unwrap();
    for _ in 0..2 {
        keep(&mut many, &campaign());
    }
    many.import(&path("alone.db")).unwrap();
    let extract = |store: &Store, id: i64, to: &Path| {
        store.extract(id, to).unwrap();
        fs::read(to).unwrap()
    };
    let one = extract(&alone, 1, &path("one"));
    assert!(one == extract(&many, 3, &path("three")));
    assert!(one == extract(&alone, 1, &path("again")));
    let extracted = Store::open_existing(&path("three")).unwrap();
    assert_eq!(extracted.list().unwrap().len(), 1);
    assert_eq!(extracted.load(1).unwrap(), alone.load(1).unwrap());
    assert!(alone.extract(2, &path("none")).is_err());
    assert!(!path("none").exists());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..Default::default()
    })]

    /// Every position is checked: flips any bit of any byte.
    #[test]
    fn notices_any_flipped_bit(at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let mut bundle = SMALL.clone();
        let at = at.index(bundle.len());
        bundle[at] ^= 1 << bit;
        prop_assert!(unpack(bundle.as_slice(), &mut Vec::new()).is_err(), "byte {at}");
    }

    #[test]
    fn survives_arbitrary_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..4096),
        kept in 0..8000_usize,
    ) {
        prop_assert!(unpack(bytes.as_slice(), &mut Vec::new()).is_err());
        let front = &SMALL[..kept.min(SMALL.len() - 1)];
        prop_assert!(unpack([front, &bytes].concat().as_slice(), &mut Vec::new()).is_err());
    }
}
