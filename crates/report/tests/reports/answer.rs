//! Tests of the answer in the Markdown report, for campaigns of every shape.
//!
//! Trials of a run differ by up to 5 %, so speeds that differ by less overlap.

use model::testing::RunBuilder;
use model::{
    BackendKind, Campaign, CaveatCode, CheckpointModel, Durability, Fact, FrameDelivery,
    KindResult, OfferedLoad, OpKind, Pass, Proto, RunSpec, Target, TrainingWork, WorkerTime,
    Workload,
};
use report::{FactorEffects, Format, render};

use crate::campaigns::{empty, failed, made, quick, spec, sweep, wide};

/// Returns the lines of the answer: one for each pass, then the remarks.
fn answer(campaign: &Campaign) -> Vec<String> {
    let report = render(campaign, Format::Markdown);
    let lines = report.lines().skip(4);
    let lines = lines.take_while(|line| !line.starts_with("| ") && !line.starts_with("## "));
    let lines = lines.filter(|line| !line.is_empty()).map(|line| line.replace('\\', ""));
    let (lead, mut sentences): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("> "));
    // How far it can be trusted is the last of the three sentences above it.
    let trust = lead.last().unwrap().trim_start_matches("> ");
    match sentences.last_mut() {
        Some(remark) if !remark.starts_with("- ") => remark.extend([" ", trust]),
        _ => sentences.push(trust.to_owned()),
    }
    sentences
}

/// The sentences about stream reads below the results.
fn of_reads(campaign: &Campaign) -> String {
    let answer = answer(campaign);
    let line = answer.iter().find_map(|line| line.strip_prefix("- stream read: ")).unwrap();
    line.split_once("/s. ")
        .or(line.split_once("). "))
        .map_or("", |(_, sentences)| sentences)
        .to_owned()
}

fn stream(target: &str, workers: u32) -> RunSpec {
    let backend = match target {
        "nfs" => BackendKind::Nfs,
        "uring" => BackendKind::Uring,
        _ => BackendKind::Posix,
    };
    let name = if target == "nfs" { target } else { "dir" };
    let spec = spec(name, backend, Workload::Stream);
    RunBuilder::from(spec).workers(workers).durability(Durability::Sync).build()
}

/// One target with the given numbers of workers, each at its speed.
fn over_workers(speeds: &[(u32, u64)], trials: u32) -> Campaign {
    let run = |(workers, speed): &(u32, u64)| (stream("nfs", *workers), *speed, trials);
    made(speeds.iter().map(run).collect())
}

/// Adds a caveat to every read of a run.
fn add_read_caveat(campaign: &mut Campaign, run: usize, code: CaveatCode) {
    add_caveat(campaign, run, Pass::Read, code);
}

fn add_caveat(campaign: &mut Campaign, run: usize, pass: Pass, code: CaveatCode) {
    for trial in &mut campaign.runs[run].trials {
        let result = trial.passes.iter_mut().find(|result| result.pass == pass);
        result.unwrap().caveats.push(code.because("seen"));
    }
}

#[test]
fn ranks_only_separated_targets() {
    insta::assert_snapshot!(answer(&quick()).join("\n"));
}

#[test]
fn treats_backends_as_one_side() {
    let runs =
        vec![(stream("nfs", 1), 90, 5), (stream("posix", 1), 28, 5), (stream("uring", 1), 28, 5)];
    insta::assert_snapshot!(answer(&made(runs))[1]);
}

#[test]
fn overlapping_intervals_are_noise() {
    let runs = vec![(stream("nfs", 1), 30, 5), (stream("posix", 1), 31, 5)];
    assert_eq!(of_reads(&made(runs)), "No measurable difference.");
}

#[test]
fn names_only_differing_pairs() {
    let mut runs = vec![(stream("nfs", 1), 30, 5)];
    runs.extend([(stream("posix", 1), 60, 5), (stream("uring", 1), 31, 5)]);
    insta::assert_snapshot!(of_reads(&made(runs)));
}

