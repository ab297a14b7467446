//! Compares the cache size that the data show with the memory of the hosts.
//!
//! A page cache can use the memory that programs leave free, from a quarter to nearly all of it.
//! Dirty pages are limited by the kernel (`vm.dirty_ratio`, 20 % by default). A client caches only
//! its share of the files, a server all of them. Direct I/O and the dfsbench NFS client use no page
//! cache.

use std::collections::BTreeMap;

use model::{Fact, Host, LabSpec};
use stats::RateDrop;

use super::{SizeSweepRows, show_bytes};
use crate::humanize::listed;
use crate::table::setting_number::quantity;
use crate::table::{Row, Sheet};

/// Name of the fact.
const MEMORY: &str = "memory";

/// Scope of the facts about the controller's own host.
const OWN_HOST: &str = "host";

/// Smallest and largest share of the memory that may cache reads.
const READ_SHARES: [f64; 2] = [0.25, 1.02];

/// Same for writes, which are limited by the amount of dirty data that the kernel allows.
const WRITE_SHARES: [f64; 2] = [0.05, 1.02];

/// Host with known memory.
struct HostMemory {
    name: String,
    bytes: f64,
    /// Number of hosts that share the files, each caching its own part.
    parts: f64,
}

/// Ends the sentence with a clause on the host whose memory explains the drop, or says that none
/// does.
pub(super) fn explain(sheet: &Sheet<'_>, swept: &SizeSweepRows<'_, '_>, fall: &RateDrop) -> String {
    let hosts = list_hosts(sheet, &swept.rows);
    if hosts.is_empty() {
        return ".".to_owned();
    }
    let shares = if swept.pass.writes() { WRITE_SHARES } else { READ_SHARES };
    let (lo, hi) = fall.interval_bytes;
    let mut explaining = Vec::new();
    let mut others = Vec::new();
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
        _ => format!(", and either page cache may explain it: {}.", listed(&explaining)),
    }
}

/// Hosts of a sweep with known memory whose page cache is on the data path.
fn list_hosts(sheet: &Sheet<'_>, rows: &[&Row<'_>]) -> Vec<HostMemory> {
    let mut hosts: Vec<HostMemory> = Vec::new();
    let Some(first) = rows.first() else { return hosts };
    let spec = &first.run.spec;
    let memory = memory_by_host(sheet, rows);
    let is_by_kernel = spec.target.is_local();
    let clients: Vec<&str> =
        spec.client_hosts().iter().map(|host| host.name_and_slot().0).collect();
    let is_own = spec.lab.is_none() && clients.is_empty();
    // Direct I/O bypasses the client's page cache, but not that of a server.
    if is_by_kernel && !spec.direct {
        let names = if is_own { vec![OWN_HOST] } else { clients.clone() };
        let mut distinct: Vec<(f64, &str)> = Vec::new();
        for name in names {
            let Some(bytes) = memory.get(name) else { continue };
            // Clients with equal memory are named once.
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

/// Returns the hosts whose memory may cache the files: the storage hosts or, if there are none, the
/// server.
fn file_hosts(lab: &LabSpec) -> Vec<&Host> {
    let hosts = lab.storage_hosts();
    if hosts.is_empty() { vec![&lab.server] } else { hosts }
}

/// Memory of each host, by the scope of its facts.
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
