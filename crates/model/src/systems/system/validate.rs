//! Checks a recipe as far as possible without hosts.

use std::collections::BTreeMap;

use super::roles::{CLIENT_ROLE, EVERY_HOST, SERVER};
use super::secrets::is_variable_name;
use super::write_back::PROBE_VARIABLE;
use super::{
    AccessWay, COUNT_MAX, Invalidation, Places, Recipe, RecipeError, RecipeSetting, RecipeStep,
    Restart, SettingKind, Variable,
};
use crate::targets::nfs::NfsVersion;

/// Directories in which programs may leave files that are then removed.
const LEAVING: [&str; 5] = ["/run/", "/var/lib/", "/var/log/", "/var/cache/", "/var/tmp/"];

/// Variables available in every recipe.
const BUILT_IN: [&str; 9] =
    ["dir", "storage", "state", "address", "host", "clients", "point", "n", PROBE_VARIABLE];

impl Recipe {
    /// Checks everything that can be checked without a host, and returns all problems, each with
    /// its key, its value and what to write instead.
    pub fn problems(&self) -> Vec<RecipeError> {
        let mut problems = Vec::new();
        problems.extend(check_recipe_name(&self.name));
        for (key, text) in [
            ("title", &self.title),
            ("tried", if self.not_tried.is_empty() { &self.tried } else { &self.not_tried }),
            ("durability", &self.durability),
            ("caches.proof", &self.caches.proof),
        ] {
            if text.trim().is_empty() || text.contains('\n') {
                let hint = match key {
                    "tried" => "version and hosts; or `not_tried`, and why",
                    _ => "say it",
                };
                problems.push(RecipeError::new(key, "must be one line of text", hint));
            }
        }
        if !self.tried.is_empty() && !self.not_tried.is_empty() {
            let what = "cannot be combined with `tried`";
            problems.push(RecipeError::new("not_tried", what, "remove one of them"));
        }
        self.check_roles(&mut problems);
        for (name, setting) in &self.settings {
            let key = format!("settings.{name}");
            problems.extend(check_setting(setting).into_iter().map(|error| error.of_key(&key)));
            problems.extend(check_new_name(&key, name));
        }
        for (name, variable) in &self.variables {
            let key = format!("variables.{name}");
            let found = self.check_variable(variable);
            problems.extend(found.into_iter().map(|error| error.of_key(&key)));
            problems.extend(check_new_name(&key, name));
            if self.settings.contains_key(name) {
                let what = "is also a setting";
                problems.push(RecipeError::new(key, what, "give them different names"));
            }
        }
        self.check_secrets(&mut problems);
        self.check_steps(&mut problems);
        for folder in &self.path {
            if !folder.starts_with(['/', '~']) || folder.contains(':') {
                let hint = "an absolute path, or one below the home directory: \"~/go/bin\"";
                let what = format!("`{folder}` is not a folder of programs");
                problems.push(RecipeError::new("path", what, hint));
            }
        }
        if self.ports.contains(&0) {
            problems.push(RecipeError::new("ports", "0 is not a port", "1 to 65535"));
        }
        if self.counters.as_ref().is_some_and(|counters| counters.run.is_empty()) {
            let hint = "a command that prints lines `NAME NUMBER`";
            problems.push(RecipeError::new("counters.run", "is empty", hint));
        }
        for (key, on) in self.command_hosts() {
            problems.extend(self.check_on(on, "").map(|error| error.of_key(key)));
        }
        self.check_write_back(&mut problems);
        self.check_caches(&mut problems);
        self.check_access(&mut problems);
        self.check_texts(&mut problems);
        problems
    }

    fn check_secrets(&self, problems: &mut Vec<RecipeError>) {
        for (name, source) in &self.secrets {
            let key = format!("secrets.{name}");
            problems.extend(source.problem().map(|error| error.of_key(&key)));
            problems.extend(check_new_name(&key, name));
            if self.settings.contains_key(name) || self.variables.contains_key(name) {
                let what = "is also a setting or a variable";
                problems.push(RecipeError::new(key, what, "give them different names"));
            }
        }
        for (name, text) in &self.environment {
            let key = format!("environment.{name}");
            if !is_variable_name(name) {
                let hint = "letters, digits and `_`, such as AWS_ACCESS_KEY_ID";
                problems.push(RecipeError::new(&key, "is not a name of a variable", hint));
            }
            if name == "PATH" || name.starts_with("DFSBENCH_") {
                let hint = "the key `path` names folders of programs; DFSBENCH_ marks processes";
                problems.push(RecipeError::new(&key, "is set by dfsbench", hint));
            }
            if text.contains(['\n', '\0']) {
                let what = "must be one line of text";
                problems.push(RecipeError::new(&key, what, "use a [[file]] for more"));
            }
        }
    }

