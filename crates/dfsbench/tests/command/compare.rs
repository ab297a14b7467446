//! `dfsbench compare` and `dfsbench factors` on stored campaigns, and their errors.

use rusqlite::Connection;

use crate::cli::{Cli, ServedProcess};

/// Runs a campaign of mixes, whose op rates are accurate.
fn campaign(cli: &Cli, results: &str, more: &[&str]) {
    let usual = ["run", "null", "--workload", "mixed", "--duration", "20ms", "--trials", "4"];
    // A busy machine must not add trials.
    let args = [&usual, more, &["--interference", "keep", "--results", results]].concat();
    let end = cli.run(&args);
    assert_eq!(end.code, 0, "{end:?}");
}

/// Copies a results file and makes everything in it take 100 times as long.
fn slow_down(cli: &Cli, from: &str, to: &str) {
    let path = cli.folder().join(to);
    std::fs::copy(cli.folder().join(from), &path).unwrap();
    let db = Connection::open(path).unwrap();
    let changed = db.execute("UPDATE passes SET window_ns = window_ns * 100", []).unwrap();
    assert_eq!(changed, 4);
}

#[test]
fn exits_1_only_for_loss() {
    let cli = Cli::new();
    campaign(&cli, "fast.db", &[]);
    // All trials are equally fast, since a busy machine widens the row's interval.
    let db = Connection::open(cli.folder().join("fast.db")).unwrap();
    assert_eq!(db.execute("UPDATE passes SET window_ns = ops * 1000", []).unwrap(), 4);
    drop(db);
    slow_down(&cli, "fast.db", "slow.db");
    let compare = |before, after| cli.run(&["compare", before, after, "--max-loss", "20%"]);
    let loss = compare("fast.db", "slow.db");
    let gain = compare("slow.db", "fast.db:1");
    for side in ["before: fast.db, campaign 1 (", "after: slow.db, campaign 1 ("] {
        assert!(loss.stdout.contains(side), "{side}: {}", loss.stdout);
    }
    // However noisy the trials are, they don't lose 99 %.
    let same = cli.run(&["compare", "fast.db", "fast.db", "--max-loss", "99%"]);
    assert_eq!((loss.code, gain.code, same.code), (1, 0, 0), "{loss:?} {gain:?}");
    assert!(loss.stdout.contains("Rates: 1 lower"), "{}", loss.stdout);
    assert!(loss.stdout.contains("Regression: null mixed: "), "{}", loss.stdout);
    assert!(loss.stdout.contains("fell by 99 %"), "{}", loss.stdout);
    assert!(gain.stdout.contains("Rates: 0 lower, 1 higher"), "{}", gain.stdout);
    assert!(same.stdout.contains("Rates: 0 lower, 0 higher"), "{}", same.stdout);
    let quiet = cli.run(&["compare", "fast.db", "slow.db", "--max-loss", "20%", "--quiet"]);
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (1, "", ""));
}

#[test]
fn reports_slowdown_to_build_server() {
    let cli = Cli::new();
    // With one depth ops have to queue, with the other they never do.
    campaign(&cli, "fast.db", &["--queue-depth", "1"]);
    campaign(&cli, "slow.db", &["--queue-depth", "64"]);
    let compare = |before, after, more: &[&str]| {
        let selections = ["--where", "queue_depth=1", "--where", "queue_depth=64"];
        let sides = ["compare", before, after, "--max-slowdown", "p50=50%"];
        let turned = [selections[2], selections[3], selections[0], selections[1]];
        let selected = if before == "fast.db" { selections } else { turned };
        cli.run(&[&sides[..], &selected, more].concat())
    };
    let slower = compare("fast.db", "slow.db", &[]);
    assert_eq!(slower.code, 1, "{slower:?}");
    assert!(slower.stdout.contains("Regression: null mixed: p50"), "{}", slower.stdout);
    assert_eq!(compare("slow.db", "fast.db", &[]).code, 0);
    let written = compare("fast.db", "slow.db", &["--format", "junit", "--output", "out.xml"]);
    assert_eq!((written.code, written.stdout.as_str()), (1, ""), "{written:?}");
    let xml = std::fs::read_to_string(cli.folder().join("out.xml")).unwrap();
    assert!(xml.contains("<failure type=\"regression\" message=\"p50 "), "{xml}");
}