#[test]
fn never_compares_across_different_settings() {
    let runs =
        vec![(stream("nfs", 1), 30, 5), (stream("posix", 4), 90, 5), (stream("posix", 2), 45, 5)];
    let files = RunBuilder::from(stream("posix", 1)).files(8).build();
    let two = made(vec![(stream("nfs", 1), 30, 5), (files, 90, 5)]);
    let size = RunBuilder::from(stream("posix", 1)).file_size_bytes(1 << 20).build();
    let many = made(vec![(stream("nfs", 1), 30, 5), (size, 90, 5)]);
    let campaigns = [made(runs), two, many];
    insta::assert_snapshot!(campaigns.map(|campaign| of_reads(&campaign)).join("\n"), @"
    dir rises 2.0x with workers 2 to 4.
    Not compared: no two results have the same settings.
    Not compared: no two results have the same settings.
    ");
}

#[test]
fn names_settings_that_go_with_factor() {
    let run = |workers, speed| {
        (RunBuilder::from(stream("nfs", workers)).files(workers).build(), speed, 5)
    };
    // Twice the files in half the time.
    let sentences = of_reads(&made(vec![run(2, 10), run(4, 20)]));
    insta::assert_snapshot!(
        sentences,
        @"nfs rises 4.0x (3.9x to 4.1x) with workers 2 to 4 (and files)."
    );
}

#[test]
fn describes_figure_over_swept_factor() {
    let long: Vec<(u32, u64)> =
        (1..=10).map(|workers| (workers, 10 * u64::from(workers))).collect();
    let rates = [
        &[(1, 10), (2, 20), (4, 40), (8, 41)][..],
        // The order in the plan does not matter.
        &[(8, 10), (2, 20), (1, 20)],
        &[(1, 20), (2, 20)],
        &[(1, 10), (2, 30), (4, 20)],
        &long,
    ];
    let sentences = rates.map(|speeds| of_reads(&over_workers(speeds, 5)));
    insta::assert_snapshot!(sentences.join("\n"), @"
    nfs rises 4.1x (4.0x to 4.2x) with workers 1 to 8.
    nfs falls 2.0x (1.9x to 2.1x) with workers 1 to 8.
    nfs shows no measurable difference with workers 1 to 2.
    nfs is best at workers 2: 3.0x that at workers 1.
    nfs rises 10x (9.8x to 10x) with workers 1 to 10.
    ");
}

#[test]
fn two_factors_are_distinguished() {
    insta::assert_snapshot!(of_reads(&sweep()));
}

#[test]
fn too_few_trials_rank_nothing() {
    for trials in [1, 2] {
        let few = over_workers(&[(1, 10), (2, 30), (4, 20)], trials);
        assert!(of_reads(&few).starts_with("Too few trials"), "{trials}");
        let last = answer(&few).pop().unwrap();
        assert!(last.ends_with(": too-few-trials (6)."), "{last}");
    }
    insta::assert_snapshot!(of_reads(&wide()), @"Too few trials to compare them.");
}

#[test]
fn compares_nothing_for_one_run() {
    insta::assert_snapshot!(answer(&over_workers(&[(1, 10)], 5)).join("\n"), @"
    - stream write: nfs 134 MB/s.
    - stream read: nfs 268 MB/s.
    Nothing to compare: no test has two results. Both results are clean.
    ");
}

#[test]
fn failures_alone_have_no_figure() {
    let campaigns = [failed(), empty()];
    for campaign in &campaigns {
        assert_eq!(answer(campaign).len(), 1, "{campaign:?}");
    }
    insta::assert_snapshot!(campaigns.map(|campaign| lead(&campaign).join("\n")).join("\n"), @"
    No result is usable.
    All 3 results are missing: no route to host.
    No result is usable.
    The campaign is not complete.
    ");
}

#[test]
fn omits_invalid_figures() {
    let mut campaign = made(vec![(stream("nfs", 1), 90, 5), (stream("posix", 1), 30, 5)]);
    add_read_caveat(&mut campaign, 0, CaveatCode::Accounting);
    insta::assert_snapshot!(answer(&campaign).join("\n"));
}

#[test]
fn names_caveats_of_comparison() {
    let mut campaign = made(vec![
        (stream("nfs", 1), 10, 5),
        (stream("posix", 1), 30, 5),
        (stream("uring", 1), 31, 5),
    ]);
    add_read_caveat(&mut campaign, 1, CaveatCode::Cached);
    let some = of_reads(&campaign);
    add_read_caveat(&mut campaign, 2, CaveatCode::Cached);
    let side = of_reads(&campaign);
    add_read_caveat(&mut campaign, 0, CaveatCode::Cached);
    let all = of_reads(&campaign);
    insta::assert_snapshot!([some, side, all].join("\n"));
}

#[test]
fn compares_null_target_with_nothing() {
    let null = RunBuilder::from(stream("posix", 1))
        .target_name("null".into())
        .target(Target::Null)
        .backend(BackendKind::Null)
        .build();
    let lines = answer(&made(vec![(null, 1_000, 5), (stream("posix", 1), 10, 5)]));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn lists_ends_of_many_runs() {
    let mut runs = Vec::new();
    for (target, speed) in [("nfs", 10), ("posix", 30)] {
        for workers in 1..=8 {
            for blocks in 1..=8 {
                let spec =
                    RunBuilder::from(stream(target, workers)).io_size_bytes(blocks << 12).build();
                runs.push((spec, speed * u64::from(workers), 5));
            }
        }
    }
    let lines = answer(&made(runs.clone()));
    assert_eq!(lines.len(), 3);
    let only_nfs = of_reads(&made(runs[..64].to_vec()));
    insta::assert_snapshot!([&lines[1], &only_nfs].map(String::as_str).join("\n"));
}

/// Returns the three sentences above everything else.
fn lead(campaign: &Campaign) -> Vec<String> {
    let report = render(campaign, Format::Markdown);
    let lines = report.lines().filter_map(|line| line.strip_prefix("> "));
    lines.map(|line| line.replace('\\', "")).collect()
}

#[test]
fn leads_with_three_sentences() {
    // The second sentence is about `mixed`: of the streams, one was cached, and one did not wait
    // for stable storage.
    let sentences = [lead(&quick()), lead(&over_workers(&[(1, 10)], 5))];
    insta::assert_snapshot!(sentences.map(|sentences| sentences.join("\n")).join("\n\n"));
}

#[test]
fn names_caveats_beside_figures() {
    let mut campaign = made(vec![(stream("nfs", 1), 90, 5), (stream("posix", 1), 28, 5)]);
    add_read_caveat(&mut campaign, 0, CaveatCode::Cached);
    let cached = lead(&campaign)[..2].join("\n");
    add_caveat(&mut campaign, 1, Pass::Write, CaveatCode::NotDurable);
    let not_durable = lead(&campaign).swap_remove(1);
    let mut factor = over_workers(&[(1, 10), (4, 80)], 5);
    add_caveat(&mut factor, 0, Pass::Write, CaveatCode::Cached);
    let factor = lead(&factor).swap_remove(1);
    insta::assert_snapshot!([cached, not_durable, factor].join("\n\n"));
}

#[test]
fn does_not_compare_differing_backends() {
    let direct = RunBuilder::from(stream("uring", 1)).direct(true).build();
    let campaign = made(vec![(stream("posix", 1), 10, 5), (direct, 20, 5)]);
    let unlike = "backend posix and backend uring are not compared: direct differs, too.";
    let reads = of_reads(&campaign);
    assert!(reads.contains(&unlike.replace("backend ", "")), "{reads}");
    assert!(!lead(&campaign).join(" ").contains("2.0x"), "{:?}", lead(&campaign));
}

#[test]
fn noise_singles_out_no_setting() {
    let level = lead(&over_workers(&[(1, 20), (2, 20), (4, 20)], 5));
    assert!(level[0].ends_with("(intervals overlap)."), "{level:?}");
    assert!(!level[0].contains("workers"), "{level:?}");
    let apart = lead(&over_workers(&[(1, 20), (2, 20), (4, 40)], 5));
    assert!(apart[0].contains(" 537 MB/s (nfs, workers 4)"), "{apart:?}");
}

#[test]
fn offered_load_is_never_an_effect() {
    let at_rate = |rate_per_s, speed| {
        let mut run = spec("nfs", BackendKind::Nfs, Workload::Mixed);
        run.load.rate_per_s = rate_per_s;
        (run, speed, 5)
    };
    let mut campaign = made(vec![at_rate(200, 10), at_rate(800, 40)]);
    let offer = |campaign: &mut Campaign, run: usize, share: u64| {
        let rate_per_s = campaign.runs[run].spec.load.rate_per_s;
        for trial in &mut campaign.runs[run].trials {
            for pass in &mut trial.passes {
                let scheduled_ops = pass.ops() * share;
                let span_ns = pass.window_ns;
                let offered =
                    OfferedLoad { rate_per_s, scheduled_ops, span_ns, ..OfferedLoad::default() };
                pass.scope.offered = Some(offered);
            }
        }
    };
    offer(&mut campaign, 0, 1);
    offer(&mut campaign, 1, 1);
    let sentences = lead(&campaign).join(" ");
    assert!(!sentences.contains("has the largest effect"), "{sentences}");
    let sustained = answer(&campaign).join("\n");
    offer(&mut campaign, 1, 2);
    let overloaded = answer(&campaign).join("\n");
    insta::assert_snapshot!([sustained, overloaded].join("\n\n"));
}

#[test]
fn never_ranks_different_commands() {
    let command = |words: &[&str], target: &str, speed| {
        let mut run = spec(target, BackendKind::Posix, Workload::App);
        run.command.run = words.iter().map(|word| (*word).to_owned()).collect();
        (run, speed, 5)
    };
    let tar = ["tar", "-cf", "a.tar", "tree"];
    let make = ["make", "-j2"];
    let alone = made(vec![command(&tar, "dir", 80), command(&make, "dir", 1)]);
    let sentences = lead(&alone).join(" ");
    assert!(sentences.contains("app: make -j2 ") && !sentences.contains('x'), "{sentences}");
    let two = made(vec![command(&make, "dir", 20), command(&make, "slow", 10)]);
    insta::assert_snapshot!(answer(&two).join("\n"));
}

#[test]
fn names_largest_comparable_difference() {
    let reads = |speed| {
        let mixed = spec("dir", BackendKind::Posix, Workload::Mixed);
        let nfs = spec("nfs", BackendKind::Nfs, Workload::Mixed);
        vec![
            (stream("nfs", 1), 28, 5),
            (stream("posix", 1), 90, 5),
            (nfs, 10, 5),
            (mixed, speed, 5),
        ]
    };
    let sentences = [10, 80].map(|speed| lead(&made(reads(speed))).swap_remove(1));
    insta::assert_snapshot!(sentences.join("\n"), @"
    stream write: dir is 3.2x nfs.
    mixed: dir is 8.0x nfs.
    ");
}

#[test]
fn names_dominant_setting_with_levels() {
    let speeds = [&[(1, 10), (2, 20), (4, 80)][..], &[(1, 80), (2, 10)]];
    let sentences = speeds.map(|speeds| lead(&over_workers(speeds, 5)).swap_remove(1));
    insta::assert_snapshot!(sentences.join("\n"));
}

#[test]
fn prefers_explained_variance_over_ratio() {
    let mut runs = Vec::new();
    for (workers, speed) in [(1, 30), (2, 50), (4, 70), (8, 90), (16, 110)] {
        for (durability, part) in [(Durability::None, 1), (Durability::Sync, 3)] {
            let spec = RunBuilder::from(stream("nfs", workers)).durability(durability).build();
            runs.push((spec, speed / part, 5));
        }
    }
    insta::assert_snapshot!(lead(&made(runs))[1]);
}

#[test]
fn compares_noisy_pair_with_none() {
    let runs =
        vec![(stream("nfs", 4), 60, 5), (stream("posix", 1), 10, 5), (stream("uring", 1), 10, 5)];
    insta::assert_snapshot!(
        of_reads(&made(runs)),
        @"no measurable difference between dir (posix) and dir (uring)."
    );
}

/// Returns a stream over one of the NFS transports.
fn over(target: &str, proto: Proto) -> RunSpec {
    let mut spec = spec(target, BackendKind::Nfs, Workload::Stream);
    if let Target::Nfs(nfs) = &mut spec.target {
        nfs.settings.proto = proto;
    }
    spec
}

#[test]
fn uses_same_ratio_everywhere() {
    // The two pairs have ratios of medians of 7.5 and 5.0; the factor's ratio is their geometric
    // mean.
    let with = |proto, io_size_bytes, speed| {
        let spec = RunBuilder::from(over("nfs", proto)).io_size_bytes(io_size_bytes).build();
        (spec, speed, 5)
    };
    let campaign = made(vec![
        with(Proto::Udp, 65_536, 20),
        with(Proto::Tcp, 65_536, 150),
        with(Proto::Udp, 1 << 20, 20),
        with(Proto::Tcp, 1 << 20, 100),
    ]);
    let headline = lead(&campaign)[1].clone();
    let (_, stated) = headline.split_once("tcp is ").unwrap();
    let (ratio, rest) = stated.split_once(" udp (").unwrap();
    let (interval, _) = rest.split_once("), other settings equal").unwrap();
    assert_eq!(ratio, "6.1x");
    let sentences = of_reads(&campaign);
    assert!(sentences.contains(&format!("tcp is {ratio} proto udp ({interval})")), "{sentences}");
    let factors = FactorEffects::from_campaign(&campaign).render(Format::Markdown);
    let row = factors.lines().find(|line| line.contains("tcp")).unwrap();
    assert!(row.contains("6.1"), "{row}\n{headline}");
}

#[test]
fn ignores_settings_target_lacks() {
    let campaign = made(vec![
        (stream("posix", 2), 90, 5),
        (over("nfs", Proto::Udp), 20, 5),
        (over("nfs", Proto::Tcp), 40, 5),
        (over("other", Proto::Udp), 10, 5),
        (over("other", Proto::Tcp), 20, 5),
    ]);
    let headline = lead(&campaign)[1].clone();
    assert!(headline.contains(": tcp is 2.0x udp ("), "{headline}");
    let factors = FactorEffects::from_campaign(&campaign).render(Format::Markdown);
    assert!(!factors.contains("| – |"), "{factors}");
    let ratios: Vec<&str> = factors.lines().filter(|line| line.contains("tcp")).collect();
    assert!(ratios.iter().all(|row| row.contains("2.0") || row.contains("1.9")), "{ratios:?}");
}

#[test]
fn ranks_mixed_io_sizes_by_bytes() {
    // Ops four times as large, at half the rate: better by bytes, worse by ops.
    let run = |io_size_bytes: u32, speed| {
        let spec = spec("nfs", BackendKind::Nfs, Workload::Mixed);
        (RunBuilder::from(spec).io_size_bytes(io_size_bytes).build(), speed, 5)
    };
    let mut campaign = made(vec![run(4_096, 20), run(16_384, 10)]);
    let passes = campaign.runs[1].trials.iter_mut().flat_map(|trial| &mut trial.passes);
    passes.flat_map(|pass| &mut pass.kinds).for_each(|kind| kind.bytes *= 4);
    let table = render(&campaign, Format::Markdown);
    let row = |size: &str| table.lines().find(|line| line.contains(size)).unwrap().to_owned();
    let small = row("| 4 KiB |");
    let large = row("| 16 KiB |");
    assert!(small.contains("(▼") && large.contains("(▲"), "{small}\n{large}");
    assert!(lead(&campaign)[0].ends_with(" MB/s (nfs, io_size 16 KiB)."), "{:?}", lead(&campaign));
    let page = render(&campaign, Format::Html);
    assert!(page.contains("Bytes per second") && !page.contains("Ops per second"));
}

/// A checkpoint of eight ranks in two runs, whose rank 5 takes this many times as long.
fn checkpoints(slow: u64) -> Campaign {
    let mut runs = Vec::new();
    for model in [CheckpointModel::B8, CheckpointModel::B70] {
        let spec = spec("dir", BackendKind::Posix, Workload::Checkpoint);
        let mut spec = RunBuilder::from(spec).workers(8).files(8).build();
        spec.checkpoint.model = model;
        runs.push((spec, 30, 3));
    }
    let mut campaign = made(runs);
    for trial in campaign.runs.iter_mut().flat_map(|run| &mut run.trials) {
        for pass in &mut trial.passes {
            let one_ns = if pass.pass == Pass::Save { 2_000_000_000 } else { 1_000_000_000 };
            let late_ns = 10_000_000 * u64::from(trial.index);
            pass.scope.rank_times_ns = vec![one_ns; 8];
            pass.scope.rank_times_ns[5] = one_ns * slow + late_ns;
            pass.window_ns = pass.scope.rank_times_ns[5];
        }
    }
    campaign
}

#[test]
fn states_seconds_of_slowest_rank() {
    let campaign = checkpoints(1);
    let text = render(&campaign, Format::Table);
    let lead: Vec<_> = text.lines().skip(2).take_while(|line| !line.starts_with("Fast")).collect();
    insta::assert_snapshot!(lead.join("\n"));
    let csv = render(&campaign, Format::Csv);
    let mut lines = csv.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').collect();
    let save: Vec<_> = lines.next().unwrap().split(',').collect();
    let value = |name| save[names.iter().position(|known| *known == name).unwrap()];
    assert_eq!((value("ranks"), value("time_s"), value("straggler_rank")), ("8", "2.010000", ""));
    // 2.01 s six times an hour.
    assert_eq!(value("stall_s_per_hour"), "12.060");
}

#[test]
fn names_rank_that_holds_others_up() {
    let text = render(&checkpoints(3), Format::Markdown);
    assert!(text.contains("held up by rank 5"), "{text}");
    assert!(text.contains("straggler"), "{text}");
    assert!(!render(&checkpoints(1), Format::Markdown).contains("straggler"));
}

/// Four streams, of whose frames some are late in the second trial.
fn streams(late_frames: u64) -> Campaign {
    let spec = spec("dir", BackendKind::Posix, Workload::Media);
    let mut spec = RunBuilder::from(spec).workers(4).files(480).build();
    spec.file_size_bytes = 48 << 20;
    let mut campaign = made(vec![(spec, 30, 3)]);
    for trial in &mut campaign.runs[0].trials {
        let late_frames = if trial.index == 1 { late_frames } else { 0 };
        trial.passes[0].scope.frames = Some(FrameDelivery {
            frames: 480,
            late_frames,
            streams: 4,
            late_streams: late_frames.min(1) as u32,
            worst_lateness_ns: late_frames * 1_000_000,
        });
    }
    campaign
}

#[test]
fn counts_streams_without_late_frames() {
    let text = render(&streams(0), Format::Markdown);
    assert!(
        text.contains("4 streams at 24 frames/s without a late frame (480 frames of"),
        "{text}"
    );
    let text = render(&streams(17), Format::Markdown);
    assert!(text.contains("3 of 4 streams at 24 frames/s without a late frame: 17 frames were"));
    assert!(text.contains("by up to 17.0 ms"), "{text}");
    for format in [Format::Table, Format::Markdown, Format::Html] {
        let table = render(&streams(17), format);
        assert!(table.contains("3 of 4") && table.contains("17 of 480"), "{table}");
    }
    let csv = render(&streams(17), Format::Csv);
    let mut lines = csv.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').collect();
    let row: Vec<_> = lines.next().unwrap().split(',').collect();
    let value = |name| row[names.iter().position(|known| *known == name).unwrap()];
    let found = ["streams", "late_streams", "late_frames", "worst_lateness_ns"].map(value);
    assert_eq!(found, ["4", "1", "17", "17000000"]);
    let json: serde_json::Value =
        serde_json::from_str(&render(&streams(17), Format::Json)).unwrap();
    assert_eq!(json["figures"][0]["frames"]["late_frames"], 17);
}

#[test]
fn states_commits_before_rates() {
    let database = |group_commit, durability| {
        let spec = spec("dir", BackendKind::Posix, Workload::Database);
        let mut spec = RunBuilder::from(spec).durability(durability).build();
        spec.database.group_commit = group_commit;
        (spec, 10, 3)
    };
    let one = made(vec![database(1, Durability::Sync)]);
    let both = made(vec![database(1, Durability::Sync), database(8, Durability::None)]);
    let commits = |campaign: &Campaign| {
        let mut lines = lead(campaign);
        lines.retain(|line| line.contains("commits/s"));
        lines.join("\n")
    };
    assert!(commits(&one).starts_with("1,000 commits/s (95 %: 959 to 1,035), 99 % of"));
    insta::assert_snapshot!(commits(&both));
    assert_eq!(commits(&checkpoints(1)), "");
}

/// The passes of a developer on a local disk and on a server, where they take `times` as long.
fn developers(times: u64, device: &str) -> Campaign {
    let mut runs = Vec::new();
    for (target, backend) in [("dir", BackendKind::Posix), ("nfs", BackendKind::Nfs)] {
        let spec = spec(target, backend, Workload::Developer);
        runs.push((RunBuilder::from(spec).files(100).build(), 30, 5));
    }
    let mut campaign = made(runs);
    for (number, run) in campaign.runs.iter_mut().enumerate() {
        for trial in &mut run.trials {
            if number == 0 {
                trial.facts.push(Fact::new("target", "device", device, "/proc/self/mountinfo"));
            }
            for pass in &mut trial.passes {
                let once_ns = 1_000_000_000 + 10_000_000 * u64::from(trial.index);
                pass.window_ns = if number == 0 { once_ns } else { once_ns * times };
                pass.scope.rank_times_ns = vec![pass.window_ns];
            }
        }
    }
    campaign
}

#[test]
fn compares_developers_with_local_disk() {
    let campaign = developers(4, "/dev/vda1");
    insta::assert_snapshot!(lead(&campaign)[0]);
    let csv = render(&campaign, Format::Csv);
    let mut lines = csv.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').collect();
    let at = names.iter().position(|name| *name == "times_local_disk").unwrap();
    let times: Vec<_> = lines.map(|line| line.split(',').nth(at).unwrap().to_owned()).collect();
    assert_eq!(times[..8], [""; 8], "the local disk itself");
    assert_eq!(times[8..], ["4.0000"; 8]);
    // Times, not rates: more is slower.
    let text = render(&campaign, Format::Markdown);
    assert!(text.contains("takes 4.0x as long"), "{text}");
}

#[test]
fn memory_is_no_local_disk() {
    let text = render(&developers(4, "tmpfs"), Format::Markdown);
    assert!(!text.contains("instead of"), "{text}");
}

/// A training of two accelerators that wait for this many milliseconds in each second.
fn trainings(waited_ms: u64) -> Campaign {
    let spec = spec("dir", BackendKind::Posix, Workload::Training);
    let mut campaign = made(vec![(spec, 30, 3)]);
    for trial in campaign.runs.iter_mut().flat_map(|run| &mut run.trials) {
        let late_ns = 1_000_000 * u64::from(trial.index);
        for pass in &mut trial.passes {
            pass.window_ns = 2_000_000_000;
            pass.scope.training = Some(TrainingWork {
                accelerators: 2,
                steps: 11,
                samples: 2_200,
                compute_ns: 2 * (1_000 - waited_ms) * 1_000_000,
                span_ns: 2 * (1_000_000_000 + late_ns),
                longest_wait_ns: 40_000_000,
                ..TrainingWork::default()
            });
        }
    }
    campaign
}

#[test]
fn states_utilization_of_accelerators() {
    let lead_of = |waited_ms| {
        let text = render(&trainings(waited_ms), Format::Markdown);
        text.lines().find(|line| line.contains("accelerators compute")).unwrap().to_owned()
    };
    let fed = lead_of(50);
    assert!(fed.contains("2 accelerators compute 94.9 % of the time"), "{fed}");
    assert!(fed.contains("enough for the required 90.0 %: 1100 samples/s, 51.0 ms lost"), "{fed}");
    assert!(lead_of(200).contains("less than the required 90.0 %"), "{}", lead_of(200));
    let csv = render(&trainings(50), Format::Csv);
    let mut lines = csv.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').collect();
    let row: Vec<_> = lines.next().unwrap().split(',').collect();
    let value = |name| row[names.iter().position(|known| *known == name).unwrap()];
    assert_eq!((value("all_accelerators"), value("samples_per_s")), ("2", "1100.000"));
    assert_eq!(value("waited_s"), "0.051000");
}

#[test]
fn describes_users_of_caches() {
    let spec = spec("dir", BackendKind::Posix, Workload::KvCache);
    let mut campaign = made(vec![(RunBuilder::from(spec).workers(4).files(128).build(), 30, 3)]);
    for trial in &mut campaign.runs[0].trials {
        let pass = &mut trial.passes[0];
        pass.window_ns = 1_000_000_000;
        pass.kinds.truncate(1);
        let known = pass.kinds[0].clone();
        let kinds = [(OpKind::ReadFile, 300, 1 << 20), (OpKind::Create, 100, 2 << 20)];
        pass.kinds.clear();
        for (kind, done, bytes_each) in kinds {
            let bytes = done * bytes_each;
            pass.kinds.push(KindResult { kind, issued: done, done, bytes, ..known.clone() });
            let time_ns = 5_000_000 * u64::from(trial.index + 1) + bytes_each;
            pass.scope.worst_p95.push(WorkerTime { kind, time_ns });
        }
    }
    let text = render(&campaign, Format::Markdown);
    let headline = "4 users read 300 op/s (315 MB/s) and write 100 op/s (210 MB/s); 75 % of the \
                    requests hit; p95 of the slowest user: read 11.0 ms, write 12.1 ms";
    assert!(text.contains(headline), "{text}");
    let csv = render(&campaign, Format::Csv);
    let mut lines = csv.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').collect();
    let row: Vec<_> = lines.next().unwrap().split(',').collect();
    let value = |name| row[names.iter().position(|known| *known == name).unwrap()];
    assert_eq!(value("read_p95_worst_ns"), "11048576");
    assert!(value("hit_share").starts_with("0.75"), "{}", value("hit_share"));
}
