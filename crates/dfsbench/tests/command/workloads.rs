//! Every workload runs from the command line, and so does a shortened version of every built-in
//! plan.

use serde_json::Value;

use crate::cli::{Cli, End};

/// The results of a run that must have produced some, with name, rate and reason of each.
fn figures(end: &End) -> Vec<(String, Option<f64>, String)> {
    let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
    let figure = |figure: &Value| {
        let name = format!("{} {}", figure["target"], figure["pass"]).replace('"', "");
        let reason = figure["reason"].as_str().unwrap_or_default().to_owned();
        (name, figure["rate"]["median"].as_f64(), reason)
    };
    json["figures"].as_array().unwrap().iter().map(figure).collect()
}

/// Runs a built-in plan with these flags, one trial of each run; returns the number of results.
fn shortened(plan: &str, flags: &[&str]) -> usize {
    shortened_in(&Cli::new(), plan, flags)
}

/// The same in a directory that may contain the plan.
fn shortened_in(cli: &Cli, plan: &str, flags: &[&str]) -> usize {
    let common = ["--trials", "1", "--quiet", "--format", "json"];
    let mut command = cli.command(&[&["run", plan], flags, &common].concat());
    let end = End::from_output(command.env("TMPDIR", cli.target()).output().unwrap());
    cli.assert_target_is_empty();
    let figures = figures(&end);
    for (name, rate, reason) in &figures {
        assert!(rate.is_some_and(|rate| rate > 0.0), "{plan}: {name}: {reason}");
    }
    figures.len()
}

/// Runs the matrix of seed-004 in this way, with five temporary directories instead of its disks.
fn shortened_raid_matrix(flags: &[&str]) -> usize {
    let cli = Cli::new();
    let preset = cli.run(&["preset", "seed-004"]).stdout;
    let mut plan = String::from("name = \"matrix\"\ntrials = 1\n");
    let factors = &preset[preset.find("[factors]").unwrap()..];
    let of_hosts = ["file_system", "fs_mount_options", "mount_options", "invalidation"];
    for line in factors[..factors.find("[[workload]]").unwrap()].lines() {
        let is_of_hosts = of_hosts.iter().any(|key| line.starts_with(&format!("{key} =")));
        // One file per directory, as before.
        let line = if line.starts_with("files =") { "files = 1" } else { line };
        plan.push_str(if is_of_hosts { "" } else { line });
        plan.push('\n');
    }
    for disk in 1_u32..=5 {
        plan.push_str("[[target]]\nname = \"disk.");
        plan.push_str(&disk.to_string());
        plan.push_str("\"\ntemporary = true\n");
    }
    plan.push_str("[[workload]]\nkind = \"mixed\"\n");
    std::fs::write(cli.folder().join("matrix.toml"), plan).unwrap();
    shortened_in(&cli, "matrix.toml", flags)
}

#[test]
fn the_plans_of_data_files_run() {
    assert_eq!(shortened("bonnie", &["--file-size", "1MiB"]), 6);
    let sizes = ["--file-size", "256KiB", "--io-size", "4KiB,64KiB"];
    assert_eq!(shortened("iozone", &sizes), 2 * 8);
    assert_eq!(shortened("copies", &sizes), 2 * 2 * 2);
    let short =
        ["--duration", "20ms", "--file-size", "8MiB", "--io-size", "4KiB", "--workers", "2"];
    assert_eq!(shortened_raid_matrix(&short), 3 * 2 * 5);
}

#[test]
fn the_plans_of_models_run() {
    let tiny = ["--model-scale", "0.00001", "--pause", "0ms"];
    assert_eq!(shortened("checkpoint", &tiny), 2 * 2);
    assert_eq!(shortened("model-load", &["--file-size", "1MiB"]), 2 * 2);
}

