//! Plans from pipes, and input that is not a plan; the messages and exit codes if something is not
//! found.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode};

use crate::cli::{Cli, End};

const PLAN: &str = "\
name = 'piped'
[[target]]
name = 'here'
path = 'target'
[[workload]]
kind = 'stream'
[factors]
io_size = ['4KiB', '8KiB']
";

/// Passes a plan to the program on stdin.
fn piped(cli: &Cli, args: &[&str], plan: &[u8]) -> End {
    let mut command = cli.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program closes its end if it reads no further.
    let _ = child.stdin.take().unwrap().write_all(plan);
    End::from_output(child.wait_with_output().unwrap())
}

#[test]
fn reads_plan_from_stdin_or_pipe() {
    let cli = Cli::new();
    for name in ["-", "/dev/stdin", "/dev/fd/0"] {
        let end = piped(&cli, &["run", name, "--dry-run"], PLAN.as_bytes());
        assert!(end.code == 0 && end.stdout.contains("8 KiB"), "{name}: {end:?}");
    }
    let program = env!("CARGO_BIN_EXE_dfsbench");
    let script = format!("exec '{program}' run <(cat) --dry-run");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    child.stdin.take().unwrap().write_all(PLAN.as_bytes()).unwrap();
    let end = End::from_output(child.wait_with_output().unwrap());
    assert!(end.code == 0 && end.stdout.contains("8 KiB"), "{end:?}");
    // The manifests contain the plan, which can only be read once.
    let plan = PLAN.replace("'target'", "'/mnt/nfs'");
    let args = ["k8s", "-", "--agents", "2", "--image", "i", "--volume", "c:/mnt/nfs"];
    let end = piped(&cli, &args, plan.as_bytes());
    assert!(end.code == 0 && end.stdout.contains("name = 'piped'"), "{end:?}");
    // A job would have to read it again.
    cli.refused(&["slurm", "-", "--nodes", "2"], 2, &["`-`", "reads the plan again"]);
}

#[test]
fn limits_size_of_plan() {
    let cli = Cli::new();
    let comments = b"# so long a comment\n".repeat(1 << 20);
    let end = piped(&cli, &["run", "-", "--dry-run"], &comments);
    assert!(end.code == 2 && end.stderr.contains("larger than 16 MiB"), "{end:?}");
}

#[test]
fn names_input_that_is_no_plan() {
    let cli = Cli::new();
    let fifo = cli.folder().join("plan.toml");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::create_dir(cli.folder().join("folder.toml")).unwrap();
    for command in [&["run"][..], &["clean"], &["slurm", "--nodes", "2"]] {
        cli.refused(&[command, &["plan.toml"]].concat(), 2, &["`plan.toml`", "it is a FIFO"]);
        let words = ["`folder.toml`", "it is a directory"];
        cli.refused(&[command, &["folder.toml"]].concat(), 2, &words);
    }
    for command in [&["verify", "plan.toml"][..], &["verify", "x", "--rules", "plan.toml"]] {
        cli.refused(command, 2, &["plan.toml", "it is a FIFO"]);
    }
    // The source of a mix is opened in the same way.
    let plan = "name = 'mix'\n[[target]]\nname = 'here'\npath = 'target'\n\
                [[workload]]\nkind = 'op_mix'\nmix_from = 'plan.toml'\n";
    fs::write(cli.folder().join("mix.toml"), plan).unwrap();
    cli.refused(&["run", "mix.toml"], 2, &["mix.toml", "it is a FIFO"]);
}

#[test]
fn rejects_missing_directory_everywhere() {
    let cli = Cli::new();
    for command in ["run", "soak", "curve", "ladder"] {
        let words = ["directory `./missing` does not exist"];
        cli.refused(&[command, "./missing"], 2, &words);
    }
}

#[test]
fn suggests_preset_for_misspelled_word() {
    let cli = Cli::new();
    for (word, meant) in [("quik", "quick"), ("seed004", "seed-004"), ("embeded", "embedded")] {
        let words = [&format!("`{word}`")[..], &format!("did you mean `{meant}`?")];
        cli.refused(&["run", word], 2, &words);
        cli.refused(&["run", word, "--dry-run"], 2, &words);
    }
    cli.refused(&["run", "elsewhere"], 2, &["directory `elsewhere` does not exist"]);
    // If such a directory exists, it is used.
    fs::create_dir(cli.folder().join("quik")).unwrap();
    assert_eq!(cli.run(&["run", "quik", "--dry-run"]).code, 0);
}

#[test]
fn names_bad_tag_or_note() {
    let cli = Cli::new();
    let end = cli.run(&["run", "null", "--quiet", "--trials", "1", "--duration", "50ms"]);
    assert!(cli.folder().join("dfsbench.db").exists(), "{end:?}");
    let long = "x".repeat(100_000);
    for args in [&["tag", "1", "two words"][..], &["note", "1", " "], &["note", "1", &long]] {
        let end = cli.run(args);
        assert_eq!(end.code, 2, "{end:?}");
        assert!(!end.stderr.contains("stored"), "{end:?}");
    }
    let end = cli.run(&["tag", "1", "two words"]);
    assert!(end.stderr.starts_with("error: `two words` "), "{end:?}");
    let end = cli.run(&["import", "dfsbench.db"]);
    assert!(end.stderr.contains("cannot be imported into itself"), "{end:?}");
    assert!(!end.stderr.contains("stored"), "{end:?}");
}
