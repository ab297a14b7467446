//! Caveats about who else was there: tracers, and other campaigns in the same target.
//!
//! Neither has a limit: any tracer slows every call, and how much another campaign takes is not
//! known. Both name what was found.

use std::collections::BTreeSet;

use lab::processors::Tracer;
use model::{Caveat, CaveatCode};

/// Maximum number of signs of other campaigns to name.
const NAMED_MAX: usize = 3;

/// Raises a caveat if this program, or one that works in its place, was traced.
pub fn about_tracers(tracers: &BTreeSet<Tracer>) -> Option<Caveat> {
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

/// Raises a caveat if other campaigns were at work; `active` has a sign of each.
pub fn about_neighbors(active: &[String]) -> Option<Caveat> {
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
