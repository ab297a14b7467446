//! Output files named by the user: which kinds are allowed, and which must never be replaced.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};

use crate::cli::Cli;

const RUN: [&str; 6] = ["run", "null", "--duration", "100ms", "--results", "ok.db"];

#[test]
fn never_replaces_results() {
    let cli = Cli::new();
    assert_eq!(cli.run(&RUN).code, 0);
    let results = cli.folder().join("ok.db");
    let before = fs::read(&results).unwrap();
    std::os::unix::fs::symlink("ok.db", cli.folder().join("link")).unwrap();
    for output in ["ok.db", "./ok.db", "link", "ok.db-wal", "ok.db-shm", "ok.db-journal"] {
        let words = [output, "results file", "hint"];
        cli.refused(&["report", "--results", "ok.db", "-o", output], 2, &words);
        let compare = ["compare", "1", "1", "--results", "ok.db", "-o", output];
        cli.refused(&compare, 2, &words);
    }
    cli.refused(&["serve", "--tls", "--tls-ca-out", "ok.db"], 2, &["ok.db", "database"]);
    let mut progress = RUN.to_vec();
    progress.extend(["--json-progress", "ok.db"]);
    cli.refused(&progress, 2, &["ok.db", "results file"]);
    assert_eq!(fs::read(&results).unwrap(), before);
    assert!(!cli.folder().join("ok.db-wal").exists());
}

#[test]
fn writes_to_irregular_files() {
    let cli = Cli::new();
    assert_eq!(cli.run(&RUN).code, 0);
    let report = |output: &str| cli.run(&["report", "--results", "ok.db", "-o", output]);
    assert_eq!(report("/dev/null").code, 0);
    let full = report("/dev/full");
    assert_eq!(full.code, 3, "{full:?}");
    assert!(full.stderr.contains("/dev/full: No space left on device"), "{full:?}");
    for device in ["/dev/null", "/dev/full"] {
        assert!(fs::metadata(device).unwrap().file_type().is_char_device(), "{device}");
    }
    let shown = report("/dev/stdout");
    assert_eq!(shown.code, 0, "{shown:?}");
    assert_eq!(shown.stdout, cli.run(&["report", "--results", "ok.db"]).stdout);
    cli.refused(&["report", "--results", "ok.db", "-o", "."], 2, &["`.`", "a directory"]);
}

#[test]
fn keeps_mode_and_follows_links() {
    let cli = Cli::new();
    assert_eq!(cli.run(&RUN).code, 0);
    let page = cli.folder().join("page.txt");
    fs::write(&page, "old").unwrap();
    fs::set_permissions(&page, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("page.txt", cli.folder().join("link")).unwrap();
    for output in ["page.txt", "link"] {
        assert_eq!(cli.run(&["report", "--results", "ok.db", "-o", output]).code, 0);
    }
    let found = fs::metadata(&page).unwrap();
    assert_eq!(found.mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&page).unwrap().contains("null"));
    assert!(fs::symlink_metadata(cli.folder().join("link")).unwrap().is_symlink());
}
