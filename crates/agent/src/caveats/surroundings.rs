//! Caveats about tracers and about other campaigns in the same target.
//!
//! There is no limit for either: any tracer slows down every system call, and the load of another
//! campaign is unknown. Both caveats name what was found.

use std::collections::BTreeSet;

use lab::telemetry::processors::Tracer;
use model::{Caveat, CaveatCode};

/// Maximum number of other campaigns to name.
const NAMED_MAX: usize = 3;

/// Raises a caveat if this program, or an external one that it runs, was traced.
pub(crate) fn about_tracers(tracers: &BTreeSet<Tracer>) -> Option<Caveat> {
    let mut names = Vec::new();
    for Tracer { pid, name } in tracers {
        let name = if name.is_empty() { "a process" } else { name };
        names.push(format!("{name} (pid {pid})"));
    }
    if names.is_empty() {
        return None;
    }
    let evidence = format!("traced by {} (TracerPid of /proc/PID/status)", names.join(", "));
    Some(CaveatCode::Traced.because(evidence))
}

/// Raises a caveat if other campaigns were active. `active` has one description for each.
pub(crate) fn about_neighbors(active: &[String]) -> Option<Caveat> {
    if active.is_empty() {
        return None;
    }
    let named = active.len().min(NAMED_MAX);
    let mut evidence = active[..named].join("; ");
    if active.len() > named {
        evidence = format!("{evidence}; and {} more", active.len() - named);
    }
    Some(CaveatCode::ConcurrentCampaign.because(evidence))
}
