//! Tables of four old reports, made from their own numbers: ours have the same lines.

use model::testing::RunBuilder;
use model::{BackendKind, Campaign, Discard, NfsVersion, Pass, Proto, RunSpec, Target, Workload};
use report::{Format, render};

use crate::campaigns::{made, spec};

const SECOND: u64 = 1_000_000_000;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A run over NFS on one file of the given size in MiB.
fn on_file(workload: Workload, version: NfsVersion, proto: Proto, mib: u64) -> RunSpec {
    let mut run = RunBuilder::from(spec("nfs", BackendKind::Nfs, workload))
        .files(1)
        .workers(1)
        .file_size_bytes(mib * MIB)
        .build();
    if let Target::Nfs(nfs) = &mut run.target {
        nfs.settings.version = version;
        nfs.settings.proto = proto;
    }
    run
}

/// Plants times: for each run, the time of the passes of each of its trials.
fn plant_times(campaign: &mut Campaign, times_ms: &[&[u64]]) {
    for (run, times_ms) in campaign.runs.iter_mut().zip(times_ms) {
        let bytes = run.spec.set_bytes();
        for (trial, time_ms) in run.trials.iter_mut().zip(*times_ms) {
            for pass in &mut trial.passes {
                pass.window_ns = time_ms * 1_000_000;
                pass.common_window_ns = pass.window_ns;
                pass.kinds[0].bytes = bytes;
                pass.caveats.clear();
            }
        }
    }
}

/// **Source:** Chan (2001), "Jumbo Frame NFSv2 vs. NFSv3", runs of 100 and of 500 MB.
const PRINTED: [&str; 4] = [
    "NFSv2     100  5861 96.9 35267 73.7 30658 74.3  7033 99.9 177614 98.9 7089.3 95.7",
    "NFSv3     100  3498 61.4  7483 23.8  6233 23.0  7015 100.0 178076 99.1 911.4 13.0",
    "NFSv2     500  5808 95.3 29198 47.3  7763 17.2  5489 83.2 26826 46.0 721.0 19.6",
    "NFSv3     500  2597 45.5  4091 12.8  1291  5.7  5944 94.3 25866 56.2 216.5  6.7",
];

#[test]
fn prints_versions_of_2001_report() {
    let mut runs = Vec::new();
    for line in PRINTED {
        let version = if line.starts_with("NFSv2") { NfsVersion::V2 } else { NfsVersion::V3 };
        let mib = if line.contains(" 100 ") { 100 } else { 500 };
        runs.push((on_file(Workload::Bonnie, version, Proto::Udp, mib), 10, 1));
    }
    let mut campaign = made(runs);
    for (run, line) in campaign.runs.iter_mut().zip(PRINTED) {
        let figures: Vec<f64> =
            line.split_whitespace().skip(2).map(|word| word.parse().unwrap()).collect();
        // Our passes are in a different order than the columns; only character writes come first in
        // both.
        for pass in &mut run.trials[0].passes {
            let order = [
                Pass::CharWrite,
                Pass::Write,
                Pass::Update,
                Pass::CharRead,
                Pass::Read,
                Pass::Seeks,
            ];
            let column = order.iter().position(|known| *known == pass.pass).unwrap();
            let rate = figures[2 * column];
            let percent = figures[2 * column + 1];
            pass.window_ns = 10 * SECOND;
            pass.client_cpu_ns = (percent * SECOND as f64 / 10.0).round() as u64;
            let kind = &mut pass.kinds[0];
            let all = (rate * 10.0).round() as u64;
            kind.kind = pass.pass.kinds()[0];
            kind.bytes = all * KIB;
            if pass.pass == Pass::Seeks {
                kind.done = all;
                kind.issued = all;
                kind.bytes = 0;
            }
        }
    }
    let text = render(&campaign, Format::Bonnie);
    let plain = text.replace('*', " ");
    for line in PRINTED {
        assert!(plain.lines().any(|ours| ours == line), "{line}\n{text}");
    }
    let fast = text.lines().find(|line| line.starts_with("NFSv2     100")).unwrap();
    assert!(
        fast.contains("*5861 ") && fast.contains("*35267 ") && !fast.contains("*7033*"),
        "{text}"
    );
    assert!(!text.contains("*7483") && text.contains("*178076"), "{text}");
}

