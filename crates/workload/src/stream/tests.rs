//! Tests that passes cover all files, respect limits, and do not depend on the number of workers.

use std::collections::BTreeMap;

use model::testing::RunBuilder;
use model::work::{Arrivals, Transactions};
use model::{Layout, Load};
use proptest::prelude::*;

use super::*;
use crate::FileSet;

const WORKERS: [u32; 4] = [1, 2, 3, 7];

fn spec(workload: Workload, workers: u32) -> RunSpec {
    RunBuilder::new(workload)
        .io_size_bytes(4096)
        .file_size_bytes(64 << 10)
        .files(4)
        .workers(workers)
        .read_percent(70)
        .duration_ms(1000)
        .durability(Durability::Sync)
        .build()
}

fn streams(spec: &RunSpec, pass: Pass) -> Vec<OpStream> {
    (0..spec.workers).map(|worker| OpStream::new(spec, pass, worker, 42)).collect()
}

/// Returns the ops of all workers in turn. Streams ended only by time are cut after `most` ops,
/// followed by their syncs.
fn ops(spec: &RunSpec, pass: Pass, most: usize) -> Vec<Op> {
    let mut streams = streams(spec, pass);
    let mut ops = Vec::new();
    if streams[0].is_endless() {
        ops.extend((0..most).filter_map(|i| streams[i % spec.workers as usize].next_op()));
        streams.iter_mut().for_each(OpStream::finish);
    }
    ops.extend(streams.iter_mut().flat_map(|stream| std::iter::from_fn(|| stream.next_op())));
    ops
}

fn sorted(mut ops: Vec<Op>) -> Vec<Op> {
    ops.retain(|op| op.kind != OpKind::Sync);
    ops.sort_by_key(|op| (op.kind, op.file, op.offset_bytes, op.len_bytes));
    ops
}

fn shared(block_size_bytes: u64) -> Layout {
    Layout { sharing: Sharing::Shared, block_size_bytes, ..Layout::default() }
}

const SWEEPS: [Pass; 13] = [
    Pass::Write,
    Pass::Rewrite,
    Pass::Read,
    Pass::Reread,
    Pass::RandomRead,
    Pass::RandomWrite,
    Pass::BackwardRead,
    Pass::StrideRead,
    Pass::CharWrite,
    Pass::CharRead,
    Pass::Update,
    Pass::Copy,
    Pass::ReadPlus,
];

/// Returns the ops of a stream, in batches of varying sizes if possible, up to about `most`.
fn batches(mut stream: OpStream, most: usize) -> Vec<Op> {
    let mut ops = Vec::new();
    for room in (0..5).cycle() {
        let before = ops.len();
        let mut batch = Vec::with_capacity(room);
        stream.take(room, &mut batch);
        assert!(batch.len() <= room);
        ops.extend(batch);
        if before + room > ops.len() {
            ops.extend(stream.next_op());
        }
        let is_over = room > 0 && ops.len() == before;
        if is_over || ops.len() >= most {
            break;
        }
    }
    ops
}

#[test]
fn yields_same_ops_in_batches() {
    let mut plans: Vec<(RunSpec, Pass)> = Vec::new();
    for pass in SWEEPS.into_iter().chain([Pass::Mix, Pass::Seeks]) {
        let workload = if pass == Pass::Mix { Workload::Mixed } else { Workload::Stream };
        for (layout, ops_max, rate_per_s) in [
            (Layout::default(), 0, 0),
            (Layout::default(), 21, 0),
            (Layout::default(), 0, 1000),
            (shared(8192), 0, 0),
            (Layout { random_percent: 50, skew_percent: 0, ..Layout::default() }, 0, 0),
            (Layout { skew_percent: 90, ..Layout::default() }, 33, 0),
        ] {
            let load = Load { ops_max, rate_per_s, ..Load::default() };
            plans.push((
                RunBuilder::from(spec(workload, 2)).layout(layout).load(load).build(),
                pass,
            ));
        }
    }
    for (spec, pass) in plans {
        let stream = || OpStream::new(&spec, pass, 1, 42);
        let mut single = stream();
        let expected: Vec<Op> = std::iter::from_fn(|| single.next_op()).take(500).collect();
        let mut found = batches(stream(), 500);
        found.truncate(500);
        assert!(found.len() > 5, "{pass}: {} ops", found.len());
        assert_eq!(found, expected, "{pass} {:?} {:?}", spec.layout, spec.load);
    }
}

