//! Loads campaigns if there is enough memory for them, and reports a clear error otherwise.
//!
//! A report holds a whole campaign in memory. The amount it needs is estimated from the campaign's
//! share of the file; if this host has less available, nothing is read.

use model::Campaign;
use results::Store;

use crate::exit::Failure;

/// Campaigns with fewer trials than this fit on any host.
const TRIALS_MIN: u32 = 20_000;

/// Bytes of memory needed per byte of the file, to evaluate and render it. Measured with campaigns
/// of 10,000 and 100,000 runs (docs/design/pages.md) and rounded up.
const MEMORY_PER_FILE_BYTE: u64 = 5;

const GIB: f64 = (1_u64 << 30) as f64;

/// Loads a campaign.
///
/// # Errors
/// If there is no such campaign, the file can't be read, or there is not enough memory.
pub(crate) fn load(store: &Store, id: i64) -> Result<Campaign, Failure> {
    check_fits(store, &[id])?;
    Ok(store.load(id)?)
}

/// Checks that several campaigns fit into memory at the same time. IDs that don't exist are
/// ignored.
pub(crate) fn check_fits(store: &Store, ids: &[i64]) -> Result<(), Failure> {
    check_memory(store, ids, available_memory())
}

fn check_memory(store: &Store, ids: &[i64], available_bytes: Option<u64>) -> Result<(), Failure> {
    let lines = store.list()?;
    let mut trials = 0_u64;
    let mut all_trials = 0_u64;
    for line in &lines {
        all_trials += u64::from(line.trials);
        // A campaign compared with itself is loaded twice.
        let times = ids.iter().filter(|id| **id == line.id).count() as u64;
        trials += times * u64::from(line.trials);
    }
    let Some(available_bytes) = available_bytes else { return Ok(()) };
    if trials < u64::from(TRIALS_MIN) {
        return Ok(());
    }
    let file_bytes = std::fs::metadata(store.path()).map_or(0, |file| file.len());
    // Estimate the campaigns' share of the file from their share of the trials.
    let share_bytes = u128::from(file_bytes) * u128::from(trials) / u128::from(all_trials.max(1));
    let needed_bytes = share_bytes.saturating_mul(MEMORY_PER_FILE_BYTE.into());
    if needed_bytes <= u128::from(available_bytes) {
        return Ok(());
    }
    let which: Vec<String> = ids.iter().map(i64::to_string).collect();
    let has = if ids.len() == 1 { "campaign" } else { "campaigns" };
    let which = which.join(" and ");
    Err(Failure::Lab(format!(
        "{has} {which}, {trials} trials: a report needs about {:.1} GiB of memory, but this host \
         has only {:.1} GiB left (hint: `dfsbench export --campaign {} DIR` writes it in pieces, \
         for DuckDB and other tools)",
        needed_bytes as f64 / GIB,
        available_bytes as f64 / GIB,
        ids[0]
    )))
}

/// Returns the memory available to this process, in bytes; `None` if unknown.
///
/// **Source:** `proc_meminfo(5)`, `MemAvailable`.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let available_bytes = lab::facts::meminfo_bytes(&text, "MemAvailable:")?;
    Some(
        lab::facts::memory::usable()
            .map_or(available_bytes, |usable| usable.bytes.min(available_bytes)),
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn rejects_campaign_beyond_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.db");
        drop(Store::open_or_create(&path).unwrap());
        let db = Connection::open(&path).unwrap();
        db.execute_batch(
            "INSERT INTO campaigns (id, name, started_unix_ms, tool_version, command, plan_toml,
                 seed, state) VALUES (1, 'n', 0, '', '', '', '0', 'complete');
             INSERT INTO identities VALUES (1, 'u');
             INSERT INTO runs VALUES (1, 1, 0, 't', 't', 'null', 'stream', '{}');
             WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
             INSERT INTO trials SELECT i + 1, 1, i, i, 0, 'done', NULL FROM n",
        )
        .unwrap();
        drop(db);
        let store = Store::open_existing(&path).unwrap();
        assert!(
            check_memory(&store, &[1], Some(1 << 40)).is_ok()
                && check_memory(&store, &[1], None).is_ok()
        );
        let refused = check_memory(&store, &[1], Some(1 << 10)).unwrap_err().to_string();
        assert!(refused.contains("20001 trials") && refused.contains("export"), "{refused}");
        // Two copies need twice the memory.
        let both = check_memory(&store, &[1, 1], Some(1 << 10)).unwrap_err().to_string();
        assert!(both.starts_with("campaigns 1 and 1, 40002 trials"), "{both}");
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
