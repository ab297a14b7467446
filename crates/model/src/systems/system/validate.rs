//! Checks a recipe as far as possible without hosts.

use std::collections::BTreeMap;

use super::roles::{CLIENT_ROLE, EVERY_HOST, SERVER};
use super::{
    AccessWay, COUNT_MAX, Places, Recipe, RecipeError, RecipeSetting, RecipeStep, SettingKind,
    Variable,
};
use crate::targets::nfs::NfsVersion;

/// Directories in which programs may leave files that are then removed.
const LEAVING: [&str; 5] = ["/run/", "/var/lib/", "/var/log/", "/var/cache/", "/var/tmp/"];

/// Variables available in every recipe.
const BUILT_IN: [&str; 8] = ["dir", "storage", "state", "address", "host", "clients", "point", "n"];

impl Recipe {
    /// Checks everything that can be checked without a host.
    ///
    /// # Errors
    /// Returns the first error, with key, value and what to write instead.
    pub fn validate(&self) -> Result<(), RecipeError> {
        check_name("name", &self.name, "-")?;
        for (key, text) in
            [("title", &self.title), ("tried", &self.tried), ("durability", &self.durability)]
        {
            if text.trim().is_empty() || text.contains('\n') {
                return Err(RecipeError::new(format!("{key}: must be one line of text"), "say it"));
            }
        }
        self.check_roles()?;
        for (name, setting) in &self.settings {
            check_setting(setting).map_err(|error| error.of_key(&format!("settings.{name}")))?;
            check_new_name("settings", name)?;
        }
        for (name, variable) in &self.variables {
            self.check_variable(variable)
                .map_err(|error| error.of_key(&format!("variables.{name}")))?;
            check_new_name("variables", name)?;
            if self.settings.contains_key(name) {
                let what = format!("variables.{name}: is also a setting");
                return Err(RecipeError::new(what, "give them different names"));
            }
        }
        if self.steps.is_empty() {
            let hint = "[[step]] with `start`, `run`, `ready` or `port`";
            return Err(RecipeError::new("step: nothing is started", hint));
        }
        for (index, step) in self.steps.iter().enumerate() {
            let checked = check_step(step).and_then(|()| self.check_on(&step.on, &step.count));
            if let Some(way) = step.access
                && !self.ways().contains(&way)
            {
                let what = format!("step {}: access: {way} is not one of its ways", index + 1);
                return Err(RecipeError::new(
                    what,
                    "nfs, mount or fuse, with a table [access.WAY]",
                ));
            }
            checked.map_err(|error| error.of_key(&format!("step {}", index + 1)))?;
        }
        if self.ports.contains(&0) {
            return Err(RecipeError::new("ports: 0 is not a port", "1 to 65535"));
        }
        if let Some(counters) = &self.counters {
            if counters.run.is_empty() {
                let what = "counters.run: is empty";
                return Err(RecipeError::new(what, "a command that prints lines `NAME NUMBER`"));
            }
            self.check_on(&counters.on, "").map_err(|error| error.of_key("counters"))?;
        }
        self.check_access()?;
        self.check_texts()
    }

    fn check_roles(&self) -> Result<(), RecipeError> {
        for (name, role) in &self.roles {
            let key = format!("roles.{name}");
            check_name("roles", name, "_")?;
            if name == EVERY_HOST {
                let what = format!("{key}: is reserved for every host");
                return Err(RecipeError::new(what, "give it another name"));
            }
            if role.meaning.trim().is_empty() {
                let what = format!("{key}: `meaning` is empty");
                return Err(RecipeError::new(what, "describe what its servers do"));
            }
            if !(1..=COUNT_MAX).contains(&role.hosts_max) {
                let what = format!("{key}: hosts_max: can't be {}", role.hosts_max);
                return Err(RecipeError::new(what, format!("1 to {COUNT_MAX}")));
            }
            if name == CLIENT_ROLE && (role.storage || !role.ports.is_empty()) {
                let what = format!("{key}: clients have no files of it, and nothing listens there");
                return Err(RecipeError::new(what, "only `meaning` and `programs`"));
            }
            let mut uses = self.steps.iter().map(|step| &step.on);
            let mut names = self.variables.values().map(|variable| &variable.on);
            if !uses.any(|on| on == name) && !names.any(|on| on == name) {
                let what = format!("{key}: nothing runs on its hosts");
                let hint = format!("`on = \"{name}\"` in a [[step]] or a variable");
                return Err(RecipeError::new(what, hint));
            }
        }
        Ok(())
    }

    /// Checks the role in `on`, and whether a `count` is possible there.
    fn check_on(&self, on: &str, count: &str) -> Result<(), RecipeError> {
        if on.is_empty() {
            return Ok(());
        }
        if on == EVERY_HOST {
            if count.is_empty() {
                return Ok(());
            }
            let what = "count: there is one on each host";
            return Err(RecipeError::new(what, "leave it out, or name a role under `on`"));
        }
        if self.roles.contains_key(on) {
            return Ok(());
        }
        let mut names: Vec<&str> = self.roles.keys().map(String::as_str).collect();
        names.push(EVERY_HOST);
        Err(RecipeError::new(format!("on: there is no role `{on}`"), names.join(", ")))
    }

