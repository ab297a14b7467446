//! Reading a results file: whole campaigns as they were stored.
//!
//! A load sees one state of the file even while a campaign adds to it. What does not fit the
//! types (an unknown pass, a broken histogram) is reported as damage, never guessed.

use std::str::FromStr;

use model::{
    Campaign, CampaignState, Caveat, CaveatCode, Ceiling, ClientResult, ClientTimes, Fact,
    Histogram, IntervalSample, KindResult, OpError, OpKind, Pass, PassResult, Question, Run,
    RunSpec, Scope, Trial, TrialState, Truth,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::error::{StoreError, explain};
use crate::hosts;
use crate::store::Store;
use crate::{soak, telemetry};

impl Store {
    /// Gives a campaign back exactly as it was stored.
    ///
    /// # Errors
    /// When there is no such campaign, or the file is locked or damaged.
    pub fn load(&self, id: i64) -> Result<Campaign, StoreError> {
        let read = || {
            let snapshot = self.connection.unchecked_transaction()?;
            campaign(&snapshot, id)
        };
        read().map_err(|error| explain(&self.path, error))?.ok_or_else(|| self.missing(id))
    }
}

fn campaign(connection: &Connection, id: i64) -> rusqlite::Result<Option<Campaign>> {
    let sql = "SELECT * FROM campaigns WHERE id = ?1";
    let header = connection.query_row(sql, [id], header).optional()?;
    let Some(mut campaign) = header else {
        return Ok(None);
    };
    campaign.question = question(connection, id)?;
    campaign.facts = facts(connection, id, None)?;
    let sql = "SELECT * FROM runs WHERE campaign_id = ?1 ORDER BY run_index";
    let runs = rows(connection, sql, [id], |row| {
        let json: String = row.get("spec_json")?;
        let spec: RunSpec = serde_json::from_str(&json)
            .map_err(|error| damaged(format!("the settings of a run can't be read: {error}")))?;
        Ok((row.get::<_, i64>("id")?, row.get("run_index")?, spec))
    })?;
    for (run_id, index, spec) in runs {
        campaign.runs.push(Run { index, spec, trials: trials(connection, id, run_id)? });
    }
    Ok(Some(campaign))
}

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

/// What a campaign was made to find out; files of earlier releases don't say, nor have the table.
fn question(connection: &Connection, campaign_id: i64) -> rusqlite::Result<Question> {
    if !connection.table_exists(None, "questions")? {
        return Ok(Question::Figures);
    }
    let sql = "SELECT question_json FROM questions WHERE campaign_id = ?1";
    let json: Option<String> =
        connection.query_row(sql, [campaign_id], |row| row.get(0)).optional()?;
    let read = json.map(|json| serde_json::from_str(&json)).transpose();
    let read = read.map_err(|error| damaged(format!("the question can't be read: {error}")))?;
    Ok(read.unwrap_or_default())
}

fn facts(
    connection: &Connection,
    campaign_id: i64,
    trial_id: Option<i64>,
) -> rusqlite::Result<Vec<Fact>> {
    let sql = "SELECT * FROM facts WHERE campaign_id = ?1 AND trial_id IS ?2 ORDER BY id";
    rows(connection, sql, (campaign_id, trial_id), |row| {
        Ok(Fact {
            scope: row.get("scope")?,
            name: row.get("name")?,
            value: row.get("value")?,
            source: row.get("source")?,
        })
    })
}

fn trials(connection: &Connection, campaign_id: i64, run_id: i64) -> rusqlite::Result<Vec<Trial>> {
    let sql = "SELECT * FROM trials WHERE run_id = ?1 ORDER BY id";
    let mut trials = rows(connection, sql, [run_id], |row| {
        let reason: Option<String> = row.get("reason")?;
        let state = named(row, "state", |state| match state {
            "done" => Some(TrialState::Done),
            "failed" => Some(TrialState::Failed(reason.unwrap_or_default())),
            "interrupted" => Some(TrialState::Interrupted),
            _ => None,
        })?;
        let trial = Trial {
            index: row.get("trial_index")?,
            position: row.get("position")?,
            started_unix_ms: count(row, "started_unix_ms")?,
            state,
            passes: Vec::new(),
            facts: Vec::new(),
        };
        Ok((row.get::<_, i64>("id")?, trial))
    })?;
    for (id, trial) in &mut trials {
        trial.facts = facts(connection, campaign_id, Some(*id))?;
        trial.passes = passes(connection, *id)?;
    }
    Ok(trials.into_iter().map(|(_, trial)| trial).collect())
}

fn passes(connection: &Connection, trial_id: i64) -> rusqlite::Result<Vec<PassResult>> {
    let sql = "SELECT * FROM passes WHERE trial_id = ?1 ORDER BY id";
    let mut passes = rows(connection, sql, [trial_id], |row| {
        let pass = PassResult {
            window_ns: count(row, "window_ns")?,
            common_window_ns: count(row, "common_window_ns")?,
            first_done_ops: count(row, "first_done_ops")?,
            first_done_bytes: count(row, "first_done_bytes")?,
            first_done_ns: count(row, "first_done_ns")?,
            start_skew_ns: count(row, "start_skew_ns")?,
            client_cpu_ns: count(row, "client_cpu_ns")?,
            server_cpu_ns: maybe_count(row, "server_cpu_ns")?,
            storage_read_bytes: maybe_count(row, "storage_read_bytes")?,
            ..PassResult::new(named(row, "pass", Pass::from_name)?)
        };
        Ok((row.get::<_, i64>("id")?, pass))
    })?;
    for (id, pass) in &mut passes {
        pass.truths = truths(connection, *id)?;
        pass.samples = samples(connection, *id)?;
        pass.pulses = soak::pulses(connection, *id)?;
        pass.upsets = soak::upsets(connection, *id)?;
        pass.kinds = kinds(connection, *id)?;
        pass.clients = clients(connection, *id)?;
        pass.hosts = hosts::load(connection, *id)?;
        pass.scope = scope(connection, *id)?;
        pass.telemetry = telemetry::load(connection, *id)?;
        pass.caveats = caveats(connection, *id)?;
    }
    Ok(passes.into_iter().map(|(_, pass)| pass).collect())
}

fn kinds(connection: &Connection, pass_id: i64) -> rusqlite::Result<Vec<KindResult>> {
    let sql = "SELECT * FROM kinds WHERE pass_id = ?1 ORDER BY id";
    let mut kinds = rows(connection, sql, [pass_id], |row| {
        let kind = KindResult {
            kind: named(row, "kind", OpKind::from_name)?,
            issued: count(row, "issued")?,
            done: count(row, "done")?,
            bytes: count(row, "bytes")?,
            errors: Vec::new(),
            service_time: histogram(row, "service_time")?,
            response_time: histogram(row, "response_time")?,
        };
        Ok((row.get::<_, i64>("id")?, kind))
    })?;
    let sql = "SELECT * FROM op_errors WHERE kind_id = ?1 ORDER BY id";
    for (id, kind) in &mut kinds {
        kind.errors = rows(connection, sql, [*id], |row| {
            Ok((OpError(row.get("code")?), count(row, "count")?))
        })?;
    }
    Ok(kinds.into_iter().map(|(_, kind)| kind).collect())
}

/// Reads what clients did; files of earlier releases have no table for it.
fn clients(connection: &Connection, pass_id: i64) -> rusqlite::Result<Vec<ClientResult>> {
    if !connection.table_exists(None, "clients")? {
        return Ok(Vec::new());
    }
    let sql = "SELECT * FROM clients WHERE pass_id = ?1 ORDER BY id";
    rows(connection, sql, [pass_id], |row| {
        let bytes: Vec<u8> = row.get("service_time")?;
        let times = ClientTimes::from_bytes(&bytes);
        Ok(ClientResult {
            client: row.get("client")?,
            ops: count(row, "ops")?,
            bytes: count(row, "bytes")?,
            failed: count(row, "failed")?,
            times: times.ok_or_else(|| damaged("service_time is of no client".to_owned()))?,
        })
    })
}

/// Reads what a pass was offered and touched; passes of earlier releases have no such row.
fn scope(connection: &Connection, pass_id: i64) -> rusqlite::Result<Scope> {
    if !connection.table_exists(None, "scopes")? {
        return Ok(Scope::default());
    }
    let sql = "SELECT * FROM scopes WHERE pass_id = ?1";
    let scopes = rows(connection, sql, [pass_id], |row| {
        let json: String = row.get("scope_json")?;
        serde_json::from_str(&json).map_err(|error| damaged(format!("scope_json: {error}")))
    })?;
    Ok(scopes.into_iter().next().unwrap_or_default())
}

fn samples(connection: &Connection, pass_id: i64) -> rusqlite::Result<Vec<IntervalSample>> {
    let sql = "SELECT * FROM samples WHERE pass_id = ?1 ORDER BY id";
    rows(connection, sql, [pass_id], |row| {
        Ok(IntervalSample {
            at_ns: count(row, "at_ns")?,
            ops: count(row, "ops")?,
            bytes: count(row, "bytes")?,
        })
    })
}

fn caveats(connection: &Connection, pass_id: i64) -> rusqlite::Result<Vec<Caveat>> {
    let sql = "SELECT * FROM caveats WHERE pass_id = ?1 ORDER BY id";
    rows(connection, sql, [pass_id], |row| {
        let code = named(row, "code", CaveatCode::from_code)?;
        Ok(Caveat { code, evidence: row.get("evidence")? })
    })
}

fn truths(connection: &Connection, pass_id: i64) -> rusqlite::Result<Vec<Truth>> {
    let sql = "SELECT * FROM truths WHERE pass_id = ?1 ORDER BY id";
    rows(connection, sql, [pass_id], |row| {
        Ok(Truth {
            expected: count(row, "expected")?,
            found: count(row, "found")?,
            source: row.get("source")?,
        })
    })
}

pub(crate) fn rows<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(params, read)?.collect()
}

pub(crate) fn damaged(what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, what.into())
}

pub(crate) fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    maybe_count(row, column)?.ok_or_else(|| damaged(format!("{column} is missing")))
}

pub(crate) fn maybe_count(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    let value: Option<i64> = row.get(column)?;
    let unsigned =
        |value| u64::try_from(value).map_err(|_| damaged(format!("{column} is {value}")));
    value.map(unsigned).transpose()
}

pub(crate) fn named<T>(
    row: &Row<'_>,
    column: &str,
    find: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let name: String = row.get(column)?;
    find(&name).ok_or_else(|| damaged(format!("{column} `{name}` is not known here")))
}

fn state_of(row: &Row<'_>) -> rusqlite::Result<CampaignState> {
    named(row, "state", |state| match state {
        "running" => Some(CampaignState::Running),
        "complete" => Some(CampaignState::Complete),
        "interrupted" => Some(CampaignState::Interrupted),
        _ => None,
    })
}

fn histogram(row: &Row<'_>, column: &str) -> rusqlite::Result<Histogram> {
    let bytes: Vec<u8> = row.get(column)?;
    Histogram::from_bytes(&bytes).ok_or_else(|| damaged(format!("{column} is not a histogram")))
}