    fn check_steps(&self, problems: &mut Vec<RecipeError>) {
        if self.steps.is_empty() {
            let hint = "[[step]] with `start`, `run`, `ready` or `port`";
            problems.push(RecipeError::new("step", "nothing is started", hint));
        }
        for (index, step) in self.steps.iter().enumerate() {
            let mut found = check_step(step);
            found.extend(self.check_on(&step.on, &step.count));
            if let Some(way) = step.access
                && !self.ways().contains(&way)
            {
                let what = format!("{way} is not one of its ways");
                let hint = "nfs, mount or fuse, with a table [access.WAY]";
                found.push(RecipeError::new("access", what, hint));
            }
            let key = format!("step {}", index + 1);
            problems.extend(found.into_iter().map(|error| error.of_key(&key)));
        }
    }

    fn check_roles(&self, problems: &mut Vec<RecipeError>) {
        for (name, role) in &self.roles {
            let key = format!("roles.{name}");
            problems.extend(check_name(&key, name, "_"));
            if name == EVERY_HOST {
                let what = "is reserved for every host";
                problems.push(RecipeError::new(key, what, "give it another name"));
                continue;
            }
            if role.meaning.trim().is_empty() {
                let key = format!("{key}.meaning");
                problems.push(RecipeError::new(key, "is empty", "describe what its servers do"));
            }
            if !(1..=COUNT_MAX).contains(&role.hosts_max) {
                let key = format!("{key}.hosts_max");
                let what = format!("can't be {}", role.hosts_max);
                problems.push(RecipeError::new(key, what, format!("1 to {COUNT_MAX}")));
            }
            if name == CLIENT_ROLE && (role.storage || !role.ports.is_empty()) {
                let what = "clients have no files of it, and nothing listens there";
                let hint = "only `meaning` and `programs`";
                problems.push(RecipeError::new(&key, what, hint));
            }
            let steps = self.steps.iter().map(|step| step.on.as_str());
            let variables = self.variables.values().map(|variable| variable.on.as_str());
            let commands = self.command_hosts().map(|(_, on)| on);
            if !steps.chain(variables).chain(commands).any(|on| on == name) {
                let hint = format!("`on = \"{name}\"` in a [[step]], a variable or [drain]");
                problems.push(RecipeError::new(key, "nothing runs on its hosts", hint));
            }
        }
    }

