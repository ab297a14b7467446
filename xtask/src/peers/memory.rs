//! Memory usage of the quick campaign: bare `dfsbench`, as a new user runs it.
//!
//! The kernel's high-water mark is read while it runs; the limit takes the place of a peer.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::Setting;
use super::case::{Outcome, Row, Spread, Unit};
use super::ours::OURS;
use crate::proc::Background;

/// The server of the quick plan may use 176 MiB; the rest is for the program itself.
const LIMIT_BYTES: f64 = 256.0 * 1_048_576.0;
const PATIENCE: Duration = Duration::from_secs(300);
const INTERVAL: Duration = Duration::from_millis(20);

/// Measures one quick campaign.
pub fn compare_memory(setting: &Setting) -> Vec<Row> {
    let outcome = match peak_bytes(setting) {
        Ok(peak) => Ok(Outcome {
            ours: Spread::from_value(peak),
            peer: Spread::from_value(LIMIT_BYTES),
            ratio: Spread::from_value(LIMIT_BYTES / peak),
        }),
        Err(error) => Err(format!("{error:#}")),
    };
    vec![Row {
        claim: "peak memory of the quick campaign".to_owned(),
        peer: "limit".to_owned(),
        unit: Unit::Memory,
        target: 1.0,
        outcome,
    }]
}

fn peak_bytes(setting: &Setting) -> Result<f64> {
    let folder = TempDir::new_in(setting.folder.path())?;
    let mut command = OURS.command();
    command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut campaign = Background::start(&mut command)?;
    let mut peak = 0_u64;
    let started = Instant::now();
    // The mark only rises, so the last one seen before the end is the peak, or just below it.
    while let Some(mark) = high_water_mark_bytes(campaign.id()) {
        peak = peak.max(mark);
        ensure!(started.elapsed() < PATIENCE, "the quick campaign takes more than 300 s");
        thread::sleep(INTERVAL);
    }
    let code = campaign.await_end(INTERVAL)?;
    ensure!(code == Some(0), "the quick campaign ended with {code:?}");
    ensure!(peak > 0, "the quick campaign ended before it was measured");
    Ok(peak as f64)
}

/// Reads `VmHWM`; `None` once the process has ended.
///
/// **Source:** proc_pid_status(5).
fn high_water_mark_bytes(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}
