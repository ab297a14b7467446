//! How the client hosts of a figure fared beside each other.
//!
//! A sentence for each figure that several hosts made together: the slowest and the fastest, how
//! even it was, how far apart they started, and the slow ones by name. Plain text, as in `notes`.

use model::units::{Nanos, three_digits};
use stats::{HostShare, HostsCompared};

use super::load;
use crate::sheet::Sheet;
use crate::show::counted;

/// The heading of the lines of [`lines`].
pub const TITLE: &str = "Client hosts beside each other (rates over each one's own time)";

/// Stragglers that are named in one line.
const NAMED_MAX: usize = 8;

/// A line for each figure that several hosts made together.
pub fn lines(sheet: &Sheet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &sheet.rows {
        if let Some(compared) = &row.judged.hosts {
            lines.push(format!("{}: {}", sheet.name(row), balance_line(compared)));
        }
    }
    load::first(lines)
}

fn balance_line(compared: &HostsCompared) -> String {
    // Jain's index is (sum x)^2 / (n sum x^2): 1 where all are equal, 1/n where one has it all.
    let mut parts = vec![counted(compared.hosts.len(), "host")];
    if let (Some(slowest), Some(fastest)) = (compared.slowest(), compared.fastest()) {
        parts.push(format!("slowest {}", describe_host(slowest)));
        parts.push(format!("fastest {}", describe_host(fastest)));
    }
    if let Some(index) = compared.index {
        parts.push(format!("Jain's fairness index {index:.3}"));
    }
    parts.push(format!("all started within {} (median of the trials)", Nanos(compared.skew_ns)));
    parts.extend(name_stragglers(compared));
    parts.join("; ")
}

fn describe_host(host: &HostShare) -> String {
    let (p50, p99, max) = (Nanos(host.p50_ns), Nanos(host.p99_ns), Nanos(host.max_ns));
    format!("{} with {} (p50 {p50}, p99 {p99}, max {max})", host.host, host.rate)
}

/// Names the slow ones, each with its share of the median rate.
fn name_stragglers(compared: &HostsCompared) -> Option<String> {
    let slow = compared.stragglers();
    if slow.is_empty() {
        return None;
    }
    let median = compared.middle_per_s()?;
    let mut names = Vec::new();
    for host in slow.iter().take(NAMED_MAX) {
        let percent = three_digits(host.rate.per_s() / median * 100.0);
        names.push(format!("{} at {percent} % of the median host", host.host));
    }
    let mut named = names.join(", ");
    if slow.len() > NAMED_MAX {
        named = format!("{named} and {} more", slow.len() - NAMED_MAX);
    }
    let noun = if slow.len() == 1 { "straggler" } else { "stragglers" };
    Some(format!("{noun} {named}"))
}
