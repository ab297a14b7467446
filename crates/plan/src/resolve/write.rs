//! Writes a plan with all its defaults as text, which parses back to an equal plan.
//!
//! Only the runs are needed for it. Consecutive runs that form a complete product of levels share
//! one `[[workload]]`; if they don't, they are split at the setting that varies slowest.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use model::contender::Fairness;
use model::setting::{Setting, Value};
use model::{
    Host, InterferenceRule, LabSpec, NfsTarget, Placement, Repetition, RunSpec, Sec, SiteMount,
    Target, TcpTarget,
};

use crate::parse::address::write_url;
use crate::parse::conclusion;
use crate::parse::disturb;
use crate::parse::level;
use crate::parse::requirement;
use crate::parse::work;
use crate::resolve::defaults;
use crate::resolve::loads::HERE;
use crate::resolve::plan::Plan;
use crate::resolve::product::product;
use crate::syntax::hosts::JOB;
use crate::syntax::text::{self, list_of, quoted, time};

impl Plan {
    /// Writes the plan as TOML with every default.
    ///
    /// [`crate::RawPlan::parse`] and [`Plan::resolve`] return an equal plan in any surroundings.
    /// The port of a running in-memory server is not included.
    pub fn to_toml(&self) -> String {
        let mut out = String::from("# Written by dfsbench, with every default.\n");
        // Writing to a String can't fail.
        let _ = write!(
            out,
            "name = {}\ntrials = {}\nseed = {}\n",
            quoted(&self.name),
            self.trials,
            self.seed,
        );
        self.write_repetition(&mut out);
        out.push('\n');
        self.server.write(&mut out);
        let hosts = self.hosts();
        if hosts.is_empty() {
            write_labels(&mut out, &self.labels);
        }
        let slots = self.slots_by_host();
        for host in hosts {
            write_host(&mut out, host, slots.get(host.name.as_str()).copied().unwrap_or(1));
        }
        let mut named = HashSet::new();
        for run in &self.runs {
            if named.insert(run.target_name.as_str()) {
                self.write_target(&mut out, run);
            }
        }
        if self.runs.iter().any(|run| run.named_load.is_some()) {
            write_loads(&mut out, &self.runs);
        } else {
            for runs in self.runs.chunk_by(are_of_one_workload) {
                write_workloads(&mut out, runs);
            }
        }
        disturb::write(&mut out, &self.disturbances);
        conclusion::write(&mut out, &self.conclusions);
        requirement::write(&mut out, &self.requirements);
        out
    }

    fn write_repetition(&self, out: &mut String) {
        let Repetition { discard, until_permille, warmup_trials, interference } = self.repetition;
        let discard = quoted(discard.name());
        let order = quoted(self.order.name());
        let _ = writeln!(out, "discard = {discard}\nwarmup_trials = {warmup_trials}");
        if until_permille > 0 {
            let _ = writeln!(out, "until = {}", quoted(&self.repetition.until()));
        }
        if self.budget_ms > 0 {
            let _ = writeln!(out, "budget = {}", quoted(&time(self.budget_ms)));
        }
        let _ = writeln!(out, "order = {order}");
        if interference != InterferenceRule::Repeat {
            let _ = writeln!(out, "interference = {}", quoted(interference.name()));
        }
        if self.fair != Fairness::Named {
            let _ = writeln!(out, "fair = {}", quoted(self.fair.name()));
        }
        if self.quiet_ms != defaults::quiet_ms(&self.runs) {
            let _ = writeln!(out, "quiet = {}", quoted(&time(self.quiet_ms)));
        }
    }

    /// Returns the maximum number of agents on each host in any run.
    fn slots_by_host(&self) -> BTreeMap<&str, u32> {
        let mut slots_of_any = 1;
        let mut is_limited = false;
        let mut slots: BTreeMap<_, _> =
            self.hosts().into_iter().map(|host| (host.name.as_str(), 1)).collect();
        for run in &self.runs {
            is_limited |= run.placement.agents_per_host.is_some();
            // The slots of a load may begin behind those of other loads.
            let mut of_load: BTreeMap<&str, u32> = BTreeMap::new();
            for agent in &run.placement.hosts {
                let (name, mut slot) = agent.name_and_slot();
                if run.named_load.is_some() {
                    slot = *of_load.entry(name).and_modify(|slot| *slot += 1).or_insert(1);
                }
                slots_of_any = slots_of_any.max(slot);
                if let Some(most) = slots.get_mut(name) {
                    *most = slot.max(*most);
                }
            }
        }
        // A limit of one agent per host only matters if there could be more.
        if is_limited && slots_of_any == 1 {
            for most in slots.values_mut() {
                *most = 2;
            }
        }
        slots
    }