/// Runs a small checkpoint, checks that every byte of the model is saved and restored, and returns
/// the results of both passes.
fn checkpointed(cli: &Cli, target: &str, flags: &[&str]) -> Vec<Value> {
    let work = ["run", target, "--workload", "checkpoint", "--verify", "true"];
    let common = ["--quiet", "--format", "json"];
    let end = cli.run(&[&work[..], &common, flags].concat());
    let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
    let run = &json["runs"][0];
    let setting = |name: &str| run["settings"][name].as_u64().unwrap();
    let bytes = setting("files") * setting("file_size_bytes");
    let scale = run["settings"]["checkpoint"]["scale_millionths"].as_u64().unwrap();
    let rounded = bytes - 105_000 * scale;
    assert!(rounded < setting("files") * 4_096, "{rounded}");
    for trial in run["trials"].as_array().unwrap() {
        for pass in trial["passes"].as_array().unwrap() {
            assert_eq!(pass["bytes"], bytes, "{pass}");
            assert_eq!(pass["rank_times_ns"].as_array().unwrap().len() as u64, setting("workers"));
            for check in pass["cross_checks"].as_array().unwrap() {
                assert_eq!(check["expected"], check["found"], "{check}");
            }
        }
    }
    let figures = json["figures"].as_array().unwrap().clone();
    assert_eq!(figures.iter().map(|it| &it["pass"]).collect::<Vec<_>>(), ["save", "restore"]);
    for figure in &figures {
        assert_ne!(figure["verdict"], "invalid", "{figure}");
    }
    figures
}

#[test]
fn pauses_between_saves() {
    let cli = Cli::new();
    let plan = "name = \"p\"\ntrials = 2\n[[target]]\nname = \"n\"\nnull = true\n[[workload]]\n\
                kind = \"checkpoint\"\nmodel_scale = 0.0001\npause = \"200ms\"\n";
    std::fs::write(cli.folder().join("p.toml"), plan).unwrap();
    let end = cli.run(&["run", "p.toml", "--quiet", "--format", "json"]);
    let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
    let trials = json["runs"][0]["trials"].as_array().unwrap();
    let started = |trial: &Value| trial["started_unix_ms"].as_u64().unwrap();
    // Before the save and before the restore of the first trial.
    assert!(started(&trials[1]) >= started(&trials[0]) + 400, "{trials:?}");
    let too_much = ["run", "target", "--workload", "checkpoint", "--scale", "2", "--dry-run"];
    cli.refused(&too_much, 2, &["a scale of 2 is larger than the model"]);
}

#[test]
fn saves_and_restores_every_byte() {
    let cli = Cli::new();
    // 10.5 MB in 8 ranks, each rounded up to 4 KiB.
    let flags = ["--scale", "0.0001", "--model", "8b", "--trials", "1", "--save-every", "1m"];
    for target in ["target", "embedded"] {
        let figures = checkpointed(&cli, target, &flags);
        let ranks = &figures[0]["ranks"];
        assert_eq!((&ranks["ranks"], &figures[1]["ranks"]["ranks"]), (&8.into(), &8.into()));
        let stall = ranks["stall_s_per_hour"].as_f64().unwrap();
        let time = ranks["time_s"]["median"].as_f64().unwrap();
        assert!((stall - 60.0 * time).abs() < 1e-6, "{stall} {time}");
        assert!(figures[1]["ranks"]["stall_s_per_hour"].is_null());
    }
}

#[test]
fn names_rank_with_slow_shard() {
    let cli = Cli::new();
    // Each WRITE and READ of the shard of rank 2 takes 100 ms, the others hardly any time.
    let plan = "name = \"slow\"\ntrials = 3\n[server.faults]\nslow_file = \"2 100ms\"\n\
                [[target]]\nname = \"nfs\"\nembedded = true\n[[workload]]\n\
                kind = \"checkpoint\"\nmodel_scale = 0.00005\nworkers = 4\n\
                io_size = \"256KiB\"\n";
    std::fs::write(cli.folder().join("slow.toml"), plan).unwrap();
    let figures = checkpointed(&cli, "slow.toml", &[]);
    let straggler = |figure: &Value| figure["ranks"]["straggler_rank"].as_u64();
    // The rank before it restores that shard.
    assert_eq!(figures.iter().map(straggler).collect::<Vec<_>>(), [Some(2), Some(1)]);
    for figure in &figures {
        // The slow shard decides the result, even if its ops are in flight together.
        let time = figure["ranks"]["time_s"]["median"].as_f64().unwrap();
        assert!(time >= 0.1, "{figure}");
        let caveats = figure["caveats"].as_array().unwrap();
        assert!(caveats.iter().any(|caveat| caveat["code"] == "straggler"), "{figure}");
    }
}

#[test]
fn the_plans_of_names_run() {
    let few = ["--small-files", "20", "--workers", "2"];
    assert_eq!(shortened("metadata", &few), 9 * 2 * 2);
    let few = ["--small-files", "20", "--transactions", "30"];
    assert_eq!(shortened("transactions", &few), 3 * 2);
}

