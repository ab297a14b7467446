//! Forged records, as a directory of results from elsewhere may contain them: only directories
//! created by this program are removed, and each record that is not followed is reported.

use std::fs;
use std::path::{Path, PathBuf};

use engine::target::mount_options;
use model::Target;
use nfs_client::Mount;
use serde_json::{Value, json};

use crate::cli::{Cli, ServedProcess};
use crate::killed::export_target;

const TREE: &str = "dfsbench-replay-0123456789abcdef";

/// Writes a record next to the results file `r.db`, as an archive would unpack it.
fn forge(cli: &Cli, campaign: &str, target: &Value, tree: &str) -> PathBuf {
    let path = cli.folder().join(format!("r.db-work-{campaign}.lock"));
    let worked = json!({"target": target, "hosts": [], "tree": tree});
    let record = json!({"campaign": campaign, "pid": 1, "targets": [worked]});
    fs::write(&path, record.to_string()).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(&path, mode).unwrap();
    path
}

fn directory(path: &Path) -> Value {
    json!({"kind": "directory", "path": path})
}

#[test]
fn clean_refuses_forged_records() {
    let cli = Cli::new();
    let precious = cli.folder().join("precious");
    fs::create_dir_all(precious.join("dear")).unwrap();
    std::os::unix::fs::symlink(cli.folder(), cli.target().join("link")).unwrap();
    let absolute = precious.display().to_string();
    let cases = [
        (cli.folder().to_owned(), "precious"),
        (cli.target(), "../precious"),
        (cli.target(), absolute.as_str()),
        (precious.clone(), "."),
        (precious.join("dear"), ".."),
        (cli.target(), "link/precious"),
        (cli.target().join("link"), "precious"),
    ];
    for (target, tree) in cases {
        for campaign in ["x", TREE] {
            let record = forge(&cli, campaign, &directory(&target), tree);
            let end = cli.run(&["clean", "--results", "r.db"]);
            assert_eq!(end.code, 3, "{tree}: {end:?}");
            let name = record.file_name().unwrap().to_str().unwrap();
            assert!(end.stderr.contains(&format!("{name}: ")), "{tree}: {end:?}");
            assert!(end.stderr.contains("clean --forget"), "{tree}: {end:?}");
            assert!(precious.join("dear").exists(), "{tree} was removed");
            assert!(record.exists());
            // A command can forget the record, and the named directories stay.
            let forgotten = cli.run(&["clean", "--results", "r.db", "--forget"]);
            assert_eq!(forgotten.code, 0, "{tree}: {forgotten:?}");
            assert!(forgotten.stdout.contains("forgotten: "), "{forgotten:?}");
            assert!(!record.exists() && precious.join("dear").exists());
        }
    }
}

#[test]
fn clean_removes_only_marked_tree() {
    let cli = Cli::new();
    let tree = cli.target().join(TREE);
    fs::create_dir_all(tree.join("tree/dear")).unwrap();
    let record = forge(&cli, TREE, &directory(&cli.target()), TREE);
    let end = cli.run(&["clean", "--results", "r.db"]);
    assert_eq!(end.code, 3, "{end:?}");
    assert!(end.stderr.contains(&format!("has no directory {TREE}.campaign")), "{end:?}");
    assert!(tree.join("tree/dear").exists());
    fs::create_dir(tree.join(format!("{TREE}.campaign"))).unwrap();
    let end = cli.run(&["clean", "--results", "r.db"]);
    assert_eq!(end.code, 0, "{end:?}");
    assert!(end.stdout.contains(&format!("{TREE}\n")), "{end:?}");
    cli.assert_target_is_empty();
    assert!(!record.exists());
}

#[test]
fn removes_only_marked_tree() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &[]);
    let target = export_target(&served.url);
    let mut mount = Mount::connect(&mount_options(&target)).unwrap();
    let target = json!(Target::Nfs(target));
    let root = mount.root();
    let clean = || cli.run(&["clean", "--results", "r.db"]);

    let precious = mount.mkdir(root, "precious").unwrap();
    mount.mkdir(precious, "dear").unwrap();
    let record = forge(&cli, "precious", &target, "precious");
    let end = clean();
    assert!(end.code == 3 && end.stderr.contains("ignoring the record"), "{end:?}");
    mount.lookup(precious, "dear").unwrap();
    fs::remove_file(record).unwrap();

    // A file with the name of the mark is not a mark.
    let made = mount.mkdir(root, TREE).unwrap();
    let mark = format!("{TREE}.campaign");
    // Names in a tree come from a trace and don't reveal the type of a file.
    let tree = mount.mkdir(made, "tree").unwrap();
    mount.mkdir(tree, "a").unwrap();
    mount.create(tree, "text").unwrap();
    mount.create(made, &mark).unwrap();
    let record = forge(&cli, TREE, &target, TREE);
    let end = clean();
    assert!(end.code == 3 && end.stderr.contains("has no directory"), "{end:?}");
    mount.lookup(tree, "a").unwrap();

    mount.remove(made, &mark).unwrap();
    mount.mkdir(made, &mark).unwrap();
    let end = clean();
    assert_eq!(end.code, 0, "{end:?}");
    assert!(mount.lookup(root, TREE).is_err() && !record.exists());
    mount.lookup(precious, "dear").unwrap();
}