#[test]
fn writes_every_byte_once_and_syncs() {
    for workers in [1, 2, 3, 4] {
        let spec = spec(Workload::Stream, workers);
        let ops = ops(&spec, Pass::Write, 0);
        for file in 0..4 {
            let of_file: Vec<&Op> = ops.iter().filter(|op| op.file == file).collect();
            let (sync, writes) = of_file.split_last().unwrap();
            assert_eq!(sync.kind, OpKind::Sync);
            let mut next = 0;
            for write in writes {
                assert_eq!((write.kind, write.offset_bytes), (OpKind::Write, next));
                next += u64::from(write.len_bytes);
            }
            assert_eq!(next, spec.file_size_bytes);
        }
        assert_eq!(ops.len() as u64, pass_size(&spec, Pass::Write).ops.unwrap() + 4);
    }
}

#[test]
fn covers_files_of_different_sizes() {
    for sizes in ["list 0B:20 1B:20 5000B-60kB:60", "lognormal 9000B 2.0", "uniform 1B 9000B"] {
        for pass in SWEEPS {
            let mut alone = Vec::new();
            for workers in WORKERS {
                let spec = RunBuilder::from(spec(Workload::Stream, workers)).files(20);
                let spec = spec.file_sizes(sizes).build();
                let all = sorted(ops(&spec, pass, 0));
                let files = FileSet::new(&spec);
                for file in 0..spec.files {
                    let mut pieces: Vec<&Op> = all.iter().filter(|op| op.file == file).collect();
                    pieces.sort_by_key(|op| op.offset_bytes);
                    let mut next = 0;
                    for op in pieces {
                        assert_eq!(op.offset_bytes, next, "{pass} {sizes}");
                        next += u64::from(op.len_bytes);
                    }
                    assert_eq!(Some(next), files.size(file), "{pass} {sizes}");
                }
                let size = pass_size(&spec, pass);
                assert_eq!(size.ops, Some(all.len() as u64), "{pass} {sizes}");
                assert_eq!(size.bytes, Some(files.totals().1), "{pass} {sizes}");
                if workers == 1 {
                    alone.clone_from(&all);
                }
                assert_eq!(all, alone, "{pass} {sizes}");
            }
        }
    }
}

#[test]
fn mix_reaches_all_blocks_of_all_files() {
    for skew in [0, 80] {
        let mut spec = RunBuilder::from(spec(Workload::Mixed, 2)).files(5).build();
        spec = spec.with_sizes("list 0B:20 4KiB:20 10000B:60".parse().unwrap());
        spec.layout.skew_percent = skew;
        let mut counts = BTreeMap::new();
        for op in ops(&spec, Pass::Mix, 11_000) {
            if op.kind != OpKind::Sync {
                *counts.entry((op.file, op.offset_bytes / 4096)).or_insert(0_u32) += 1;
            }
        }
        // One file is empty, one has one block, and three have three, the last one rounded up.
        let files = FileSet::new(&spec);
        assert_eq!(files.totals(), (5, 40 << 10));
        let blocks = (0..5).flat_map(|file| {
            let count = files.size(file).unwrap() / 4096;
            (0..count).map(move |block| (file, block))
        });
        assert!(counts.keys().copied().eq(blocks), "{counts:?}");
        if skew == 0 {
            // Four standard deviations of a binomial with 11,000 draws from 10.
            assert!(counts.values().all(|count| count.abs_diff(1_100) < 130), "{counts:?}");
        }
    }
}

