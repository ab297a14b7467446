//! Values and rows of SQLite as the types of this program, in both directions.
//!
//! What writes and reads the tables uses these functions, so that numbers and names are stored in
//! one way: counts as signed integers that are never negative, kinds by name. A value that doesn't
//! fit is reported as damage ([`damaged`]), never guessed.

use std::str::FromStr;

use model::{Campaign, CampaignState, Ceiling, Question};
use rusqlite::types::Type;
use rusqlite::{Connection, Params, Row};

/// Reads the header of a campaign: its row without question, facts and runs.
pub(crate) fn header(row: &Row<'_>) -> rusqlite::Result<Campaign> {
    let ops_per_s = maybe_count(row, "ceiling_ops_per_s")?;
    let service_time_p50_ns = maybe_count(row, "ceiling_service_time_p50_ns")?;
    Ok(Campaign {
        id: row.get("id")?,
        name: row.get("name")?,
        started_unix_ms: count(row, "started_unix_ms")?,
        tool_version: row.get("tool_version")?,
        command: row.get("command")?,
        question: Question::Figures,
        plan_toml: row.get("plan_toml")?,
        seed: named(row, "seed", |seed| u64::from_str(seed).ok())?,
        state: state_of(row)?,
        facts: Vec::new(),
        ceiling: ops_per_s
            .zip(service_time_p50_ns)
            .map(|(ops_per_s, service_time_p50_ns)| Ceiling { ops_per_s, service_time_p50_ns }),
        runs: Vec::new(),
    })
}

fn state_of(row: &Row<'_>) -> rusqlite::Result<CampaignState> {
    named(row, "state", |state| match state {
        "running" => Some(CampaignState::Running),
        "complete" => Some(CampaignState::Complete),
        "interrupted" => Some(CampaignState::Interrupted),
        _ => None,
    })
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

/// Makes the error for a value that this program can't have stored.
pub(crate) fn damaged(what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, what.into())
}

/// Reads a column that holds a count.
pub(crate) fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    maybe_count(row, column)?.ok_or_else(|| damaged(format!("{column} is missing")))
}

/// Reads a column that holds a count or nothing.
pub(crate) fn maybe_count(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    let value: Option<i64> = row.get(column)?;
    let unsigned =
        |value| u64::try_from(value).map_err(|_| damaged(format!("{column} is {value}")));
    value.map(unsigned).transpose()
}

/// Reads a column that holds one of our names, which `find` looks up.
pub(crate) fn named<T>(
    row: &Row<'_>,
    column: &str,
    find: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let name: String = row.get(column)?;
    find(&name).ok_or_else(|| damaged(format!("{column} `{name}` is not known here")))
}

/// Converts a count into SQLite's signed integer; one that does not fit is refused.
pub(crate) fn whole(value: u64) -> rusqlite::Result<i64> {
    i64::try_from(value).map_err(|_| {
        let cause = format!("{value} exceeds the largest number that SQLite can hold");
        rusqlite::Error::ToSqlConversionFailure(cause.into())
    })
}
