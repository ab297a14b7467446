//! Tests that content doesn't depend on how it is split, that zstd and deduplication remove the
//! configured shares, and that differences are detected.
//!
//! Samples come from proptest, which prints failing cases.

use super::*;
use model::Workload;
use model::testing::RunBuilder;
use proptest::prelude::*;

#[test]
fn keeps_content_however_split() {
    let small = Pattern::new(1, 4096);
    let large = Pattern::new(1, 3 << 20);
    let whole = large.slice(3, PERIOD as u64 - 1000, 1 << 20).to_vec();
    for (i, chunk) in whole.chunks(4096).enumerate() {
        let offset = PERIOD as u64 - 1000 + i as u64 * 4096;
        assert_eq!(small.slice(3, offset, chunk.len() as u32), chunk);
    }
}

#[test]
fn generates_same_content_for_subset() {
    let whole = Pattern::new(1, 4096);
    let files = [(3, 100_000), (9, 1), (11, 0), (12, 40_000)];
    let mut part = Pattern::without_content(&DataSettings::default(), 1, 4096);
    part.generate_for(files.into_iter());
    for (file, bytes) in files {
        for offset in (0..bytes).step_by(4000) {
            let len = 4000.min(bytes - offset) as u32;
            assert_eq!(part.slice(file, offset, len), whole.slice(file, offset, len));
        }
    }
    let beyond = std::panic::catch_unwind(|| part.slice(3, 1 << 20, 4096).len());
    assert!(beyond.is_err(), "an uninitialized block was handed out");
    let later = Pattern::without_content(&DataSettings::default(), 1, 4096).reuse_pool(Some(&part));
    assert_eq!(later.slice(9, 0, 1), whole.slice(9, 0, 1));
    let other = Pattern::without_content(&DataSettings::default(), 2, 4096).reuse_pool(Some(&part));
    assert!(std::panic::catch_unwind(|| other.slice(9, 0, 1).len()).is_err());
    part.generate_for([(0, MUCH_BYTES)].into_iter());
    assert_eq!(part.slice(77, 1 << 40, 4096), whole.slice(77, 1 << 40, 4096));
}

#[test]
fn does_not_repeat_blocks_within_gibibyte() {
    let pattern = Pattern::new(1, 4096);
    let mut seen = std::collections::HashSet::new();
    for block in 0..(1_u64 << 30) / 4096 {
        assert!(seen.insert(&pattern.slice(3, block * 4096, 4096)[..32]), "block {block}");
    }
}

fn set(pattern: &Pattern, files: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; files as usize * len];
    for (file, out) in bytes.chunks_mut(len).enumerate() {
        // Content must not depend on odd splits.
        for (index, piece) in out.chunks_mut(10_000).enumerate() {
            pattern.fill(piece, file as u32, index as u64 * 10_000);
        }
    }
    bytes
}

fn data(fill: Fill, compress_percent: u32, dedup_percent: u32) -> DataSettings {
    DataSettings { fill, compress_percent, dedup_percent, stamp: false }
}

/// Returns the percentage that zstd at its default level removes from pieces of this size.
fn taken_away(bytes: &[u8], piece: usize) -> f64 {
    let kept: usize =
        bytes.chunks(piece).map(|block| zstd::bulk::compress(block, 3).unwrap().len()).sum();
    100.0 - kept as f64 * 100.0 / bytes.len() as f64
}

#[test]
fn compresses_by_stated_share() {
    for percent in [0, 25, 50, 75, 90] {
        let pattern = Pattern::with_settings(&data(Fill::Random, percent, 0), 7, 1 << 20);
        let bytes = set(&pattern, 2, 1 << 20);
        for piece in [4096, 128 << 10] {
            let found = taken_away(&bytes, piece);
            let wrong = (found - f64::from(percent)).abs();
            assert!(wrong < 1.5, "{percent} % requested, {found:.1} % found in {piece} B");
        }
    }
    let zeros = set(&Pattern::with_settings(&data(Fill::Zeros, 0, 0), 7, 1 << 20), 1, 1 << 20);
    assert!(zeros.iter().all(|byte| *byte == 0));
}

