//! Reads whole campaigns as they were stored.
//!
//! A load sees one state of the file even while a campaign adds to it. Values that do not fit their
//! types (an unknown pass, a broken histogram) are reported as damage, never guessed. Callers that
//! only need verdicts read an outline, without the large parts.

use std::collections::HashMap;

use model::{
    Campaign, Caveat, CaveatCode, ClientResult, CrossCheck, Evidence, Fact, Histogram,
    IntervalSample, IntervalTimes, KindResult, OpError, OpKind, Pass, PassResult, Question, Run,
    RunSpec, Scope, Trial, TrialState,
};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::error::StoreError;
use crate::row::{
    count, damaged_value, from_json, header, maybe_count, read_client_times, read_name, rows,
};
use crate::store::Store;
use crate::{durability, host_results, soak, telemetry};

impl Store {
    /// Loads a campaign exactly as it was stored. If it is stored as running but no process is
    /// running it, it is returned as interrupted.
    ///
    /// # Errors
    /// If there is no such campaign, or the file is locked or damaged.
    pub fn load(&self, id: i64) -> Result<Campaign, StoreError> {
        self.read(id, ReadDepth::Whole)
    }

    /// Loads the parts of a campaign needed for its verdicts and conditions: amounts, samples and
    /// caveats, without histograms and without the results of hosts, clients and telemetry.
    pub fn outline(&self, id: i64) -> Result<Campaign, StoreError> {
        self.read(id, ReadDepth::Outline)
    }

    fn read(&self, id: i64, depth: ReadDepth) -> Result<Campaign, StoreError> {
        // One transaction, so that all tables are read in the same state.
        let snapshot = self.explain(self.connection.unchecked_transaction())?;
        match self.explain(read_campaign(&snapshot, id, depth))? {
            Some(mut campaign) => {
                campaign.state = self.state_now(id, campaign.state);
                Ok(campaign)
            }
            None => Err(self.no_campaign(id)),
        }
    }
}

/// How much of a campaign is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadDepth {
    Outline,
    Whole,
}

fn read_campaign(
    connection: &Connection,
    id: i64,
    depth: ReadDepth,
) -> rusqlite::Result<Option<Campaign>> {
    let sql = "SELECT * FROM campaigns WHERE id = ?1";
    let header = connection.query_row(sql, [id], header).optional()?;
    let Some(mut campaign) = header else {
        return Ok(None);
    };
    campaign.question = read_question(connection, id)?;
    campaign.durability = durability::read(connection, id)?;
    let sql = "SELECT * FROM runs WHERE campaign_id = ?1 ORDER BY run_index";
    let mut ids = Vec::new();
    let mut runs = Vec::new();
    for (key, run) in
        rows(connection, sql, [id], |row| Ok((row.get::<_, i64>("id")?, read_run(row)?)))?
    {
        ids.push(key);
        runs.push(run);
    }
    let mut trials = TableLevel::default();
    for_each_child(connection, ChildTable::keyed("trials", "run_id"), &ids, |run, row| {
        trials.add(run, row, read_trial(row)?)
    })?;
    read_facts(connection, id, &trials.ids, |index, fact| match index {
        None => campaign.facts.push(fact),
        Some(trial) => trials.values[trial].facts.push(fact),
    })?;
    let mut passes = TableLevel::default();
    for_each_child(
        connection,
        ChildTable::keyed("passes", "trial_id"),
        &trials.ids,
        |trial, row| passes.add(trial, row, read_pass(row)?),
    )?;
    read_outline(connection, &mut passes)?;
    match depth {
        ReadDepth::Outline => read_amounts(connection, &mut passes)?,
        ReadDepth::Whole => read_details(connection, &mut passes)?,
    }
    // From the leaves to the root: each level is complete before it is moved into its parents.
    passes.move_to_parents(|trial, pass| trials.values[trial].passes.push(pass));
    trials.move_to_parents(|run, trial| runs[run].trials.push(trial));
    campaign.runs = runs;
    Ok(Some(campaign))
}