    /// Returns the tables of commands that run during trials, each with the value of its `on`.
    fn command_hosts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let counters = self.counters.as_ref().map(|counters| ("counters", counters.on.as_str()));
        let drain = self.drain.as_ref().map(|drain| ("drain", drain.on.as_str()));
        let evict = self.evict.as_ref().map(|evict| ("evict", evict.on.as_str()));
        [counters, drain, evict].into_iter().flatten()
    }

    /// Checks the role in `on`, and whether a `count` is possible there.
    fn check_on(&self, on: &str, count: &str) -> Option<RecipeError> {
        if on.is_empty() || self.roles.contains_key(on) {
            return None;
        }
        if on == EVERY_HOST {
            let hint = "leave it out, or name a role under `on`";
            return (!count.is_empty())
                .then(|| RecipeError::new("count", "there is one on each host", hint));
        }
        let mut names: Vec<&str> = self.roles.keys().map(String::as_str).collect();
        names.push(EVERY_HOST);
        Some(RecipeError::new("on", format!("there is no role `{on}`"), names.join(", ")))
    }

    fn check_variable(&self, variable: &Variable) -> Vec<RecipeError> {
        let repeats = !variable.repeat.is_empty();
        let is_counted = !variable.count.is_empty() || !variable.on.is_empty();
        let hint = "either `by` and `values`, or `repeat` with `count` or `on`";
        if repeats != variable.by.is_empty() || repeats != is_counted {
            return vec![RecipeError::new("", "is incomplete or ambiguous", hint)];
        }
        if repeats {
            return self.check_on(&variable.on, &variable.count).into_iter().collect();
        }
        let Some(setting) = self.settings.get(&variable.by) else {
            let what = format!("there is no setting `{}`", variable.by);
            return vec![RecipeError::new("by", what, "the name of a setting with choices")];
        };
        let mut problems = Vec::new();
        for choice in &setting.choices {
            if !variable.values.contains_key(choice) {
                let hint = "one for each choice of the setting";
                problems.push(RecipeError::new("values", format!("none for `{choice}`"), hint));
            }
        }
        for other in variable.values.keys().filter(|value| !setting.choices.contains(value)) {
            let what = format!("`{other}` is not a choice of {}", variable.by);
            problems.push(RecipeError::new("values", what, setting.legal()));
        }
        problems
    }

    /// Checks that the servers survive what empties their caches.
    fn check_caches(&self, problems: &mut Vec<RecipeError>) {
        let cold = self.caches.cold;
        if cold >= Invalidation::ServerRemount && self.restart != Restart::AllSteps {
            let why = match self.restart {
                Restart::OnState => "which `restart = \"on-state\"` allows only after a power loss",
                _ => "and by `restart = \"never\"`, they lose their files then",
            };
            let what = format!("{cold} restarts the servers, {why}");
            let hint = "`restart = \"all-steps\"` if its steps can be repeated on existing files, \
                        or a level up to remount";
            problems.push(RecipeError::new("caches.cold", what, hint));
        }
    }

    fn check_access(&self, problems: &mut Vec<RecipeError>) {
        let access = &self.access;
        if access.nfs.is_none() && access.mount.is_none() && access.fuse.is_none() {
            let hint = "[access.nfs], [access.mount] or [access.fuse]";
            let what = "clients have no way to access it";
            problems.push(RecipeError::new("access", what, hint));
        }
        if let Some(nfs) = &access.nfs {
            if nfs.port == 0 {
                problems.push(RecipeError::new("access.nfs.port", "0 is not a port", "1 to 65535"));
            }
            if nfs.export != "{storage}" && !nfs.export.starts_with('/') {
                let what = format!("`{}` is not a path", nfs.export);
                let hint = "an absolute path, or `{storage}`";
                problems.push(RecipeError::new("access.nfs.export", what, hint));
            }
            for version in &nfs.versions {
                if NfsVersion::from_name(version).is_none() {
                    let what = format!("`{version}` is not an NFS version");
                    let hint = NfsVersion::NAMES.join(", ");
                    problems.push(RecipeError::new("access.nfs.versions", what, hint));
                }
            }
        }
        if let Some(fuse) = &access.fuse
            && !fuse.run.iter().any(|word| word.contains("{point}"))
        {
            let what = "does not contain the mount point";
            let hint = "put `{point}` into the command";
            problems.push(RecipeError::new("access.fuse.run", what, hint));
        }
    }

    /// Fills in all text with the default of each setting and with each choice, and checks the
    /// resulting paths.
    fn check_texts(&self, problems: &mut Vec<RecipeError>) {
        let mut tried = vec![Vec::new()];
        for (name, setting) in &self.settings {
            tried.extend(setting.choices.iter().map(|choice| vec![(name.clone(), choice.clone())]));
            if setting.kind == SettingKind::Number {
                tried.push(vec![(name.clone(), setting.max.to_string())]);
            }
        }
        let mut found = Vec::new();
        // If no host stores files there, such a directory would never be created.
        if !self.has_storage() {
            for folder in &self.folders {
                found.extend(check_below("folders", folder, &["{dir}", "{state}"]));
            }
        }
        // A recipe without a way of access has that problem, but its other text is still checked.
        let mut ways: Vec<_> = self.ways().into_iter().map(Some).collect();
        if ways.is_empty() {
            ways.push(None);
        }
        for settings in tried {
            // Try a single host and an additional host for each role, for each kind of access.
            for way in &ways {
                for places in [self.example_places(false, *way), self.example_places(true, *way)] {
                    self.check_filled(&settings, &places, &mut found);
                }
            }
            found.extend(self.copies(&settings).err());
        }
        // The same mistake shows up with many values, and a step without a command has no port.
        for error in found {
            let is_known = |known: &RecipeError| {
                (known.key == error.key && known.what == error.what)
                    || (known.key.starts_with("step ")
                        && error.key == format!("{}.port", known.key))
            };
            if !problems.iter().any(is_known) {
                problems.push(error);
            }
        }
    }

    fn check_filled(
        &self,
        settings: &[(String, String)],
        places: &Places,
        problems: &mut Vec<RecipeError>,
    ) {
        let filled = self.try_fill_in(settings, places, problems);
        for host in &filled.hosts {
            let roots: &[&str] =
                if host.has_storage { &[&places.dir, &places.storage] } else { &[&places.dir] };
            for folder in &host.folders {
                problems.extend(check_below("folders", folder, roots));
            }
            for file in &host.files {
                problems.extend(check_below("file.path", &file.path, &[&places.dir]));
            }
        }
        check_leaving("leaves", &filled.leaves, problems);
        if let Some(fuse) = &filled.fuse {
            check_leaving("access.fuse.leaves", &fuse.leaves, problems);
        }
    }

    /// Makes up the places of a run, either on one host or with another host for each role.
    fn example_places(&self, apart: bool, way: Option<AccessWay>) -> Places {
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
            way,
            clients: "127.0.0.1".to_owned(),
            point: "/run/dfsbench/mount".to_owned(),
        }
    }
}

