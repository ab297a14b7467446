//! `dfsbench bundle` and `verify`: made in one place, checked in another, and any change noticed.

use std::fs;
use std::path::{Path, PathBuf};

use results::bundle::{Bundle, pack, unpack};
use rusqlite::Connection;
use serde_json::Value;

use crate::cli::Cli;

/// Measures a campaign with two runs.
fn campaign(cli: &Cli) {
    let usual = ["run", "null", "--workload", "mixed", "--duration", "20ms", "--trials", "3"];
    let end = cli.run(&[&usual[..], &["--workers", "1,2", "--interference", "keep"]].concat());
    assert_eq!(end.code, 0, "{end:?}");
}

/// A bundle of such a campaign.
fn bundle(cli: &Cli) -> PathBuf {
    campaign(cli);
    let end = cli.run(&["bundle"]);
    assert_eq!(end.code, 0, "{end:?}");
    cli.folder().join("result.dfsb")
}

/// Ids of required rules that a bundle breaks, and the exit code.
fn broken(cli: &Cli, bundle: &str) -> (Vec<String>, i32) {
    let end = cli.run(&["verify", bundle, "--json"]);
    let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
    let rules = json["bundles"][0]["rules"].as_array().unwrap();
    let is_broken = |rule: &&Value| rule["met"] == false && rule["severity"] == "required";
    let ids = rules.iter().filter(is_broken);
    (ids.map(|rule| rule["id"].as_str().unwrap().to_owned()).collect(), end.code)
}

/// Packs a bundle again after changing its content: all hashes are right, as a forger would do it.
fn forge(from: &Path, to: &Path, change: impl FnOnce(&mut Bundle, &Connection)) {
    let mut results = Vec::new();
    let mut bundle = unpack(fs::read(from).unwrap().as_slice(), &mut results).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    fs::write(&path, results).unwrap();
    let db = Connection::open(&path).unwrap();
    change(&mut bundle, &db);
    drop(db);
    let Bundle { manifest, texts, .. } = bundle;
    let mut out = Vec::new();
    pack(&mut out, &manifest.packed_by, manifest.campaign, &texts, &path).unwrap();
    fs::write(to, out).unwrap();
}