    /// Writes a target, based on its first run; its hosts and backends are those of all its runs.
    fn write_target(&self, out: &mut String, first: &RunSpec) {
        let mut placement = &first.placement;
        let mut backends: Vec<&str> = Vec::new();
        for run in &self.runs {
            if run.target_name != first.target_name {
                continue;
            }
            if !backends.contains(&run.backend.name()) {
                backends.push(run.backend.name());
            }
            // Levels of `client_hosts` use a prefix of the hosts, so the longest list contains all
            // of them.
            if run.placement.hosts.len() >= placement.hosts.len() {
                placement = &run.placement;
            }
        }
        // Writing to a String can't fail.
        let _ = writeln!(out, "\n[[target]]\nname = {}", quoted(&first.target_name));
        let clients = match &first.named_load {
            Some(_) => self.hosts_of_loads(first),
            None => client_hosts(placement),
        };
        match &first.lab {
            Some(lab) => write_lab(out, lab, clients.as_deref()),
            None => write_place(out, &first.target),
        }
        if let Some(hosts) = clients
            && first.lab.is_none()
        {
            write_key(out, "hosts", &hosts);
        }
        write_key(out, "backend", &list_of(&backends));
    }

    /// Returns the client hosts of all loads on a target, based on its first run, as a plan names
    /// them; `None` if they work on this host or on the only client of a lab.
    fn hosts_of_loads(&self, first: &RunSpec) -> Option<String> {
        if first.placement.of_job {
            return Some(quoted(JOB));
        }
        let mut names: Vec<&str> = Vec::new();
        match &first.lab {
            Some(lab) if lab.more_clients.is_empty() => return None,
            Some(lab) => names.extend(lab.clients().map(|host| host.name.as_str())),
            None => {
                let runs = self.runs.iter().filter(|run| run.target_name == first.target_name);
                for host in runs.flat_map(|run| &run.placement.hosts) {
                    let is_first = !host.name.contains(Host::FURTHER) && host.name != HERE;
                    if is_first && !names.contains(&&*host.name) {
                        names.push(&host.name);
                    }
                }
            }
        }
        if names.is_empty() { None } else { Some(list_of(&names)) }
    }
}

/// Returns the client hosts of a target as a plan names them; `None` if this process does the work.
fn client_hosts(placement: &Placement) -> Option<String> {
    if placement.of_job {
        return Some(quoted(JOB));
    }
    let mut names: Vec<&str> = Vec::new();
    for host in &placement.hosts {
        if host.name_and_slot().1 == 1 {
            names.push(&host.name);
        }
    }
    if names.is_empty() { None } else { Some(list_of(&names)) }
}

/// Returns true if two runs may share a `[[workload]]`, disregarding the levels of their settings.
fn are_of_one_workload(a: &RunSpec, b: &RunSpec) -> bool {
    (&a.target_name, a.backend, a.workload) == (&b.target_name, b.backend, b.workload)
        && a.command == b.command
        && a.op_mix.shares == b.op_mix.shares
}

fn write_key(out: &mut String, key: &str, value: &str) {
    let _ = writeln!(out, "{key} = {value}");
}

/// Writes a text if there is one.
fn write_text(out: &mut String, key: &str, text: Option<&str>) {
    if let Some(text) = text {
        write_key(out, key, &quoted(text));
    }
}

/// Writes a size, unless it is 0.
fn write_size(out: &mut String, key: &str, bytes: u64) {
    if bytes > 0 {
        write_key(out, key, &quoted(&text::size(bytes)));
    }
}

/// Writes a path, unless it is empty.
fn write_path(out: &mut String, key: &str, path: &Path) {
    if !path.as_os_str().is_empty() {
        write_key(out, key, &quoted(&path.to_string_lossy()));
    }
}

fn list_of_paths(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    list_of(&paths)
}

fn write_host(out: &mut String, host: &Host, slots: u32) {
    let _ = writeln!(out, "\n[[host]]\nname = {}", quoted(&host.name));
    write_text(out, "ssh", host.ssh.as_deref());
    write_path(out, "ssh_config", host.ssh_config.as_deref().unwrap_or(Path::new("")));
    write_text(out, "address", host.address.as_deref());
    if !host.more_addresses.is_empty() {
        write_key(out, "more_addresses", &list_of(&host.more_addresses));
    }
    write_text(out, "interface", host.interface.as_deref());
    if slots > 1 {
        write_key(out, "slots", &slots.to_string());
    }
    write_labels(out, &host.labels);
}

/// Writes the labels of the preceding host, or of the local host; after all its other keys.
fn write_labels(out: &mut String, labels: &BTreeMap<String, String>) {
    if labels.is_empty() {
        return;
    }
    out.push_str("\n[host.labels]\n");
    for (name, text) in labels {
        // The name is quoted because a bare key can't contain a dot.
        write_key(out, &quoted(name), &quoted(text));
    }
}