/// **Source:** Pawlowski (1996), "Read Throughput of 20MB File in KB/s", 100BaseT.
#[test]
fn prints_transports_of_1996_talk() {
    let rows = [
        (NfsVersion::V2, 8, Proto::Udp, 6_274_u64),
        (NfsVersion::V2, 8, Proto::Tcp, 6_000),
        (NfsVersion::V3, 8, Proto::Udp, 9_499),
        (NfsVersion::V3, 8, Proto::Tcp, 8_048),
        (NfsVersion::V3, 32, Proto::Udp, 10_629),
        (NfsVersion::V3, 32, Proto::Tcp, 9_093),
        (NfsVersion::V2, 32, Proto::Udp, 1),
        (NfsVersion::V2, 32, Proto::Tcp, 1),
    ];
    let mut runs = Vec::new();
    let mut times: Vec<Vec<u64>> = Vec::new();
    for (version, kib, proto, kib_per_s) in rows {
        let run = on_file(Workload::Stream, version, proto, 20);
        let run = RunBuilder::from(run).transfer_size_bytes(Some(kib << 10)).build();
        // Eleven trials, with the time of each in milliseconds.
        times.push(vec![20 * KIB * 1_000 / kib_per_s; 11]);
        runs.push((run, 10, 11));
    }
    let mut campaign = made(runs);
    let times: Vec<&[u64]> = times.iter().map(Vec::as_slice).collect();
    plant_times(&mut campaign, &times);
    for run in &mut campaign.runs {
        if run.spec.impossible().is_some() {
            run.trials.clear();
        }
    }
    let text = render(&campaign, Format::Seed);
    let begin = text.find("Read Throughput of 20MB File in KB/s\n").expect(&text);
    let table: Vec<Vec<&str>> = text[begin..]
        .lines()
        .skip(1)
        .take(6)
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(table[0], ["UDP", "TCP"], "{text}");
    assert_eq!(table[2][0], "NFS V2 8KB");
    assert_eq!(table[4], ["NFS V3 32KB", "*10633", "9094"], "{text}");
    assert_eq!(table[5], ["NFS V2 32KB", "not supported", "not supported"], "{text}");
}

/// **Source:** St.Laurent (2003), test 1: seven passes, the highest and the lowest discarded.
#[test]
fn prints_extremes_of_2003_report() {
    let mut run = on_file(Workload::Stream, NfsVersion::V2, Proto::Udp, 100);
    run.repetition.discard = Discard::Extremes;
    let mut campaign = made(vec![(run, 10, 7)]);
    plant_times(&mut campaign, &[&[27_000, 34_000, 26_000, 27_000, 25_000, 28_000, 27_000]]);
    let text = render(&campaign, Format::Seed);
    let head = text.lines().find(|line| line.contains("elapsed (s)")).unwrap();
    let row = text.lines().find(|line| line.contains("stream write")).unwrap();
    let cell = |name: &str| {
        let end = head.find(name).unwrap() + name.len();
        row[..end].split_whitespace().last().unwrap()
    };
    assert_eq!((cell("elapsed (s)"), cell("highest (s)")), ("27.00", "(34.00)"), "{text}");
    assert_eq!((cell("lowest (s)"), cell("MB/s")), ("(25.00)", "3.70"), "{text}");
}

/// **Source:** Uzilov (2007): 4294967296 bytes in 446.05 s were 9.18 MB/s; v4 was not supported.
#[test]
fn prints_rates_of_2007_report() {
    let three = on_file(Workload::Stream, NfsVersion::V3, Proto::Tcp, 4_096);
    let four = on_file(Workload::Stream, NfsVersion::V4_0, Proto::Udp, 4_096);
    let mut campaign = made(vec![(three, 10, 1), (four, 10, 1)]);
    plant_times(&mut campaign, &[&[446_051], &[1]]);
    campaign.runs[1].trials.clear();
    let text = render(&campaign, Format::Seed);
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.iter().any(|cells| cells.starts_with(&["9.18", "9.18", "3", "tcp"])), "{text}");
    let four = ["not", "supported", "not", "supported", "4.0", "udp"];
    assert!(lines.iter().any(|cells| cells.starts_with(&four)), "{text}");
}

