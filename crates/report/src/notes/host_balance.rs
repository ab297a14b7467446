//! How the client hosts of a figure fared beside each other.
//!
//! A sentence for each figure that several hosts made together: the slowest and the fastest, how
//! even it was, how far apart they started, and the slow ones by name. Plain text, as in `notes`.

use model::units::{Nanos, three_digits};
use stats::{HostShare, HostsCompared};

use super::load;
use crate::sheet::{Row, Sheet};
use crate::show::counted;

/// Heads what [`lines`] says.
pub const TITLE: &str = "Client hosts beside each other (rates over each one's own time)";

/// Stragglers that are named in one line.
const NAMED_MAX: usize = 8;

/// A line for each figure that several hosts made together.
pub fn lines(sheet: &Sheet<'_>) -> Vec<String> {
    let of_row = |row: &Row<'_>| {
        let compared = row.judged.hosts.as_ref()?;
        Some(format!("{}: {}", sheet.name(row), balance_line(compared)))
    };
    load::first(sheet.rows.iter().filter_map(of_row).collect())
}

fn balance_line(compared: &HostsCompared) -> String {
    let share = |host: &HostShare| {
        let [p50, p99, max] =
            [host.p50_ns, host.p99_ns, host.max_ns].map(|ns| Nanos(ns).to_string());
        format!("{} with {} (p50 {p50}, p99 {p99}, max {max})", host.host, host.rate)
    };
    let mut parts = vec![counted(compared.hosts.len(), "host")];
    if let Some((slowest, fastest)) = compared.slowest().zip(compared.fastest()) {
        parts.push(format!("slowest {}", share(slowest)));
        parts.push(format!("fastest {}", share(fastest)));
    }
    parts.extend(compared.index.map(|index| format!("Jain's fairness index {index:.3}")));
    parts.push(format!("all started within {} (median of the trials)", Nanos(compared.skew_ns)));
    parts.extend(name_stragglers(compared));
    parts.join("; ")
}

/// Names the slow ones, each with its share of the median rate.
fn name_stragglers(compared: &HostsCompared) -> Option<String> {
    let slow = compared.stragglers();
    let middle = compared.middle_per_s().filter(|_| !slow.is_empty())?;
    let named = slow.iter().take(NAMED_MAX).map(|host| {
        let percent = three_digits(host.rate.per_s() / middle * 100.0);
        format!("{} at {percent} % of the median host", host.host)
    });
    let mut named = named.collect::<Vec<_>>().join(", ");
    if slow.len() > NAMED_MAX {
        named = format!("{named} and {} more", slow.len() - NAMED_MAX);
    }
    let noun = if slow.len() == 1 { "straggler" } else { "stragglers" };
    Some(format!("{noun} {named}"))
}
