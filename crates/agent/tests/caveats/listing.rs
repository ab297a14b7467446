//! Listings of directories that are not what they should be, and how they were listed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fleet::PassEnd;
use model::{ListingWork, NfsVersion, Pass, RunSpec, Share, Target, Workload};
use nfs_server::{Server, ServerConfig};

use crate::driven_agent::{DrivenAgent, nfs, stream};

const FILES: u32 = 3_000;

/// A run that lists a flat directory.
fn listing(on: &RunSpec) -> RunSpec {
    let passes = Workload::Listing.passes().to_vec();
    let mut spec = RunSpec { workload: Workload::Listing, files: FILES, passes, ..on.clone() };
    spec.file_size_bytes = 3;
    spec
}

/// Runs a pass in a directory that is changed before it.
fn run_changed(pass: Pass, change: impl Fn(&Path)) -> PassEnd {
    let directory = tempfile::tempdir().unwrap();
    let spec = RunSpec { passes: vec![pass], ..listing(&stream(directory.path())) };
    let mut agent = DrivenAgent::new();
    let work = ".dfsbench-listing-1";
    agent.join(&spec, work, Share::whole(spec.workers));
    change(&directory.path().join(work).join("t00000000"));
    agent.run_prepared(pass)
}

fn accounting(end: &PassEnd) -> Vec<&str> {
    let caveats = end.result.caveats.iter().filter(|caveat| caveat.code.code() == "accounting");
    caveats.map(|caveat| &*caveat.evidence).collect()
}

fn first_match(directory: &Path) -> PathBuf {
    directory.join("f00000010")
}

#[test]
fn accepts_unchanged_directories() {
    for pass in [Pass::List, Pass::ListStat, Pass::Find] {
        assert_eq!(accounting(&run_changed(pass, |_| ())), [""; 0], "{pass}");
    }
}

#[test]
fn detects_added_and_missing_entries() {
    for pass in [Pass::List, Pass::ListStat, Pass::Find] {
        let more = run_changed(pass, |path| std::fs::write(path.join("other"), "").unwrap());
        let expected = "recorded 3001, found 3000 (entries created in the directories)";
        assert_eq!(accounting(&more), [expected], "{pass}");
        let fewer = run_changed(pass, |path| std::fs::remove_file(path.join("f00000003")).unwrap());
        let expected = "recorded 2999, found 3000 (entries created in the directories)";
        assert_eq!(accounting(&fewer), [expected], "{pass}");
    }
}

#[test]
fn detects_files_that_find_misses() {
    let count = 3_000;
    let named = |file: u32| format!("f{file:08}").contains("01");
    let matches = (0..count).step_by(2).filter(|file| named(*file)).count();
    let expected =
        format!("recorded {matches}, found {} (files to be found, found by find)", matches - 1);
    let longer = run_changed(Pass::Find, |path| {
        std::fs::write(first_match(path), "longer").unwrap();
    });
    assert_eq!(accounting(&longer), [&*expected]);
    let older = run_changed(Pass::Find, |path| {
        let file = std::fs::File::options().write(true).open(first_match(path)).unwrap();
        let days = Duration::from_secs(2 * 24 * 60 * 60);
        let written = file.metadata().unwrap().modified().unwrap();
        file.set_modified(written - days).unwrap();
    });
    assert_eq!(accounting(&older), [&*expected]);
    let directory = run_changed(Pass::Find, |path| {
        std::fs::remove_file(first_match(path)).unwrap();
        std::fs::create_dir(first_match(path)).unwrap();
    });
    assert_eq!(accounting(&directory), [&*expected]);
    assert_eq!(longer.result.scope.listing.unwrap().matches, matches as u64 - 1);
}

/// Lists a directory on our server with a version, with or without READDIRPLUS.
fn listed(version: NfsVersion, readdirplus: bool, pass: Pass) -> ListingWork {
    let server = Arc::new(Server::start(ServerConfig::default()).unwrap());
    let mut spec = RunSpec { passes: vec![pass], ..listing(&nfs(&server)) };
    let Target::Nfs(target) = &mut spec.target else { unreachable!() };
    target.settings.version = version;
    target.settings.readdirplus = readdirplus;
    let mut agent = DrivenAgent::beside(&server);
    agent.begin(&spec);
    let end = agent.run(pass);
    assert_eq!(accounting(&end), [""; 0], "{version} {pass}");
    assert_eq!(end.result.ops(), u64::from(FILES));
    end.result.scope.listing.unwrap()
}

fn calls(listing: &ListingWork) -> Vec<(&str, u64)> {
    listing.calls.iter().map(|calls| (&*calls.procedure, calls.count)).collect()
}

#[test]
fn counts_round_trips_of_versions() {
    for version in [NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_1, NfsVersion::V4_2] {
        let names = listed(version, true, Pass::List);
        let attributes = listed(version, true, Pass::ListStat);
        let [("READDIR", pages)] = calls(&names)[..] else { panic!("{names:?}") };
        let [(procedure, larger)] = calls(&attributes)[..] else { panic!("{attributes:?}") };
        let is_v4 = version != NfsVersion::V3;
        assert_eq!(procedure, if is_v4 { "READDIR with attributes" } else { "READDIRPLUS" });
        assert!((1..10).contains(&pages) && larger > pages, "{version}: {pages}, {larger}");
        // The name, an id and a cookie; and some hundred bytes of attributes.
        let per_entry = |listing: &ListingWork| listing.reply_bytes / u64::from(FILES);
        assert!((30..80).contains(&per_entry(&names)), "{version}: {names:?}");
        assert!((100..300).contains(&per_entry(&attributes)), "{version}: {attributes:?}");
    }
}

#[test]
fn looks_names_up_without_readdirplus() {
    let matches = listed(NfsVersion::V3, true, Pass::Find).matches;
    for version in NfsVersion::ALL.iter().copied() {
        // Version 2 has no READDIRPLUS.
        let readdirplus = version == NfsVersion::V2;
        let attributes = listed(version, readdirplus, Pass::ListStat);
        let lookups = calls(&attributes).iter().find(|call| call.0 == "LOOKUP").unwrap().1;
        assert_eq!(lookups, u64::from(FILES), "{version}");
        let found = listed(version, readdirplus, Pass::Find);
        let lookups = calls(&found).iter().find(|call| call.0 == "LOOKUP").unwrap().1;
        let named = (0..FILES).filter(|file| format!("f{file:08}").contains("01")).count();
        assert_eq!(lookups, named as u64, "only names that fit, {version}");
        assert_eq!(found.matches, matches);
    }
}