pub fn check_recipe_name(name: &str) -> Option<RecipeError> {
    check_name("name", name, "-")
}

fn check_name(key: &str, name: &str, others: &str) -> Option<RecipeError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || others.contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if begins && name.len() <= 32 && name.chars().all(fits) {
        return None;
    }
    let hint =
        format!("1 to 32 lower-case letters, digits and `{others}`, beginning with a letter");
    let name: String = name.chars().take(40).collect();
    Some(RecipeError::new(key, format!("`{}` is not a name", name.escape_debug()), hint))
}

/// Checks the name of a setting or variable defined by a recipe.
fn check_new_name(key: &str, name: &str) -> Option<RecipeError> {
    if BUILT_IN.contains(&name) {
        let what = "is a predefined variable of every recipe";
        return Some(RecipeError::new(key, what, "give it another name"));
    }
    check_name(key, name, "_")
}

fn check_setting(setting: &RecipeSetting) -> Vec<RecipeError> {
    let is_choice = setting.kind == SettingKind::Choice;
    let mut problems = Vec::new();
    if is_choice && setting.choices.is_empty() {
        let hint = "a list of texts, such as [\"on\", \"off\"]";
        problems.push(RecipeError::new("", "a choice needs `choices`", hint));
    } else if setting.kind == SettingKind::Number && setting.max <= setting.min {
        let what = "a number needs `min` and a larger `max`";
        problems.push(RecipeError::new("", what, "such as `min = 1` and `max = 64`"));
    } else if !setting.allows(&setting.default) {
        let what = format!("can't be `{}`", setting.default);
        problems.push(RecipeError::new("default", what, setting.legal()));
    }
    if setting.meaning.trim().is_empty() {
        problems.push(RecipeError::new("meaning", "is empty", "say what it changes"));
    }
    if !setting.choices.is_empty() && !is_choice {
        let what = "are only for type \"choice\"";
        problems.push(RecipeError::new("choices", what, "leave them out, or change `type`"));
    }
    // Plans write several settings as `a=1+b=2`.
    for choice in setting.choices.iter().filter(|choice| choice.contains(['+', '=', ',', '\n'])) {
        let what = format!("`{choice}` can't be used in a plan");
        problems.push(RecipeError::new("choices", what, "leave out `+`, `=` and `,`"));
    }
    problems
}

fn check_step(step: &RecipeStep) -> Vec<RecipeError> {
    let mut problems = Vec::new();
    let kinds = [
        !step.start.is_empty(),
        !step.run.is_empty(),
        !step.ready.is_empty(),
        !step.port.is_empty(),
    ];
    if kinds.iter().filter(|given| **given).count() != 1 {
        let hint = "exactly one of `start`, `run`, `ready` and `port`";
        problems.push(RecipeError::new("", "is incomplete or ambiguous", hint));
    }
    if step.again && step.run.is_empty() {
        let what = "only `run` can be left out when servers are restarted";
        problems.push(RecipeError::new("again", what, "leave it out"));
    }
    if !(1..=3_600).contains(&step.within_s) {
        let what = format!("must be 1 to 3600, not {}", step.within_s);
        problems.push(RecipeError::new("within_s", what, "seconds, such as 60"));
    }
    problems
}

const _: () = assert!(COUNT_MAX < 10, "a copy's number is one digit, so that ports stay in range");

fn check_below(key: &str, path: &str, roots: &[&str]) -> Option<RecipeError> {
    let is_plain = !path.split('/').any(|part| part == ".." || part == ".");
    for root in roots {
        if is_plain && path.len() > root.len() + 1 && path.starts_with(&format!("{root}/")) {
            return None;
        }
    }
    let what = format!("`{path}` may not be created");
    let hint = "paths below `{dir}`; folders also below `{storage}` and `{state}`";
    Some(RecipeError::new(key, what, hint))
}

fn check_leaving(key: &str, paths: &[String], problems: &mut Vec<RecipeError>) {
    for path in paths.iter().filter(|path| !may_leave(path)) {
        let what = format!("nothing may be removed from `{path}`");
        let hint = format!("a path below {}", LEAVING.join(", "));
        problems.push(RecipeError::new(key, what, hint));
    }
}

/// Returns true if files that a program leaves at this path may be removed.
pub fn may_leave(path: &str) -> bool {
    let is_plain = path.split('/').skip(1).all(|part| !part.is_empty() && !part.starts_with('.'));
    let is_ours = path.starts_with("/run/dfsbench") || path.starts_with("/var/lib/dfsbench");
    is_plain
        && !is_ours
        && LEAVING.iter().any(|root| path.len() > root.len() && path.starts_with(root))
}
