//! Progress: trials with their levels, correct totals, and lines that fit into 80 columns.

use crate::cli::{Cli, End};
use crate::watching::Terminal;

/// A matrix of four runs on the null target.
const MATRIX: [&str; 13] = [
    "run",
    "null",
    "--workload",
    "mixed",
    "--warmup",
    "0s",
    "--workers",
    "1,2",
    "--io-size",
    "4KiB,1MiB",
    "--trials",
    "1",
    "--duration",
];

/// Writes a plan with a program that fails with these words on stderr.
fn write_failing_plan(cli: &Cli, words: &str) {
    let plan = format!(
        "name = \"app\"\ntrials = 3\n[[target]]\nname = \"d\"\npath = \".\"\n[[workload]]\n\
         kind = \"app\"\nrun = [\"sh\", \"-c\", \"echo {words} >&2; exit 7\"]\n"
    );
    std::fs::write(cli.folder().join("app.toml"), plan).unwrap();
}

#[test]
fn trials_are_named_by_their_levels() {
    let cli = Cli::new();
    let end = cli.run(&[&MATRIX[..], &["50ms"]].concat());
    assert_eq!(end.code, 0, "{end:?}");
    for number in 1..=4 {
        assert!(end.stderr.contains(&format!("{number}/4 null mixed ")), "{}", end.stderr);
    }
    for levels in ["workers 1 4 KiB", "workers 1 1 MiB", "workers 2 4 KiB", "workers 2 1 MiB"] {
        assert!(end.stderr.contains(&format!(" null mixed {levels}: ")), "{}", end.stderr);
    }
}

#[test]
fn says_at_most_for_early_ends() {
    let cli = Cli::new();
    let until = ["--until", "50%", "--trials", "9", "--duration", "50ms"];
    let end = cli.run(&[&["run", "null", "--workload", "mixed"][..], &until].concat());
    assert!(end.stderr.contains("1 of at most 9, null mixed: "), "{}", end.stderr);
}

#[test]
fn prints_failure_reason_once() {
    let cli = Cli::new();
    write_failing_plan(&cli, "PLANTED words");
    let end = cli.run(&["run", "app.toml"]);
    assert_eq!(end.code, 4, "{end:?}");
    assert_eq!(end.stderr.matches("PLANTED").count(), 1, "{}", end.stderr);
    for part in ["1/3 d posix app: failed: ", "2/3 d posix app: failed like trial 1"] {
        assert!(end.stderr.contains(part), "{part}: {}", end.stderr);
    }
    let last = end.stderr.lines().find(|line| line.starts_with("giving up"));
    insta::assert_snapshot!(
        last.unwrap_or(&end.stderr),
        @"giving up on d posix app after 2 failed trials"
    );
    // Nobody can name the step that fixes it.
    assert!(!end.stdout.contains("next:"), "{}", end.stdout);
}

#[test]
fn names_levels_on_80_columns() {
    let cli = Cli::new();
    let terminal = Terminal::sized(80, 24);
    let child = terminal.start(&cli, &[&MATRIX[..], &["500ms"]].concat());
    let end = End::from_output(child.wait_with_output().unwrap());
    assert_eq!(end.code, 0, "{end:?}");
    let lines = terminal.lines();
    let has = |part: &str| lines.iter().any(|line| line.contains(part));
    assert!(has("4/4 null mixed workers ") && has("op/s") && has(" s left"), "{lines:#?}");
    assert!(has("workers 2 1 MiB") && has("workers 1 4 KiB"), "{lines:#?}");
    let is_whole = |line: &&String| line.contains("4/4 null mixed ") && line.ends_with(" s left");
    assert!(lines.iter().any(|line| is_whole(&line)), "{lines:#?}");
}

#[test]
fn messages_break_between_words() {
    let cli = Cli::new();
    let terminal = Terminal::sized(80, 24);
    let words = (0..40).map(|number| format!("planted{number}")).collect::<Vec<_>>();
    write_failing_plan(&cli, &words.join(" "));
    // One message above the bar, and one that ends the program.
    let child = terminal.start(&cli, &["run", "app.toml"]);
    let end = End::from_output(child.wait_with_output().unwrap());
    assert_eq!(end.code, 4, "{end:?}");
    terminal.wait_for("giving up on");
    let child = terminal.start(&cli, &["run", "app.toml", "--watch", "--json-progress", "-"]);
    assert_eq!(End::from_output(child.wait_with_output().unwrap()).code, 2);
    terminal.wait_for("for one of them");
    let child = terminal.start(&cli, &["report", "--format", "planted-word"]);
    assert_eq!(End::from_output(child.wait_with_output().unwrap()).code, 2);
    terminal.wait_for("--help");
    let lines = terminal.lines();
    // If the terminal had wrapped a word, it would not be found.
    for word in words.iter().map(String::as_str).chain(["--json-progress", "stderr", "(hint:"]) {
        let has_word = |line: &String| line.split(' ').any(|part| part == word);
        assert!(lines.iter().any(has_word), "{word}: {lines:#?}");
    }
}
