//! Every workload runs from the command line, and so does a shortened version of every built-in
//! plan.

use std::path::Path;
use std::process::Command;

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

#[test]
fn the_plan_of_media_runs() {
    let tiny = ["--file-size", "64KiB", "--files", "6", "--workers", "2"];
    assert_eq!(shortened("media", &[&tiny[..], &["--passes", "record+play"]].concat()), 2);
}

#[test]
fn the_plan_of_caches_runs() {
    let tiny = ["--object-size", "uniform 4KiB 64KiB", "--duration", "100ms"];
    assert_eq!(shortened("kv-cache", &tiny), 1);
}

#[test]
fn the_plans_of_databases_and_machines_run() {
    let short = ["--duration", "20ms", "--file-size", "1MiB"];
    assert_eq!(shortened("database", &short), 2 * 2 + 1);
    assert_eq!(shortened("vm-images", &short), 1 + 2);
    assert_eq!(shortened("read-write-steps", &short), 5);
    assert_eq!(shortened("backup", &["--file-size", "1MiB"]), 2);
    let machines = ["--file-size", "1MiB", "--boot-size", "128KiB"];
    assert_eq!(shortened("vm-boot", &machines), 2);
}

/// Runs a workload on a directory and on the in-memory server, with verified reads, and returns the
/// passes of both after checking that everything is accounted for.
fn accounted(flags: &[&str]) -> Vec<Value> {
    let cli = Cli::new();
    let common = ["--trials", "1", "--verify", "true", "--quiet", "--format", "json"];
    let mut passes = Vec::new();
    for target in ["target", "embedded"] {
        let end = cli.run(&[&["run", target], flags, &common].concat());
        let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
        assert_ne!(json["figures"][0]["verdict"], "invalid", "{end:?}");
        let pass = &json["runs"][0]["trials"][0]["passes"][0];
        for check in pass["cross_checks"].as_array().unwrap() {
            assert_eq!(check["expected"], check["found"], "{check}");
        }
        passes.push(pass.clone());
    }
    passes
}

#[test]
fn commits_are_accounted_for() {
    let small = ["--workload", "database", "--file-size", "256KiB", "--ops", "1100"];
    let flags = ["--commit-size", "512", "--workers", "2", "--duration", "10s"];
    for pass in accounted(&[&small[..], &flags].concat()) {
        let done = |kind: &str| {
            let kinds = pass["kinds"].as_array().unwrap().iter();
            let found = kinds.filter(|one| one["kind"] == kind).collect::<Vec<_>>();
            (found[0]["done"].as_u64().unwrap(), found[0]["bytes"].as_u64().unwrap())
        };
        // Ten pages, then a commit.
        assert_eq!(done("log_append"), (100, 51_200));
        let pages = done("read").0 + done("write").0;
        assert_eq!((pages, done("read").1 + done("write").1), (1_000, 8_192_000));
    }
}

#[test]
fn boots_are_accounted_for() {
    let small = ["--workload", "vm_boot", "--file-size", "256KiB", "--boot-size", "800KiB"];
    for base_image in ["true", "false"] {
        let flags = ["--workers", "3", "--base-image", base_image];
        for pass in accounted(&[&small[..], &flags].concat()) {
            assert_eq!((&pass["ops"], &pass["bytes"]), (&300.into(), &2_457_600.into()));
            assert_eq!(pass["rank_times_ns"].as_array().unwrap().len(), 3);
        }
    }
}

