//! Parses the systems of a plan: `system`, `access`, `roles`, `settings` and `mount` of a
//! `[[target]]`.
//!
//! Settings and their values are checked against the recipe when the runs are checked, since the
//! recipe may only be read from a file later.

use model::SiteMount;
use model::options::{check_remote_options, check_remote_source, check_remote_type};
use model::setting::{Setting, Value};
use model::system::{AccessWay, Recipe, SecretSource};

use crate::parse::document::{Field, Table};
use crate::parse::level;
use crate::parse::placement;
use crate::parse::recipe::{built_in_recipe, is_recipe_path, parse_recipe, unknown_recipe};
use crate::syntax::error::{Fault, Located, PlanError};
use crate::syntax::hosts::PlannedHost;
use crate::syntax::lab::{RoleArg, SystemArg};
use crate::syntax::raw::RawPlan;
use crate::syntax::settings::Settings;
use crate::syntax::suggestion::unknown_word;
use crate::syntax::target::TargetArg;

/// Maximum number of combinations of a system's settings.
const COMBINATIONS_MAX: usize = 1_000;

/// Parses the system of a target, the way of access to it, and the hosts of its roles.
pub(crate) fn read_system(
    table: &Table<'_>,
    hosts: &[PlannedHost],
) -> Result<Option<SystemArg>, PlanError> {
    let Some(field) = table.field("system") else {
        for key in ["access", "roles", "secrets"] {
            if let Some(field) = table.field(key) {
                let fault = Fault::new("is only for a target with `system`");
                return Err(field.error(fault.hint("name the system, such as \"glusterfs\"")));
            }
        }
        return Ok(None);
    };
    let name = field.text("\"glusterfs\"")?;
    let recipe = match built_in_recipe(name.value) {
        _ if is_recipe_path(name.value) => None,
        Ok(text) => Some(parse_recipe(text, name.value)?),
        Err(_) => return Err(field.error(unknown_recipe(name.value))),
    };
    Ok(Some(SystemArg {
        source: Located { value: name.value.to_owned(), place: name.place },
        recipe,
        access: table.read("access", read_access)?,
        roles: read_roles(table, hosts)?,
        secrets: read_secrets(table)?,
    }))
}

fn read_access(field: &Field<'_>) -> Result<Located<AccessWay>, PlanError> {
    field.parse("\"fuse\"", |text| {
        AccessWay::from_name(text).ok_or_else(|| unknown_word("way", text, AccessWay::NAMES))
    })
}

/// Parses the hosts of each role: `roles = { data = ["node1", "node2"] }`.
fn read_roles(table: &Table<'_>, hosts: &[PlannedHost]) -> Result<Vec<RoleArg>, PlanError> {
    let mut roles = Vec::new();
    let Some(field) = table.field("roles") else { return Ok(roles) };
    for entry in field.entries("for example `roles = { data = [\"node1\", \"node2\"] }`")? {
        let of_role: Vec<_> =
            placement::read_list(&entry, hosts)?.into_iter().map(|planned| planned.host).collect();
        roles.push(RoleArg { name: entry.located(entry.key().to_owned()), hosts: of_role });
    }
    Ok(roles)
}

/// Parses where secrets come from: `secrets = { access_key = { env = "S3_KEY" } }`.
fn read_secrets(table: &Table<'_>) -> Result<Vec<(Located<String>, SecretSource)>, PlanError> {
    const HINT: &str = "for example `secrets = { access_key = { env = \"S3_KEY\" } }`";
    let mut secrets = Vec::new();
    let Some(field) = table.field("secrets") else { return Ok(secrets) };
    for entry in field.entries(HINT)? {
        let mut source = SecretSource::default();
        // The message must not contain a value that is written here.
        if !entry.is_table() {
            return Err(entry.error(Fault::new("must be a table with `env` or `file`").hint(HINT)));
        }
        for part in entry.entries(HINT)? {
            let text = || part.text("\"S3_KEY\"").map(|text| text.value.to_owned());
            match part.key() {
                "env" => source.env = text()?,
                "file" => source.file = text()?,
                other => return Err(part.error(unknown_word("key", other, &["env", "file"]))),
            }
        }
        secrets.push((entry.located(entry.key().to_owned()), source));
    }
    Ok(secrets)
}

/// Parses the settings of a system. Each combination of their values is one level of the setting
/// `system_settings`.
pub(crate) fn read_settings(table: &Table<'_>) -> Result<Settings, PlanError> {
    let mut settings = Settings::default();
    let Some(field) = table.field("settings") else { return Ok(settings) };
    if table.field("system").is_none() {
        let fault = Fault::new("is only for a target with `system`");
        return Err(field.error(fault.hint("settings of a run belong in [factors]")));
    }
    let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
    for entry in field.entries("for example `layout = \"replica\"` below [target.settings]")? {
        let mut longer = Vec::new();
        for combination in &combinations {
            for item in entry.items()? {
                let mut with_item = combination.clone();
                with_item.push(format!("{}={}", entry.key(), read_value(&item)?));
                longer.push(with_item);
            }
        }
        combinations = longer;
        if combinations.len() > COMBINATIONS_MAX {
            let fault = Fault::new(format!("there are more than {COMBINATIONS_MAX} combinations"));
            return Err(field.error(fault.hint("shorten some of the lists")));
        }
    }
    let levels: Vec<_> =
        combinations.into_iter().map(|words| field.located(Value::Words(words))).collect();
    settings.insert(Setting::SystemSettings, levels);
    Ok(settings)
}

