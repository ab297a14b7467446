//! A plan written as text parses back to the same plan, in any surroundings.

use crate::common::{around, plan};
use model::{NfsVersion, OpKind, RunSpec, Workload};
use plan::{Plan, PlanError, Rates, RawPlan, Surroundings};
use proptest::prelude::*;

const QUICK: &str = include_str!("../../../../presets/quick.toml");

pub fn reads_back(first: &Plan) {
    let text = first.to_toml();
    let elsewhere = Surroundings { temp_dir: "/other".into(), uid: 1, gid: 2, seed: 3, job: None };
    let again = RawPlan::parse(&text, "again").and_then(|raw| Plan::resolve(&raw, &elsewhere));
    let again_runs = again.as_ref().map_or_else(|error| panic!("{error}\n{text}"), |p| &p.runs);
    // The first run that differs is a better message than two whole plans.
    for (run, read) in first.runs.iter().zip(again_runs) {
        assert_eq!(read, run, "{text}");
    }
    // Settings without effect and impossible runs are not written.
    let written =
        Plan { without_effect: Vec::new(), thinned: 0, large_ops: Vec::new(), ..first.clone() };
    assert_eq!(again.as_ref(), Ok(&written), "{text}");
    assert_eq!(again.unwrap().to_toml(), text);
}

#[test]
fn writes_product_as_one_table() {
    let plan = plan(
        "name = \"say \\\"hi\\\"\"\ntrials = 2\nseed = 18446744073709551615\n\
         [factors]\nio_size = [\"4KiB\", \"1000B\"]\nqueue_depth = [1, 32]\n\
         [[target]]\nname = \"n\"\nurl = \"nfs://h:1/a%20b?uid=5\"\n\
         [[workload]]\nkind = \"mixed\"\nfile_size = \"4096000B\"\nduration = \"1500ms\"\n",
    )
    .unwrap();
    insta::assert_snapshot!(plan.to_toml());
    reads_back(&plan);
}

#[test]
fn several_addresses_read_back() {
    let plan = plan(
        "name = \"t\"\n[factors]\nmax_connect = [\"unchanged\", 1, 2]\n[[target]]\nname = \"n\"\n\
         url = \"nfs://h:1,10.0.0.2,[::1]:3/a?version=4.1\"\n[[workload]]\nkind = \"stream\"\n",
    )
    .unwrap();
    let nfs = |run: &RunSpec| run.target.nfs().unwrap().further_addresses().to_vec();
    let addresses = ["10.0.0.2", "[::1]:3"];
    let of_runs: Vec<_> = plan.runs.iter().map(nfs).collect();
    assert_eq!(of_runs, [&addresses[..], &[], &addresses[..1]]);
    reads_back(&plan);
}

#[test]
fn policy_needs_several_connections() {
    let plan = |url: &str, factors: &str| {
        plan(&format!(
            "name = \"t\"\n[factors]\nconnection_policy = [\"share\", \"per-file\"]\n{factors}\
             [[target]]\nname = \"n\"\nurl = \"{url}\"\n[[workload]]\nkind = \"stream\"\n"
        ))
        .unwrap()
    };
    for (url, factors, runs) in [
        ("nfs://h/e", "", 1),
        ("nfs://h/e", "nconnect = [1, 4]\n", 3),
        ("nfs://h,i/e", "", 2),
        ("nfs://h,i/e", "max_connect = [1, 2]\n", 3),
    ] {
        let plan = plan(url, factors);
        assert_eq!(plan.runs.len(), runs, "{url} {factors}");
        reads_back(&plan);
        assert_eq!(plan.without_effect.len(), usize::from(runs == 1), "{url} {factors}");
    }
    let idle = plan("nfs://h/e", "").without_effect[0].to_string();
    assert!(idle.contains("applies only to nfs:// targets with nconnect above 1"), "{idle}");
}

