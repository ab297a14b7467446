//! Adds to a campaign what a copy of it gained when it was continued elsewhere.
//!
//! See [`join`]: it takes missing runs and trials, and notes and tags. Nothing here is changed,
//! with two exceptions: an interrupted trial is replaced by the completed one, and a campaign that
//! has become complete is marked as such. Content that is the same in both is left alone, so
//! joining again changes nothing.

use rusqlite::Connection;

use crate::copy::{Key, Keys, copy_table};
use crate::tree::{ROOT, Table, Tree};

/// What was added to a campaign from its copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinedCounts {
    pub runs: usize,
    /// Number of trials, including those of new runs.
    pub trials: usize,
    pub notes: usize,
    pub tags: usize,
    /// Number of trials that exist in both but differ: those here are kept.
    pub differ: usize,
}

/// Pairs of trials from both campaigns, with their runs.
const PAIRS: &str = "main.trials h JOIN main.runs hr ON hr.id = h.run_id
     JOIN other.runs fr ON fr.run_index = hr.run_index
     JOIN other.trials f ON f.run_id = fr.id AND f.trial_index = h.trial_index";

/// Joins the campaign `from` of the attached file to the same campaign `here`.
pub(crate) fn join(
    connection: &Connection,
    here: i64,
    from: i64,
) -> rusqlite::Result<JoinedCounts> {
    let tree = Tree::own_schema();
    // First, so that the trials that replace them count as missing.
    remove_interrupted(connection, here, from)?;
    choose_missing(connection, here, from)?;
    let mut gained = JoinedCounts {
        differ: count_different(connection, here, from)?,
        ..JoinedCounts::default()
    };
    let mut keys: Keys<'_> = vec![(ROOT, Key::Shifted(here - from))];
    let mut of_trials = Vec::new();
    for table in &tree.tables {
        if let Some(rows) = chosen_rows(tree, table, "trials") {
            of_trials.push((table, rows));
            continue;
        }
        match (table.name.as_str(), chosen_rows(tree, table, "runs")) {
            (ROOT, _) => {}
            (name, Some(rows)) => {
                let copied = copy_table(connection, table, &rows, &mut keys)?;
                gained.runs += if name == "runs" { copied } else { 0 };
            }
            (name, None) => {
                let added = unite_rows(connection, table, here, from)?;
                gained.notes += if name == "notes" { added } else { 0 };
                gained.tags += if name == "tags" { added } else { 0 };
            }
        }
    }
    // From here on a run is identified by its index: some already existed, some have just been
    // copied.
    keys.retain(|(name, _)| *name != "runs");
    keys.push(("runs", Key::SameRun { here, from }));
    for (table, rows) in of_trials {
        let copied = copy_table(connection, table, &rows, &mut keys)?;
        gained.trials += if table.name == "trials" { copied } else { 0 };
    }
    connection.execute_batch("DROP TABLE temp.chosen_runs; DROP TABLE temp.chosen_trials")?;
    update_campaign(connection, here, from)?;
    Ok(gained)
}

/// Returns the condition for the rows of a table that belong to the chosen rows of `root`.
fn chosen_rows(tree: &Tree, table: &Table, root: &str) -> Option<String> {
    let chosen = format!("id IN (SELECT id FROM temp.chosen_{root})");
    tree.below(table, root, &chosen, "other.")
}

/// Removes trials that were interrupted here but completed there.
fn remove_interrupted(connection: &Connection, here: i64, from: i64) -> rusqlite::Result<()> {
    let stopped = format!(
        "id IN (SELECT h.id FROM {PAIRS} WHERE hr.campaign_id = {here} AND fr.campaign_id = {from}
                AND h.state = 'interrupted' AND f.state <> 'interrupted')"
    );
    Tree::own_schema().delete(connection, "trials", &stopped, &[])
}

/// Records which runs and trials are missing here, before any are copied.
fn choose_missing(connection: &Connection, here: i64, from: i64) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TEMP TABLE chosen_runs AS
         SELECT id FROM other.runs WHERE campaign_id = {from} AND run_index NOT IN
             (SELECT run_index FROM main.runs WHERE campaign_id = {here});
         CREATE TEMP TABLE chosen_trials AS
         SELECT t.id FROM other.trials t JOIN other.runs r ON r.id = t.run_id
         WHERE r.campaign_id = {from} AND NOT EXISTS
             (SELECT 1 FROM main.trials h JOIN main.runs hr ON hr.id = h.run_id
              WHERE hr.campaign_id = {here} AND hr.run_index = r.run_index
                  AND h.trial_index = t.trial_index)"
    ))
}

/// Counts the trials that have the same position in both but were run at different times.
fn count_different(connection: &Connection, here: i64, from: i64) -> rusqlite::Result<usize> {
    let sql = format!(
        "SELECT count(*) FROM {PAIRS} WHERE hr.campaign_id = {here} AND fr.campaign_id = {from}
             AND h.started_unix_ms <> f.started_unix_ms"
    );
    connection.query_row(&sql, [], |row| Ok(row.get::<_, u32>(0)? as usize))
}

/// Adds a campaign's missing rows, ignoring their keys; returns how many there were.
fn unite_rows(
    connection: &Connection,
    table: &Table,
    here: i64,
    from: i64,
) -> rusqlite::Result<usize> {
    let mut columns = Vec::new();
    let mut same = Vec::new();
    for column in &table.columns {
        let name = column.name.as_str();
        if !matches!(name, "id" | "campaign_id") {
            columns.push(name);
            // IS, because NULL = NULL is not true in SQL.
            same.push(format!("h.{name} IS f.{name}"));
        }
    }
    let name = &table.name;
    let columns = columns.join(", ");
    let same = same.join(" AND ");
    connection.execute(
        &format!(
            "INSERT OR IGNORE INTO main.{name} (campaign_id, {columns})
             SELECT {here}, {columns} FROM other.{name} f
             WHERE campaign_id = {from} AND NOT EXISTS
                 (SELECT 1 FROM main.{name} h WHERE h.campaign_id = {here} AND {same})"
        ),
        [],
    )
}

/// Updates the campaign from its copy: how it ended, and the tool's own ceiling.
fn update_campaign(connection: &Connection, here: i64, from: i64) -> rusqlite::Result<()> {
    let sql = format!(
        "UPDATE main.campaigns SET
             state = CASE WHEN campaigns.state = 'complete' OR f.state = 'running'
                          THEN campaigns.state ELSE f.state END,
             ceiling_ops_per_s = coalesce(campaigns.ceiling_ops_per_s, f.ceiling_ops_per_s),
             ceiling_service_time_p50_ns =
                 coalesce(campaigns.ceiling_service_time_p50_ns, f.ceiling_service_time_p50_ns)
         FROM other.campaigns f WHERE campaigns.id = {here} AND f.id = {from}"
    );
    connection.execute(&sql, [])?;
    Ok(())
}
