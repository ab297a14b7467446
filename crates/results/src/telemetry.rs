//! Stores and reads the telemetry of hosts during a pass.
//!
//! Series are JSON arrays in a row for each metric, which `json_each` takes apart in queries; a row
//! for each reading would make most of a file of short passes.

use model::telemetry::{Metric, MetricKind, Telemetry};
use rusqlite::{Row, Transaction, params};

use crate::row::{from_json, named, to_json, whole};

/// Adds what one host did during a pass.
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
        // A counter's rise is kept beside its series, for queries; a gauge has none.
        let risen = match metric.kind {
            MetricKind::Counter => Some(whole(metric.risen())?),
            MetricKind::Gauge => None,
        };
        let values = to_json(&metric.values)?;
        insert.execute(params![id, metric.name, metric.kind.name(), risen, values])?;
    }
    Ok(())
}

/// Reads one host that was watched, without its metrics.
pub(crate) fn read_host(row: &Row<'_>) -> rusqlite::Result<Telemetry> {
    let times_ns = from_json(&row.get::<_, String>("times_json")?, "times_json")?;
    Ok(Telemetry { host: row.get("host")?, times_ns, metrics: Vec::new() })
}

/// Reads one metric of a host.
pub(crate) fn read_metric(row: &Row<'_>) -> rusqlite::Result<Metric> {
    Ok(Metric {
        name: row.get("name")?,
        kind: named(row, "kind", |kind| match kind {
            "counter" => Some(MetricKind::Counter),
            "gauge" => Some(MetricKind::Gauge),
            _ => None,
        })?,
        values: from_json(&row.get::<_, String>("values_json")?, "values_json")?,
    })
}
