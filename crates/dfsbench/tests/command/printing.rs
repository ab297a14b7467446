//! No outside text controls the terminal: each source of text, on stdout, stderr and the bar.

use std::os::unix::fs::PermissionsExt as _;

use model::printable::is_steering;
use nfs_server::{Server, ServerConfig};
use serde_json::Value;

use crate::cli::{Cli, End};
use crate::strange::{self, FORMATS};
use crate::watching::Terminal;

/// Control sequences in C0 and C1 that set a title, clear the screen, move the cursor and reverse
/// text, plus a word to search for.
const STEERING: &str = "PLANTED\x1b]0;t\x07\x1b[2J\r\u{7f}\u{9b}31m\u{202e}\u{2066}";

/// Checks that a planted text arrived, and that nothing in the output controls a terminal.
fn assert_printable(what: &str, end: &End) {
    let output = format!("{}{}", end.stdout, end.stderr);
    assert!(output.contains("PLANTED"), "{what}: {output:?}");
    assert!(!output.contains(is_steering), "{what}: {output:?}");
    assert!(!output.contains("panicked"), "{what}: {output:?}");
}

#[test]
fn prints_exports_of_servers() {
    let exports = vec!["/export".to_owned(), format!("/{STEERING}\nerror: forged")];
    let server = Server::start(ServerConfig { exports, ..ServerConfig::default() }).unwrap();
    let port = server.address().port();
    let url = |path: &str| format!("nfs://127.0.0.1:{port}{path}?mountport={port}");
    let cli = Cli::new();
    let root = url("/");
    let wrong = url("/no");
    let whole = [&["probe", &root][..], &["probe", &root, "--format", "json"]];
    for args in whole {
        let end = cli.run(args);
        assert_eq!(end.code, 0, "{end:?}");
        assert_printable(&args.join(" "), &end);
        let is_json = args.contains(&"json");
        assert!(!end.stdout.lines().any(|line| line.starts_with("error: forged")), "{end:?}");
        assert!(!is_json || serde_json::from_str::<Value>(&end.stdout).is_ok(), "{end:?}");
    }
    // The hint for a wrong path lists the right ones.
    for args in [&["probe", &wrong][..], &["run", &wrong, "--trials", "1"]] {
        let end = cli.run(args);
        assert_eq!(end.code, 3, "{end:?}");
        assert_printable(&args.join(" "), &end);
        let errors = end.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(errors, 1, "{end:?}");
    }
}

#[test]
fn prints_texts_of_results_files() {
    let cli = strange::changed(&format!(
        "UPDATE campaigns SET name = '{STEERING}', command = '{STEERING}',
             tool_version = '{STEERING}', plan_toml = '# {STEERING}';
         UPDATE runs SET target_name = '{STEERING}', target = '{STEERING}',
             spec_json = json_set(spec_json, '$.target_name', '{STEERING}');
         UPDATE facts SET value = '{STEERING}', source = '{STEERING}';
         UPDATE caveats SET evidence = '{STEERING}';
         INSERT INTO tags (campaign_id, tag) VALUES (1, '{STEERING}');
         INSERT INTO notes (campaign_id, written_unix_ms, text) VALUES (1, 0, '{STEERING}');
         INSERT INTO caveats (pass_id, code, severity, evidence)
             SELECT id, 'cached', 'degraded', '{STEERING}' FROM passes;
         UPDATE trials SET state = 'failed', reason = '{STEERING}'
             WHERE id = (SELECT max(id) FROM trials)"
    ));
    let others: [&[&str]; 8] = [
        &["list"],
        &["list", "--format", "json"],
        &["show"],
        &["show", "--json"],
        &["show", "--plan"],
        &["rm", "1"],
        &["compare", "1", "1"],
        &["compare", "1", "1", "--format", "json"],
    ];
    let reports = FORMATS.map(|format| ["report", "--format", format]);
    for args in reports.iter().map(<[&str; 3]>::as_slice).chain(others) {
        let end = cli.run(args);
        // These formats show nothing of this campaign.
        if args.iter().any(|arg| ["bonnie", "iozone", "seed", "sar"].contains(arg)) {
            continue;
        }
        assert_printable(&args.join(" "), &end);
        let is_json = args.iter().any(|arg| arg.ends_with("json"));
        assert!(!is_json || serde_json::from_str::<Value>(&end.stdout).is_ok(), "{end:?}");
    }
    // Files are displayed by other programs.
    assert_eq!(cli.run(&["report", "-o", "table.txt", "--format", "table"]).code, 0);
    let stdout = std::fs::read_to_string(cli.folder().join("table.txt")).unwrap();
    assert_printable("-o", &End { code: 0, stdout, stderr: String::new() });
}