/// **Source:** "A Comparison of Various NFS Configurations" (2009): its settings and the titles of
/// its pictures. It prints no numbers; these are invented.
#[test]
fn prints_sizes_of_2009_report() {
    let mut runs = Vec::new();
    for (random, workers) in [(0, 1), (100, 20)] {
        for read_percent in [0, 100] {
            for transfer_kib in [32, 1024] {
                for io_kib in [64, 4] {
                    let run = on_file(Workload::Mixed, NfsVersion::V3, Proto::Tcp, 64);
                    let run = RunBuilder::from(run)
                        .workers(workers)
                        .read_percent(read_percent)
                        .io_size_bytes(io_kib << 10)
                        .transfer_size_bytes(Some(transfer_kib << 10));
                    let mut run = run.build();
                    run.layout.random_percent = random;
                    runs.push((run, 10, 5));
                }
            }
        }
    }
    let mut campaign = made(runs);
    for run in &mut campaign.runs {
        let is_large = run.spec.io_size_bytes == 64 << 10;
        // Transfers of 1 MiB are faster for large ops, but not for small ones.
        let target = run.spec.settings();
        let is_wide = target
            .iter()
            .any(|(name, value)| *name == "transfer_size" && value.starts_with("1 MiB"));
        let mib_per_s = match (is_large, is_wide) {
            (true, true) => 80,
            (true, false) => 40,
            (false, _) => 10,
        };
        for trial in &mut run.trials {
            for pass in &mut trial.passes {
                pass.window_ns = 10 * SECOND;
                pass.caveats.clear();
                let ops = mib_per_s * 10 * MIB / u64::from(run.spec.io_size_bytes);
                pass.kinds.truncate(1);
                let kind = &mut pass.kinds[0];
                kind.issued = ops;
                kind.done = ops;
                kind.bytes = mib_per_s * 10 * MIB;
            }
        }
    }
    let text = render(&campaign, Format::Seed);
    let begin = text.find("Sequential Single Threaded Tests, MB/s\n").expect(&text);
    let lines: Vec<Vec<&str>> = text[begin..]
        .lines()
        .skip(1)
        .take(6)
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(lines[0], ["read %", "settings", "4 KiB", "64 KiB"], "{text}");
    assert_eq!(lines[2], ["100", "transfer_size 32 KiB", "10.00", "40.00"], "{text}");
    assert_eq!(lines[3], ["100", "transfer_size 1 MiB", "10.00", "*80.00"], "{text}");
    assert_eq!(lines[4], ["0", "transfer_size 32 KiB", "10.00", "40.00"], "{text}");
    assert!(text.contains("Multi-Threaded Tests (20 threads), MB/s\n"), "{text}");
    assert!(!text.contains("Single Threaded Tests (") && text.contains("*: the best"), "{text}");
}

/// Files below one MiB have different sizes, and are compared with files of similar size.
#[test]
fn prints_small_file_sizes_separately() {
    let runs: Vec<_> = [NfsVersion::V3, NfsVersion::V2, NfsVersion::V3, NfsVersion::V2]
        .into_iter()
        .map(|version| (on_file(Workload::Stream, version, Proto::Tcp, 1), 10, 5))
        .collect();
    let mut campaign = made(runs);
    for (run, kib) in campaign.runs.iter_mut().zip([256, 256, 24, 24]) {
        run.spec.file_size_bytes = kib << 10;
    }
    plant_times(&mut campaign, &[&[100; 5], &[200; 5], &[200; 5], &[400; 5]]);
    let text = render(&campaign, Format::Seed);
    let lines: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("NFSv") && line.split_whitespace().count() == 4)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let sizes: Vec<(&str, &str, bool)> =
        lines.iter().map(|line| (line[0], line[1], line[2].starts_with('*'))).collect();
    let expected = [
        ("NFSv3", "0.25", true),
        ("NFSv2", "0.25", false),
        ("NFSv3", "0.02", true),
        ("NFSv2", "0.02", false),
    ];
    assert_eq!(sizes, expected, "{text}");
}
