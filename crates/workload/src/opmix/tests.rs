//! Tests of the studies' numbers, and that draws match them.

use std::collections::{BTreeMap, BTreeSet};

use model::testing::RunBuilder;
use model::{Load, Op, OpKind, OpMix, Pass, RunSpec, Workload};

use super::profile::PROFILES;
use super::shares::{BLOCK, requests_of_block};
use super::*;
use crate::{FileSet, MovedBytes, OpStream};

fn spec(name: &str, workers: u32) -> RunSpec {
    RunBuilder::new(Workload::OpMix)
        .op_mix(OpMix { name: name.to_owned(), ..OpMix::default() })
        .io_size_bytes(8192)
        .files(3000)
        .workers(workers)
        .duration_ms(1000)
        .build()
}

/// Returns the ops of the first `requests` requests over all workers.
fn ops(spec: &RunSpec, requests: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    for worker in 0..spec.workers {
        let mut stream = OpMixStream::new(spec, worker, 7);
        loop {
            let op = stream.next();
            if stream.number() >= requests {
                break;
            }
            ops.push(op);
        }
    }
    ops
}

#[test]
fn tables_add_up() {
    for profile in PROFILES {
        let shares: u32 = profile.shares.iter().map(|(_, share)| share).sum();
        // The shares of SPECsfs2008 were published in whole percents.
        assert_eq!(shares, 100, "{}", profile.name);
        assert_eq!(profile.files.iter().map(|share| share.percent).sum::<u32>(), 100);
        for requests in [profile.reads, profile.writes] {
            assert_eq!(requests.iter().map(|share| share.percent).sum::<u32>(), 100);
        }
        assert_eq!(check(&spec(profile.name, 1).op_mix), Ok(()));
    }
    let sfs3 = Profile::find("sfs3-like-v3").unwrap();
    assert_eq!(sfs3.kib_of_hundred(), 2671);
    assert_eq!(Profile::calls_of_hundred(sfs3.reads, 8192), 164 * 840);
    assert_eq!(Profile::calls_of_hundred(sfs3.writes, 8192), 200 * 840);
}

#[test]
fn keeps_shares_of_profile() {
    for profile in PROFILES.iter().filter(|profile| profile.counts_calls) {
        let ops = ops(&spec(profile.name, 1), 8 * u64::from(BLOCK));
        let count = |wanted: &[OpKind]| ops.iter().filter(|op| wanted.contains(&op.kind)).count();
        for &(kind, percent) in profile.shares {
            let kinds: &[OpKind] = match kind {
                OpKind::Lookup => &[OpKind::Lookup, OpKind::LookupMissing],
                _ => &[kind],
            };
            let share = 100.0 * count(kinds) as f64 / ops.len() as f64;
            // The number of requests is exact; only their sizes are drawn. SPEC allows 1.5 points.
            assert!((share - f64::from(percent)).abs() < 0.5, "{} {kind}: {share}", profile.name);
        }
        let missing = count(&[OpKind::LookupMissing]) as f64;
        let looked = count(&[OpKind::Lookup]) as f64 + missing;
        assert!(looked == 0.0 || (missing / looked - 0.35).abs() < 0.002, "{}", profile.name);
    }
}

#[test]
fn balances_kinds_in_every_block() {
    let spec = spec("sfs2008-like-v3", 1);
    let (kinds, _) = requests_of_block(&spec.op_mix, 8192);
    assert_eq!(kinds.iter().map(|(_, count)| count).sum::<u32>(), BLOCK);
    // The ops of a kind vary between blocks because requests are counted, not calls.
    let of_block = |block: u64| {
        let mut stream = OpMixStream::new(&spec, 0, 7);
        let mut counts = BTreeMap::new();
        let mut last = None;
        loop {
            let op = stream.next();
            let number = stream.number();
            if number >= (block + 1) * u64::from(BLOCK) {
                return counts;
            }
            if number >= block * u64::from(BLOCK) && last != Some(number) {
                *counts.entry(op.kind).or_insert(0) += 1;
            }
            last = Some(number);
        }
    };
    let expected: BTreeMap<OpKind, u32> = kinds.into_iter().collect();
    assert_eq!((of_block(0), of_block(1)), (expected.clone(), expected));
}

#[test]
fn picks_files_independently_of_workers() {
    for profile in PROFILES {
        let sorted = |workers| {
            let mut ops = ops(&spec(profile.name, workers), 11_000);
            ops.sort_by_key(|op| (op.kind, op.file, op.offset_bytes, op.len_bytes));
            ops
        };
        let alone = sorted(1);
        for workers in [2, 3, 7] {
            assert!(sorted(workers) == alone, "{} {workers}", profile.name);
        }
    }
}