/// Runs the phases of io500 on small files and checks their accounting. Returns the JSON document.
fn phases_of_io500(cli: &Cli, target: &str, flags: &[&str]) -> Value {
    let work = ["run", target, "--workload", "io500", "--trials", "1", "--workers", "2"];
    let common = ["--quiet", "--format", "json"];
    let end = cli.run(&[&work[..], &common, flags].concat());
    let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
    for pass in json["runs"][0]["trials"][0]["passes"].as_array().unwrap() {
        for check in pass["cross_checks"].as_array().unwrap() {
            assert_eq!(check["expected"], check["found"], "{pass}");
        }
    }
    for figure in json["figures"].as_array().unwrap() {
        assert!(figure["rate"]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{figure}");
    }
    json
}

/// Returns the phases with their ops, not counting syncs.
fn ops_of_phases(json: &Value) -> Vec<(String, u64)> {
    let passes = json["runs"][0]["trials"][0]["passes"].as_array().unwrap();
    let ops = |pass: &Value| {
        let first = pass["kinds"].as_array().unwrap()[0]["done"].as_u64().unwrap();
        (pass["pass"].as_str().unwrap().to_owned(), first)
    };
    passes.iter().map(ops).collect()
}

#[test]
fn io500_runs_phases_in_order() {
    let sizes = ["--time-max", "0", "--file-size", "1MiB", "--small-files", "200"];
    let cli = Cli::new();
    // 1 MiB is 22 ops of 47,008 bytes. The search sees 2 + 1 large files, 2 x 200 small ones, and 2
    // directories.
    let expected = [
        ("ior_easy_write", 2),
        ("mdtest_easy_write", 200),
        ("ior_hard_write", 44),
        ("mdtest_hard_write", 200),
        ("io500_find", 405),
        ("ior_easy_read", 2),
        ("mdtest_easy_stat", 200),
        ("ior_hard_read", 44),
        ("mdtest_hard_stat", 200),
        ("mdtest_easy_delete", 200),
        ("mdtest_hard_read", 200),
        ("mdtest_hard_delete", 200),
        ("ior_rnd4k_easy_read", 512),
    ];
    for target in [cli.target().to_str().unwrap(), "embedded"] {
        let json = phases_of_io500(&cli, target, &sizes);
        let found = ops_of_phases(&json);
        let found: Vec<_> = found.iter().map(|(name, ops)| (name.as_str(), *ops)).collect();
        assert_eq!(found, expected, "{target}");
        let score = &json["io500"][0];
        assert!(score["score"]["median"].as_f64().is_some_and(|score| score > 0.0), "{score}");
        assert_eq!(score["note"], "not an IO500 result");
        assert_eq!(score["phases_without_stonewall"].as_array().unwrap().len(), 4, "{score}");
    }
    cli.assert_target_is_empty();
}

#[test]
fn io500_wears_out_after_time() {
    let cli = Cli::new();
    let limits = ["--time-max", "30ms", "--file-size", "512MiB", "--small-files", "1000000"];
    let json = phases_of_io500(&cli, cli.target().to_str().unwrap(), &limits);
    let found = ops_of_phases(&json);
    let ops = |name: &str| found.iter().find(|(known, _)| known == name).unwrap().1;
    // Both workers wrote equally much, and later phases found all of it.
    for (written, used) in [
        ("ior_easy_write", "ior_easy_read"),
        ("ior_hard_write", "ior_hard_read"),
        ("mdtest_easy_write", "mdtest_easy_stat"),
        ("mdtest_hard_write", "mdtest_hard_delete"),
    ] {
        assert_eq!(ops(written) % 2, 0, "{written}");
        assert_eq!(ops(written), ops(used), "{written}");
    }
    assert!(ops("mdtest_easy_write") < 1_000_000);
    let all = ops("mdtest_easy_write") + ops("mdtest_hard_write") + 2 + 1 + 2;
    assert_eq!(ops("io500_find"), all);
    cli.assert_target_is_empty();
}

#[test]
fn the_plan_of_io500_runs() {
    let tiny = ["--time-max", "0", "--file-size", "256KiB", "--small-files", "40"];
    assert_eq!(shortened("io500-shape", &tiny), 13);
}

#[test]
fn the_plan_of_trainings_runs() {
    let tiny = ["--file-size", "4KiB", "--samples-per-file", "1", "--files", "8", "--batch", "2"];
    let quick = ["--compute-time", "1ms", "--readers", "1"];
    assert_eq!(shortened("training", &[&tiny[..], &quick].concat()), 3);
}

/// Runs a small training and returns its figure and its passes, of which every count agrees.
fn trained(cli: &Cli, target: &str, flags: &[&str]) -> (Value, Vec<Value>) {
    let work = ["run", target, "--workload", "training", "--verify", "true"];
    let common = ["--quiet", "--format", "json"];
    let end = cli.run(&[&work[..], &common, flags].concat());
    let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
    let figure = json["figures"][0].clone();
    assert_ne!(figure["verdict"], "invalid", "{figure}");
    let mut passes = Vec::new();
    for trial in json["runs"][0]["trials"].as_array().unwrap() {
        passes.extend(trial["passes"].as_array().unwrap().iter().cloned());
    }
    for check in passes.iter().flat_map(|pass| pass["cross_checks"].as_array().unwrap()) {
        assert_eq!(check["expected"], check["found"], "{check}");
    }
    (figure, passes)
}

#[test]
fn trains_on_every_sample() {
    let cli = Cli::new();
    let common = ["--trials", "1", "--compute-time", "1ms", "--accelerators", "2", "--readers"];
    let data = ["2", "--batch", "3", "--epochs", "2", "--files", "8", "--file-size"];
    for target in ["target", "embedded"] {
        // 8 files are one step of 2 accelerators with 3 samples, in each of 2 epochs.
        let whole = [&common[..], &data, &["5000B", "--samples-per-file", "1"]].concat();
        let (figure, passes) = trained(&cli, target, &whole);
        assert_eq!((&passes[0]["ops"], &passes[0]["bytes"]), (&12.into(), &60_000.into()));
        let training = &figure["training"];
        assert_eq!((&training["accelerators"], &training["steps"]), (&2.into(), &2.into()));
        let utilization = training["utilization"]["median"].as_f64().unwrap();
        assert!(utilization > 0.0 && utilization <= 1.0, "{utilization}");
        // 32 samples are 5 steps in each epoch; three of the same file are read at once.
        let parts = [&common[..], &data, &["6000B", "--samples-per-file", "4"]].concat();
        for shuffle in ["samples", "files"] {
            let flags = [&parts[..], &["--shuffle", shuffle]].concat();
            let (figure, passes) = trained(&cli, target, &flags);
            assert_eq!((&passes[0]["ops"], &passes[0]["bytes"]), (&60.into(), &90_000.into()));
            assert_eq!(figure["training"]["steps"], 10);
        }
    }
}

#[test]
fn utilization_matches_planted_service_time() {
    let cli = Cli::new();
    // One reader needs 240 ms for a sample, and may begin it when the one before it is taken. The
    // accelerator computes 120 ms meanwhile, so it waits for half of the time.
    let plan = "name = \"slow\"\ntrials = 3\n[server.faults]\nservice_time = \"240ms on READ\"\n\
                [[target]]\nname = \"nfs\"\nembedded = true\n[[workload]]\nkind = \"training\"\n\
                readers = 1\nprefetch = 1\nbatch = 1\nsamples_per_file = 1\nfiles = 5\n\
                file_size = \"4KiB\"\ncompute_time = \"120ms\"\n";
    std::fs::write(cli.folder().join("slow.toml"), plan).unwrap();
    let (figure, passes) = trained(&cli, "slow.toml", &[]);
    // On a busy machine, a sample may take longer than planned, but never less, and it is timed.
    let differences = passes.iter().map(|pass| {
        let mean_ns = pass["kinds"][0]["service_time"]["mean_ns"].as_f64().unwrap();
        // The first of five isn't counted.
        let sample_ns =
            (5.0 * mean_ns - pass["training"]["first_batch_ns"].as_f64().unwrap()) / 4.0;
        let share = utilization(pass);
        assert!(sample_ns >= 239e6 && share <= 0.5, "{share} {sample_ns}");
        assert_eq!(pass["training"]["late_steps"], 4);
        (share / (120e6 / sample_ns) - 1.0).abs()
    });
    assert!(differences.fold(1.0, f64::min) < 0.01, "{passes:?}");
    assert_eq!(figure["training"]["is_fed"], false);
    // With two readers, a sample is complete every 120 ms.
    let (_, passes) = trained(&cli, "slow.toml", &["--readers", "2"]);
    assert!(passes.iter().map(utilization).fold(0.0, f64::max) > 0.75, "{passes:?}");
}

/// Returns the share of the time that accelerators computed in a pass.
fn utilization(pass: &Value) -> f64 {
    let of = |name: &str| pass["training"][name].as_u64().unwrap() as f64;
    of("compute_ns") / of("span_ns")
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
    // Each WRITE and READ of the shard of rank 2 takes 300 ms, the others hardly any time.
    let plan = "name = \"slow\"\ntrials = 3\n[server.faults]\nslow_file = \"2 300ms\"\n\
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
        assert!(time >= 0.3, "{figure}");
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
fn developer_plan_runs() {
    assert_eq!(shortened("developer", &["--small-files", "20"]), 8 * 3);
}

/// Runs the passes of a developer and checks that all counts agree; returns the results.
fn developed(cli: &Cli, target: &str, flags: &[&str]) -> Vec<Value> {
    let work = ["run", target, "--workload", "developer", "--quiet", "--format", "json"];
    let end = cli.run(&[&work[..], flags].concat());
    let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
    let runs = json["runs"].as_array().unwrap();
    for trial in runs.iter().flat_map(|run| run["trials"].as_array().unwrap()) {
        for pass in trial["passes"].as_array().unwrap() {
            assert!(!pass["cross_checks"].as_array().unwrap().is_empty(), "{pass}");
            for check in pass["cross_checks"].as_array().unwrap() {
                assert_eq!(check["expected"], check["found"], "{}: {check}", pass["pass"]);
            }
        }
    }
    let figures = json["figures"].as_array().unwrap().clone();
    for figure in &figures {
        assert_ne!(figure["verdict"], "invalid", "{figure}");
        assert!(figure["ranks"]["time_s"]["median"].as_f64().unwrap() > 0.0, "{figure}");
    }
    cli.assert_target_is_empty();
    figures
}

#[test]
fn counts_every_op_of_developers() {
    let cli = Cli::new();
    let few = ["--small-files", "61", "--workers", "2", "--trials", "1"];
    let versions = [&few[..], &["--nfsvers", "2,3,4.0,4.2"]].concat();
    assert_eq!(developed(&cli, "embedded", &versions).len(), 4 * 8);
    for backend in ["posix", "uring"] {
        let flags = [&few[..], &["--backend", backend]].concat();
        assert_eq!(developed(&cli, "target", &flags).len(), 8);
    }
    // What no pass has created is there when the next one needs it.
    let passes = "git_status+rm+build+unpack+install+rsync+git_checkout+git_clone";
    for target in ["target", "embedded"] {
        let flags = [&few[..], &["--passes", passes]].concat();
        assert_eq!(developed(&cli, target, &flags).len(), 8);
    }
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

/// The real fio and dfsbench must do exactly the same work for a job.
#[test]
fn does_what_fio_does() {
    let cli = Cli::new();
    let job = "[global]\nbs=16k\nsize=1m\nnrfiles=2\nnumjobs=2\ngroup_reporting\n\
               [new]\nrw=write\nend_fsync=1\n[some]\nstonewall\nrw=randread\nio_size=256k\n";
    std::fs::write(cli.folder().join("job.fio"), job).unwrap();
    let args = ["run", "target", "--like", "job.fio", "--trials=1", "--quiet", "--format=json"];
    let end = cli.run(&args);
    let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
    let compared = json["tool_comparisons"].as_array().unwrap();
    let jobs = [("new", "write", 128), ("some", "random_read", 32)];
    assert_eq!(compared.len(), jobs.len(), "{end:?}");
    for (compared, (job, pass, ops)) in compared.iter().zip(jobs) {
        assert_eq!((&compared["target"], &compared["pass"]), (&job.into(), &pass.into()));
        let work = format!("Work: {ops} ops, {} KiB.", ops * 16).replace("2048 KiB", "2 MiB");
        let reasons = compared["reasons"].as_array().unwrap();
        let same = |it: &&Value| it["finding"] == "same" && it["text"] == work.as_str();
        assert_eq!(reasons.iter().filter(same).count(), 1, "{work}: {compared}");
    }
    cli.assert_target_is_empty();
}

#[test]
#[ignore = "takes seconds: runs every night"]
fn script_runs_tools_in_turn() {
    let cli = Cli::new();
    let program = Path::new(env!("CARGO_BIN_EXE_dfsbench"));
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("sh");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/same-io.sh"));
    command.args(["target", "2", "1"]).current_dir(cli.folder());
    command.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    let end = End::from_output(command.output().unwrap());
    assert_eq!(end.code, 0, "{end:?}");
    for tool in ["dd", "dfsbench", "fio"] {
        let row = end.stdout.lines().find(|line| line.starts_with(&format!("| {tool} |")));
        assert_eq!(row.map(|row| row.matches(" to ").count()), Some(2), "{tool}: {end:?}");
    }
    cli.assert_target_is_empty();
}

#[test]
fn plan_of_job_can_be_kept() {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("job.fio"), "[a]\nrw=read\nsize=1m\n").unwrap();
    let end = cli.run(&["run", "target", "--like", "job.fio", "--as-plan"]);
    std::fs::write(cli.folder().join("kept.toml"), &end.stdout).unwrap();
    let kept = cli.run(&["run", "kept.toml", "--dry-run"]);
    let made = cli.run(&["run", "target", "--like", "job.fio", "--dry-run"]);
    let lines = |text: &str| text.lines().take(5).map(str::to_owned).collect::<Vec<_>>();
    assert!(made.stdout.contains("fio") && made.stdout.contains("2 runs"), "{made:?}");
    assert_eq!(lines(&kept.stdout), lines(&made.stdout));
    assert_eq!((kept.code, made.code), (0, 0), "{kept:?} {made:?}");
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
