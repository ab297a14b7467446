//! Compares the client hosts of a result.
//!
//! Each result that several hosts produced together gets a sentence: the slowest and fastest host,
//! how even they were, how far apart they started, and which ones lagged behind. Plain text, as in
//! `notes`.

use model::units::Nanos;
use stats::{HostShare, HostsCompared, WorstTimes};

use super::load;
use crate::humanize::counted;
use crate::table::Sheet;

/// Heading of the lines of [`lines`].
pub(crate) const TITLE: &str = "Client hosts compared (rates over the active time of each)";

/// Maximum number of stragglers to name on one line.
const NAMED_MAX: usize = 8;

/// Returns a line for each result that several hosts produced together.
pub(crate) fn lines(sheet: &Sheet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &sheet.rows {
        if let Some(compared) = &row.judged.hosts {
            lines.push(format!("{}: {}", sheet.name(row), balance_line(compared)));
        }
    }
    load::keep_first_lines(lines)
}

fn balance_line(compared: &HostsCompared) -> String {
    // Jain's index is (sum x)^2 / (n sum x^2): 1 if all hosts are equal, 1/n if one host does
    // everything.
    let mut parts = vec![counted(compared.hosts.len(), "host")];
    if let (Some(slowest), Some(fastest)) = (compared.slowest(), compared.fastest()) {
        parts.push(format!("slowest {}", describe_host(slowest)));
        parts.push(format!("fastest {}", describe_host(fastest)));
    }
    if let Some(index) = compared.index {
        parts.push(format!("Jain's fairness index {index:.3} while all were active"));
    }
    parts.push(format!("all started within {} (median of the trials)", compared.skew));
    parts.extend(name_still(compared));
    parts.extend(name_stragglers(compared));
    parts.join("; ")
}

fn describe_host(host: &HostShare) -> String {
    let service = describe_times(&host.service_time);
    // A host that completed no op has no response times.
    let times = if host.response_time == WorstTimes::default() {
        format!("service time {service}")
    } else {
        format!("response time {}; service time {service}", describe_times(&host.response_time))
    };
    format!("{} with {} ({times})", host.host, host.rate)
}

fn describe_times(times: &WorstTimes) -> String {
    let [p50, p99, max] = [times.p50_ns, times.p99_ns, times.max_ns].map(Nanos);
    format!("p50 {p50}, p99 {p99}, max {max}")
}

/// Names the hosts that completed nothing in some trials although they had time to.
fn name_still(compared: &HostsCompared) -> Option<String> {
    let mut names = Vec::new();
    for host in &compared.hosts {
        if host.stood_still > 0 {
            let failed = if host.failed > 0 { ", failing all ops," } else { "" };
            let still = host.stood_still;
            let trials = compared.trials;
            names.push(format!("{} did nothing{failed} in {still} of {trials} trials", host.host));
        }
    }
    if names.is_empty() { None } else { Some(name_some(&names)) }
}

/// Names the stragglers, each with its share of the median rate.
fn name_stragglers(compared: &HostsCompared) -> Option<String> {
    let slow = compared.describe_stragglers();
    if slow.is_empty() {
        return None;
    }
    let noun = if slow.len() == 1 { "straggler" } else { "stragglers" };
    Some(format!("{noun} {}", name_some(&slow)))
}

/// Joins the first few sentences and counts the others.
fn name_some(sentences: &[String]) -> String {
    let named = sentences[..sentences.len().min(NAMED_MAX)].join(", ");
    match sentences.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
