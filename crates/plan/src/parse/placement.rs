//! Parses the hosts from which a target is used.
//!
//! Hosts are given by the name in their `[[host]]`. The in-memory server, a temporary folder and a
//! relative path exist on the local host only.

use std::collections::HashSet;

use model::Target;

use crate::parse::document::Field;
use crate::syntax::error::{Fault, PlanError};
use crate::syntax::hosts::JOB;
use crate::syntax::hosts::PlannedHost;
use crate::syntax::hosts::UsedFrom;
use crate::syntax::suggestion::unknown_word;
use crate::syntax::target::TargetArg;

/// Parses a list of distinct hosts.
pub(crate) fn read_list(
    field: &Field<'_>,
    hosts: &[PlannedHost],
) -> Result<Vec<PlannedHost>, PlanError> {
    let mut listed: Vec<PlannedHost> = Vec::new();
    let mut seen = HashSet::new();
    for item in field.items()? {
        let planned = known_host(&item, hosts)?;
        if !seen.insert(planned.host.name.clone()) {
            let what = format!("`{}` is listed twice", planned.host.name);
            let hint = "name it once; `slots` in its [[host]] lets it play several clients";
            return Err(item.error(Fault::new(what).hint(hint)));
        }
        listed.push(planned);
    }
    Ok(listed)
}

/// Finds the host named by a field.
pub(crate) fn known_host(
    field: &Field<'_>,
    hosts: &[PlannedHost],
) -> Result<PlannedHost, PlanError> {
    let name = field.text("\"server\"")?.value;
    let mut known = Vec::new();
    for planned in hosts {
        if planned.host.name == name {
            return Ok(planned.clone());
        }
        known.push(planned.host.name.as_str());
    }
    let mut fault = unknown_word("host", name, &known);
    if known.is_empty() {
        fault = fault.hint(format!("begin with [[host]] and `name = \"{name}\"`"));
    }
    Err(field.error(fault))
}

/// Parses the `hosts` of a target that is not set up by us.
pub(crate) fn read_hosts(
    field: &Field<'_>,
    what: &TargetArg,
    hosts: &[PlannedHost],
) -> Result<UsedFrom, PlanError> {
    if let Some(fault) = one_host_only(what) {
        return Err(field.error(fault));
    }
    let is_embedded = match what {
        TargetArg::Ready(target) => target.is_embedded(),
        what => matches!(what, TargetArg::Embedded(_)),
    };
    let is_job = field.as_text() == Some(JOB);
    let listed = if is_job { Vec::new() } else { read_list(field, hosts)? };
    // Hosts without `ssh` are local, so they can reach the server on loopback.
    if is_embedded && (is_job || listed.iter().any(|planned| planned.host.ssh.is_some())) {
        let fault = Fault::new("the in-memory server listens on this host's loopback only");
        return Err(
            field.error(fault.hint("run `dfsbench serve` on one host, and name its `url` here"))
        );
    }
    Ok(if is_job { UsedFrom::Job } else { UsedFrom::slots_of(&listed) })
}

/// Returns why a target exists on one host only, if it does.
fn one_host_only(what: &TargetArg) -> Option<Fault> {
    let (what, hint) = match what {
        TargetArg::Lab(_) => ("is for targets without `server`", "write `clients`"),
        TargetArg::Temporary => (
            "a temporary folder exists on one host only",
            "write the `path` of a directory that all hosts have",
        ),
        TargetArg::Ready(Target::Directory { path }) if path.is_relative() => {
            let what = format!("`{}` is relative: other hosts can't resolve it", path.display());
            return Some(Fault::new(what).hint("write an absolute path, starting with `/`"));
        }
        TargetArg::Ready(Target::Directories { paths })
            if paths.iter().any(|path| path.is_relative()) =>
        {
            (
                "relative paths can't be resolved on other hosts",
                "write absolute paths, starting with `/`",
            )
        }
        _ => return None,
    };
    Some(Fault::new(what).hint(hint))
}
