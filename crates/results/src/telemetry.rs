//! Stores and reads host telemetry of a pass.
//!
//! Series are JSON arrays, one row per metric, which queries take apart with `json_each`; with one
//! row per reading, these would be most of a file with short passes.

use model::telemetry::{Metric, MetricKind, Telemetry};
use rusqlite::{Row, Transaction, params};

use crate::row::{from_json, read_name, to_json, to_sql_integer};

/// Adds the telemetry of one host during a pass.
pub(crate) fn insert(
    transaction: &Transaction<'_>,
    pass_id: i64,
    telemetry: &Telemetry,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO telemetry (pass_id, host, times_json) VALUES (?1, ?2, ?3)";
    let times = to_json(&telemetry.times_ns)?;
    transaction.prepare_cached(sql)?.execute(params![pass_id, telemetry.host, times])?;
    let id = transaction.last_insert_rowid();
    let sql = "INSERT INTO metrics (telemetry_id, name, kind, risen, values_json)
               VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = transaction.prepare_cached(sql)?;
    for metric in &telemetry.metrics {
        // The increase of a counter is stored next to its series, for queries; a gauge has none.
        let risen = match metric.kind {
            MetricKind::Counter => Some(to_sql_integer(metric.increase())?),
            MetricKind::Gauge => None,
        };
        let values = to_json(&metric.values)?;
        insert.execute(params![id, metric.name, metric.kind.name(), risen, values])?;
    }
    Ok(())
}

/// Reads the telemetry of one host, without its metrics.
pub(crate) fn read_host(row: &Row<'_>) -> rusqlite::Result<Telemetry> {
    let times_ns = from_json(&row.get::<_, String>("times_json")?, "times_json")?;
    Ok(Telemetry { host: row.get("host")?, times_ns, metrics: Vec::new() })
}

/// Reads one metric of a host.
pub(crate) fn read_metric(row: &Row<'_>) -> rusqlite::Result<Metric> {
    Ok(Metric {
        name: row.get("name")?,
        kind: read_name(row, "kind", |kind| match kind {
            "counter" => Some(MetricKind::Counter),
            "gauge" => Some(MetricKind::Gauge),
            _ => None,
        })?,
        values: from_json(&row.get::<_, String>("values_json")?, "values_json")?,
    })
}