#[test]
fn a_server_with_faults_reads_back() {
    let plan = plan(
        "name = \"t\"\nseed = 5\n[server]\ndiscard = true\nnfsvers = [4.1, 3]\n\
         [server.faults]\nrestart = [\"at 2s\", \"at 1s\"]\nhang_from_clients = 40\n\
         lose_unstable = true\nrefuse_mount = false\nservice_time = \"exponential 200us\"\n\
         error = [\"read io 1%\", \"v4.OPEN GRACE 0.5%\"]\n\
         [[target]]\nname = \"n\"\nembedded = true\n[[workload]]\nkind = \"stream\"\n",
    )
    .unwrap();
    let faults: Vec<String> = plan.server.faults.iter().map(|fault| fault.text()).collect();
    assert_eq!(
        faults,
        [
            "service-time exponential 200us",
            "error READ IO 1%",
            "error v4.OPEN GRACE 0.5%",
            "restart at 2s",
            "restart at 1s",
            "lose-unstable",
            "hang-from-clients 40",
        ]
    );
    assert_eq!(plan.server.versions, [NfsVersion::V4_1, NfsVersion::V3]);
    assert_eq!((plan.server.discard, plan.server.fault_seed), (true, 5));
    reads_back(&plan);
}

#[test]
fn expands_directories_into_targets() {
    let spread = |word: &str| {
        plan(&format!(
            "name = \"t\"\n[[target]]\nname = \"d\"\npath = [\"a\", \"b\", \"c\"]\n{word}\
             [[workload]]\nkind = \"mixed\"\n"
        ))
        .unwrap()
    };
    let names = |plan: &Plan| {
        plan.runs.iter().map(|run| (run.target_name.clone(), run.files)).collect::<Vec<_>>()
    };
    let each = ["d.1", "d.2", "d.3"].map(|name| (name.to_owned(), 1));
    let all = [("d".to_owned(), 3)];
    assert_eq!(names(&spread("")), all);
    assert_eq!(names(&spread("spread = \"alone\"\n")), each);
    let both = spread("spread = \"both\"\n");
    assert_eq!(names(&both), [&each[..], &all].concat());
    reads_back(&both);
}

#[test]
fn every_kind_of_work_reads_back() {
    let plan = plan(
        "name = \"t\"\n[factors]\nworkers = 2\n\
         [[target]]\nname = \"d\"\npath = \"m\"\n[[target]]\nname = \"n\"\nurl = \"nfs://h/e\"\n\
         [[workload]]\nkind = \"stream\"\npasses = [\"usual\", \"write+rewrite+stride_read\"]\n\
         sharing = [\"own\", \"shared\"]\nblock_size = [\"0B\", \"4MiB\"]\nstride = [3, 5]\n\
         mmap = [true, false]\ntimed_close = true\ndata = [\"zeros\", \"random\"]\n\
         compress = [0, 50]\ndedup = 25\n\
         [[workload]]\nkind = \"mixed\"\n\
         file_size = [\"16MiB\", \"lognormal 1MiB 1.5 max 64MiB\"]\n\
         random_percent = [0, 100]\nrate = [0, 700]\n\
         arrivals = [\"poisson\", \"constant\"]\nthink_time = [\"0s\", \"15us\"]\nramp = \"1s\"\n\
         warmup = \"250ms\"\nbandwidth = \"10MiB\"\nops = 100\nbytes = \"1GiB\"\nstamp = true\n\
         [[workload]]\nkind = \"metadata\"\npasses = \"mkdir+create+read_files+rename\"\n\
         tree_sharing = [\"own\", \"shared\"]\ndepth = [0, 2]\nbranching = [3, 4]\n\
         [[workload]]\nkind = \"bonnie\"\n\
         [[workload]]\nkind = \"transactions\"\nsmall_file_size = [\"uniform 0B 4KiB\", 100]\n\
         transactions = 9\nread_bias = 70\ncreate_bias = 60\nsubdirectories = 5\n\
         [[workload]]\nkind = \"op_mix\"\nrate = [100, 200]\n\
         shares = { read = 50.5, lookup = 49.5 }\n\
         [[workload]]\nkind = \"op_mix\"\nmix = [\"laddis-like\", \"database-like\"]\n\
         [[workload]]\nkind = \"app\"\ntargets = [\"d\"]\n\
         run = [\"tar\", \"cf\", \"a b.tar\", \".\"]\n\
         cleanup = \"true\"\n\
         [[workload]]\nkind = \"fio\"\ntargets = [\"d\"]\nrun = [\"--ioengine=psync\"]\n",
    )
    .unwrap();
    let app = plan.runs.iter().find(|run| run.workload == Workload::App).unwrap();
    assert_eq!(app.command.run, ["tar", "cf", "a b.tar", "."]);
    assert_eq!((app.command.cleanup.join(""), app.timeout_ms), ("true".into(), 3_600_000));
    let mix = plan.runs.iter().find(|run| run.workload == Workload::OpMix).unwrap();
    assert_eq!(mix.op_mix.shares, [(OpKind::Read, 5_050), (OpKind::Lookup, 4_950)]);
    reads_back(&plan);
}

