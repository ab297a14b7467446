//! Help, completions and man pages exist and contain the essentials.

use crate::cli::{Cli, End};

#[test]
fn suggests_run_without_command_name() {
    let cli = Cli::new();
    for word in ["--quick", "nfs://localhost/export", "/srv/data", "mine.toml", "metadata"] {
        let name = format!("did you mean `dfsbench run {word}`?");
        cli.refused(&[word], 2, &[&name]);
    }
    for word in ["--no-such-option", "no-such-command"] {
        let end = cli.run(&[word]);
        assert!(end.code == 2 && !end.stderr.contains("dfsbench run"), "{end:?}");
    }
}

#[test]
fn every_command_explains_itself() {
    let cli = Cli::new();
    for (args, words) in [
        (&["--help"][..], &["Examples:", "Exit codes", "run", "report", "serve"][..]),
        (&["run", "--help"], &["--io-size", "--workers", "--dry-run", "nfs://host", "--raid"]),
        (&["run", "-h"], &["--io-size", "--quick", "--direct [<BOOL>]", "--dry-run", "--help"]),
        (&["preset", "--help"], &["seed-001", "Examples:"]),
        (&["systems", "--help"], &["check", "Examples:"]),
        (&["curve", "--help"], &["Draws a load curve", "--bound", "--max-load", "LADDIS-like"]),
        (&["report", "--help"], &["--format", "--results"]),
        (&["serve", "--help"], &["--memory", "--port", "--allow", "hang-from-clients"]),
        (&["probe", "--help"], &["--format", "nfs://server"]),
        (&["describe", "--help"], &["--format", "--as-plan", "working set"]),
        (&["replay", "--help"], &["--speed", "--window", "--closed", "nfs://server/export"]),
        (&["capture", "--help"], &["--keep-names", "--output", "tcpdump", "stdin"]),
    ] {
        let end = cli.run(args);
        assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{args:?}");
        for word in words {
            assert!(end.stdout.contains(word), "{args:?}: {word}");
        }
        assert!(end.stdout.lines().all(|line| line.chars().count() <= 100), "{args:?}");
    }
}

#[test]
fn fits_short_help_on_screen() {
    let cli = Cli::new();
    let short = cli.run(&["run", "-h"]).stdout;
    assert!(short.lines().count() <= 52, "{short}");
    assert!(!short.contains("--raid") && !short.contains("--launcher"), "{short}");
    for (command, heading, flag) in [
        ("curve", "Curve:", "--points"),
        ("ramp", "Ramp:", "--raise"),
        ("soak", "Soak:", "--disturb"),
        ("ladder", "Ladder:", "--own-server"),
    ] {
        for help in ["-h", "--help"] {
            let text = cli.run(&[command, help]).stdout;
            let own = text.find(heading);
            let rest = text.find("Factors:");
            assert!(own.is_some() && own < rest, "{command} {help}: {text}");
            assert!(text[..rest.unwrap()].contains(flag), "{command} {help}: {text}");
            assert!(!text.contains("\nOptions:"), "{command} {help}: {text}");
            assert!(text.contains("[default: embedded]"), "{command} {help}: {text}");
        }
    }
    // No heading is wider than its options.
    let long = cli.run(&["run", "--help"]).stdout;
    let job = &long[long.find("Hosts of a job:").unwrap()..];
    assert!(!job[..job.find("Output:").unwrap()].contains("--dry-run"), "{job}");
}

#[test]
fn commands_stand_under_headings() {
    let cli = Cli::new();
    for args in [&["-h"][..], &["--help"], &["help"]] {
        let help = cli.run(args).stdout;
        let mut rest = help.as_str();
        for part in [
            "Usage: dfsbench [COMMAND]\n\nMeasure:\n  run ",
            "\n\nUnderstand:\n  report ",
            "\n\nResults:\n  list ",
            "\n\nTraffic:\n  capture ",
            "\n\nHosts:\n  probe ",
            "\n\nSetup:\n  config ",
            "\n\nOptions:\n  -h, --help",
            "\n\nExamples:\n",
        ] {
            let Some((_, after)) = rest.split_once(part) else {
                panic!("{args:?}: {part}: {help}")
            };
            rest = after;
        }
        assert!(!help.contains("durability-client") && !help.contains('\u{1b}'), "{help}");
    }
}