#[test]
fn repeats_stated_share_of_blocks() {
    for percent in [0, 20, 50, 80] {
        let pattern = Pattern::with_settings(&data(Fill::Random, 30, percent), 7, 1 << 20);
        let bytes = set(&pattern, 4, 4 << 20);
        let blocks: Vec<&[u8]> = bytes.chunks(4096).collect();
        let different = blocks.iter().collect::<std::collections::HashSet<_>>().len();
        let found = 100.0 - different as f64 * 100.0 / blocks.len() as f64;
        // Four standard deviations of 4096 draws are 3.2; 64 blocks appear for the first time.
        let wrong = (found - f64::from(percent)).abs();
        assert!(wrong < 4.8, "{percent} % stated, {found:.1} % found");
        let compressed = taken_away(&bytes, 4096);
        assert!((compressed - 30.0).abs() < 1.5, "30 % stated, {compressed:.1} % found");
        // Nor does zstd find more than configured when it compresses whole files.
        let whole = taken_away(&bytes, 4 << 20);
        let both = 100.0 - (100.0 - f64::from(percent)) * 0.7;
        assert!((whole - both).abs() < 5.0, "{both:.1} % stated, {whole:.1} % found");
    }
}

/// Returns every kind of content that is checked.
fn kinds() -> [Pattern; 4] {
    let of = |data| Pattern::with_settings(&data, 3, 1 << 20);
    [
        Pattern::new(3, 1 << 20),
        of(data(Fill::Random, 40, 50)),
        of(data(Fill::Random, 0, 0)).stamped(9, 4096),
        of(data(Fill::Zeros, 0, 0)).stamped(9, 1000),
    ]
}

#[test]
fn reads_back_written_data_however_split() {
    for pattern in kinds() {
        let mut file = vec![0; 50_007];
        let mut offset = 0;
        for len in [5, 4096, 100, 20_000, 8192, 17_614] {
            pattern.fill(&mut file[offset..offset + len], 3, offset as u64);
            offset += len;
        }
        assert_eq!(offset, file.len());
        for step in [1, 7, 8, 39, 40, 512, 1000, 4096, 4097, 30_000] {
            for (index, read) in file.chunks(step).enumerate() {
                let checked = pattern.check(read, 3, (index * step) as u64);
                assert_eq!(checked, Ok(()), "in steps of {step}");
            }
        }
    }
}

#[test]
fn names_file_and_byte_of_flip() {
    for pattern in kinds() {
        let mut read = vec![0; 32 << 10];
        pattern.fill(&mut read, 5, 8 << 20);
        for at in [0, 13, 39, 40, 4095, 4096, 9_999, 32_767] {
            read[at] ^= 0x10;
            let found = pattern.check(&read, 5, 8 << 20).unwrap_err();
            assert_eq!(found.file, 5);
            let named = (8 << 20) + at as u64;
            // A wrong stamp is reported as a whole, at the start of its block.
            let is_of_stamp = !matches!(found.what, WrongContent::Byte { .. });
            let near = found.offset_bytes <= named && named - found.offset_bytes < 40;
            assert!(found.offset_bytes == named || (is_of_stamp && near), "{at}: {found}");
            read[at] ^= 0x10;
        }
    }
}

#[test]
fn limits_age_of_data_by_pass() {
    let passes = vec![Pass::Write, Pass::Read, Pass::Rewrite, Pass::Reread, Pass::Mix];
    let mut spec = RunBuilder::new(Workload::Stream).passes(passes).build();
    let pattern = Pattern::new(1, 4096).stamped(1, 4096);
    let block = |pass| {
        let mut block = [0; 4096];
        pattern.in_pass(&spec, pass).fill(&mut block, 0, 0);
        block
    };
    let check = |spec: &RunSpec, block: &[u8], pass| {
        let checked = pattern.in_pass(spec, pass).check(block, 0, 0);
        checked.map_err(|mismatch| mismatch.what)
    };
    let written = block(Pass::Write);
    let rewritten = block(Pass::Rewrite);
    assert_eq!(check(&spec, &written, Pass::Read), Ok(()));
    assert_eq!(check(&spec, &rewritten, Pass::Reread), Ok(()));
    // Other workers may read the data that a mix writes, so it must not change anything.
    assert_eq!(block(Pass::Mix), rewritten);
    // The rewrite of this block was lost: it is intact but two passes old.
    let stale = WrongContent::Generation { found: 1, oldest: 3 };
    assert_eq!(check(&spec, &written, Pass::Reread), Err(stale));
    // A pass with a limit may not have reached this block.
    spec.load.ops_max = 1;
    assert_eq!(check(&spec, &written, Pass::Reread), Ok(()));
}

proptest! {
    #[test]
    fn every_offset_has_content(file in 0_u32..100_000_000, offset in 0..u64::MAX / 2) {
        thread_local!(static PATTERN: Pattern = Pattern::new(2, 512));
        prop_assert_eq!(PATTERN.with(|p| p.slice(file, offset, 512).len()), 512);
    }
}
