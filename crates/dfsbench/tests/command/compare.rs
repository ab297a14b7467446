//! `dfsbench compare` and `dfsbench factors` on stored campaigns, and what they refuse.

use rusqlite::Connection;

use crate::rig::Rig;

/// A campaign whose mixes wait: its op rate is known well enough.
fn campaign(rig: &Rig, results: &str, more: &[&str]) {
    let usual = ["run", "null", "--workload", "mixed", "--duration", "20ms", "--trials", "4"];
    let args = [&usual, more, &["--results", results]].concat();
    let end = rig.run(&args);
    assert_eq!(end.code, 0, "{end:?}");
}

/// Copies a results file, in which everything then took 100 times as long.
fn slow_down(rig: &Rig, from: &str, to: &str) {
    let path = rig.folder().join(to);
    std::fs::copy(rig.folder().join(from), &path).unwrap();
    let db = Connection::open(path).unwrap();
    let changed = db.execute("UPDATE passes SET window_ns = window_ns * 100", []).unwrap();
    assert_eq!(changed, 4);
}

#[test]
fn a_loss_ends_with_1_and_none_with_0() {
    let rig = Rig::new();
    campaign(&rig, "fast.db", &[]);
    slow_down(&rig, "fast.db", "slow.db");
    let compare = |before, after| rig.run(&["compare", before, after, "--max-loss", "20%"]);
    let loss = compare("fast.db", "slow.db");
    let gain = compare("slow.db", "fast.db:1");
    let same = compare("fast.db", "fast.db");
    assert_eq!((loss.code, gain.code, same.code), (1, 0, 0), "{loss:?} {gain:?}");
    assert!(loss.stdout.contains("1 lower"), "{}", loss.stdout);
    assert!(gain.stdout.contains("1 higher"), "{}", gain.stdout);
    assert!(same.stdout.contains("0 lower, 0 higher"), "{}", same.stdout);
}

#[test]
fn what_can_not_be_compared_is_not_taken_for_equal() {
    let rig = Rig::new();
    campaign(&rig, "a.db", &[]);
    campaign(&rig, "b.db", &["--io-size", "8KiB"]);
    rig.refused(&["compare", "a.db", "b.db"], 2, &["no row in common", "hint"]);
    let end = rig.run(&["compare", "a.db:1", "b.db", "--max-loss", "5%"]);
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("only before"), "{}", end.stdout);
}

#[test]
fn factors_are_ranked() {
    let rig = Rig::new();
    campaign(&rig, "dfsbench.db", &["--queue-depth", "1,32", "--read-percent", "30,70"]);
    let end = rig.run(&["factors"]);
    assert_eq!(end.code, 0, "{end:?}");
    let depth = end.stdout.find("queue_depth").unwrap();
    assert!(depth < end.stdout.find("read_percent").unwrap(), "{}", end.stdout);
}

#[test]
fn bad_comparisons_are_refused() {
    let rig = Rig::new();
    campaign(&rig, "dfsbench.db", &[]);
    rig.refused(&["compare", "last"], 2, &["two selections", "--where"]);
    rig.refused(&["compare", "1", "9"], 2, &["9"]);
    rig.refused(&["compare", "1", "other.db"], 2, &["other.db"]);
    rig.refused(&["compare", "1", "1", "--where", "sauce=3"], 2, &["sauce", "io_size"]);
    rig.refused(&["compare", "1", "1", "--where", "io_size"], 2, &["NAME=VALUE"]);
    rig.refused(&["compare", "1", "1", "--where", "workers=77"], 2, &["no row of"]);
    rig.refused(&["compare", "1", "1", "--effect", "many"], 2, &["--effect", "many"]);
    rig.refused(&["compare", "1", "1", "--max-loss", "300%"], 2, &["--max-loss", "300%"]);
    rig.refused(&["factors"], 2, &["no factor", "--io-size"]);
}