#[test]
fn limits_bytes_of_different_files() {
    let spec = RunBuilder::from(spec(Workload::Stream, 2)).files(20);
    let mut spec = spec.file_sizes("uniform 1B 9000B").build();
    spec.load.bytes_max = 30_000;
    let moved: u64 = ops(&spec, Pass::Write, 0).iter().map(|op| u64::from(op.len_bytes)).sum();
    assert!((30_000..30_000 + 2 * 4096).contains(&moved), "{moved}");
    assert_eq!(pass_size(&spec, Pass::Write), PassSize { ops: None, bytes: None });
}

#[test]
fn punches_every_second_block() {
    for (blocks, tail, workers) in [(7, 0, 1), (8, 100, 2), (2, 1, 3)] {
        let spec = RunBuilder::from(spec(Workload::DataOps, workers))
            .file_size_bytes(4096 * blocks - tail)
            .durability(Durability::Sync)
            .build();
        let punches: Vec<Op> = ops(&spec, Pass::Punch, 0);
        let syncs = punches.iter().filter(|op| op.kind == OpKind::Sync).count();
        assert_eq!(syncs, spec.files as usize);
        let mut first: Vec<Op> = punches.into_iter().filter(|op| op.file == 0).collect();
        first.pop();
        let offsets: Vec<u64> = first.iter().map(|op| op.offset_bytes / 4096).collect();
        assert_eq!(offsets, (0..blocks).filter(|block| block % 2 == 1).collect::<Vec<_>>());
        let bytes: u64 = first.iter().map(|op| u64::from(op.len_bytes)).sum();
        let files = u64::from(spec.files);
        let size = pass_size(&spec, Pass::Punch);
        assert_eq!((size.ops, size.bytes), (Some(files * (blocks / 2)), Some(files * bytes)));
        // A seek goes from the start of each block, and moves nothing.
        let seeks = ops(&spec, Pass::Seek, 0);
        assert!(seeks.iter().all(|op| op.kind == OpKind::Seek && op.len_bytes == 0));
        let size = pass_size(&spec, Pass::Seek);
        assert_eq!((size.ops, size.bytes), (Some(files * blocks), Some(0)));
        assert_eq!(seeks.len() as u64, files * blocks);
    }
}

