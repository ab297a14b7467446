//! Converts SQLite values and rows to the types of this program and back.
//!
//! Code that writes or reads tables uses these functions, so that numbers and names are stored in
//! one way: counts as nonnegative signed integers, kinds by name. A value that doesn't fit is
//! reported as damage ([`damaged_value`]), never guessed.

use std::str::FromStr;

use model::{Campaign, CampaignState, Ceiling, ClientTimes, Question};
use rusqlite::types::Type;
use rusqlite::{Connection, Params, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads the header of a campaign: its row without question, facts and runs.
pub(crate) fn header(row: &Row<'_>) -> rusqlite::Result<Campaign> {
    let ops_per_s = maybe_count(row, "ceiling_ops_per_s")?;
    let service_time_p50_ns = maybe_count(row, "ceiling_service_time_p50_ns")?;
    // Both columns are written together; a campaign that was stopped early has neither.
    let ceiling = match (ops_per_s, service_time_p50_ns) {
        (Some(ops_per_s), Some(service_time_p50_ns)) => {
            Some(Ceiling { ops_per_s, service_time_p50_ns })
        }
        _ => None,
    };
    Ok(Campaign {
        id: row.get("id")?,
        name: row.get("name")?,
        started_unix_ms: count(row, "started_unix_ms")?,
        tool_version: row.get("tool_version")?,
        command: row.get("command")?,
        question: Question::Figures,
        plan_toml: row.get("plan_toml")?,
        // Text, since a seed may exceed SQLite's integers.
        seed: read_name(row, "seed", |seed| u64::from_str(seed).ok())?,
        state: read_state(row)?,
        facts: Vec::new(),
        ceiling,
        durability: Vec::new(),
        runs: Vec::new(),
    })
}

fn read_state(row: &Row<'_>) -> rusqlite::Result<CampaignState> {
    read_name(row, "state", CampaignState::from_name)
}

/// Reads all rows of a query.
pub(crate) fn rows<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(params, read)?.collect()
}

/// Converts a value to JSON, to be stored in a column.
pub(crate) fn to_json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Parses JSON from a column; `what` is the name used in errors.
pub(crate) fn from_json<T: DeserializeOwned>(json: &str, what: &str) -> rusqlite::Result<T> {
    serde_json::from_str(json)
        .map_err(|error| damaged_value(format!("cannot parse {what}: {error}")))
}

/// Creates the error for a value that this program can't have stored.
pub(crate) fn damaged_value(what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, what.into())
}

/// Reads a count from a column.
pub(crate) fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    maybe_count(row, column)?.ok_or_else(|| damaged_value(format!("{column} is missing")))
}

/// Reads a count or NULL from a column.
pub(crate) fn maybe_count(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    let Some(value) = row.get::<_, Option<i64>>(column)? else { return Ok(None) };
    match u64::try_from(value) {
        Ok(count) => Ok(Some(count)),
        // SQLite has only signed integers, and this program never stores negative ones.
        Err(_) => Err(damaged_value(format!("{column} is {value}"))),
    }
}

/// Reads the histogram of a client or host from a row.
pub(crate) fn read_client_times(row: &Row<'_>, column: &str) -> rusqlite::Result<ClientTimes> {
    let bytes: Vec<u8> = row.get(column)?;
    ClientTimes::from_bytes(&bytes)
        .ok_or_else(|| damaged_value(format!("{column} does not contain times of a client")))
}

/// Reads one of our names from a column; `find` looks it up.
pub(crate) fn read_name<T>(
    row: &Row<'_>,
    column: &str,
    find: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let name: String = row.get(column)?;
    find(&name).ok_or_else(|| damaged_value(format!("{column} `{name}` is unknown")))
}

/// Converts a count to SQLite's signed integer; refuses one that does not fit.
pub(crate) fn to_sql_integer(value: u64) -> rusqlite::Result<i64> {
    if let Ok(signed) = i64::try_from(value) {
        return Ok(signed);
    }
    let cause = format!("{value} exceeds the largest number that SQLite can store");
    Err(rusqlite::Error::ToSqlConversionFailure(cause.into()))
}