/// Acts as a file system, with workers as far apart as possible.
#[test]
fn keeps_names_available_for_ops() {
    let shares = vec![
        (OpKind::Create, 1000),
        (OpKind::Remove, 700),
        (OpKind::Mkdir, 500),
        (OpKind::Rmdir, 500),
        (OpKind::Symlink, 300),
        (OpKind::Unlink, 300),
        (OpKind::Rename, 200),
        (OpKind::Link, 500),
        (OpKind::Null, 6000),
    ];
    let op_mix = OpMix { shares, ..OpMix::default() };
    assert_eq!(check(&op_mix), Ok(()));
    for workers in [1, 3] {
        let spec = RunBuilder::from(spec("", workers)).op_mix(op_mix.clone()).build();
        let set = FileSet::new(&spec);
        let mut files: BTreeSet<u32> =
            (0..set.files()).filter(|file| set.size(*file).is_some()).collect();
        let mut directories: BTreeSet<u32> = (0..set.directories()).collect();
        let mut links: BTreeSet<u32> = (0..set.links()).collect();
        let mut away = BTreeSet::new();
        let mut second_names = BTreeSet::new();
        let mut linked = BTreeSet::new();
        // One worker after the other, which is the worst case.
        for op in ops(&spec, 100_000) {
            match op.kind {
                OpKind::Create => assert!(files.insert(op.file), "{op:?}"),
                OpKind::Remove => assert!(files.remove(&op.file), "{op:?}"),
                OpKind::Mkdir => assert!(directories.insert(op.file), "{op:?}"),
                OpKind::Rmdir => assert!(directories.remove(&op.file), "{op:?}"),
                OpKind::Symlink => assert!(links.insert(op.file), "{op:?}"),
                OpKind::Link => {
                    assert!(set.size(op.file).is_some_and(|size| size > 0), "{op:?}");
                    assert!(second_names.insert(op.offset_bytes), "{op:?}");
                    linked.insert(op.file);
                }
                OpKind::Unlink => assert!(links.remove(&op.file), "{op:?}"),
                OpKind::Rename if op.offset_bytes == 0 => {
                    assert!(files.contains(&op.file) && away.insert(op.file), "{op:?}");
                }
                OpKind::Rename => assert!(away.remove(&op.file), "{op:?}"),
                _ => {}
            }
        }
        assert!(links.len() >= 20 && !away.is_empty());
        assert_eq!((second_names.len(), linked.len()), (5_000, 3_000));
    }
}

#[test]
fn keeps_data_within_accessed_files() {
    let spec = spec("sfs3-like-v3", 1);
    let set = FileSet::new(&spec);
    let mut used = BTreeSet::new();
    let mut appends = 0.0_f64;
    let mut writes = 0.0;
    for op in ops(&spec, 100_000) {
        let Some(size) = set.size(op.file).filter(|_| op.len_bytes > 0) else { continue };
        let end = op.offset_bytes + u64::from(op.len_bytes);
        used.insert(op.file);
        if op.kind == OpKind::Read {
            assert!(end <= size, "{op:?} of {size}");
        }
        if op.kind == OpKind::Write && op.offset_bytes == size {
            appends += 1.0;
        }
        if op.kind == OpKind::Write && op.offset_bytes <= size {
            writes += 1.0;
        }
    }
    assert_eq!(used.len(), 300);
    // Multi-call requests are only counted by their first call if they append.
    assert!(appends / writes > 0.4, "{}", appends / writes);
    // The files in use are spread over the numbers, and so over the directories.
    let gaps = used.iter().zip(used.iter().skip(1)).map(|(a, b)| b - a);
    assert!(gaps.max().unwrap() < 40);
}

#[test]
fn grows_file_set_with_load() {
    let load = Load { rate_per_s: 20, ..Load::default() };
    let spec = RunBuilder::from(spec("sfs3-like-v3", 1)).load(load).build();
    let set = FileSet::new(&spec);
    let (files, bytes) = set.totals();
    let sizes: Vec<u64> = (0..set.files()).filter_map(|file| set.size(file)).collect();
    assert_eq!((files, bytes), (sizes.len() as u64, sizes.iter().sum()));
    // 10 MiB for each op/s, with a matching number of files; those of the pool are empty.
    assert!(bytes.abs_diff(200 << 20) < 3 << 20, "{bytes}");
    assert!((7600..7900).contains(&files), "{files}");
    let count = |is: fn(u64) -> bool| {
        (0..set.files()).filter(|file| set.size(*file).is_some_and(is)).count()
    };
    let small = count(|size| size == 1 << 10);
    let full = count(|size| size > 0);
    assert!(small.abs_diff(full * 33 / 100) < 33, "{small} of {full}");
}