#[test]
fn examples_are_stacked_on_80_columns() {
    let cli = Cli::new();
    let help = |columns: &str| {
        let mut command = cli.command(&["run", "--help"]);
        End::from_output(command.env("COLUMNS", columns).output().unwrap()).stdout
    };
    let command = "\n  dfsbench run /mnt/data --direct";
    let narrow = help("80");
    assert!(narrow.contains(&format!("{command}\n      a directory, bypassing")), "{narrow}");
    assert!(help("100").contains(&format!("{command}             a directory, bypassing")));
}

#[test]
fn hidden_commands_are_not_suggested() {
    let cli = Cli::new();
    let end = cli.run(&["agnet"]);
    assert_eq!(end.code, 2);
    assert!(!end.stderr.contains("agent"), "{}", end.stderr);
    let end = cli.run(&["reprot"]);
    assert!(end.code == 2 && end.stderr.contains("'report'"), "{}", end.stderr);
}

#[test]
fn lists_prints_and_finds_presets() {
    let cli = Cli::new();
    let listed = cli.run(&["preset"]);
    assert_eq!(listed.code, 0);
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/presets")).unwrap();
    assert_eq!(listed.stdout.lines().count(), files.count(), "{}", listed.stdout);
    let printed = cli.run(&["preset", "metadata"]);
    assert!(printed.stdout.starts_with("# metadata: "), "{}", printed.stdout);
    std::fs::write(cli.folder().join("mine.toml"), &printed.stdout).unwrap();
    assert_eq!(cli.run(&["run", "mine.toml", "--dry-run"]).code, 0);
    cli.refused(&["preset", "metadat"], 2, &["a similar value exists: 'metadata'"]);
    for path in ["presets/seed-001.toml", "seed-001.toml", "seed-001"] {
        let end = cli.run(&["run", path, "--dry-run"]);
        assert!(end.code == 0 && end.stdout.contains("hosts:"), "{path}: {end:?}");
    }
    // The plan is read; its targets can only be used from one host.
    let job = ["slurm", "presets/metadata.toml", "--nodes", "2"];
    cli.refused(&job, 2, &["no target of the plan can be used from the hosts of a job"]);
}

#[test]
fn lists_prints_and_checks_recipes() {
    let cli = Cli::new();
    let listed = cli.run(&["systems"]);
    assert!(listed.code == 0 && listed.stdout.contains("glusterfs  GlusterFS: "), "{listed:?}");
    let recipe = cli.run(&["systems", "show", "moosefs"]).stdout;
    std::fs::write(cli.folder().join("mine.toml"), recipe.replace("\"moosefs\"", "\"mine\""))
        .unwrap();
    let checked = cli.run(&["systems", "check", "mine.toml"]);
    assert!(checked.code == 0 && checked.stdout.starts_with("mine: MooseFS"), "{checked:?}");
    assert!(checked.stdout.contains("setting servers = 3 (1 to 9): "), "{}", checked.stdout);
    std::fs::write(cli.folder().join("bad.toml"), recipe.replace("{servers}", "{sevrers}"))
        .unwrap();
    std::fs::write(cli.folder().join("new.toml"), recipe.replace("\ntried = ", "\nnot_tried = "))
        .unwrap();
    let untried = cli.run(&["systems", "check", "new.toml"]);
    assert!(untried.stdout.contains("\nnot tried by the authors: moosefs"), "{untried:?}");
    let listed: Vec<_> = listed.stdout.split_whitespace().collect();
    let mark = "(not tried by the authors)";
    assert_eq!(listed.join(" ").matches(mark).count(), 3, "{listed:?}");
    let wrong = [
        "error: bad.toml has ",
        "\nbad.toml:79:10: file 4.count: there is no variable `sevrers` (hint: one of address, ",
        "\nbad.toml:111:10: step 4.count: ",
    ];
    cli.refused(&["systems", "check", "bad.toml"], 2, &wrong);
    cli.refused(&["systems", "check", "none.toml"], 2, &["can't read recipe `none.toml`"]);
    let new = cli.run(&["systems", "new", "own"]);
    assert!(new.code == 0 && new.stderr.contains("wrote own.toml: fill in the lines"), "{new:?}");
    cli.refused(&["systems", "check", "own.toml"], 2, &["own.toml:11:9: title: must be one line"]);
    cli.refused(&["systems", "new", "own"], 2, &["own.toml already exists"]);
    cli.refused(&["systems", "new", "../own"], 2, &["`../own` is not a name"]);
    cli.refused(&["systems", "new", "ganesha"], 2, &["`ganesha` is a built-in recipe"]);
    cli.refused(&["systems", "show", "moosef"], 2, &["a similar value exists: 'moosefs'"]);
    let plan = "name = \"p\"\n[[host]]\nname = \"s\"\n[[target]]\nname = \"t\"\nserver = \"s\"\n\
                system = \"mine.toml\"\n[target.settings]\nservers = 2\n[[workload]]\n\
                kind = \"stream\"\n";
    std::fs::write(cli.folder().join("plan.toml"), plan).unwrap();
    let bad = plan.replace("mine.toml", "bad.toml");
    std::fs::write(cli.folder().join("bad-plan.toml"), bad).unwrap();
    cli.refused(&["run", "bad-plan.toml", "--dry-run"], 2, &["`dfsbench systems check` lists "]);
    let dry = cli.run(&["run", "plan.toml", "--dry-run"]);
    let start = "mfschunkserver -c /run/dfsbench/systems/mine/chunk2.cfg -f start &";
    assert!(dry.code == 0 && dry.stdout.contains(start), "{dry:?}");
}