#[test]
fn the_plan_of_op_mixes_runs() {
    let short = ["--rate", "300", "--duration", "200ms", "--warmup", "20ms"];
    assert_eq!(shortened("op-mix", &short), 1);
}

#[test]
fn prints_classic_bonnie_table() {
    let flags = ["--file-size", "1MiB", "--quiet", "--format", "bonnie"];
    let cli = Cli::new();
    let mut command = cli.command(&[&["run", "bonnie"], &flags[..]].concat());
    let end = End::from_output(command.env("TMPDIR", cli.target()).output().unwrap());
    let lines: Vec<&str> = end.stdout.lines().collect();
    assert!(lines[0].starts_with("              -------Sequential Output--------"), "{end:?}");
    assert!(lines[3].starts_with("local       1 "), "{end:?}");
    // Six results with their share of a CPU.
    assert_eq!(lines[3].split_whitespace().count(), 2 + 12, "{end:?}");
}

#[test]
fn reports_exit_and_output_of_command() {
    let cli = Cli::new();
    let plan = "name = \"app\"\ntrials = 1\n[[target]]\nname = \"d\"\npath = \".\"\n[[workload]]\n\
                kind = \"app\"\nrun = [\"sh\", \"-c\", \"echo the last words >&2; exit 7\"]\n";
    std::fs::write(cli.folder().join("app.toml"), plan).unwrap();
    let end = cli.run(&["run", "app.toml", "--quiet", "--format", "json"]);
    assert_eq!(end.code, 4, "{end:?}");
    let json: Value = serde_json::from_str(&end.stdout).unwrap();
    let figure = &json["figures"][0];
    assert_eq!((&figure["verdict"], &figure["pass"]), (&"invalid".into(), &"app".into()));
    let evidence = figure["caveats"][0]["evidence"].as_str().unwrap();
    assert!(evidence.ends_with("sh: exit code 7: the last words"), "{evidence}");
}

#[test]
fn names_package_of_missing_program() {
    let cli = Cli::new();
    for (workload, package) in [("fio", "fio"), ("iozone", "iozone3")] {
        let mut command = cli.command(&["run", "target", "--workload", workload, "--quiet"]);
        let end = End::from_output(command.env("PATH", "/nonexistent").output().unwrap());
        assert_eq!(end.stderr.matches("error: ").count(), 1, "{end:?}");
        for words in [format!("cannot run `{workload}`"), format!("install the package {package}")]
        {
            assert!(end.stderr.contains(&words), "{end:?}");
        }
        cli.assert_target_is_empty();
    }
}

#[test]
fn runs_plan_of_described_tree() {
    let cli = Cli::new();
    let tree = cli.folder().join("tree");
    for (name, bytes) in [("a/one", 1), ("a/b/two", 3_000), ("a/b/none", 0), ("c/big", 1_500_000)] {
        let path = tree.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, vec![b'x'; bytes]).unwrap();
    }
    let json = cli.run(&["describe", "tree", "--format", "json"]).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["files"].as_u64(), json["directories"].as_u64()), (Some(4), Some(3)));
    assert_eq!(cli.run(&["describe", "tree", "--as-plan", "-o", "tree.toml"]).code, 0);
    assert_eq!(json["plan"], std::fs::read_to_string(cli.folder().join("tree.toml")).unwrap());
    let run = ["run", "target", "--plan", "tree.toml", "--trials", "1", "--quiet"];
    let end = cli.run(&[&run[..], &["--format", "json"]].concat());
    let results: Value = serde_json::from_str(&end.stdout).unwrap();
    let create = &results["figures"][0];
    assert_eq!((create["target"].as_str(), create["pass"].as_str()), (Some("dir"), Some("create")));
    let sizes = "list 0B:25 1B:25 3kB:25 1500kB:25";
    assert_eq!(results["runs"][0]["settings"]["file_sizes"].as_str(), Some(sizes));
    assert_eq!(figures(&end).len(), 4);
    cli.assert_target_is_empty();
    cli.refused(&["run", "tree.toml", "--plan", "tree.toml"], 2, &["is a plan of its own"]);
    cli.refused(&["describe", "target", "--as-plan"], 2, &["it has no files"]);
}
