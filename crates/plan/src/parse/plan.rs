//! Parses the text of a plan into a [`RawPlan`].
//!
//! Stops at the first fault, in the order of the text within a table. Each value has been checked
//! against its own limits; see `limits`.

use model::setting::Setting;

use crate::parse::conclusion::read_conclusions;
use crate::parse::disturb::read_disturbances;
use crate::parse::document::{self, Field, PlanText, Table};
use crate::parse::hosts;
use crate::parse::load::read_loads;
use crate::parse::repetition::{read_fairness, read_quiet_ms};
use crate::parse::requirement::read_requirements;
use crate::parse::section::Section;
use crate::parse::server::{read_seed, read_server};
use crate::parse::targets;
use crate::parse::values::{backend, settings_among, workload_named};
use crate::parse::work;
use crate::syntax::error::{Fault, Located, PlanError};
use crate::syntax::limits;
use crate::syntax::raw::{RawPlan, RawWorkload};
use crate::syntax::repetition::RawRepetition;
use crate::syntax::settings::Settings;

impl RawPlan {
    /// Parses a plan; errors refer to the text as `source_name`.
    ///
    /// # Errors
    /// If the text is not TOML, or contains an invalid key, type or value.
    pub fn parse(text: &str, source_name: &str) -> Result<Self, PlanError> {
        read_plan(text, source_name).map_err(|error| error.in_source(source_name))
    }
}

fn read_plan(text: &str, source_name: &str) -> Result<RawPlan, PlanError> {
    let text = PlanText::new(text);
    let root = document::parse(&text)?;
    let root = Table::root(&text, &root)?;
    let server = root.read("server", read_server)?.unwrap_or_default();
    let hosts = hosts::read_hosts(&root)?;
    let labels = hosts::read_own_labels(&root)?;
    let factors = match root.field("factors") {
        Some(field) => settings_among(&Setting::ALL, &field.table(Section::Settings)?)?,
        None => Settings::default(),
    };
    Ok(RawPlan {
        source_name: source_name.to_owned(),
        name: read_plan_name(&root)?,
        repetition: RawRepetition::read(&root)?,
        seed: root.read("seed", read_seed)?,
        fair: read_fairness(&root)?,
        quiet_ms: read_quiet_ms(&root)?,
        server,
        targets: targets::read_targets(&root, &hosts)?,
        disturbances: read_disturbances(&root, &hosts)?,
        conclusions: read_conclusions(&root)?,
        requirements: read_requirements(&root)?,
        labels,
        hosts: hosts.into_iter().map(|planned| planned.host).collect(),
        factors,
        workloads: read_workloads(&root)?,
        scale: None,
        large_ops: Vec::new(),
    })
}

fn read_plan_name(root: &Table<'_>) -> Result<String, PlanError> {
    let field = root.required("name", "begin with a line such as `name = \"example\"`")?;
    let name = field.text("\"example\"")?.value;
    match check_plan_name(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(fault) => Err(field.error(fault)),
    }
}

/// Refuses an invalid plan name.
pub(crate) fn check_plan_name(name: &str) -> Result<(), Fault> {
    let length = name.chars().count();
    let fits = (1..=limits::NAME_LENGTH_MAX).contains(&length);
    if !fits || name.trim().is_empty() || name.contains(char::is_control) {
        let what = format!("must be 1 to {} characters, not `{name:.80}`", limits::NAME_LENGTH_MAX);
        return Err(Fault::new(what).hint("it appears in tables and file names"));
    }
    Ok(())
}

fn read_workloads(root: &Table<'_>) -> Result<Vec<RawWorkload>, PlanError> {
    if let Some(field) = root.field("load") {
        if root.field("workload").is_some() {
            let fault = Fault::new("a plan has [[workload]] or [[load]], not both");
            return Err(field.error(fault.hint("write each workload as a [[load]] with a name")));
        }
        return read_loads(&field);
    }
    let hint = "add a [[workload]] with a kind, such as \"stream\"";
    let field = root.required("workload", hint)?;
    let workloads = field
        .tables(Section::Workload)?
        .into_iter()
        .map(|table| read_workload(&table))
        .collect::<Result<Vec<_>, _>>()?;
    if workloads.is_empty() {
        return Err(field.error(Fault::new("the list is empty").hint(hint)));
    }
    Ok(workloads)
}

fn read_workload(table: &Table<'_>) -> Result<RawWorkload, PlanError> {
    let field = table.required("kind", "for example `kind = \"stream\"`")?;
    let kind = field.parse("\"stream\"", workload_named)?;
    work::check_settings(table, kind.value)?;
    Ok(RawWorkload {
        kind,
        targets: table.read_each("targets", read_name)?,
        backends: table.read_each("backends", backend)?,
        settings: settings_among(&Setting::ALL, table)?,
        command: work::read_command(table, kind.value)?,
        mix: work::read_mix(table, kind.value)?,
        mix_from: work::read_mix_from(table, kind.value)?,
        mix_since: work::read_mix_since(table)?,
        load: None,
    })
}

fn read_name(item: &Field<'_>) -> Result<Located<String>, PlanError> {
    Ok(item.located(item.text("\"nfs\"")?.value.to_owned()))
}
