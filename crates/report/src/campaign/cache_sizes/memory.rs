//! The memory of the hosts beside the size of a cache that the data show.
//!
//! A page cache is as large as the memory that programs leave it: from a quarter to nearly all,
//! and for writes as little as the kernel allows to be unwritten (`vm.dirty_ratio`: 20 %). A
//! client's holds its share of the files, a server's all of them. Where ops bypass it, and in the
//! client of dfsbench, there is none.

use std::collections::BTreeMap;

use model::{Fact, Host, LabSpec};
use stats::Fall;

use super::{SizeSweepRows, show_bytes};
use crate::humanize::listed;
use crate::table::setting_number::quantity;
use crate::table::{Row, Sheet};

/// The name of the fact.
const MEMORY: &str = "memory";

/// The scope of facts of the host that the controller runs on.
const OWN_HOST: &str = "host";

/// The smallest and the largest share of the memory that a cache of read data takes.
const READ_SHARES: [f64; 2] = [0.25, 1.02];

/// The same for written data, which is limited by what may lie unwritten.
const WRITE_SHARES: [f64; 2] = [0.05, 1.02];

/// A host whose memory is known.
struct HostMemory {
    name: String,
    bytes: f64,
    /// How many hosts share the files: each holds its part of them.
    parts: f64,
}

/// Says in a clause whose memory explains a fall, or that none does; ends the sentence.
pub(super) fn explain(sheet: &Sheet<'_>, swept: &SizeSweepRows<'_, '_>, fall: &Fall) -> String {
    let hosts = list_hosts(sheet, &swept.rows);
    if hosts.is_empty() {
        return ".".to_owned();
    }
    let shares = if swept.pass.writes() { WRITE_SHARES } else { READ_SHARES };
    let (lo, hi) = fall.interval_bytes;
    let (mut explaining, mut others) = (Vec::new(), Vec::new());
    for host in &hosts {
        let [least, most] = shares.map(|share| share * host.bytes);
        let shown = format!("{} has {} of memory", host.name, show_bytes(host.bytes));
        if hi / host.parts >= least && lo / host.parts <= most {
            explaining.push(shown);
        } else {
            others.push(shown);
        }
    }
    match explaining.len() {
        0 => format!(", and no page cache explains it: {}.", listed(&others)),
        1 => format!(", which the page cache explains: {}.", listed(&explaining)),
        _ => format!(", which either page cache may explain: {}.", listed(&explaining)),
    }
}

/// The hosts of a sweep that have a page cache in the way of the data, and whose memory is known.
fn list_hosts(sheet: &Sheet<'_>, rows: &[&Row<'_>]) -> Vec<HostMemory> {
    let mut hosts: Vec<HostMemory> = Vec::new();
    let Some(first) = rows.first() else { return hosts };
    let spec = &first.run.spec;
    let memory = memory_by_host(sheet, rows);
    let is_by_kernel = spec.target.is_local();
    let clients: Vec<&str> =
        spec.client_hosts().iter().map(|host| host.name_and_slot().0).collect();
    let is_own = spec.lab.is_none() && clients.is_empty();
    // Direct I/O bypasses the cache of the host that works, not that of a server.
    if is_by_kernel && !spec.direct {
        let names = if is_own { vec![OWN_HOST] } else { clients.clone() };
        let mut distinct: Vec<(f64, &str)> = Vec::new();
        for name in names {
            let Some(bytes) = memory.get(name) else { continue };
            // Clients that are alike are named once.
            if !distinct.iter().any(|(known, _)| known.total_cmp(bytes).is_eq()) {
                distinct.push((*bytes, name));
            }
        }
        for (bytes, name) in distinct {
            let parts = clients.len().max(1) as f64;
            let name = match (is_own, clients.len()) {
                (true, _) => "this host".to_owned(),
                (false, 1) => format!("client {name}"),
                (false, _) => format!("each client such as {name}"),
            };
            hosts.push(HostMemory { name, bytes, parts });
        }
    }
    let servers = spec.lab.as_deref().map(file_hosts).unwrap_or_default();
    for server in &servers {
        if let Some(bytes) = memory.get(server.name.as_str())
            && !clients.contains(&server.name.as_str())
        {
            let name = format!("server {}", server.name);
            let parts = servers.len() as f64;
            hosts.push(HostMemory { name, bytes: *bytes, parts });
        }
    }
    hosts
}

/// Returns the hosts whose memory may hold files: those that keep them, or the one that serves.
fn file_hosts(lab: &LabSpec) -> Vec<&Host> {
    let hosts = lab.storage_hosts();
    if hosts.is_empty() { vec![&lab.server] } else { hosts }
}

/// The memory of each host by the scope of its facts.
fn memory_by_host<'r>(sheet: &'r Sheet<'_>, rows: &[&'r Row<'_>]) -> BTreeMap<&'r str, f64> {
    let mut memory = BTreeMap::new();
    let of_trials = rows.iter().flat_map(|row| &row.run.trials).flat_map(|trial| &trial.facts);
    for Fact { scope, name, value, .. } in sheet.campaign.facts.iter().chain(of_trials) {
        if name == MEMORY
            && let Some(bytes) = quantity(MEMORY, value)
        {
            memory.entry(scope.as_str()).or_insert(bytes);
        }
    }
    memory
}