#[test]
fn reads_backward_and_strided() {
    let spec = RunBuilder::from(spec(Workload::Stream, 1))
        .files(1)
        .file_size_bytes(4096 * 7 - 1)
        .layout(Layout { stride: 3, ..Layout::default() })
        .build();
    let places = |pass| -> Vec<u64> {
        ops(&spec, pass, 0).iter().map(|op| op.offset_bytes / 4096).collect()
    };
    assert_eq!(places(Pass::BackwardRead), [6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(places(Pass::StrideRead), [0, 3, 6, 1, 4, 2, 5]);
    assert_eq!(ops(&spec, Pass::BackwardRead, 0)[0].len_bytes, 4095);
    let random = places(Pass::RandomRead);
    assert!(!random.is_sorted() && random != places(Pass::RandomWrite)[..7]);
}

#[test]
fn deals_blocks_of_shared_file() {
    let spec = RunBuilder::from(spec(Workload::Stream, 3)).files(1).layout(shared(8192)).build();
    for (worker, mut stream) in (0..).zip(streams(&spec, Pass::Write)) {
        let mut ops: Vec<Op> = std::iter::from_fn(|| stream.next_op()).collect();
        // Each worker syncs what it wrote to the one file.
        assert_eq!(ops.pop().map(|op| op.kind), Some(OpKind::Sync));
        assert!(ops.iter().all(|op| op.offset_bytes / 8192 % 3 == worker));
    }
    // Without a block size, each of four workers has a contiguous quarter.
    let spec = RunBuilder::from(spec).files(1).layout(shared(0)).workers(4).build();
    for (worker, mut stream) in (0..).zip(streams(&spec, Pass::Read)) {
        let ops: Vec<Op> = std::iter::from_fn(|| stream.next_op()).collect();
        assert!(ops.iter().all(|op| op.offset_bytes / (16 << 10) == worker));
        assert_eq!(ops.len(), 4);
    }
}

#[test]
fn draws_random_ops_independently_of_workers() {
    for layout in [
        Layout::default(),
        Layout { skew_percent: 120, ..Layout::default() },
        Layout { random_percent: 40, ..Layout::default() },
        Layout { random_percent: 0, ..Layout::default() },
    ] {
        // Runs in a file of 128 blocks have 8 ops; 7 * 8 * 3 * 8 ops are whole rounds for all.
        let size = |workers| {
            RunBuilder::from(spec(Workload::Mixed, workers))
                .layout(layout)
                .file_size_bytes(128 * 4096)
                .build()
        };
        let alone = sorted(ops(&size(1), Pass::Mix, 1344));
        for workers in WORKERS {
            let together = sorted(ops(&size(workers), Pass::Mix, 1344));
            assert_eq!(together, alone, "{workers} workers, {layout:?}");
        }
    }
}

#[test]
fn continues_mix_between_passes() {
    let share = |random_percent| {
        let layout = Layout { random_percent, ..Layout::default() };
        let spec = RunBuilder::from(spec(Workload::Mixed, 1))
            .layout(layout)
            .file_size_bytes(4096 << 10)
            .build();
        let ops = ops(&spec, Pass::Mix, 10_000);
        let follows = |pair: &&[Op]| {
            let end = pair[0].offset_bytes + u64::from(pair[0].len_bytes);
            pair[1].file == pair[0].file && pair[1].offset_bytes == end
                || pair[1].offset_bytes == 0 && end == spec.file_size_bytes
        };
        ops[..10_000].windows(2).filter(follows).count()
    };
    assert_eq!(share(0), 9999);
    // Binomial with p = 0.6, minus the starts of runs of 64 ops: four standard deviations are 196.
    assert!(share(40).abs_diff(5906) < 196 + 94, "{}", share(40));
    assert!(share(100) < 20);
}

#[test]
fn keeps_share_and_syncs_mix() {
    let ops = ops(&spec(Workload::Mixed, 2), Pass::Mix, 10_000);
    let reads = ops.iter().filter(|op| op.kind == OpKind::Read).count();
    // Four standard deviations of a binomial with p = 0.7 are 183.
    assert!(reads.abs_diff(7000) < 183, "{reads}");
    // Either worker may have written to any of the four files, so each syncs all of them.
    for worker in 0..2 {
        let syncs = &ops[10_000 + 4 * worker..10_004 + 4 * worker];
        let mut files: Vec<u32> = syncs.iter().map(|op| op.file).collect();
        files.sort_unstable();
        assert!(syncs.iter().all(|op| op.kind == OpKind::Sync));
        assert_eq!(files, [0, 1, 2, 3]);
    }
    assert_eq!(ops.len(), 10_008);
}

#[test]
fn random_places_are_equally_likely() {
    let ops = ops(&spec(Workload::Mixed, 1), Pass::Mix, 64_000);
    let mut counts = BTreeMap::new();
    for op in &ops[..64_000] {
        *counts.entry((op.file, op.offset_bytes)).or_insert(0.0) += 1.0;
    }
    // Chi-squared with 63 degrees of freedom: one in 1000 seeds exceeds 103.4.
    let chi: f64 = counts.values().map(|c: &f64| (c - 1e3).powi(2) / 1e3).sum();
    assert!(counts.len() == 64 && chi < 103.4, "{chi}");
}

#[test]
fn seeks_and_writes_like_bonnie() {
    for workers in WORKERS {
        let spec = spec(Workload::Bonnie, workers);
        let ops = ops(&spec, Pass::Seeks, 0);
        assert_eq!(pass_size(&spec, Pass::Seeks).ops, Some(4000));
        assert_eq!(ops.len(), 4000);
        let updates = ops.iter().filter(|op| op.kind == OpKind::Update).count();
        assert!(updates.abs_diff(400) < 76, "{updates}");
    }
    let load = Load { time_max_ms: 10, ..Load::default() };
    let timed = RunBuilder::from(spec(Workload::Bonnie, 1)).load(load).build();
    assert!(streams(&timed, Pass::Seeks)[0].is_endless());
    assert_eq!(pass_size(&timed, Pass::Seeks).ops, None);
}

#[test]
fn takes_names_once_and_renames_back() {
    let spec = RunBuilder::from(spec(Workload::Metadata, 3)).files(5).build();
    for &pass in Pass::ALL.iter().filter(|pass| pass.opens() == model::Opens::Nothing) {
        let is_by_name = !matches!(pass, Pass::Transactions | Pass::App | Pass::Serve);
        let is_phase = pass.base() != pass;
        if !is_by_name || is_phase || pass.lists() || pass.is_of_developer() {
            continue;
        }
        let ops = ops(&spec, pass, 0);
        let mut files: Vec<(u64, u32)> = ops.iter().map(|op| (op.offset_bytes, op.file)).collect();
        files.sort_unstable();
        let there = (0..5).map(|file| (0, file));
        let renames = matches!(pass, Pass::Rename | Pass::RenameDirs);
        let back = (0..5).map(|file| (1, file)).filter(|_| renames);
        assert!(files.into_iter().eq(there.chain(back)), "{pass}");
        assert_eq!(pass_size(&spec, pass).ops, Some(ops.len() as u64), "{pass}");
        let bytes = ops.iter().map(|op| u64::from(op.len_bytes)).sum();
        assert_eq!(pass_size(&spec, pass).bytes, Some(bytes), "{pass}");
    }
}

fn pool(workers: u32) -> RunSpec {
    let transactions = Transactions { count: 3000, ..Transactions::default() };
    RunBuilder::from(spec(Workload::Transactions, workers))
        .transactions(transactions)
        .files(300)
        .file_sizes("uniform 500B 10kB")
        .build()
}

/// Acts as a file system: each op must find an existing file with the expected size.
#[test]
fn transactions_keep_to_their_pool() {
    let spec = pool(1);
    let mut files: BTreeMap<_, _> =
        ops(&spec, Pass::Create, 0).into_iter().map(|op| (op.file, op.len_bytes)).collect();
    assert_eq!(files.len(), 300);
    let transactions = ops(&spec, Pass::Transactions, 0);
    assert_eq!(pass_size(&spec, Pass::Transactions).ops, Some(6000));
    assert_eq!(transactions.len(), 6000);
    let mut counts = [0; 4];
    for op in transactions {
        match op.kind {
            OpKind::Create => assert_eq!(files.insert(op.file, op.len_bytes), None),
            OpKind::Remove => assert!(files.remove(&op.file).is_some()),
            OpKind::ReadFile => assert_eq!(files[&op.file], op.len_bytes),
            OpKind::Append => {
                let size = files.get_mut(&op.file).unwrap();
                assert_eq!(u64::from(*size), op.offset_bytes);
                *size += op.len_bytes;
            }
            other => panic!("{other}"),
        }
        counts[Pass::Transactions.kinds().iter().position(|kind| *kind == op.kind).unwrap()] += 1;
        assert!(files.values().all(|size| (500..=10_000).contains(size)));
    }
    // Halves of 3000, within four standard deviations of a binomial. Files that cannot grow are
    // read.
    assert!(counts.iter().all(|count: &i32| count.abs_diff(1500) < 180), "{counts:?}");
    let removed: Vec<u32> = ops(&spec, Pass::Remove, 0).iter().map(|op| op.file).collect();
    assert_eq!(removed.len(), files.len());
    assert!(removed.iter().all(|file| files.contains_key(file)));
}

#[test]
fn estimates_mean_bytes_of_pool() {
    let spec = pool(1);
    for pass in [Pass::Create, Pass::Transactions] {
        let mut read = 0;
        let mut written = 0;
        let mut count = 0;
        for op in ops(&spec, pass, 0) {
            let sum = if op.kind.reads_data() { &mut read } else { &mut written };
            *sum += u64::from(op.len_bytes);
            count += 1;
        }
        let mean = mean_bytes(&spec, pass, count).unwrap();
        // Files that have grown are read, and grow less.
        for (mean, drawn) in [(mean.read, read), (mean.written, written)] {
            assert!(mean.abs_diff(drawn) <= drawn * 3 / 10, "{pass}: {mean} {drawn}");
        }
    }
}

#[test]
fn draws_transactions_independently_of_workers() {
    for pass in [Pass::Create, Pass::Transactions, Pass::Remove] {
        let alone = sorted(ops(&pool(1), pass, 0));
        for workers in WORKERS {
            assert_eq!(sorted(ops(&pool(workers), pass, 0)), alone, "{pass}, {workers} workers");
        }
    }
    // All ops on one file are in one worker, in the same order.
    let history =
        |ops: Vec<Op>, file| ops.into_iter().filter(move |op| op.file == file).collect::<Vec<_>>();
    for file in [0, 17, 301] {
        let alone = history(ops(&pool(1), Pass::Transactions, 0), file);
        assert_eq!(history(ops(&pool(7), Pass::Transactions, 0), file), alone);
    }
}

#[test]
fn creates_when_pool_is_empty() {
    let transactions = Transactions { create_percent: 0, count: 50, ..pool(1).transactions };
    let spec = RunBuilder::from(pool(1)).transactions(transactions).files(3).build();
    let ops = ops(&spec, Pass::Transactions, 0);
    assert_eq!(ops.len(), 100);
    assert!(ops.iter().filter(|op| op.kind == OpKind::Create).count() > 10);
}

#[test]
fn bounds_are_kept_to_the_op() {
    for workers in WORKERS {
        for pass in SWEEPS.into_iter().chain([Pass::Seeks]) {
            for (ops_max, bytes_max, expected) in [(10, 0, 10), (0, 40_000, 10), (23, 999_999, 23)]
            {
                let load = Load { ops_max, bytes_max, ..Load::default() };
                let spec =
                    RunBuilder::from(spec(Workload::Stream, workers)).load(load).files(14).build();
                let ops = ops(&spec, pass, 0);
                let done = ops.iter().filter(|op| op.kind != OpKind::Sync).count();
                assert_eq!(done, expected, "{pass} {workers}");
                assert_eq!(pass_size(&spec, pass).ops, Some(expected as u64), "{pass}");
                // Only written files are synced.
                let files = |kind: fn(OpKind) -> bool| {
                    let mut files: Vec<u32> =
                        ops.iter().filter(|op| kind(op.kind)).map(|op| op.file).collect();
                    files.sort_unstable();
                    files.dedup();
                    files
                };
                if pass.kinds().contains(&OpKind::Sync) {
                    assert_eq!(files(|kind| kind == OpKind::Sync), files(OpKind::changes));
                }
            }
        }
    }
}

#[test]
fn syncs_started_file_at_timeout() {
    let load = Load { time_max_ms: 5, ..Load::default() };
    let spec = RunBuilder::from(spec(Workload::Stream, 1)).load(load).build();
    let mut stream = OpStream::new(&spec, Pass::Write, 0, 1);
    assert!(stream.is_endless());
    let first = stream.next_op().unwrap();
    stream.finish();
    assert_eq!(stream.next_op(), Some(Op::new(OpKind::Sync, first.file, 0, 0)));
    assert_eq!((stream.next_op(), stream.is_endless()), (None, false));
}

#[test]
fn ties_schedule_to_ops() {
    for pass in [Pass::Mix, Pass::Seeks, Pass::Transactions, Pass::Stat] {
        let load = Load { rate_per_s: 1000, arrivals: Arrivals::Poisson, ..Load::default() };
        let scheduled = |workers: u32| {
            let spec = RunBuilder::from(pool(workers)).load(load).files(420).build();
            let mut scheduled: Vec<u64> = ops(&spec, pass, 420)
                .iter()
                .filter(|op| op.kind != OpKind::Sync)
                .map(|op| op.scheduled_ns)
                .collect();
            scheduled.sort_unstable();
            scheduled
        };
        let alone = scheduled(1);
        assert!(alone[0] > 0 && alone.is_sorted());
        for workers in WORKERS {
            assert_eq!(scheduled(workers), alone, "{pass} {workers}");
        }
    }
}

#[test]
fn changes_only_schedule_with_its_seed() {
    let load = Load { rate_per_s: 1000, arrivals: Arrivals::Poisson, ..Load::default() };
    let spec = RunSpec { load, ..spec(Workload::Mixed, 1) };
    let taken = |schedule_seed: u64| {
        let mut stream = OpStream::new(&spec, Pass::Mix, 0, 42).scheduled_by(schedule_seed);
        let ops: Vec<Op> = (0..500).filter_map(|_| stream.next_op()).collect();
        let scheduled: Vec<u64> = ops.iter().map(|op| op.scheduled_ns).collect();
        let work: Vec<Op> = ops.into_iter().map(|op| Op { scheduled_ns: 0, ..op }).collect();
        (scheduled, work)
    };
    let first = taken(1);
    let second = taken(2);
    let again = taken(1);
    assert_eq!(first, again);
    assert_eq!(first.1, second.1);
    let same = first.0.iter().zip(&second.0).filter(|(one, other)| one == other).count();
    assert!(first.0.len() == 500 && same < 5, "{same} of 500 scheduled instants are the same");
}

proptest! {
    #[test]
    fn covers_each_byte_for_any_workers(
        size in 1_u64..60_000,
        io in 1_u32..9_000,
        files in 1_u32..5,
        block in prop_oneof![Just(None), Just(Some(0)), (1_u64..30_000).prop_map(Some)],
        stride in 1_u32..20,
        loops in 1_u32..4,
        pass in prop::sample::select(SWEEPS.to_vec()),
        workers in prop::sample::select(WORKERS.to_vec()),
    ) {
        // A few thousand ops are enough.
        let io = io.max((size / 500) as u32 + 1);
        let layout = Layout { stride, loops, ..block.map_or(Layout::default(), shared) };
        let spec = RunBuilder::from(spec(Workload::Stream, workers))
            .file_size_bytes(size)
            .io_size_bytes(io)
            .files(files)
            .layout(layout)
            .build();
        let ops = sorted(ops(&spec, pass, 0));
        prop_assert!(ops.chunks(loops as usize).all(|same| same.iter().all(|op| op == &same[0])));
        let mut next = (0, 0);
        for op in ops.iter().step_by(loops as usize) {
            if next.1 == size {
                next = (next.0 + 1, 0);
            }
            prop_assert_eq!((op.file, op.offset_bytes), next);
            prop_assert!(op.len_bytes > 0 && op.len_bytes <= io);
            next.1 += u64::from(op.len_bytes);
        }
        prop_assert_eq!(next, (files - 1, size));
        let bytes = Some(spec.set_bytes() * u64::from(loops));
        let all = PassSize { ops: Some(ops.len() as u64), bytes };
        prop_assert_eq!(pass_size(&spec, pass), all);
    }
}

#[test]
fn workers_repeat_their_own_files() {
    let spec = RunBuilder::from(spec(Workload::Stream, 3))
        .layout(Layout { loops: 2, ..Layout::default() })
        .build();
    for (worker, mut stream) in (0..).zip(streams(&spec, Pass::Write)) {
        let ops: Vec<Op> = std::iter::from_fn(|| stream.next_op()).collect();
        let own: Vec<u32> = (worker..4).step_by(3).collect();
        let synced: Vec<u32> =
            ops.iter().filter(|op| op.kind == OpKind::Sync).map(|op| op.file).collect();
        assert_eq!(synced, own.repeat(2));
        assert_eq!(ops.len(), own.len() * 2 * (16 + 1));
    }
    // A stream that time ends does not begin again.
    let mut stream = OpStream::new(&spec, Pass::Write, 0, 42);
    assert!((0..40).all(|_| stream.next_op().is_some()));
    stream.finish();
    let last: Vec<Op> = std::iter::from_fn(|| stream.next_op()).collect();
    assert_eq!(last.iter().map(|op| op.kind).collect::<Vec<_>>(), [OpKind::Sync]);
}

fn database(workers: u32) -> RunSpec {
    let database = model::Database { transaction_ops: 5, commit_bytes: 512, group_commit: 2 };
    RunSpec { database, ..spec(Workload::Database, workers) }
}

#[test]
fn commits_after_each_group() {
    let of_pages = |workers| {
        let mut all = ops(&database(workers), Pass::Oltp, 1_386);
        let mut log: Vec<Op> = all.extract_if(.., |op| op.kind == OpKind::LogAppend).collect();
        // 1,386 ops are whole groups of 10 pages and an append for each number of workers. The
        // file has room for 128 appends, and then starts over.
        assert_eq!(log.len(), 1_386 / 11, "{workers}");
        log.sort_by_key(|op| op.offset_bytes);
        let places = (0..126).map(|number| (3, number * 512, 512));
        assert!(log.iter().map(|op| (op.file, op.offset_bytes, op.len_bytes)).eq(places));
        all
    };
    let alone = sorted(of_pages(1));
    assert!(alone.iter().all(|op| op.file < 3 && op.len_bytes == 4096));
    for workers in WORKERS {
        assert_eq!(sorted(of_pages(workers)), alone, "{workers}");
    }
    // A worker reads and writes before it commits.
    let order: Vec<_> = batches(OpStream::new(&database(1), Pass::Oltp, 0, 42), 22)
        .iter()
        .map(|op| op.kind == OpKind::LogAppend)
        .collect();
    assert!((0..22).all(|number| order[number] == (number % 11 == 10)), "{order:?}");
}

#[test]
fn reuses_log_from_its_start() {
    let mut only_log = database(2);
    only_log.database.transaction_ops = 0;
    let all = ops(&only_log, Pass::Oltp, 300);
    let appends: Vec<_> = all.iter().filter(|op| op.kind == OpKind::LogAppend).collect();
    assert_eq!(
        (appends.len(), appends[127].offset_bytes, appends[128].offset_bytes),
        (300, 127 * 512, 0)
    );
    // Every file is synced at the end by each worker.
    assert_eq!(all.len() - 300, 2 * 4);
    assert_eq!(pass_size(&only_log, Pass::Oltp), PassSize { ops: None, bytes: None });
    let moved = mean_bytes(&database(1), Pass::Oltp, 1_100).unwrap();
    assert_eq!((moved.read, moved.written), (700 * 4096, 300 * 4096 + 100 * 512));
}

#[test]
fn boots_same_places_of_each_image() {
    for base_image in [false, true] {
        let mut storm = spec(Workload::VmBoot, 3);
        storm.read_percent = 95;
        storm.vm_boot = model::VmBoot { bytes: 400 << 10, base_image };
        let boot = |worker| -> Vec<Op> {
            let mut stream = OpStream::new(&storm, Pass::Boot, worker, 42);
            std::iter::from_fn(|| stream.next_op()).collect()
        };
        let places = |worker| -> Vec<_> {
            boot(worker).iter().map(|op| (op.kind, op.offset_bytes)).collect()
        };
        for worker in 0..3 {
            let mut ops = boot(worker);
            // It syncs its own image at the end.
            let sync = ops.pop().unwrap();
            assert_eq!((sync.kind, sync.file, ops.len()), (OpKind::Sync, worker, 100));
            assert_eq!(places(worker), places(0));
            for op in ops {
                let read_from = if base_image { 3 } else { worker };
                assert_eq!(op.file, if op.kind == OpKind::Read { read_from } else { worker });
            }
        }
        let size = PassSize { ops: Some(300), bytes: Some(300 * 4096) };
        assert_eq!(pass_size(&storm, Pass::Boot), size);
    }
}