/// Writes the location keys of a target that is not set up on hosts.
fn write_place(out: &mut String, target: &Target) {
    match target {
        Target::Tcp(tcp) => write_key(out, "tcp", &quoted(&write_tcp(tcp))),
        Target::Directory { path } => write_path(out, "path", path),
        Target::Directories { paths } => write_key(out, "path", &list_of_paths(paths)),
        Target::Nfs(nfs) if nfs.embedded => write_embedded(out, nfs),
        Target::Nfs(nfs) => write_key(out, "url", &quoted(&write_url(nfs))),
        // Only those of `Target::PLAIN`, which have no address.
        plain => write_key(out, plain.row().usual_name, "true"),
    }
}

fn write_lab(out: &mut String, lab: &LabSpec, clients: Option<&str>) {
    let LabSpec { server, client, storage, .. } = lab;
    write_key(out, "server", &quoted(&server.name));
    match clients {
        Some(clients) => write_key(out, "clients", clients),
        // A server without clients is its own client.
        None if client.name == server.name => {}
        None => write_key(out, "client", &quoted(&client.name)),
    }
    if !storage.devices.is_empty() {
        write_key(out, "devices", &list_of_paths(&storage.devices));
    }
    write_size(out, "loop_size", storage.loop_bytes);
    if storage.is_spread {
        write_key(out, "spread", &quoted("together"));
    }
    match storage.more_directories.as_slice() {
        [] => write_path(out, "directory", &storage.directory),
        more => {
            let all = [std::slice::from_ref(&storage.directory), more].concat();
            write_key(out, "directory", &list_of_paths(&all));
        }
    }
    write_size(out, "tmpfs_size", storage.size_bytes);
    if let Some(system) = &lab.system {
        write_key(out, "system", &quoted(&system.source));
        if let Some(access) = system.access {
            write_key(out, "access", &quoted(access.name()));
        }
        if !system.roles.is_empty() {
            let mut roles = Vec::new();
            for (name, hosts) in &system.roles {
                let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
                roles.push(format!("{name} = {}", list_of(&names)));
            }
            write_key(out, "roles", &format!("{{ {} }}", roles.join(", ")));
        }
        if !system.secrets.is_empty() {
            let secrets = system.secrets.iter().map(|(name, source)| match source.env.as_str() {
                "" => format!("{name} = {{ file = {} }}", quoted(&source.file)),
                env => format!("{name} = {{ env = {} }}", quoted(env)),
            });
            let secrets = secrets.collect::<Vec<_>>().join(", ");
            write_key(out, "secrets", &format!("{{ {secrets} }}"));
        }
    }
    if let Some(SiteMount { kind, source, options }) = &lab.site_mount {
        let kind = quoted(kind);
        let source = quoted(source);
        let options = match options.as_slice() {
            [] => String::new(),
            options => format!(", options = {}", list_of(options)),
        };
        write_key(out, "mount", &format!("{{ type = {kind}, source = {source}{options} }}"));
    }
}

fn write_tcp(tcp: &TcpTarget) -> String {
    let host = if tcp.host.contains(':') { format!("[{}]", tcp.host) } else { tcp.host.clone() };
    match tcp.port {
        Some(port) if !tcp.embedded => format!("{host}:{port}"),
        _ => "embedded".to_owned(),
    }
}

fn write_embedded(out: &mut String, nfs: &NfsTarget) {
    let user = &nfs.identity;
    let _ = writeln!(out, "embedded = true\nuid = {}\ngid = {}", user.uid, user.gid);
    if !user.groups.is_empty() {
        let _ = writeln!(out, "groups = {:?}", user.groups);
    }
    if user.sec != Sec::Sys {
        write_key(out, "sec", &quoted(user.sec.name()));
    }
    if user.resvport {
        out.push_str("resvport = true\n");
    }
    if nfs.faultless {
        out.push_str("faultless = true\n");
    }
}

/// Writes runs of one target, backend and workload as one or more tables.
fn write_workloads(out: &mut String, runs: &[RunSpec]) {
    let levels = Setting::ALL.map(|setting| (setting, levels_of(setting, runs)));
    if runs.len() == 1 || is_product(runs, &levels) {
        return write_workload(out, runs, &levels);
    }
    // The first setting with several levels varies slowest. Splitting the runs by its levels leaves
    // smaller problems of the same kind.
    let slowest = levels.iter().find(|(_, levels)| levels.len() > 1);
    let setting = slowest.expect("runs are all different").0;
    for part in runs.chunk_by(|a, b| setting.get(a) == setting.get(b)) {
        write_workloads(out, part);
    }
}