#[test]
fn prints_names_of_files() {
    let cli = Cli::new();
    let name = format!("dir-{STEERING}");
    std::fs::create_dir(cli.folder().join(&name)).unwrap();
    std::fs::write(cli.folder().join(&name).join("plan.toml"), format!("# {STEERING}")).unwrap();
    let plan = format!("{name}/plan.toml");
    let short = ["--workload", "stream", "--file-size", "64KiB", "--trials", "1"];
    let target = format!("./{name}");
    let on_it = [&["run", &target][..], &short].concat();
    assert_eq!(cli.run(&on_it).code, 0);
    for args in [
        &["report", "--format", "json"][..],
        &["run", &plan],
        &["report", &name],
        &["clean", &plan],
    ] {
        assert_printable(&args.join(" "), &cli.run(args));
    }
}

/// A plan with a command that fails with a text on stderr.
fn write_failing_plan(cli: &Cli) {
    std::fs::write(cli.folder().join("words"), STEERING).unwrap();
    let plan = "name = \"app\"\ntrials = 1\n[[target]]\nname = \"d\"\npath = \".\"\n[[workload]]\n\
                kind = \"app\"\nrun = [\"sh\", \"-c\", \"cat ../words words >&2; exit 7\"]\n";
    std::fs::write(cli.folder().join("app.toml"), plan).unwrap();
}

#[test]
fn prints_output_of_other_programs() {
    let cli = Cli::new();
    write_failing_plan(&cli);
    for flags in [&[][..], &["--format", "json"], &["--quiet", "--json-progress", "-"]] {
        let end = cli.run(&[&["run", "app.toml"], flags].concat());
        assert_eq!(end.code, 4, "{end:?}");
        assert_printable(&flags.join(" "), &end);
    }
    // On a terminal there is a bar, and the failure is printed above it.
    let terminal = Terminal::open();
    let child = terminal.start(&cli, &["run", "app.toml"]);
    let end = End::from_output(child.wait_with_output().unwrap());
    assert_printable("stdout beside the bar", &end);
    terminal.wait_for("PLANTED");
    let drawn = terminal.text();
    for part in ["\x1b]0", "\x1b[2J\r", "\u{9b}", "\u{7f}", "\u{202e}", "\u{2066}", "\x07"] {
        assert!(!drawn.contains(part), "{part:?} in {drawn:?}");
    }
}

#[test]
fn prints_messages_of_ssh() {
    let cli = Cli::new();
    let ssh = cli.folder().join("ssh");
    let text = STEERING.replace('\x1b', "\\033").replace('\x07', "\\007").replace('\r', "\\015");
    std::fs::write(&ssh, format!("#!/bin/sh\nprintf '{text}' >&2\nexit 255\n")).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let plan = "name = \"t\"\n[[host]]\nname = \"one\"\nssh = \"h1\"\n[[target]]\nname = \"d\"\n\
                path = \"/mnt\"\nhosts = [\"one\"]\n[[workload]]\nkind = \"stream\"\n";
    std::fs::write(cli.folder().join("hosts.toml"), plan).unwrap();
    let path = format!("{}:{}", cli.folder().display(), std::env::var("PATH").unwrap());
    for args in [&["run", "hosts.toml"][..], &["clean", "--host", "h1"]] {
        let end = End::from_output(cli.command(args).env("PATH", &path).output().unwrap());
        assert_eq!(end.code, 3, "{end:?}");
        assert_printable(&args.join(" "), &end);
    }
}

#[test]
fn prints_words_of_the_command_line() {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("p.toml"), "\"PLANTED\\u001b[2J\\u202e\" = 1\n").unwrap();
    for args in [
        &["report", STEERING][..],
        &[STEERING],
        &["run", "p.toml"],
        &["run", "null", "--workload", STEERING],
        &["replay", STEERING, "null"],
        &["run", "null", &format!("--{STEERING}")],
    ] {
        let end = cli.run(args);
        assert_eq!(end.code, 2, "{args:?}: {end:?}");
        assert_printable(&format!("{args:?}"), &end);
    }
}

#[test]
fn leaves_letters_of_all_scripts_alone() {
    let cli = Cli::new();
    let name = "Grüße 日本語 שלום";
    std::fs::create_dir(cli.folder().join(name)).unwrap();
    let short = ["--workload", "stream", "--file-size", "64KiB", "--trials", "1", "--quiet"];
    let end = cli.run(&[&["run", &format!("./{name}"), "--name", name], &short[..]].concat());
    let list = cli.run(&["list"]);
    assert!(list.stdout.contains(name), "{end:?} {list:?}");
    assert!(!list.stdout.contains('\u{fffd}'), "{list:?}");
}