#[test]
fn computes_mean_bytes_of_draws() {
    // With three files, most requests are cut; with three thousand, none is.
    for (profile, files) in [("sfs3-like-v3", 3_000), ("database-like", 3), ("sfs3-like-v3", 30)] {
        for io_size in [4_096, 1 << 20] {
            let spec = RunBuilder::from(spec(profile, 1)).io_size_bytes(io_size).files(files);
            let spec = spec.build();
            let ops = ops(&spec, 4 * u64::from(BLOCK));
            let drawn = |kind| -> u64 {
                ops.iter().filter(|op| op.kind == kind).map(|op| u64::from(op.len_bytes)).sum()
            };
            // Requests that are cut take fewer calls, but arrive as if they did not.
            let (_, calls_of_block) = requests_of_block(&spec.op_mix, io_size);
            let mean = OpMixSet::new(&spec).mean_bytes(&spec, 4 * calls_of_block / 84_000);
            for (kind, found) in [(OpKind::Read, mean.read), (OpKind::Write, mean.written)] {
                let drawn = drawn(kind);
                let ratio = found as f64 / drawn as f64;
                assert!((0.93..1.07).contains(&ratio), "{profile} {files} {kind}: {found} {drawn}");
            }
        }
    }
    let shares = vec![(OpKind::Getattr, BLOCK)];
    let only = RunBuilder::from(spec("custom", 1)).op_mix(OpMix { shares, ..OpMix::default() });
    let only = only.build();
    assert_eq!(OpMixSet::new(&only).mean_bytes(&only, 1 << 40), MovedBytes::default());
}

#[test]
fn what_is_appended_is_foreseen() {
    let load = Load { rate_per_s: 200, ..Load::default() };
    let spec = RunBuilder::from(spec("sfs3-like-v3", 1)).load(load).duration_ms(10_000).build();
    let set = OpMixSet::new(&spec);
    let sizes = FileSet::new(&spec);
    let foreseen = set.appended_bytes(&spec) as f64;
    let mut stream = OpStream::new(&spec, Pass::OpMix, 0, 7);
    let scheduled =
        std::iter::from_fn(|| stream.next_op()).take_while(|op| op.scheduled_ns < 10_000_000_000);
    let beyond = |op: &Op| sizes.size(op.file).is_some_and(|size| op.offset_bytes >= size);
    let appended: u64 = scheduled
        .filter(|op| op.kind == OpKind::Write && beyond(op))
        .map(|op| u64::from(op.len_bytes))
        .sum();
    assert!((appended as f64 / foreseen - 1.0).abs() < 0.25, "{appended} of {foreseen}");
    let long = RunBuilder::from(spec).duration_ms(36_000_000).build();
    assert_eq!(set.appended_bytes(&long), u64::from(set.used_files) * (135 << 10));
}

#[test]
fn reduces_arrivals_for_multi_call_requests() {
    let load = Load { rate_per_s: 1000, ..Load::default() };
    let op_mix = OpMix { set_bytes_per_rate: 0, ..spec("sfs3-like-v3", 1).op_mix };
    let spec = RunBuilder::from(spec("sfs3-like-v3", 1)).load(load).op_mix(op_mix).build();
    let mut stream = OpStream::new(&spec, Pass::OpMix, 0, 7);
    let scheduled =
        std::iter::from_fn(|| stream.next_op()).take_while(|op| op.scheduled_ns < 50_000_000_000);
    let count = scheduled.count() as f64;
    // Calls arrive at the requested rate: 50,000 in as many milliseconds, within four standard
    // deviations of batches.
    assert!((count - 5e4).abs() < 4.0 * 5e4_f64.sqrt() * 1.6, "{count}");
}

#[test]
fn impossible_mixes_are_refused() {
    let mix = |shares: &[(OpKind, u32)]| OpMix { shares: shares.to_vec(), ..OpMix::default() };
    assert_eq!(check(&mix(&[])), Err(MixError::Unknown(String::new())));
    let errors = [
        &[(OpKind::Read, 9_950)][..],
        &[(OpKind::Execute, 10_000)],
        &[(OpKind::Create, 4_000), (OpKind::Remove, 6_000)],
    ]
    .map(|shares| check(&mix(shares)).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"), @"
    the shares add up to 99.50 % instead of 100 %
    execute cannot be part of a mix
    the share of remove is larger than that of create, so files to remove would run out
    ");
}
