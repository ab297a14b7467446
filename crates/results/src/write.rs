//! Adds to a results file: campaigns, runs and trials.
//!
//! Each call is one transaction. Counts and times that exceed a signed 64-bit integer are refused,
//! never wrapped.

use model::{
    Campaign, CampaignState, Ceiling, ClientResult, Fact, IntervalTimes, KindResult, PassResult,
    Question, RunSpec, Scope,
};
use model::{Trial, TrialState};
use rusqlite::{Connection, Transaction, named_params, params};

use crate::error::StoreError;
use crate::row::{to_json, to_sql_integer};
use crate::store::Store;
use crate::{host_results, identity, soak, telemetry};

impl Store {
    /// Adds a campaign's header and facts and returns its key; its runs are added one by one, so
    /// `campaign.runs` and `campaign.id` are ignored. It is held from here on, see [`Store::hold`].
    ///
    /// # Errors
    /// If the file can't be written to, is locked, or the disk is full.
    pub fn begin_campaign(&mut self, campaign: &Campaign) -> Result<i64, StoreError> {
        let id = self.transact(|transaction| {
            let ceiling = campaign.ceiling;
            transaction.execute(
                "INSERT INTO campaigns (id, name, started_unix_ms, tool_version, command, plan_toml,
                     seed, state, ceiling_ops_per_s, ceiling_service_time_p50_ns)
                 VALUES (:id, :name, :started, :version, :command, :plan, :seed, :state, :ops,
                     :p50)",
                named_params! {
                    ":id": next_campaign(transaction)?,
                    ":name": campaign.name,
                    ":started": to_sql_integer(campaign.started_unix_ms)?,
                    ":version": campaign.tool_version,
                    ":command": campaign.command,
                    ":plan": campaign.plan_toml,
                    ":seed": campaign.seed.to_string(),
                    ":state": campaign.state.name(),
                    ":ops": ceiling.map(|c| to_sql_integer(c.ops_per_s)).transpose()?,
                    ":p50": ceiling.map(|c| to_sql_integer(c.service_time_p50_ns)).transpose()?,
                },
            )?;
            let id = transaction.last_insert_rowid();
            identity::give_random(transaction, id)?;
            insert_question(transaction, id, &campaign.question)?;
            insert_facts(transaction, id, None, &campaign.facts)?;
            Ok(id)
        })?;
        self.hold(id)?;
        Ok(id)
    }

    /// Adds a run without trials and returns its key; `index` is its position in the matrix.
    ///
    /// # Errors
    /// Same as [`Store::begin_campaign`]; also if a path in the settings is not UTF-8.
    pub fn add_run(
        &mut self,
        campaign_id: i64,
        index: u32,
        spec: &RunSpec,
    ) -> Result<i64, StoreError> {
        let json = self.explain(to_json(spec))?;
        self.transact(|transaction| {
            transaction.execute(
                "INSERT INTO runs (campaign_id, run_index, target_name, target, backend, workload,
                     spec_json)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    campaign_id,
                    index,
                    spec.target_name,
                    spec.target.to_string(),
                    spec.backend.name(),
                    spec.workload.name(),
                    json,
                ],
            )?;
            let id = transaction.last_insert_rowid();
            let sql = "INSERT INTO settings (run_id, name, value) VALUES (?1, ?2, ?3)";
            let mut insert = transaction.prepare_cached(sql)?;
            for (name, value) in spec.settings() {
                insert.execute(params![id, name, value])?;
            }
            Ok(id)
        })
    }

    /// Adds a complete trial in one transaction and returns its key.
    ///
    /// # Errors
    /// Same as [`Store::begin_campaign`]; then nothing of the trial is stored.
    pub fn add_trial(&mut self, run_id: i64, trial: &Trial) -> Result<i64, StoreError> {
        self.transact(|transaction| {
            let (state, reason) = match &trial.state {
                TrialState::Done => ("done", None),
                TrialState::Failed(reason) => ("failed", Some(reason)),
                TrialState::Interrupted => ("interrupted", None),
            };
            transaction.execute(
                "INSERT INTO trials (run_id, trial_index, position, started_unix_ms, state, reason)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    run_id,
                    trial.index,
                    trial.position,
                    to_sql_integer(trial.started_unix_ms)?,
                    state,
                    reason,
                ],
            )?;
            let id = transaction.last_insert_rowid();
            // Facts also contain their campaign, so that those of a campaign are found quickly.
            let campaign_id = transaction.query_row(
                "SELECT campaign_id FROM runs WHERE id = ?1",
                [run_id],
                |row| row.get(0),
            )?;
            insert_facts(transaction, campaign_id, Some(id), &trial.facts)?;
            for pass in &trial.passes {
                insert_pass(transaction, id, pass)?;
            }
            Ok(id)
        })
    }

    /// Stores the tool's own ceiling once it has been measured.
    pub fn set_ceiling(&mut self, campaign_id: i64, ceiling: Ceiling) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.execute(
                "UPDATE campaigns SET ceiling_ops_per_s = ?2, ceiling_service_time_p50_ns = ?3
                 WHERE id = ?1",
                params![
                    campaign_id,
                    to_sql_integer(ceiling.ops_per_s)?,
                    to_sql_integer(ceiling.service_time_p50_ns)?
                ],
            )?;
            Ok(())
        })
    }

    /// Stores how the campaign ended, and allows other processes to continue it.
    pub fn finish(&mut self, campaign_id: i64, state: CampaignState) -> Result<(), StoreError> {
        self.transact(|transaction| {
            let sql = "UPDATE campaigns SET state = ?2 WHERE id = ?1";
            transaction.execute(sql, params![campaign_id, state.name()])?;
            Ok(())
        })?;
        self.release(campaign_id);
        Ok(())
    }
}