/// Parses one value of a setting as text.
fn read_value(item: &Field<'_>) -> Result<String, PlanError> {
    let text = match (item.as_text(), item.as_number(), item.as_flag()) {
        (Some(text), ..) => text.to_owned(),
        (_, Some(number), _) => number.to_string(),
        (_, _, Some(yes)) => yes.to_string(),
        _ => return Err(item.wrong_type("a string, a number, true or false", "\"replica\"")),
    };
    if text.is_empty() || text.contains(['+', '=', ',']) || text.contains(char::is_control) {
        let fault = Fault::new(format!("`{}` is not a value of a setting", text.escape_debug()));
        return Err(item.error(fault.hint("without `+`, `=` and `,`")));
    }
    Ok(text)
}

/// Parses a file system that the site has set up: `mount = { type = .., source = .., options = [..]
/// }`.
pub(crate) fn read_site_mount(table: &Table<'_>) -> Result<Option<SiteMount>, PlanError> {
    const HINT: &str = "for example `mount = { type = \"ceph\", source = \"10.0.0.1:/\" }`";
    let Some(field) = table.field("mount") else { return Ok(None) };
    for other in ["system", "devices", "directory", "path", "loop_size", "tmpfs_size"] {
        if let Some(other) = table.field(other) {
            let fault = Fault::new("conflicts with `mount`");
            return Err(other.error(fault.hint("leave it out: the file system already exists")));
        }
    }
    let mut kind = None;
    let mut source = None;
    let mut options = Vec::new();
    for entry in field.entries(HINT)? {
        match entry.key() {
            "type" => {
                let read = |text: &str| Ok(check_remote_type(text).map(|()| text.to_owned())?);
                kind = Some(entry.parse("\"ceph\"", read)?.value);
            }
            "source" => {
                let read = |text: &str| Ok(check_remote_source(text).map(|()| text.to_owned())?);
                source = Some(entry.parse("\"10.0.0.1:/\"", read)?.value);
            }
            "options" => {
                for item in entry.items()? {
                    options.push(item.text("[\"noatime\"]")?.value.to_owned());
                }
                entry.accept(check_remote_options(&options).map_err(Fault::from))?;
            }
            other => {
                let fault = Fault::new(format!("unknown key `{other}` in mount"));
                return Err(entry.error(fault.hint("known keys: type, source, options")));
            }
        }
    }
    if kind.as_deref().is_some_and(|kind| matches!(kind, "nfs" | "nfs4")) {
        // Settings take precedence, and tables show them.
        let own = options.iter().try_for_each(|option| level::check_site_nfs_option(option));
        field.accept(own)?;
    }
    match (kind, source) {
        (Some(kind), Some(source)) => Ok(Some(SiteMount { kind, source, options })),
        (None, _) => Err(field.error(Fault::new("`type` is missing").hint(HINT))),
        (_, None) => Err(field.error(Fault::new("`source` is missing").hint(HINT))),
    }
}

impl RawPlan {
    /// Uses recipes that are known already, such as those of stored runs, instead of reading them;
    /// `find` returns the one of a name or path.
    pub fn use_recipes(&mut self, find: impl Fn(&str) -> Option<Recipe>) {
        for target in &mut self.targets {
            if let TargetArg::Lab(lab) = &mut target.what
                && let Some(system) = &mut lab.system
                && let Some(recipe) = find(&system.source.value)
            {
                system.recipe = Some(recipe);
            }
        }
    }

    /// Reads the recipes that are given by path; `read` returns the text of a file.
    ///
    /// # Errors
    /// If `read` fails, with its message, or a recipe is invalid.
    pub fn read_systems(
        &mut self,
        mut read: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<(), PlanError> {
        for target in &mut self.targets {
            let TargetArg::Lab(lab) = &mut target.what else { continue };
            let Some(system) = &mut lab.system else { continue };
            if system.recipe.is_some() {
                continue;
            }
            let path = &system.source.value;
            let place = system.source.place;
            match read(path) {
                Ok(text) => system.recipe = Some(parse_recipe(&text, path)?),
                Err(why) => {
                    let fault = Fault::new(format!("can't read recipe `{path}`: {why}"));
                    let error = fault.hint("the path of a file, or a name of `dfsbench systems`");
                    return Err(error.of_key("system", place).in_source(&self.source_name));
                }
            }
        }
        Ok(())
    }
}