#[test]
fn does_not_treat_incomparable_as_equal() {
    let cli = Cli::new();
    campaign(&cli, "a.db", &[]);
    campaign(&cli, "b.db", &["--io-size", "8KiB"]);
    cli.refused(&["compare", "a.db", "b.db"], 2, &["no row in common", "--where io_size"]);
    let end = cli.run(&["compare", "a.db:1", "b.db", "--max-loss", "5%"]);
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("only before"), "{}", end.stdout);
}

#[test]
fn explains_comparing_curves_of_other_loads() {
    let cli = Cli::new();
    let search = ["--workload", "mixed", "--bound", "1s", "--duration", "50ms", "--warmup", "0s"];
    for (results, max_load) in [("a.db", "100"), ("b.db", "131")] {
        let own = ["--max-load", max_load, "--results", results, "--quiet"];
        let end = cli.run(&[&["curve", "null"], &search[..], &own].concat());
        assert!([0, 4].contains(&end.code), "{end:?}");
    }
    let words = ["no row in common", "`dfsbench curve --max-load 131`", "without --bound"];
    cli.refused(&["compare", "a.db", "b.db"], 2, &words);
}

/// Makes the trials of a copy last longer by the given percentages, one after the other.
fn scatter(cli: &Cli, to: &str, percents: [u32; 4]) {
    let path = cli.folder().join(to);
    std::fs::copy(cli.folder().join("same.db"), &path).unwrap();
    let db = Connection::open(path).unwrap();
    let ids = "SELECT id FROM passes ORDER BY id LIMIT 1 OFFSET ?2";
    for (number, percent) in (0_u32..).zip(percents) {
        let sql = format!("UPDATE passes SET window_ns = window_ns * ?1 / 100 WHERE id = ({ids})");
        assert_eq!(db.execute(&sql, (percent, number)).unwrap(), 1);
    }
}

#[test]
fn exits_4_for_undecided_bound() {
    let cli = Cli::new();
    campaign(&cli, "same.db", &[]);
    // All trials equally fast, then each as slow as planted.
    let db = Connection::open(cli.folder().join("same.db")).unwrap();
    assert_eq!(db.execute("UPDATE passes SET window_ns = ops * 1000", []).unwrap(), 4);
    drop(db);
    scatter(&cli, "quiet.db", [100, 101, 99, 100]);
    scatter(&cli, "noisy.db", [94, 100, 103, 106]);
    scatter(&cli, "wide.db", [80, 95, 105, 125]);
    let compare = |after: &str, more: &[&str]| {
        cli.run(&[&["compare", "quiet.db", after, "--max-loss", "5%"], more].concat())
    };
    let open = compare("noisy.db", &[]);
    assert_eq!(open.code, 4, "{open:?}");
    let words = open.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Inconclusive: null mixed: rate "), "{words}");
    assert!(words.contains(" trials per side"), "{words}");
    assert_eq!(compare("noisy.db", &["--inconclusive", "ok"]).code, 0);
    // More trials don't help a row whose trials scatter this much.
    let wide = compare("wide.db", &[]);
    assert!(wide.code == 4 && wide.stdout.contains("with `wide-interval`, the"), "{wide:?}");
    // Without a reason nothing is inconclusive.
    let kept = compare("quiet.db", &[]);
    assert!(kept.code == 0 && !kept.stdout.contains("Inconclusive"), "{kept:?}");
    scatter(&cli, "slower.db", [150, 151, 149, 150]);
    assert_eq!(compare("slower.db", &["--inconclusive", "ok"]).code, 1);
    let written = compare("noisy.db", &["--format", "junit"]);
    assert!(written.code == 4 && written.stdout.contains("inconclusive: "), "{written:?}");
}

#[test]
fn ignores_chance_differences_of_schedule() {
    let cli = Cli::new();
    // With a small load over a short time, the numbers of arrivals differ by about 10 % by chance.
    let load = ["--rate", "5000", "--arrivals", "poisson"];
    for (results, seed) in [("one.db", "1"), ("other.db", "2")] {
        campaign(&cli, results, &[&load[..], &["--seed", seed]].concat());
        let db = Connection::open(cli.folder().join(results)).unwrap();
        let sql = "SELECT count(DISTINCT json_extract(scope_json, '$.offered.scheduled_ops')) FROM \
                   scopes";
        let different: u32 = db.query_row(sql, [], |row| row.get(0)).unwrap();
        assert!(different > 1, "all trials of {results} have the same schedule");
        // A busy machine may not sustain all in time, and that is not tested here.
        let sustained = "UPDATE scopes SET scope_json = json_set(scope_json, '$.offered.late_ops', 0, \
                       '$.offered.scheduled_ops', (SELECT ops FROM passes WHERE id = pass_id))";
        assert_eq!(db.execute(sustained, []).unwrap(), 4);
    }
    let end = cli.run(&["compare", "one.db", "other.db", "--max-loss", "5%"]);
    assert!(end.code == 0 && end.stdout.contains("Rates: 0 lower, 0 higher, 1 same"), "{end:?}");
}

