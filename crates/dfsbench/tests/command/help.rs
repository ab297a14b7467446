//! Help, completions and manual pages exist and say the main things.

use crate::rig::Rig;

#[test]
fn every_command_explains_itself() {
    let rig = Rig::new();
    for (args, words) in [
        (&["--help"][..], &["Examples:", "Exit codes", "run", "report", "serve"][..]),
        (&["run", "--help"], &["--io-size", "--workers", "--dry-run", "nfs://host"]),
        (&["curve", "--help"], &["Draws a load curve", "--bound", "--max-load", "LADDIS-like"]),
        (&["report", "--help"], &["--format", "--results"]),
        (&["serve", "--help"], &["--memory", "--port", "--allow", "hang-from-clients"]),
        (&["probe", "--help"], &["--format", "nfs://server"]),
    ] {
        let end = rig.run(args);
        assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{args:?}");
        for word in words {
            assert!(end.stdout.contains(word), "{args:?}: {word}");
        }
        assert!(end.stdout.lines().all(|line| line.chars().count() <= 100), "{args:?}");
    }
}

#[test]
fn completions_and_manual_come_from_the_same_source() {
    let rig = Rig::new();
    for shell in ["bash", "zsh", "fish"] {
        let end = rig.run(&["completions", shell]);
        assert!(end.code == 0 && end.stdout.contains("io-size"), "{shell}");
    }
    let end = rig.run(&["man"]);
    assert!(end.code == 0 && end.stdout.contains(".TH dfsbench 1"), "{end:?}");
    let pages = rig.folder().join("man");
    std::fs::create_dir(&pages).unwrap();
    assert_eq!(rig.run(&["man", "--directory", "man"]).code, 0);
    assert!(pages.join("dfsbench-run.1").exists());
}

#[test]
fn an_unknown_flag_is_a_usage_error() {
    let end = Rig::new().run(&["run", "--io-sise", "4KiB"]);
    assert_eq!(end.code, 2);
    assert!(end.stderr.contains("--io-size"), "{}", end.stderr);
}