/// Writes the loads of a plan: what varies between the runs of each is a factor of all of them.
///
/// Settings that vary only because their default depends on others are left out.
fn write_loads(out: &mut String, runs: &[RunSpec]) {
    let mut factors: BTreeMap<Setting, Vec<Value>> = BTreeMap::new();
    let mut loads = String::new();
    let mut names: Vec<&str> = Vec::new();
    for load in runs.iter().filter_map(|run| run.named_load.as_deref()) {
        if !names.contains(&&*load.name) {
            names.push(&load.name);
        }
    }
    for name in names {
        let is_of = |run: &&RunSpec| run.named_load.as_ref().is_some_and(|it| it.name == name);
        let own: Vec<RunSpec> = runs.iter().filter(is_of).cloned().collect();
        write_load(&mut loads, &own, &mut factors);
    }
    if !factors.is_empty() {
        out.push_str("\n[factors]\n");
        for (setting, levels) in &factors {
            write_levels(out, *setting, levels);
        }
    }
    out.push_str(&loads);
}

/// Writes one load from its runs, and adds the settings that vary between them to the factors.
fn write_load(out: &mut String, own: &[RunSpec], factors: &mut BTreeMap<Setting, Vec<Value>>) {
    let run = &own[0];
    let Some(load) = &run.named_load else { return };
    // Writing to a String can't fail.
    let _ = writeln!(out, "\n[[load]]\nname = {}", quoted(&load.name));
    write_key(out, "kind", &quoted(run.workload.name()));
    let mut hosts: Vec<&str> = Vec::new();
    for host in &run.placement.hosts {
        let (name, _) = host.name_and_slot();
        if !hosts.contains(&name) && !run.placement.of_job {
            hosts.push(name);
        }
    }
    let is_one = run.lab.as_ref().is_some_and(|lab| lab.more_clients.is_empty());
    if !hosts.is_empty() && !is_one && !is_here(run) {
        write_key(out, "hosts", &list_of(&hosts));
    }
    if load.start_ms > 0 {
        write_key(out, "start", &quoted(&time(load.start_ms)));
    }
    work::write(out, &run.command, &run.op_mix);
    for setting in Setting::ALL {
        let applying: Vec<&RunSpec> = own.iter().filter(|run| setting.applies(run)).collect();
        if applying.is_empty() {
            continue;
        }
        let levels = levels_of(setting, own);
        if levels.len() == 1 {
            write_levels(out, setting, &levels);
        } else if applying.iter().any(|run| setting.get(run) != defaults::level(setting, run)) {
            factors.insert(setting, levels);
        }
    }
}

/// Returns true if a load works on this host, which the plan doesn't name.
fn is_here(run: &RunSpec) -> bool {
    run.placement.hosts.iter().all(|host| host.name_and_slot().0 == HERE)
}

fn write_levels(out: &mut String, setting: Setting, levels: &[Value]) {
    let written: Vec<String> = levels.iter().map(|level| level::write(setting, level)).collect();
    match written.as_slice() {
        [one] => write_key(out, setting.key(), one),
        many => write_key(out, setting.key(), &format!("[{}]", many.join(", "))),
    }
}

/// Returns true if runs are the product of these levels, in the order in which they are parsed
/// back.
fn is_product(runs: &[RunSpec], levels: &[(Setting, Vec<Value>)]) -> bool {
    let mut count = 1_usize;
    for (_, levels) in levels {
        count = count.saturating_mul(levels.len());
    }
    // Comparing the counts rejects most cases before the product is computed.
    if count != runs.len() {
        return false;
    }
    let mut base = runs[0].clone();
    for run in runs {
        if run.placement.hosts.len() >= base.placement.hosts.len() {
            base.placement.hosts.clone_from(&run.placement.hosts);
        }
    }
    product(base, |setting, _| levels[setting as usize].1.clone()).is_ok_and(|made| made == runs)
}

/// Returns the levels of a setting in the order of their first use; one level if it is irrelevant.
fn levels_of(setting: Setting, runs: &[RunSpec]) -> Vec<Value> {
    let mut levels = vec![setting.get(&runs[0])];
    if runs.iter().any(|run| setting.applies(run)) {
        for run in runs {
            let level = setting.get(run);
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
    }
    levels
}

fn write_workload(out: &mut String, runs: &[RunSpec], levels: &[(Setting, Vec<Value>)]) {
    let run = &runs[0];
    let _ = write!(
        out,
        "\n[[workload]]\nkind = {}\ntargets = [{}]\nbackends = [{}]\n",
        quoted(run.workload.name()),
        quoted(&run.target_name),
        quoted(run.backend.name())
    );
    work::write(out, &run.command, &run.op_mix);
    for (setting, levels) in levels {
        if !runs.iter().any(|run| setting.applies(run)) {
            continue;
        }
        write_levels(out, *setting, levels);
    }
}
