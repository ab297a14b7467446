//! A plan as text with every default written out; it reads back to an equal plan.
//!
//! Works from the runs alone: consecutive runs that are a whole product of levels share one
//! `[[workload]]`; where they are none, they are split at the setting that varies slowest.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use model::setting::{Setting, Value};
use model::{Host, LabSpec, NfsTarget, Repetition, RunSpec, Sec, Target, TcpTarget};

use crate::meaning::matrix::product;
use crate::meaning::resolve::Plan;
use crate::reading::address::write_url;
use crate::reading::disturb;
use crate::reading::level;
use crate::reading::work;
use crate::written::hosts::JOB;
use crate::written::text::{self, quoted};

impl Plan {
    /// Writes the plan as TOML, every default written out.
    ///
    /// [`crate::RawPlan::parse`] and [`Plan::resolve`] give an equal plan again, in whatever
    /// surroundings. The port of a running in-memory server is not part of it.
    pub fn to_toml(&self) -> String {
        let mut out = String::from("# Written by dfsbench: every default stands here.\n");
        // Writing to a String can't fail.
        let _ = write!(
            out,
            "name = {}\ntrials = {}\nseed = {}\n",
            quoted(&self.name),
            self.trials,
            self.seed,
        );
        self.repetition(&mut out);
        out.push('\n');
        self.server.write(&mut out);
        for host in self.hosts() {
            write_host(&mut out, host, self.slots(host));
        }
        let mut named: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !named.contains(&run.target_name.as_str()) {
                named.push(&run.target_name);
                out.push_str(&self.target(run));
            }
        }
        let together = |a: &RunSpec, b: &RunSpec| {
            (&a.target_name, a.backend, a.workload) == (&b.target_name, b.backend, b.workload)
                && a.command == b.command
                && a.op_mix.shares == b.op_mix.shares
        };
        for runs in self.runs.chunk_by(together) {
            write_workloads(&mut out, runs);
        }
        disturb::write(&mut out, &self.disturbances);
        out
    }

    fn repetition(&self, out: &mut String) {
        let Repetition { discard, until_permille, warmup_trials } = self.repetition;
        let (discard, order) = (quoted(discard.name()), quoted(self.order.name()));
        let _ = writeln!(out, "discard = {discard}\nwarmup_trials = {warmup_trials}");
        if until_permille > 0 {
            let _ = writeln!(out, "until = {}", quoted(&self.repetition.until()));
        }
        let _ = writeln!(out, "order = {order}");
    }

    /// Agents on a host at most, in any run.
    fn slots(&self, host: &Host) -> u32 {
        let agents = self.runs.iter().flat_map(|run| &run.placement.hosts);
        let slots = agents.map(Host::name_and_slot).filter(|(name, _)| *name == host.name);
        slots.map(|(_, slot)| slot).max().unwrap_or(1)
    }

    /// The client hosts of a target, as its runs with the most have them.
    fn client_hosts(&self, target: &str) -> Option<String> {
        let of_target = self.runs.iter().filter(|run| run.target_name == target);
        let most = of_target.max_by_key(|run| run.placement.hosts.len())?;
        if most.placement.of_job {
            return Some(quoted(JOB));
        }
        let listed = most.placement.hosts.iter().filter(|host| host.name_and_slot().1 == 1);
        let names: Vec<String> = listed.map(|host| quoted(&host.name)).collect();
        (!names.is_empty()).then(|| format!("[{}]", names.join(", ")))
    }

    fn target(&self, first: &RunSpec) -> String {
        let hosts = self.client_hosts(&first.target_name);
        let mut backends: Vec<String> = Vec::new();
        for run in self.runs.iter().filter(|run| run.target_name == first.target_name) {
            let name = quoted(run.backend.name());
            if !backends.contains(&name) {
                backends.push(name);
            }
        }
        let what = match &first.target {
            _ if let Some(lab) = &first.lab => write_lab(lab, hosts.clone()),
            Target::Null => "null = true".to_owned(),
            Target::Memory => "memory = true".to_owned(),
            Target::Tcp(tcp) => format!("tcp = {}", quoted(&write_tcp(tcp))),
            Target::Directory { path } => format!("path = {}", quoted_path(path)),
            Target::Directories { paths } => {
                let paths: Vec<_> = paths.iter().map(|path| quoted_path(path)).collect();
                format!("path = [{}]", paths.join(", "))
            }
            Target::Nfs(nfs) if nfs.embedded => write_embedded(nfs),
            Target::Nfs(nfs) => format!("url = {}", quoted(&write_url(nfs))),
        };
        let used_from = match hosts {
            Some(hosts) if first.lab.is_none() => format!("\nhosts = {hosts}"),
            _ => String::new(),
        };
        let what = what + &used_from;
        let name = quoted(&first.target_name);
        format!("\n[[target]]\nname = {name}\n{what}\nbackend = [{}]\n", backends.join(", "))
    }
}