#[test]
fn splits_runs_that_are_no_product() {
    let plan = plan(
        "name = \"t\"\n[[target]]\nname = \"n\"\nnull = true\n\
         [[workload]]\nkind = \"stream\"\nworkers = [1, 4]\nio_size = [\"4KiB\", \"8KiB\"]\n\
         [[workload]]\nkind = \"stream\"\nfiles = 4\nworkers = 1\n",
    )
    .unwrap();
    assert_eq!(plan.runs.len(), 5);
    reads_back(&plan);
}

#[test]
fn round_trips_preset() {
    let quick = plan(QUICK).unwrap();
    assert_eq!((quick.name.as_str(), quick.runs.len(), quick.order().len()), ("quick", 6, 6 * 21));
    assert!(quick.server.memory_bytes <= 700 << 20);
    // The preset's first line claims a minute, on a virtual machine with two CPUs.
    let rates = Rates {
        bytes_per_s: 1_000_000_000,
        random_ops_per_s: 30_000,
        metadata_ops_per_s: 15_000,
        ..Rates::default()
    };
    let duration_ms = plan::estimate_at(&quick, &rates).duration_ms;
    assert!((55_000..70_000).contains(&duration_ms), "{duration_ms} ms");
    assert_eq!(quick.without_effect, []);
    reads_back(&quick);
}