#[test]
fn is_verified_under_another_root() {
    let (here, there) = (Cli::new(), Cli::new());
    let path = bundle(&here);
    let bytes = fs::read(&path).unwrap();
    here.refused(&["bundle"], 2, &["`result.dfsb` exists", "--force"]);
    let again = here.run(&["bundle", "1", "--force"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stdout.contains("Nothing was sent anywhere"), "{again:?}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    fs::copy(&path, there.folder().join("result.dfsb")).unwrap();
    let verify = ["verify", "result.dfsb", "--json"];
    let (one, other) = (here.run(&verify), there.run(&verify));
    assert_eq!((one.code, other.code), (0, 0), "{one:?}");
    assert_eq!(one.stdout, other.stdout);
    // Other commands read a bundle like a results file.
    let report = there.run(&["report", "result.dfsb"]);
    assert!(report.code == 0 && report.stdout.contains("null"), "{report:?}");
    let compared = there.run(&["compare", "result.dfsb", "result.dfsb"]);
    assert_eq!(compared.code, 0, "{compared:?}");
}

#[test]
fn one_changed_byte_is_invalid() {
    let cli = Cli::new();
    let bytes = fs::read(bundle(&cli)).unwrap();
    // In the manifest, its hash, the plan, the results, and the end.
    let places = [600, 1600, 4_000, bytes.len() / 2, bytes.len() - 700, bytes.len() - 1];
    let names: Vec<String> = places.iter().map(|at| format!("{at}.dfsb")).collect();
    for (at, name) in std::iter::zip(places, &names) {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        fs::write(cli.folder().join(name), changed).unwrap();
    }
    let mut verify = vec!["verify"];
    verify.extend(names.iter().map(String::as_str));
    let end = cli.run(&verify);
    assert_eq!(end.code, 1, "{end:?}");
    assert_eq!(end.stdout.matches("INVALID ").count(), places.len(), "{end:?}");
    assert_eq!(end.stdout.matches("R01  BROKEN").count(), places.len(), "{end:?}");
    cli.refused(&["report", "600.dfsb"], 2, &["600.dfsb", "damaged", "manifest"]);
}

#[test]
fn forged_results_are_invalid() {
    let cli = Cli::new();
    let path = bundle(&cli);
    let forged = |change: &dyn Fn(&mut Bundle, &Connection)| {
        forge(&path, &cli.folder().join("forged.dfsb"), change);
        broken(&cli, "forged.dfsb")
    };
    let sql = |sql: &'static str| {
        move |_: &mut Bundle, db: &Connection| assert!(db.execute(sql, []).unwrap() > 0)
    };
    let expect = |ids: &[&str]| (ids.iter().map(|&id| id.to_owned()).collect(), 1);
    assert_eq!(forged(&|_, _| ()), (Vec::new(), 0));
    let faster = sql("UPDATE passes SET window_ns = window_ns / 2");
    assert_eq!(forged(&faster), expect(&["R05"]));
    let without_bad_trial = |bundle: &mut Bundle, db: &Connection| {
        db.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM trials WHERE id = 2").unwrap();
        bundle.texts.verdicts_json = b"[]".to_vec();
    };
    let (ids, _) = forged(&without_bad_trial);
    assert!(ids.contains(&"R03".to_owned()) && ids.contains(&"R05".to_owned()), "{ids:?}");
    let (ids, _) = forged(&sql("DELETE FROM facts WHERE name = 'kernel'"));
    assert_eq!(ids, ["R02", "R13"]);
    // The plan is changed in both places.
    let (ids, _) = forged(&|bundle, db| {
        let plan = String::from_utf8(bundle.texts.plan_toml.clone()).unwrap();
        let changed = plan.replace("workers = 2\n", "workers = 3\n");
        assert_ne!(plan, changed);
        db.execute("UPDATE campaigns SET plan_toml = ?1", [&changed]).unwrap();
        bundle.texts.plan_toml = changed.into_bytes();
    });
    assert_eq!(ids, ["R04"]);
    let (ids, _) = forged(&|_, db| db.execute_batch("DROP TABLE facts").unwrap());
    assert_eq!(ids, ["R01"]);
}

#[test]
fn unfinished_campaign_needs_consent() {
    let cli = Cli::new();
    campaign(&cli);
    let db = Connection::open(cli.folder().join("dfsbench.db")).unwrap();
    db.execute("UPDATE campaigns SET state = 'interrupted'", []).unwrap();
    drop(db);
    cli.refused(&["bundle"], 2, &["interrupted", "resume 1", "--unfinished"]);
    assert!(!cli.folder().join("result.dfsb").exists());
    assert_eq!(cli.run(&["bundle", "--unfinished"]).code, 0);
    assert_eq!(broken(&cli, "result.dfsb"), (vec!["R03".to_owned()], 1));
}

#[test]
fn explains_wrong_rules_and_files() {
    let cli = Cli::new();
    fs::write(cli.folder().join("rules.toml"), "R99 = 'off'").unwrap();
    fs::write(cli.folder().join("other"), "x").unwrap();
    let verify = |rules, words: &[&str]| cli.refused(&["verify", "x", "--rules", rules], 2, words);
    verify("rules.toml", &["--rules rules.toml", "`R99`", "R01 to R14"]);
    verify("lax", &["--rules lax", "standard, strict"]);
    cli.refused(&["verify", "other"], 2, &["`other`", "not a bundle"]);
    cli.refused(&["verify", "missing"], 2, &["`missing`"]);
    cli.refused(&["verify", "."], 2, &["`.`", "it is a directory"]);
    let rules = cli.run(&["verify", "--list-rules", "--rules", "strict"]);
    assert!(rules.code == 0 && rules.stdout.contains("R14  required"), "{rules:?}");
}