/// Writes lines of those keys that have a value.
fn lines(pairs: &[(&str, Option<String>)]) -> String {
    let written = pairs.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let written: Vec<String> = written.map(|(key, value)| format!("{key} = {value}")).collect();
    written.join("\n")
}

fn write_host(out: &mut String, host: &Host, slots: u32) {
    let text = |text: &Option<String>| text.as_deref().map(quoted);
    let keys = lines(&[
        ("name", Some(quoted(&host.name))),
        ("ssh", text(&host.ssh)),
        ("ssh_config", host.ssh_config.as_deref().map(quoted_path)),
        ("address", text(&host.address)),
        ("interface", text(&host.interface)),
        ("slots", (slots > 1).then(|| slots.to_string())),
    ]);
    // Writing to a String can't fail.
    let _ = writeln!(out, "\n[[host]]\n{keys}");
}

fn write_lab(lab: &LabSpec, clients: Option<String>) -> String {
    let storage = &lab.storage;
    let size = |bytes: u64| (bytes > 0).then(|| quoted(&text::size(bytes)));
    let list = |paths: &[PathBuf]| {
        let paths: Vec<String> = paths.iter().map(|path| quoted_path(path)).collect();
        (!paths.is_empty()).then(|| format!("[{}]", paths.join(", ")))
    };
    let named = |path: &PathBuf| !path.as_os_str().is_empty();
    let client = &lab.client.name;
    let is_one = clients.is_none() && *client != lab.server.name;
    lines(&[
        ("server", Some(quoted(&lab.server.name))),
        ("client", is_one.then(|| quoted(client))),
        ("clients", clients),
        ("devices", list(&storage.devices)),
        ("loop_size", size(storage.loop_bytes)),
        ("directory", Some(&storage.directory).filter(|d| named(d)).map(|d| quoted_path(d))),
        ("tmpfs_size", size(storage.size_bytes)),
    ])
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn write_tcp(tcp: &TcpTarget) -> String {
    let host = if tcp.host.contains(':') { format!("[{}]", tcp.host) } else { tcp.host.clone() };
    match tcp.port {
        Some(port) if !tcp.embedded => format!("{host}:{port}"),
        _ => "embedded".to_owned(),
    }
}

fn write_embedded(nfs: &NfsTarget) -> String {
    let user = &nfs.identity;
    let mut text = format!("embedded = true\nuid = {}\ngid = {}", user.uid, user.gid);
    if !user.groups.is_empty() {
        let _ = write!(text, "\ngroups = {:?}", user.groups);
    }
    if user.sec != Sec::Sys {
        let _ = write!(text, "\nsec = {}", quoted(user.sec.name()));
    }
    if user.resvport {
        text.push_str("\nresvport = true");
    }
    if nfs.faultless {
        text.push_str("\nfaultless = true");
    }
    text
}

/// Writes runs of one target, backend and workload as one table, or as several.
fn write_workloads(out: &mut String, runs: &[RunSpec]) {
    let levels = Setting::ALL.map(|setting| (setting, levels(setting, runs)));
    let whole = || {
        let sizes = levels.iter().map(|(_, levels)| levels.len());
        let count = sizes.fold(1_usize, usize::saturating_mul);
        let of = |setting: Setting, _: &RunSpec| levels[setting as usize].1.clone();
        let mut base = runs[0].clone();
        let most = runs.iter().map(|run| &run.placement.hosts).max_by_key(|hosts| hosts.len());
        base.placement.hosts.clone_from(most.expect("there are runs"));
        count == runs.len() && product(base, of).is_ok_and(|made| made == runs)
    };
    if runs.len() == 1 || whole() {
        return write_workload(out, runs, &levels);
    }
    let slowest = levels.iter().find(|(_, levels)| levels.len() > 1);
    let setting = slowest.expect("runs are all different").0;
    for part in runs.chunk_by(|a, b| setting.get(a) == setting.get(b)) {
        write_workloads(out, part);
    }
}

/// The levels that runs have, in the order of their first use; one where it doesn't matter.
fn levels(setting: Setting, runs: &[RunSpec]) -> Vec<Value> {
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
        let written: Vec<String> =
            levels.iter().map(|level| level::write(*setting, level)).collect();
        let _ = match written.as_slice() {
            [one] => writeln!(out, "{} = {one}", setting.key()),
            many => writeln!(out, "{} = [{}]", setting.key(), many.join(", ")),
        };
    }
}