#[test]
fn factors_are_ranked() {
    let cli = Cli::new();
    campaign(&cli, "dfsbench.db", &["--queue-depth", "1,32", "--read-percent", "30,70"]);
    // A busy machine may slow down any trial, so make those with depth 1 clearly slower.
    let db = Connection::open(cli.folder().join("dfsbench.db")).unwrap();
    let slow = "UPDATE passes SET window_ns = window_ns * 100 WHERE trial_id IN (SELECT t.id FROM \
                trials t JOIN settings s ON s.run_id = t.run_id \
                WHERE s.name = 'queue_depth' AND s.value = '1')";
    assert_eq!(db.execute(slow, []).unwrap(), 8);
    let end = cli.run(&["factors"]);
    assert_eq!(end.code, 0, "{end:?}");
    let depth = end.stdout.find("queue_depth").unwrap();
    assert!(depth < end.stdout.find("read_percent").unwrap(), "{}", end.stdout);
}

#[test]
fn joins_files_with_kernel_as_factor() {
    let cli = Cli::new();
    campaign(&cli, "dfsbench.db", &["--read-percent", "30,70"]);
    campaign(&cli, "other.db", &["--read-percent", "30,70"]);
    let db = Connection::open(cli.folder().join("other.db")).unwrap();
    // The same host with a different kernel that is 100 times slower.
    let kernel = "UPDATE facts SET value = 'Linux 2.2.19' WHERE name = 'kernel'";
    assert_eq!(db.execute(kernel, []).unwrap(), 1);
    assert_eq!(db.execute("UPDATE passes SET window_ns = window_ns * 100", []).unwrap(), 8);
    let end = cli.run(&["factors", "last", "other.db", "--by", "fact.kernel", "--format", "json"]);
    assert_eq!(end.code, 0, "{end:?}");
    let json: serde_json::Value = serde_json::from_str(&end.stdout).unwrap();
    let first = &json["passes"][0]["factors"][0];
    assert_eq!(
        (first["name"].as_str(), first["levels"][1]["level"].as_str()),
        (Some("fact.kernel"), Some("Linux 2.2.19")),
        "{}",
        end.stdout
    );
    assert!(first["levels"][1]["ratio"].as_f64().unwrap() < 0.5, "{}", end.stdout);
    let report = cli.run(&["report", "1", "other.db", "--all"]);
    assert!(report.code == 0 && report.stdout.contains("fact.kernel"), "{report:?}");
    assert!(report.stdout.contains("dfsbench factors 1 other.db"), "{}", report.stdout);
    let twice = ["`1` and `last` are the same campaign", "hint"];
    cli.refused(&["factors", "1", "last"], 2, &twice);
    let unknown = ["--by: no campaign has a fact or label `fact.kernal`", "fact.kernel"];
    cli.refused(&["report", "1", "other.db", "--by", "fact.kernal"], 2, &unknown);
    cli.refused(&["factors", "1", "--by", "kernel"], 2, &["so it is not a factor", "hint"]);
    cli.refused(&["factors", "1", "--by", "nfsvers"], 2, &["`nfsvers` is a setting", "hint"]);
}

#[test]
fn checks_labels_of_selection() {
    let cli = Cli::new();
    let plan = "name = \"t\"\ntrials = 1\n[host.labels]\ndram = \"ECC DDR2\"\n[factors]\n\
                queue_depth = [1, 64]\n[[target]]\nname = \"n\"\nnull = true\n\
                [[workload]]\nkind = \"mixed\"\nduration = \"100ms\"\n";
    std::fs::write(cli.folder().join("p.toml"), plan).unwrap();
    let end = cli.run(&["run", "p.toml", "--quiet"]);
    assert_eq!(end.code, 0, "{end:?}");
    let compared = |first: &str, second: &str| {
        ["compare", "1", "1", "--where", first, "--where", second].map(str::to_owned)
    };
    let known = compared("label.dram=ECC DDR2,queue_depth=1", "queue_depth=64");
    let end = cli.run(&known.each_ref().map(String::as_str));
    assert_eq!(end.code, 0, "{end:?}");
    let wrong = compared("label.dran=ECC DDR2,queue_depth=1", "queue_depth=64");
    let texts = ["no host of campaign 1 has a label `label.dran`", "available: label.dram"];
    cli.refused(&wrong.each_ref().map(String::as_str), 2, &texts);
    let wrong = compared("label.dram=DDR4,queue_depth=1", "queue_depth=64");
    let texts = ["no host of campaign 1 has label.dram DDR4", "available: ECC DDR2"];
    cli.refused(&wrong.each_ref().map(String::as_str), 2, &texts);
}