/// Returns the number of the next campaign; those of removed campaigns are not reused.
pub(crate) fn next_campaign(connection: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT 1 + max(coalesce((SELECT max(id) FROM campaigns), 0),
                              coalesce((SELECT max(id) FROM removed), 0))";
    connection.query_row(sql, [], |row| row.get(0))
}

/// Stores the question of a campaign, if it is more than figures.
fn insert_question(
    transaction: &Transaction<'_>,
    campaign_id: i64,
    question: &Question,
) -> rusqlite::Result<()> {
    if *question == Question::Figures {
        return Ok(());
    }
    let json = to_json(question)?;
    let sql = "INSERT INTO questions (campaign_id, question, question_json) VALUES (?1, ?2, ?3)";
    transaction.execute(sql, params![campaign_id, question.name(), json])?;
    Ok(())
}

fn insert_facts(
    transaction: &Transaction<'_>,
    campaign_id: i64,
    trial_id: Option<i64>,
    facts: &[Fact],
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO facts (campaign_id, trial_id, scope, name, value, source)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for fact in facts {
        let scope = &fact.scope;
        let name = &fact.name;
        insert.execute(params![campaign_id, trial_id, scope, name, fact.value, fact.source])?;
    }
    Ok(())
}

fn insert_pass(
    transaction: &Transaction<'_>,
    trial_id: i64,
    pass: &PassResult,
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO passes (trial_id, pass, window_ns, common_window_ns, first_done_ops,
             first_done_bytes, first_done_ns, start_skew_ns, client_cpu_ns, server_cpu_ns,
             storage_read_bytes, ops, bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    insert.execute(params![
        trial_id,
        pass.pass.name(),
        to_sql_integer(pass.window_ns)?,
        to_sql_integer(pass.common_window_ns)?,
        to_sql_integer(pass.first_done_ops)?,
        to_sql_integer(pass.first_done_bytes)?,
        to_sql_integer(pass.first_done_ns)?,
        to_sql_integer(pass.start_skew_ns)?,
        to_sql_integer(pass.client_cpu_ns)?,
        pass.server_cpu_ns.map(to_sql_integer).transpose()?,
        pass.storage_read_bytes.map(to_sql_integer).transpose()?,
        to_sql_integer(pass.ops())?,
        to_sql_integer(pass.bytes())?,
    ])?;
    let id = transaction.last_insert_rowid();
    for kind in &pass.kinds {
        insert_kind(transaction, id, kind)?;
    }
    for client in &pass.clients {
        insert_client(transaction, id, client)?;
    }
    for host in &pass.hosts {
        host_results::insert(transaction, id, host)?;
    }
    // Most passes have the default scope, which has no row.
    if pass.scope != Scope::default() {
        let json = to_json(&pass.scope)?;
        let sql = "INSERT INTO scopes (pass_id, scope_json) VALUES (?1, ?2)";
        transaction.prepare_cached(sql)?.execute(params![id, json])?;
    }
    for host in &pass.telemetry {
        telemetry::insert(transaction, id, host)?;
    }
    soak::insert(transaction, id, &pass.intervals, &pass.fault_events)?;
    insert_details(transaction, id, pass)
}

fn insert_client(
    transaction: &Transaction<'_>,
    pass_id: i64,
    client: &ClientResult,
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO clients (pass_id, client, ops, bytes, failed, service_time_p50_ns,
             service_time_p99_ns, service_time_max_ns, service_time)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    insert.execute(params![
        pass_id,
        client.client,
        to_sql_integer(client.ops)?,
        to_sql_integer(client.bytes)?,
        to_sql_integer(client.failed)?,
        to_sql_integer(client.times.quantile(0.5))?,
        to_sql_integer(client.times.quantile(0.99))?,
        to_sql_integer(client.times.max())?,
        client.times.to_bytes(),
    ])?;
    Ok(())
}

fn insert_details(
    transaction: &Transaction<'_>,
    pass_id: i64,
    pass: &PassResult,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO samples (pass_id, at_ns, ops, bytes) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = transaction.prepare_cached(sql)?;
    for sample in &pass.samples {
        let at = to_sql_integer(sample.at_ns)?;
        let ops = to_sql_integer(sample.ops)?;
        let bytes = to_sql_integer(sample.bytes)?;
        insert.execute(params![pass_id, at, ops, bytes])?;
    }
    let sql = "INSERT INTO interval_times (pass_id, at_ns, ops, p50_ns, p99_ns, max_ns, times)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut insert = transaction.prepare_cached(sql)?;
    for IntervalTimes { at_ns, times } in &pass.interval_times {
        insert.execute(params![
            pass_id,
            to_sql_integer(*at_ns)?,
            to_sql_integer(times.count())?,
            to_sql_integer(times.quantile(0.5))?,
            to_sql_integer(times.quantile(0.99))?,
            to_sql_integer(times.max())?,
            times.to_bytes(),
        ])?;
    }
    let sql = "INSERT INTO caveats (pass_id, code, severity, evidence, found, bound, unit, source)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let mut insert = transaction.prepare_cached(sql)?;
    for caveat in &pass.caveats {
        let data = caveat.data.as_ref();
        insert.execute(params![
            pass_id,
            caveat.code.code(),
            caveat.code.severity().name(),
            caveat.evidence,
            data.map(|data| data.found),
            data.map(|data| data.limit),
            data.map(|data| &data.unit),
            data.map(|data| &data.source),
        ])?;
    }
    let sql = "INSERT INTO cross_checks (pass_id, expected, found, source) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = transaction.prepare_cached(sql)?;
    for cross_check in &pass.cross_checks {
        let expected = to_sql_integer(cross_check.expected)?;
        let found = to_sql_integer(cross_check.found)?;
        insert.execute(params![pass_id, expected, found, cross_check.source])?;
    }
    Ok(())
}

fn insert_kind(
    transaction: &Transaction<'_>,
    pass_id: i64,
    kind: &KindResult,
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO kinds (pass_id, kind, issued, done, bytes, service_time_p50_ns,
             service_time_p99_ns, service_time_max_ns, response_time_p50_ns,
             response_time_p99_ns, response_time_max_ns, service_time, response_time)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    // Quantiles are stored next to the histograms, which only this program can read, for queries.
    let service = &kind.service_time;
    let response = &kind.response_time;
    insert.execute(params![
        pass_id,
        kind.kind.name(),
        to_sql_integer(kind.issued)?,
        to_sql_integer(kind.done)?,
        to_sql_integer(kind.bytes)?,
        to_sql_integer(service.quantile(0.5))?,
        to_sql_integer(service.quantile(0.99))?,
        to_sql_integer(service.max())?,
        to_sql_integer(response.quantile(0.5))?,
        to_sql_integer(response.quantile(0.99))?,
        to_sql_integer(response.max())?,
        service.to_bytes(),
        response.to_bytes(),
    ])?;
    let id = transaction.last_insert_rowid();
    let sql = "INSERT INTO op_errors (kind_id, code, name, count) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = transaction.prepare_cached(sql)?;
    for (error, count) in &kind.errors {
        insert.execute(params![id, error.0, error.name(), to_sql_integer(*count)?])?;
    }
    Ok(())
}
