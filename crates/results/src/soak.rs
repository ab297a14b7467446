//! Stores and reads the observations of a soak: interval statistics and fault events.

use model::soak::FaultKind;
use model::{FaultEvent, IntervalStats};
use rusqlite::{Row, Transaction, params};

use crate::row::{count, maybe_count, read_name, to_sql_integer};

/// Adds the statistics of each interval of a pass, and the fault events on its hosts.
pub(crate) fn insert(
    transaction: &Transaction<'_>,
    pass_id: i64,
    intervals: &[IntervalStats],
    fault_events: &[FaultEvent],
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO intervals (pass_id, at_ns, ops, errors, p50_ns, p95_ns, p99_ns, max_ns,
             uncommitted, rss_bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    for interval in intervals {
        insert.execute(params![
            pass_id,
            to_sql_integer(interval.at_ns)?,
            to_sql_integer(interval.ops)?,
            to_sql_integer(interval.errors)?,
            to_sql_integer(interval.p50_ns)?,
            to_sql_integer(interval.p95_ns)?,
            to_sql_integer(interval.p99_ns)?,
            to_sql_integer(interval.max_ns)?,
            to_sql_integer(interval.uncommitted)?,
            to_sql_integer(interval.rss_bytes)?,
        ])?;
    }
    let mut insert = transaction.prepare_cached(
        "INSERT INTO fault_events (pass_id, fault, host, planned_ns, begun_ns, ended_ns, failed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for event in fault_events {
        insert.execute(params![
            pass_id,
            event.fault.name(),
            event.host,
            to_sql_integer(event.planned_ns)?,
            to_sql_integer(event.begun_ns)?,
            event.ended_ns.map(to_sql_integer).transpose()?,
            event.failed,
        ])?;
    }
    Ok(())
}

/// Reads the statistics of one interval from a row.
pub(crate) fn read_interval(row: &Row<'_>) -> rusqlite::Result<IntervalStats> {
    Ok(IntervalStats {
        at_ns: count(row, "at_ns")?,
        ops: count(row, "ops")?,
        errors: count(row, "errors")?,
        p50_ns: count(row, "p50_ns")?,
        p95_ns: count(row, "p95_ns")?,
        p99_ns: count(row, "p99_ns")?,
        max_ns: count(row, "max_ns")?,
        uncommitted: count(row, "uncommitted")?,
        rss_bytes: count(row, "rss_bytes")?,
    })
}

/// Reads a fault event from a row.
pub(crate) fn read_fault_event(row: &Row<'_>) -> rusqlite::Result<FaultEvent> {
    Ok(FaultEvent {
        fault: read_name(row, "fault", FaultKind::from_name)?,
        host: row.get("host")?,
        planned_ns: count(row, "planned_ns")?,
        begun_ns: count(row, "begun_ns")?,
        ended_ns: maybe_count(row, "ended_ns")?,
        failed: row.get("failed")?,
    })
}