/// Reads the parts below passes that every verdict needs, each table at once: a campaign may have a
/// hundred thousand passes.
fn read_outline(
    connection: &Connection,
    passes: &mut TableLevel<PassResult>,
) -> rusqlite::Result<()> {
    let ids = &passes.ids;
    let passes = &mut passes.values;
    for_each_child(connection, ChildTable::of_passes("samples"), ids, |at, row| {
        passes[at].samples.push(read_sample(row)?);
        Ok(())
    })?;
    for_each_child(connection, ChildTable::of_passes("caveats"), ids, |at, row| {
        passes[at].caveats.push(read_caveat(row)?);
        Ok(())
    })
}

/// Reads the amounts by kind, without histograms.
fn read_amounts(
    connection: &Connection,
    passes: &mut TableLevel<PassResult>,
) -> rusqlite::Result<()> {
    let columns = "pass_id, id, kind, issued, done, bytes";
    let below = ChildTable::of_passes("kinds");
    each_of(connection, below, columns, &passes.ids, |at, row| {
        passes.values[at].kinds.push(read_kind(row, Histogram::sparse(), Histogram::sparse())?);
        Ok(())
    })
}

/// Reads the rest.
fn read_details(
    connection: &Connection,
    passes: &mut TableLevel<PassResult>,
) -> rusqlite::Result<()> {
    let ids = &passes.ids;
    let passes = &mut passes.values;
    for_each_child(connection, ChildTable::of_passes("cross_checks"), ids, |at, row| {
        passes[at].cross_checks.push(read_cross_check(row)?);
        Ok(())
    })?;
    for_each_child(connection, ChildTable::of_passes("clients"), ids, |at, row| {
        passes[at].clients.push(read_client(row)?);
        Ok(())
    })?;
    for_each_child(connection, ChildTable::of_passes("hosts"), ids, |at, row| {
        passes[at].hosts.push(host_results::read(row)?);
        Ok(())
    })?;
    for_each_child(connection, ChildTable::of_passes("intervals"), ids, |at, row| {
        passes[at].intervals.push(soak::read_interval(row)?);
        Ok(())
    })?;
    for_each_child(connection, ChildTable::of_passes("interval_times"), ids, |at, row| {
        passes[at].interval_times.push(read_interval_times(row)?);
        Ok(())
    })?;
    for_each_child(connection, ChildTable::of_passes("fault_events"), ids, |at, row| {
        passes[at].fault_events.push(soak::read_fault_event(row)?);
        Ok(())
    })?;
    for_each_child(
        connection,
        ChildTable { name: "scopes", parent_key: "pass_id", own_key: "pass_id" },
        ids,
        |at, row| {
            passes[at].scope = read_scope(row)?;
            Ok(())
        },
    )?;
    let mut kinds = TableLevel::default();
    for_each_child(connection, ChildTable::of_passes("kinds"), ids, |at, row| {
        let times = |column| read_histogram(row, column);
        kinds.add(at, row, read_kind(row, times("service_time")?, times("response_time")?)?)
    })?;
    for_each_child(
        connection,
        ChildTable::keyed("op_errors", "kind_id"),
        &kinds.ids,
        |at, row| {
            let error = (OpError(row.get("code")?), count(row, "count")?);
            kinds.values[at].errors.push(error);
            Ok(())
        },
    )?;
    kinds.move_to_parents(|at, kind| passes[at].kinds.push(kind));
    let mut watched = TableLevel::default();
    for_each_child(connection, ChildTable::of_passes("telemetry"), ids, |at, row| {
        watched.add(at, row, telemetry::read_host(row)?)
    })?;
    for_each_child(
        connection,
        ChildTable::keyed("metrics", "telemetry_id"),
        &watched.ids,
        |at, row| {
            watched.values[at].metrics.push(telemetry::read_metric(row)?);
            Ok(())
        },
    )?;
    watched.move_to_parents(|at, host| passes[at].telemetry.push(host));
    Ok(())
}

/// The rows of one table, in the order of their parents and then of their keys.
struct TableLevel<T> {
    ids: Vec<i64>,
    values: Vec<T>,
    /// The index of the parent of each item.
    parents: Vec<usize>,
}

impl<T> Default for TableLevel<T> {
    fn default() -> Self {
        Self { ids: Vec::new(), values: Vec::new(), parents: Vec::new() }
    }
}