#[test]
fn bad_comparisons_are_refused() {
    let cli = Cli::new();
    campaign(&cli, "dfsbench.db", &[]);
    cli.refused(&["compare", "last"], 2, &["two selections", "--where"]);
    cli.refused(&["compare", "1", "9"], 2, &["no campaign 9", "the latest one is 1"]);
    cli.refused(&["factors", "none.db"], 2, &["no results file `none.db`", "hint"]);
    std::fs::write(cli.folder().join("empty.db"), "").unwrap();
    cli.refused(&["compare", "1", "empty.db"], 2, &["`empty.db` is empty", "hint"]);
    cli.refused(&["factors", "empty.db"], 2, &["`empty.db` is empty", "hint"]);
    cli.refused(&["compare", "1", "1", "--where", "=3"], 2, &["`=3` is not NAME=VALUE"]);
    cli.refused(&["compare", "1", "1", "--max-loss", "-5%"], 2, &["--max-loss", "`-5%`"]);
    cli.refused(&["compare", "1", "other.db"], 2, &["other.db"]);
    cli.refused(&["compare", "1", "1", "--where", "sauce=3"], 2, &["sauce", "io_size"]);
    cli.refused(&["compare", "1", "1", "--where", "io_size"], 2, &["NAME=VALUE"]);
    let label = ["compare", "1", "1", "--where", "label.dram=fast"];
    cli.refused(&label, 2, &["no host of campaign 1 has a label `label.dram`", "[host.labels]"]);
    cli.refused(
        &["compare", "1", "1", "--where", "workers=77"],
        2,
        &["workers 77", "available: 1"],
    );
    let times = ["--max-slowdown", "p98=5%"];
    cli.refused(&[&["compare", "1", "1"], &times[..]].concat(), 2, &["p98", "service-p99"]);
    let twice = ["--max-slowdown", "5%,p99=5%"];
    cli.refused(&[&["compare", "1", "1"], &twice[..]].concat(), 2, &["p99 is given twice"]);
    let hidden = ["--effect", "5%", "--max-loss", "2%"];
    cli.refused(
        &[&["compare", "1", "1"], &hidden[..]].concat(),
        2,
        &["--effect 5%", "rate", "2 %"],
    );
    cli.refused(&["compare", "1", "1", "--effect", "many"], 2, &["--effect", "many"]);
    cli.refused(&["compare", "1", "1", "--max-loss", "300%"], 2, &["--max-loss", "300%"]);
    cli.refused(&["factors"], 2, &["no factor", "no setting varies", "--io-size"]);
}

#[test]
fn excludes_unusable_figures_from_comparison() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--fault", "error WRITE IO 100%"]);
    let stream = ["--workload", "stream", "--file-size", "1MiB,2MiB", "--trials", "1", "--quiet"];
    let end = cli.run(&[&["run", &served.url], &stream[..]].concat());
    assert_eq!(end.code, 4, "{end:?}");
    cli.refused(&["factors"], 2, &["stream write: no result is usable", "dfsbench report"]);
    cli.refused(&["compare", "1", "1"], 2, &["invalid: errors", "dfsbench report"]);
    // One trial of each of two settings shows nothing about either.
    let mixes = ["run", "null", "--workload", "mixed", "--duration", "20ms", "--quiet"];
    let once = ["--trials", "1", "--queue-depth", "1,2", "--results", "once.db"];
    assert_eq!(cli.run(&[&mixes[..], &once].concat()).code, 0);
    cli.refused(&["factors", "once.db"], 2, &["mixed: too few trials", "--trials 5"]);
    let extremes = ["--trials", "1", "--discard", "extremes"];
    cli.refused(&[&mixes[..], &extremes].concat(), 2, &["--trials", "extremes of 1 trial"]);
}
