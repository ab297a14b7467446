//! Default flags from the configuration file and the environment.

use std::process::Command;

use crate::cli::{Cli, End};

/// A short run that only measures the program.
const RUN: [&str; 6] = ["run", "null", "--workload", "stream", "--format", "csv"];

impl Cli {
    /// Writes the configuration file.
    fn configure(&self, text: &str) {
        let folder = self.folder().join("config/dfsbench");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), text).unwrap();
    }
}

fn end(command: &mut Command) -> End {
    End::from_output(command.output().unwrap())
}

#[test]
fn prefers_flags_over_environment_over_file() {
    let cli = Cli::new();
    cli.configure("results = 'of-file.db'\n[run]\ntrials = 2\nquiet = true\n");
    assert_eq!(cli.run(&RUN).code, 0);
    assert_eq!(end(cli.command(&RUN).env("DFSBENCH_RESULTS", "of-variable.db")).code, 0);
    let given = [&RUN[..], &["--results", "given.db", "--trials", "1"]].concat();
    assert_eq!(end(cli.command(&given).env("DFSBENCH_RESULTS", "of-variable.db")).code, 0);
    for (file, trials) in [("of-file.db", 2), ("of-variable.db", 2), ("given.db", 1)] {
        let list = cli.run(&["list", "--results", file, "--format", "csv"]).stdout;
        let shown = cli.run(&["show", "--results", file, "--plan"]).stdout;
        assert_eq!(list.lines().count(), 2, "{file}: {list}");
        assert!(shown.contains(&format!("trials = {trials}\n")), "{file}: {shown}");
    }
    assert!(!cli.folder().join("dfsbench.db").exists());
    // An empty variable counts as not set.
    let listed = end(cli.command(&["list"]).env("DFSBENCH_RESULTS", ""));
    assert_eq!(listed.code, 0, "{listed:?}");
}

#[test]
fn stores_configured_values_like_flags() {
    let cli = Cli::new();
    cli.configure("[run]\nio_size = ['4KiB', '64KiB']\ntrials = 1\nseed = 7\n");
    assert_eq!(cli.run(&RUN).code, 0);
    let shown = cli.run(&["show", "--json"]).stdout;
    assert!(shown.contains("--io-size=4KiB --io-size=64KiB"), "{shown}");
    let plan = cli.run(&["show", "--plan"]).stdout;
    cli.configure("");
    let flags = ["--io-size", "4KiB,64KiB", "--trials", "1", "--seed", "7"];
    assert_eq!(cli.run(&[&RUN[..], &flags].concat()).code, 0);
    assert_eq!(cli.run(&["show", "--plan"]).stdout, plan);
}

#[test]
fn prefers_plan_over_configuration() {
    let cli = Cli::new();
    cli.configure("[run]\nio_size = '4KiB'\nfile_size = '8MiB'\nquick = true\n");
    let plan = "name = \"p\"\n[[target]]\nname = \"t\"\npath = \"target\"\n\
                [[workload]]\nkind = \"stream\"\nio_size = \"1MiB\"\n";
    std::fs::write(cli.folder().join("plan.toml"), plan).unwrap();
    let dry = cli.run(&["run", "plan.toml", "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    // Each trial writes 8 MiB; a size of 4 KiB would show up.
    assert!(dry.stdout.contains("8 MiB") && !dry.stdout.contains("4 KiB"), "{}", dry.stdout);
    assert!(dry.stdout.contains("= 3 trials"), "{}", dry.stdout);
    let dry = cli.run(&["run", "plan.toml", "--dry-run", "--thorough", "--file-size", "16MiB"]);
    assert!(dry.stdout.contains("16 MiB") && dry.stdout.contains("= 11 trials"), "{dry:?}");
    // A flag overrides the plan, and a plan overrides the file.
    std::fs::write(cli.folder().join("plan.toml"), format!("trials = 7\n{plan}")).unwrap();
    for (flags, trials) in [(&[][..], "= 7 trials"), (&["--thorough"], "= 11 trials")] {
        let dry = cli.run(&[&["run", "plan.toml", "--dry-run"], flags].concat());
        assert!(dry.stdout.contains(trials), "{flags:?}: {dry:?}");
    }
}

#[test]
fn reports_bad_configuration_but_shows_help() {
    let cli = Cli::new();
    cli.configure("[run]\nio_sice = '4KiB'\n");
    for args in [&["list"][..], &["run", "null"], &["config"]] {
        cli.refused(args, 2, &["config/dfsbench/config.toml:2: ", "--io-sice", "did you mean"]);
    }
    assert_eq!(cli.run(&["run", "--help"]).code, 0);
    cli.configure("[run]\nquick = true\nthorough = true\n");
    cli.refused(&["run", "null"], 2, &["config.toml:3: ", "cannot be combined", "line 2"]);
    // The parser of the plan rejects the value, and the error names its position.
    cli.configure("\n[run]\nio_size = 'large'\n");
    cli.refused(&["run", "null"], 2, &["--io-size", "`large`", "config.toml:3"]);
    std::fs::remove_file(cli.folder().join("config/dfsbench/config.toml")).unwrap();
    std::fs::create_dir(cli.folder().join("config/dfsbench/config.toml")).unwrap();
    cli.refused(&["list"], 2, &["can't read the configuration", "not a regular file"]);
}

#[test]
fn ignores_idle_defaults_without_warning() {
    let cli = Cli::new();
    cli.configure("nfsvers = '4.1'\nmeet_within = '5m'\n[serve]\nno_udp = true\n");
    let dry = cli.run(&["run", "null", "--dry-run"]);
    assert_eq!((dry.code, dry.stderr.as_str()), (0, ""), "{dry:?}");
    let given = cli.run(&["run", "null", "--dry-run", "--nfsvers", "4.1"]);
    assert!(given.stderr.contains("--nfsvers: applies only to nfs"), "{given:?}");
}

#[test]
fn shows_effective_configuration_and_origin() {
    let cli = Cli::new();
    let none = cli.run(&["config"]);
    assert!(none.stdout.contains("(does not exist)\nonly built-in defaults"), "{none:?}");
    cli.configure("results = '~/all.db'\nformat = 'csv'\n[run]\nformat = 'json'\n");
    let mut command = cli.command(&["config"]);
    let shown = end(command.env("DFSBENCH_RESULTS", "here.db").env("HOME", "/home/me")).stdout;
    for words in [
        "--results  /home/me/all.db",
        "none (overridden)",
        "--results  here.db",
        "DFSBENCH_RESULTS",
        "all with this flag",
        "config.toml:4",
    ] {
        assert!(shown.contains(words), "`{words}` not in {shown}");
    }
    let run = cli.run(&["config", "run", "--json"]).stdout;
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    let of = |flag: &str| {
        let rows = run["defaults"].as_array().unwrap();
        rows.iter().find(|row| row["flag"] == flag).unwrap().clone()
    };
    assert_eq!(of("format")["value"], "json");
    assert!(of("format")["from"].as_str().unwrap().ends_with("config.toml:4"));
    assert_eq!(
        (&of("io-size")["from"], &of("quick")["value"]),
        (&"built in".into(), &"false".into())
    );
    cli.refused(&["config", "rnu"], 2, &["there is no command `rnu`", "did you mean `run`?"]);
}