    fn check_variable(&self, variable: &Variable) -> Result<(), RecipeError> {
        let repeats = !variable.repeat.is_empty();
        let is_counted = !variable.count.is_empty() || !variable.on.is_empty();
        let hint = "either `by` and `values`, or `repeat` with `count` or `on`";
        if repeats != variable.by.is_empty() || repeats != is_counted {
            return Err(RecipeError::new("is incomplete or ambiguous", hint));
        }
        if repeats {
            return self.check_on(&variable.on, &variable.count);
        }
        let Some(setting) = self.settings.get(&variable.by) else {
            let what = format!("by: there is no setting `{}`", variable.by);
            return Err(RecipeError::new(what, "the name of a setting with choices"));
        };
        for choice in &setting.choices {
            if !variable.values.contains_key(choice) {
                let what = format!("values: none for `{choice}`");
                return Err(RecipeError::new(what, "one for each choice of the setting"));
            }
        }
        match variable.values.keys().find(|value| !setting.choices.contains(value)) {
            Some(other) => {
                let what = format!("values: `{other}` is not a choice of {}", variable.by);
                Err(RecipeError::new(what, setting.legal()))
            }
            None => Ok(()),
        }
    }

    fn check_access(&self) -> Result<(), RecipeError> {
        let access = &self.access;
        if access.nfs.is_none() && access.mount.is_none() && access.fuse.is_none() {
            let hint = "[access.nfs], [access.mount] or [access.fuse]";
            return Err(RecipeError::new("access: clients have no way to access it", hint));
        }
        if let Some(nfs) = &access.nfs {
            if nfs.port == 0 {
                return Err(RecipeError::new("access.nfs.port: 0 is not a port", "1 to 65535"));
            }
            if nfs.export != "{storage}" && !nfs.export.starts_with('/') {
                let what = format!("access.nfs.export: `{}` is not a path", nfs.export);
                return Err(RecipeError::new(what, "an absolute path, or `{storage}`"));
            }
            for version in &nfs.versions {
                if NfsVersion::from_name(version).is_none() {
                    let what = format!("access.nfs.versions: `{version}` is not an NFS version");
                    return Err(RecipeError::new(what, NfsVersion::NAMES.join(", ")));
                }
            }
        }
        if let Some(fuse) = &access.fuse
            && !fuse.run.iter().any(|word| word.contains("{point}"))
        {
            let what = "access.fuse.run: does not contain the mount point";
            return Err(RecipeError::new(what, "put `{point}` into the command"));
        }
        Ok(())
    }

    /// Fills in all text with the default of each setting and with each choice, and checks the
    /// resulting paths.
    fn check_texts(&self) -> Result<(), RecipeError> {
        let mut tried = vec![Vec::new()];
        for (name, setting) in &self.settings {
            tried.extend(setting.choices.iter().map(|choice| vec![(name.clone(), choice.clone())]));
            if setting.kind == SettingKind::Number {
                tried.push(vec![(name.clone(), setting.max.to_string())]);
            }
        }
        // If no host stores files there, such a directory would never be created.
        if !self.has_storage() {
            for folder in &self.folders {
                check_below("folders", folder, &["{dir}", "{state}"])?;
            }
        }
        for settings in tried {
            // Try a single host and an additional host for each role, for each kind of access.
            for way in self.ways() {
                for places in [self.example_places(false, way), self.example_places(true, way)] {
                    self.check_filled(&settings, &places)?;
                }
            }
            self.copies(&settings)?;
        }
        Ok(())
    }

    fn check_filled(
        &self,
        settings: &[(String, String)],
        places: &Places,
    ) -> Result<(), RecipeError> {
        let filled = self.fill_in(settings, places)?;
        for host in &filled.hosts {
            let roots: &[&str] =
                if host.has_storage { &[&places.dir, &places.storage] } else { &[&places.dir] };
            for folder in &host.folders {
                check_below("folders", folder, roots)?;
            }
            for file in &host.files {
                check_below("file.path", &file.path, &[&places.dir])?;
            }
        }
        check_leaving("leaves", &filled.leaves)?;
        match &filled.fuse {
            Some(fuse) => check_leaving("access.fuse.leaves", &fuse.leaves),
            None => Ok(()),
        }
    }

