//! Stores and reads the results of individual hosts in a pass by several hosts.

use model::{HostResult, Work};
use rusqlite::{Row, Transaction, params};

use crate::row::{count, read_client_times, to_sql_integer};

/// Adds one host's results for a pass.
pub(crate) fn insert(
    transaction: &Transaction<'_>,
    pass_id: i64,
    host: &HostResult,
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO hosts (pass_id, host, workers, ops, bytes, failed, common_ops, common_bytes,
             start_ns, end_ns, error_ns, cpu_ns, service_time_p50_ns, service_time_p99_ns,
             service_time_max_ns, response_time_p50_ns, response_time_p99_ns,
             response_time_max_ns, service_time, response_time)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
             ?19, ?20)",
    )?;
    insert.execute(params![
        pass_id,
        host.host,
        host.workers,
        to_sql_integer(host.ops)?,
        to_sql_integer(host.bytes)?,
        to_sql_integer(host.failed)?,
        to_sql_integer(host.common.ops)?,
        to_sql_integer(host.common.bytes)?,
        host.start_ns,
        host.end_ns,
        to_sql_integer(host.error_ns)?,
        to_sql_integer(host.cpu_ns)?,
        to_sql_integer(host.times.quantile(0.5))?,
        to_sql_integer(host.times.quantile(0.99))?,
        to_sql_integer(host.times.max())?,
        to_sql_integer(host.response_times.quantile(0.5))?,
        to_sql_integer(host.response_times.quantile(0.99))?,
        to_sql_integer(host.response_times.max())?,
        host.times.to_bytes(),
        host.response_times.to_bytes(),
    ])?;
    Ok(())
}

/// Reads the results of one host from a row.
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<HostResult> {
    Ok(HostResult {
        host: row.get("host")?,
        workers: row.get("workers")?,
        ops: count(row, "ops")?,
        bytes: count(row, "bytes")?,
        failed: count(row, "failed")?,
        common: Work { ops: count(row, "common_ops")?, bytes: count(row, "common_bytes")? },
        start_ns: row.get("start_ns")?,
        end_ns: row.get("end_ns")?,
        error_ns: count(row, "error_ns")?,
        cpu_ns: count(row, "cpu_ns")?,
        times: read_client_times(row, "service_time")?,
        response_times: read_client_times(row, "response_time")?,
    })
}