/// At most one line for a setting, with one to three levels.
fn levels(key: &'static str, values: &'static [&'static str]) -> impl Strategy<Value = String> {
    let some = prop::collection::vec(prop::sample::select(values), 1..3);
    prop_oneof![
        Just(String::new()),
        some.prop_map(move |levels| format!("{key} = [{}]\n", levels.join(", ")))
    ]
}

/// Settings of all workloads.
fn settings() -> impl Strategy<Value = String> {
    (
        levels("workers", &["1", "2", "7"]),
        levels("queue_depth", &["1", "2", "64"]),
        levels("timeout", &["\"1s\"", "\"1500ms\"", "\"1h\""]),
    )
        .prop_map(|(a, b, c)| [a, b, c].concat())
}

/// Number and size of files, under the workload's names for them.
fn file_set(kind: &str) -> impl Strategy<Value = String> + use<> {
    let (files, sizes) = match kind {
        "metadata" => (
            levels("small_files", &["7", "8", "100"]),
            levels("small_file_size", &["0", "1", "\"4KiB\"", "\"1MiB\""]),
        ),
        _ => (
            levels("files", &["7", "8", "100"]),
            levels("file_size", &["\"128KiB\"", "131072", "\"1MiB\"", "\"0.5MiB\""]),
        ),
    };
    (files, sizes).prop_map(|(files, sizes)| files + &sizes)
}

/// Settings of some workloads.
fn factors() -> impl Strategy<Value = String> {
    (
        settings(),
        levels("io_size", &["512", "\"4KiB\"", "\"64KiB\""]),
        levels("transfer_size", &["\"server\"", "\"32KiB\"", "\"1MiB\""]),
        levels("read_percent", &["0", "50", "100"]),
        levels("direct", &["true", "false"]),
        levels("durability", &["\"sync\"", "\"none\""]),
        file_set("stream"),
        file_set("metadata"),
        (over_nfs(), of_hosts()),
    )
        .prop_map(|(a, b, c, d, e, f, g, h, (i, j))| [a, b, c, d, e, f, g, h, i, j].concat())
}

/// Settings of runs on hosts.
fn of_hosts() -> impl Strategy<Value = String> {
    let one = |key: &'static str, values: &'static [&'static str]| {
        prop::sample::select(values).prop_map(move |level| format!("{key} = {level}\n"))
    };
    (
        one("mount_options", &["\"\"", "[\"noac\", \"hard,nocto\"]"]),
        one("server_sysctl", &["\"\"", "\"vm.b=1+net.c=1 2 3\""]),
        one("slots", &["\"unchanged\"", "128"]),
        one("localio", &["[true, false]", "\"unchanged\"", "false"]),
        one("nfsd_threads", &["[8, \"4..64\"]", "\"1..2\"", "0"]),
        one("server_delegations", &["[true, false]", "\"unchanged\""]),
        one("sec", &["[\"sys\", \"krb5p\"]", "\"server\""]),
        one("tcp_buffer", &["\"unchanged\"", "\"1MiB\""]),
        one("congestion", &["\"bbr\"", "\"unchanged\""]),
        one("format_options", &["\"-E stride=16,nodiscard\"", "\"\""]),
        one("invalidation", &["\"none\"", "\"server-restart\""]),
        one("cpu_frequency", &["\"1.2GHz\"", "\"unchanged\""]),
    )
        .prop_map(|(a, b, c, d, e, f, g, h, i, j, k, l)| {
            [a, b, c, d, e, f, g, h, i, j, k, l].concat()
        })
}

/// Settings of runs over NFS; v3 over TCP is always included, so that some run is possible.
fn over_nfs() -> impl Strategy<Value = String> {
    let some = |text: &'static str| prop_oneof![Just(String::new()), Just(text.to_owned())];
    (
        some("nfsvers = [3, \"2\", 4.1]\n"),
        some("proto = [\"udp\", \"tcp\"]\n"),
        some("xprtsec = [\"none\", \"tls\"]\n"),
        levels("timeo", &["\"100ms\"", "\"1100ms\""]),
        levels("retrans", &["0", "3"]),
        levels("stable", &["\"unstable\"", "\"file_sync\""]),
        levels("read_ahead", &["0", "5"]),
        levels("nconnect", &["1"]),
        levels("pnfs", &["\"off\"", "\"flexfiles\""]),
        // Other servers than the in-memory one refuse further levels.
        levels("data_servers", &["\"server\""]),
    )
        .prop_map(|(a, b, c, d, e, f, g, h, i, j)| [a, b, c, d, e, f, g, h, i, j].concat())
}

/// The text of a plan that can be resolved.
fn plans() -> impl Strategy<Value = String> {
    let targets = [
        "null = true",
        "path = \"m\\\"x\"",
        "temporary = true\nbackend = [\"uring\", \"posix\"]",
        "embedded = true\nuid = 3",
        "embedded = true\ngroups = [4, 5]\nsec = \"none\"\nresvport = true",
        "url = \"nfs://[fe80::1]:2049/a/b?gid=1&mountport=20048\"",
        "server = \"s\"\nclient = \"c\"\ndevices = [\"/dev/b\", \"/dev/c\"]\nbackend = [\"posix\", \
         \"nfs\"]",
        "server = \"c\"\ntmpfs_size = \"1GiB\"\nnfsvers = [3, 4.0]",
        "url = \"nfs://h/e?nconnect=4&groups=7,8&resvport=true&family=ipv6\"\ntls_ca = \"/a \
         b/ca.pem\"",
    ];
    let kinds = ["stream", "mixed", "metadata"];
    let target = prop::sample::subsequence(targets.to_vec(), 1..=targets.len());
    let workload = prop::sample::select(kinds.to_vec()).prop_flat_map(|kind| {
        (Just(kind), settings(), file_set(kind))
            .prop_map(|(kind, settings, files)| (kind, settings + &files))
    });
    let workload = prop::collection::vec(workload, 1..3);
    (target, factors(), workload, 1..40_u32).prop_map(|(targets, factors, workloads, trials)| {
        let head = format!("name = \"t\"\ntrials = {trials}\n[factors]\n{factors}");
        let head = head + "[server]\nmemory = \"1TiB\"\n[[host]]\nname = \"c\"\naddress = \"c\"\n";
        let head = head + "[[host]]\nname = \"s\"\nssh = \"root@s\"\nssh_config = \"a b\"\n";
        let targets = targets
            .iter()
            .enumerate()
            .map(|(index, what)| format!("[[target]]\nname = \"n{index}\"\n{what}\n"));
        let workloads = workloads
            .iter()
            .map(|(kind, settings)| format!("[[workload]]\nkind = \"{kind}\"\n{settings}"));
        std::iter::once(head).chain(targets).chain(workloads).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 64,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_plan_reads_back(text in plans()) {
        match plan(&text) {
            Ok(plan) => reads_back(&plan),
            // The products of all these lists may be too many runs; nothing else is wrong.
            Err(error) => prop_assert!(error.to_string().contains("10000 runs"), "{error}\n{text}"),
        }
    }

    #[test]
    fn every_block_is_a_permutation(seed: u64, runs in 1..64_u32, trials in 1..20_u32) {
        let depths: Vec<String> = (1..=runs).map(|depth| depth.to_string()).collect();
        let text = format!(
            "name = \"t\"\ntrials = {trials}\nseed = {seed}\n\
             [[target]]\nname = \"n\"\nnull = true\n\
             [[workload]]\nkind = \"stream\"\nqueue_depth = [{}]\n",
            depths.join(", ")
        );
        let plan = plan(&text).unwrap();
        let order = plan.order();
        prop_assert_eq!(&order, &plan.order());
        for (trial, block) in order.chunks(runs as usize).enumerate() {
            let mut seen: Vec<usize> = block.iter().map(|step| step.run).collect();
            seen.sort_unstable();
            prop_assert!(seen.iter().copied().eq(0..runs as usize));
            prop_assert!(block.iter().all(|step| step.trial == trial as u32));
        }
        // Adding trials does not change the earlier blocks.
        let longer = Plan { trials: trials + 1, ..plan };
        prop_assert_eq!(&longer.order()[..order.len()], &order[..]);
    }

    #[test]
    fn survives_damaged_plans(
        at in 0..QUICK.len(),
        len in 0..12_usize,
        patch in "[\\[\\]a-z_=\"0-9{},.#\\- \n\u{e9}]{0,6}",
    ) {
        let end = (at + len).min(QUICK.len());
        let text = [&QUICK[..at], patch.as_str(), &QUICK[end..]].concat();
        if let Err(error) = plan(&text) {
            let line = error.to_string();
            prop_assert!(line.starts_with("p.toml") && !line.contains('\n'), "{line}");
        }
    }
}

/// A plan with a mix from a file that has this content or can't be read.
fn mix_from(file: Result<&str, &str>) -> Result<Plan, PlanError> {
    let text = "name = \"t\"\n[[target]]\nname = \"n\"\nnull = true\n[[workload]]\n\
        kind = \"op_mix\"\nrate = 10\nmix_from = \"a.txt\"\n";
    let mut raw = RawPlan::parse(text, "p.toml")?;
    raw.read_mixes(|path| {
        assert_eq!(path, "a.txt");
        file.map(str::to_owned).map_err(str::to_owned)
    })?;
    Plan::resolve(&raw, &around())
}

#[test]
fn converts_mix_file_to_shares() {
    let plan = mix_from(Ok("read write\n90 9% 30 3%\n")).unwrap();
    let expected = [(OpKind::Read, 7_500), (OpKind::Write, 2_500)];
    assert_eq!(plan.runs[0].op_mix.shares, expected);
    reads_back(&plan);
    let hint = "(hint: what `nfsstat -c`, `nfsstat -s` or `mountstats` prints, or a copy of \
                /proc/net/rpc/nfs or /proc/self/mountstats)";
    for (file, why) in
        [(Err("No such file"), "No such file"), (Ok("x"), "it contains no counts of NFS calls")]
    {
        let expected =
            format!("p.toml:8:12: mix_from: can't take a mix from `a.txt`: {why} {hint}");
        assert_eq!(mix_from(file).unwrap_err().to_string(), expected);
    }
}

/// A plan with a mix from the difference of two files of counters.
fn mix_between(before: &str, after: &str) -> Result<Plan, PlanError> {
    let text = "name = \"t\"\n[[target]]\nname = \"n\"\nnull = true\n[[workload]]\n\
        kind = \"op_mix\"\nrate = 10\nmix_from = \"a.txt\"\nmix_since = \"b.txt\"\n";
    let mut raw = RawPlan::parse(text, "p.toml")?;
    raw.read_mixes(|path| Ok(if path == "a.txt" { after } else { before }.to_owned()))?;
    Plan::resolve(&raw, &around())
}

#[test]
fn derives_mix_from_two_counts() {
    let plan = mix_between("read write\n90 0\n", "read write\n120 90\n").unwrap();
    let expected = [(OpKind::Read, 2_500), (OpKind::Write, 7_500)];
    assert_eq!(plan.runs[0].op_mix.shares, expected);
    reads_back(&plan);
    let back = mix_between("read\n90\n", "read\n80\n").unwrap_err().to_string();
    let empty = mix_between("x", "read\n80\n").unwrap_err().to_string();
    let text = "name = \"t\"\n[[target]]\nname = \"n\"\nnull = true\n[[workload]]\n\
        kind = \"op_mix\"\nrate = 10\nmix_since = \"b.txt\"\n";
    let alone = RawPlan::parse(text, "p.toml").unwrap_err().to_string();
    insta::assert_snapshot!([back, empty, alone].join("\n"));
}

#[test]
fn round_trips_disturbances() {
    let plan = plan(
        "name = \"t\"\nseed = 1\n[[host]]\nname = \"s\"\nssh = \"root@s\"\n\
         [[target]]\nname = \"n\"\nserver = \"s\"\n[[workload]]\nkind = \"mixed\"\n\
         [[disturb]]\nkind = \"nfsd-stop\"\nat = \"1m\"\nfor = \"1500ms\"\n\
         [[disturb]]\nkind = \"clock-step\"\nhost = \"s\"\nat = \"2m\"\nfor = \"5s\"\n\
         by = \"-5s\"\n",
    )
    .unwrap();
    let written: Vec<String> = plan.disturbances.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(written.join("\n"), @"
    nfsd-stop at 60.0 s for 1.50 s
    clock-step on s at 120 s for 5.00 s by -5.00 s
    ");
    reads_back(&plan);
}

#[test]
fn round_trips_conclusions() {
    let plan = plan(
        "name = \"t\"\n[[target]]\nname = \"n\"\nnull = true\n\
         [[workload]]\nkind = \"mixed\"\nworkers = [1, 4]\n\
         [[conclusion]]\ntext = \"More workers, \\\"more\\\" ops.\"\nfactor = \"workers\"\n\
         from = 1\n\
         to = \"4\"\nwhere = { queue_depth = [1, 8], \"fact.kernel\" = \"6.1\" }\n\
         passes = [\"mix\"]\nexpect = \"faster\"\n\
         [[conclusion]]\ntext = \"What matters?\"\nexpect = \"ranking\"\npasses = \"mix\"\n\
         [[conclusion]]\ntext = \"It is not mature.\"\nwhy = \"no figure says so\"\n",
    )
    .unwrap();
    let conclusions = &plan.conclusions;
    let [first, ranking, second] = conclusions.as_slice() else { panic!("{conclusions:?}") };
    assert_eq!((first.from.as_str(), first.only["queue_depth"].len()), ("1", 2));
    assert_eq!((ranking.expect.name(), ranking.passes.len()), ("ranking", 1));
    assert_eq!((second.factor.as_str(), second.why.as_str()), ("", "no figure says so"));
    reads_back(&plan);
}

#[test]
fn round_trips_requirements() {
    let plan = plan(
        "name = \"t\"\n[[target]]\nname = \"n\"\nnull = true\n\
         [[workload]]\nkind = \"stream\"\nworkers = [1, 4]\n\
         [[require]]\nlimit = \"stream read.p99.9 <= 20ms\"\nwhere = { workers = 4 }\n\
         [[require]]\nlimit = \"errors == 0\"\n",
    )
    .unwrap();
    let limits: Vec<&str> = plan.requirements.iter().map(|one| one.limit.as_str()).collect();
    assert_eq!(limits, ["stream read.p99.9 <= 20ms", "errors == 0"]);
    assert_eq!(plan.requirements[0].only["workers"], ["4"]);
    reads_back(&plan);
}