    /// Makes up the places of a run, either on one host or with another host for each role.
    fn example_places(&self, apart: bool, way: AccessWay) -> Places {
        let mut hosts = vec!["127.0.0.1".to_owned()];
        let mut roles = BTreeMap::new();
        let mut servers = 1;
        if apart {
            let (clients, others): (Vec<_>, Vec<_>) =
                self.roles.keys().partition(|name| *name == CLIENT_ROLE);
            servers += others.len();
            for name in others.into_iter().chain(clients) {
                roles.insert(name.clone(), vec![hosts.len()]);
                hosts.push(format!("127.0.0.{}", hosts.len() + 1));
            }
        } else {
            roles.insert(CLIENT_ROLE.to_owned(), vec![SERVER]);
        }
        Places {
            dir: self.dir(),
            storage: "/run/dfsbench/storage".to_owned(),
            hosts,
            servers,
            roles,
            way: Some(way),
            clients: "127.0.0.1".to_owned(),
            point: "/run/dfsbench/mount".to_owned(),
        }
    }
}

fn check_name(key: &str, name: &str, others: &str) -> Result<(), RecipeError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || others.contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if begins && name.len() <= 32 && name.chars().all(fits) {
        return Ok(());
    }
    let hint =
        format!("1 to 32 lower-case letters, digits and `{others}`, beginning with a letter");
    Err(RecipeError::new(format!("{key}: `{name:.40}` is not a name"), hint))
}

/// Checks the name of a setting or variable defined by a recipe.
fn check_new_name(key: &str, name: &str) -> Result<(), RecipeError> {
    check_name(key, name, "_")?;
    if BUILT_IN.contains(&name) {
        let what = format!("{key}.{name}: is a predefined variable of every recipe");
        return Err(RecipeError::new(what, "give it another name"));
    }
    Ok(())
}

fn check_setting(setting: &RecipeSetting) -> Result<(), RecipeError> {
    let problem = match setting.kind {
        SettingKind::Choice if setting.choices.is_empty() => "a choice needs `choices`",
        SettingKind::Number if setting.max <= setting.min => "a number needs `min` and `max`",
        _ if setting.meaning.trim().is_empty() => "`meaning` is empty",
        _ if !setting.choices.is_empty() && setting.kind != SettingKind::Choice => {
            "`choices` are only for type \"choice\""
        }
        _ => "",
    };
    if !problem.is_empty() {
        return Err(RecipeError::new(problem, "see docs/systems.md"));
    }
    if !setting.allows(&setting.default) {
        let what = format!("default: can't be `{}`", setting.default);
        return Err(RecipeError::new(what, setting.legal()));
    }
    // Plans write several settings as `a=1+b=2`.
    match setting.choices.iter().find(|choice| choice.contains(['+', '=', ',', '\n'])) {
        Some(choice) => {
            let what = format!("choices: `{choice}` can't be used in a plan");
            Err(RecipeError::new(what, "leave out `+`, `=` and `,`"))
        }
        None => Ok(()),
    }
}

fn check_step(step: &RecipeStep) -> Result<(), RecipeError> {
    let kinds = [
        !step.start.is_empty(),
        !step.run.is_empty(),
        !step.ready.is_empty(),
        !step.port.is_empty(),
    ];
    if kinds.iter().filter(|given| **given).count() != 1 {
        let hint = "exactly one of `start`, `run`, `ready` and `port`";
        return Err(RecipeError::new("is incomplete or ambiguous", hint));
    }
    if step.again && step.run.is_empty() {
        let what = "again: only `run` can be left out when servers are restarted";
        return Err(RecipeError::new(what, "leave it out"));
    }
    if !(1..=3_600).contains(&step.within_s) {
        let what = format!("within_s: must be 1 to 3600, not {}", step.within_s);
        return Err(RecipeError::new(what, "seconds, such as 60"));
    }
    Ok(())
}

const _: () = assert!(COUNT_MAX < 10, "a copy's number is one digit, so that ports stay in range");

fn check_below(key: &str, path: &str, roots: &[&str]) -> Result<(), RecipeError> {
    let is_plain = !path.split('/').any(|part| part == ".." || part == ".");
    for root in roots {
        if is_plain && path.len() > root.len() + 1 && path.starts_with(&format!("{root}/")) {
            return Ok(());
        }
    }
    let what = format!("{key}: `{path}` may not be created");
    Err(RecipeError::new(what, "paths below `{dir}`; folders also below `{storage}` and `{state}`"))
}

fn check_leaving(key: &str, paths: &[String]) -> Result<(), RecipeError> {
    for path in paths {
        if !may_leave(path) {
            let what = format!("{key}: nothing may be removed from `{path}`");
            return Err(RecipeError::new(what, format!("a path below {}", LEAVING.join(", "))));
        }
    }
    Ok(())
}

/// Returns true if files that a program leaves at this path may be removed.
pub fn may_leave(path: &str) -> bool {
    let is_plain = path.split('/').skip(1).all(|part| !part.is_empty() && !part.starts_with('.'));
    let is_ours = path.starts_with("/run/dfsbench") || path.starts_with("/var/lib/dfsbench");
    is_plain
        && !is_ours
        && LEAVING.iter().any(|root| path.len() > root.len() && path.starts_with(root))
}