#[test]
fn accepts_flags_as_people_write_them() {
    let cli = Cli::new();
    let dry = |flags: &[&str]| {
        let end = cli.run(&[&["run", "null", "--workload", "mixed", "--dry-run"], flags].concat());
        assert_eq!(end.code, 0, "{flags:?}: {end:?}");
        end.stdout
    };
    assert!(dry(&["--workers", "1..8*2"]).contains("4 runs x 5 trials"));
    assert!(dry(&["--skew", "0,1.1"]).contains("2 runs"));
    assert!(dry(&["--quick", "--duration", "1m30s"]).contains("1 run x 3 trials"));
    assert!(dry(&["--thorough", "--trials", "2"]).contains("1 run x 2 trials"));
    // A bare flag doesn't consume the word after it.
    let target = cli.target().display().to_string();
    for flags in
        [&["--direct", &target][..], &["--direct", "yes", &target], &["--direct=1", &target]]
    {
        let run = ["run", "--workload", "mixed", "--dry-run"];
        let end = cli.run(&[&run[..], flags].concat());
        assert!(end.code == 0 && end.stdout.contains("1 run x 5 trials"), "{flags:?}: {end:?}");
    }
}

#[test]
fn uses_given_campaign_name() {
    let cli = Cli::new();
    let run = ["run", "null", "--workload", "mixed", "--quick", "--duration", "50ms"];
    let end = cli.run(&[&run[..], &["--name", "nightly 7", "--quiet"]].concat());
    assert!(end.stdout.starts_with("nightly 7: "), "{end:?}");
    assert!(cli.run(&["list"]).stdout.contains("nightly 7"));
    cli.refused(&[&run[..], &["--name", ""]].concat(), 2, &["--name: must be 1 to 64"]);
}

#[test]
fn generates_completions_and_manual() {
    let cli = Cli::new();
    for shell in ["bash", "zsh", "fish"] {
        let end = cli.run(&["completions", shell]);
        assert!(end.code == 0 && end.stdout.contains("io-size"), "{shell}");
        assert!(!end.stdout.contains("--pushed"), "{shell} completes a hidden option");
        for word in ["4.1", "op_mix", "sfs3-like-v3"] {
            assert!(end.stdout.contains(word), "{shell}: {word}");
        }
        // fish doesn't complete positional arguments.
        assert!(end.stdout.contains("seed-003") || shell == "fish", "{shell}");
    }
    let end = cli.run(&["man"]);
    assert!(end.code == 0 && end.stdout.contains(".TH dfsbench 1"), "{end:?}");
    for part in [".SH COMMANDS\n.SS Measure\n.TP\ndfsbench\\-run(1)\n", ".SS Setup\n"] {
        assert!(end.stdout.contains(part), "{part}: {}", end.stdout);
    }
    let pages = cli.folder().join("man");
    std::fs::create_dir(&pages).unwrap();
    assert_eq!(cli.run(&["man", "--directory", "man"]).code, 0);
    let page = std::fs::read_to_string(pages.join("dfsbench-run.1")).unwrap();
    assert!(page.contains("Show no progress"), "{page}");
    let sections: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix(".SH "))
        .map(|title| title.trim_matches('"').to_owned())
        .collect();
    let wanted = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "FILES", "EXIT STATUS"];
    for section in wanted {
        assert!(sections.iter().any(|title| title == section), "{section}: {sections:?}");
    }
    assert_eq!(sections.last().unwrap(), "SEE ALSO");
}

#[test]
fn rejects_unknown_flag() {
    let end = Cli::new().run(&["run", "--io-sise", "4KiB"]);
    assert_eq!(end.code, 2);
    assert!(end.stderr.contains("--io-size"), "{}", end.stderr);
}