impl<T> TableLevel<T> {
    fn add(&mut self, parent: usize, row: &Row<'_>, value: T) -> rusqlite::Result<()> {
        self.ids.push(row.get("id")?);
        self.values.push(value);
        self.parents.push(parent);
        Ok(())
    }

    /// Moves each value to its parent, whose index is the first argument of `add`.
    fn move_to_parents(self, mut add: impl FnMut(usize, T)) {
        for (parent, value) in std::iter::zip(self.parents, self.values) {
            add(parent, value);
        }
    }
}

/// A table whose rows belong to rows of another table.
#[derive(Clone, Copy)]
struct ChildTable {
    name: &'static str,
    /// The column that holds the key of the parent.
    parent_key: &'static str,
    /// The column that holds the key of the row.
    own_key: &'static str,
}

impl ChildTable {
    /// A table whose own key is `id`.
    const fn keyed(name: &'static str, parent_key: &'static str) -> Self {
        Self { name, parent_key, own_key: "id" }
    }

    /// A table whose rows belong to passes.
    const fn of_passes(name: &'static str) -> Self {
        Self::keyed(name, "pass_id")
    }
}

/// Reads the rows of a table that belong to the given parents, with the index of the parent.
///
/// The keys of a campaign are close together. So all rows between the smallest and the largest are
/// read along the index, in its order, and those of other campaigns are skipped.
fn for_each_child(
    connection: &Connection,
    table: ChildTable,
    parents: &[i64],
    read: impl FnMut(usize, &Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    each_of(connection, table, "*", parents, read)
}

/// The same with selected columns, which must include both keys.
fn each_of(
    connection: &Connection,
    table: ChildTable,
    columns: &str,
    parents: &[i64],
    mut read: impl FnMut(usize, &Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let (Some(first), Some(last)) = (parents.iter().min(), parents.iter().max()) else {
        return Ok(());
    };
    let ChildTable { name, parent_key, own_key } = table;
    let indices = index_keys(parents);
    let sql = format!(
        "SELECT {columns} FROM {name} WHERE {parent_key} BETWEEN ?1 AND ?2
         ORDER BY {parent_key}, {own_key}"
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([first, last])?;
    while let Some(row) = rows.next()? {
        // Rows of other campaigns between the two keys are skipped.
        if let Some(index) = indices.get(&row.get(parent_key)?) {
            read(*index, row)?;
        }
    }
    Ok(())
}

/// Maps the keys of rows to their indices.
fn index_keys(keys: &[i64]) -> HashMap<i64, usize> {
    let mut indices = HashMap::with_capacity(keys.len());
    indices.extend(keys.iter().enumerate().map(|(index, key)| (*key, index)));
    indices
}

/// Reads the question of a campaign; one that is only about figures has none.
fn read_question(connection: &Connection, campaign_id: i64) -> rusqlite::Result<Question> {
    let sql = "SELECT question_json FROM questions WHERE campaign_id = ?1";
    let json: Option<String> =
        connection.query_row(sql, [campaign_id], |row| row.get(0)).optional()?;
    match json {
        Some(json) => from_json(&json, "the question"),
        None => Ok(Question::Figures),
    }
}

/// Reads the facts of a campaign, each with the index of its trial.
fn read_facts(
    connection: &Connection,
    campaign_id: i64,
    trials: &[i64],
    mut add: impl FnMut(Option<usize>, Fact),
) -> rusqlite::Result<()> {
    let indices = index_keys(trials);
    let sql = "SELECT * FROM facts WHERE campaign_id = ?1 ORDER BY trial_id, id";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([campaign_id])?;
    while let Some(row) = rows.next()? {
        let trial: Option<i64> = row.get("trial_id")?;
        let index = match trial {
            None => None,
            Some(key) => match indices.get(&key) {
                Some(index) => Some(*index),
                // Ignore a fact whose trial is not in the file.
                None => continue,
            },
        };
        let fact = Fact {
            scope: row.get("scope")?,
            name: row.get("name")?,
            value: row.get("value")?,
            source: row.get("source")?,
        };
        add(index, fact);
    }
    Ok(())
}

fn read_run(row: &Row<'_>) -> rusqlite::Result<Run> {
    let json: String = row.get("spec_json")?;
    let spec: RunSpec = from_json(&json, "the settings of a run")?;
    Ok(Run { index: row.get("run_index")?, spec, trials: Vec::new() })
}

fn read_trial(row: &Row<'_>) -> rusqlite::Result<Trial> {
    let reason: Option<String> = row.get("reason")?;
    let state = read_name(row, "state", |state| match state {
        "done" => Some(TrialState::Done),
        "failed" => Some(TrialState::Failed(reason.unwrap_or_default())),
        "interrupted" => Some(TrialState::Interrupted),
        _ => None,
    })?;
    Ok(Trial {
        index: row.get("trial_index")?,
        position: row.get("position")?,
        started_unix_ms: count(row, "started_unix_ms")?,
        state,
        passes: Vec::new(),
        facts: Vec::new(),
    })
}

fn read_pass(row: &Row<'_>) -> rusqlite::Result<PassResult> {
    Ok(PassResult {
        window_ns: count(row, "window_ns")?,
        common_window_ns: count(row, "common_window_ns")?,
        first_done_ops: count(row, "first_done_ops")?,
        first_done_bytes: count(row, "first_done_bytes")?,
        first_done_ns: count(row, "first_done_ns")?,
        start_skew_ns: count(row, "start_skew_ns")?,
        client_cpu_ns: count(row, "client_cpu_ns")?,
        server_cpu_ns: maybe_count(row, "server_cpu_ns")?,
        storage_read_bytes: maybe_count(row, "storage_read_bytes")?,
        ..PassResult::new(read_name(row, "pass", Pass::from_name)?)
    })
}

fn read_kind(
    row: &Row<'_>,
    service_time: Histogram,
    response_time: Histogram,
) -> rusqlite::Result<KindResult> {
    Ok(KindResult {
        kind: read_name(row, "kind", OpKind::from_name)?,
        issued: count(row, "issued")?,
        done: count(row, "done")?,
        bytes: count(row, "bytes")?,
        errors: Vec::new(),
        service_time,
        response_time,
    })
}

/// Reads the results of a client from a row.
fn read_client(row: &Row<'_>) -> rusqlite::Result<ClientResult> {
    let times = read_client_times(row, "service_time")?;
    Ok(ClientResult {
        client: row.get("client")?,
        ops: count(row, "ops")?,
        bytes: count(row, "bytes")?,
        failed: count(row, "failed")?,
        times,
    })
}

/// Reads the scope of a pass from a row.
fn read_scope(row: &Row<'_>) -> rusqlite::Result<Scope> {
    let json: String = row.get("scope_json")?;
    from_json(&json, "scope_json")
}

fn read_sample(row: &Row<'_>) -> rusqlite::Result<IntervalSample> {
    Ok(IntervalSample {
        at_ns: count(row, "at_ns")?,
        ops: count(row, "ops")?,
        bytes: count(row, "bytes")?,
    })
}

fn read_interval_times(row: &Row<'_>) -> rusqlite::Result<IntervalTimes> {
    Ok(IntervalTimes { at_ns: count(row, "at_ns")?, times: read_histogram(row, "times")? })
}

fn read_caveat(row: &Row<'_>) -> rusqlite::Result<Caveat> {
    let code = read_name(row, "code", CaveatCode::from_code)?;
    let data = match row.get("found")? {
        Some(found) => Some(Evidence {
            found,
            limit: row.get("bound")?,
            unit: row.get("unit")?,
            source: row.get("source")?,
        }),
        None => None,
    };
    Ok(Caveat { code, evidence: row.get("evidence")?, data })
}

fn read_cross_check(row: &Row<'_>) -> rusqlite::Result<CrossCheck> {
    Ok(CrossCheck {
        expected: count(row, "expected")?,
        found: count(row, "found")?,
        source: row.get("source")?,
    })
}

fn read_histogram(row: &Row<'_>, column: &str) -> rusqlite::Result<Histogram> {
    let bytes: Vec<u8> = row.get(column)?;
    Histogram::from_bytes(&bytes)
        .ok_or_else(|| damaged_value(format!("{column} is not a histogram")))
}
