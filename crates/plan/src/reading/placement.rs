//! Reads from which hosts a target is used.
//!
//! A host is known by the name in its `[[host]]`; the in-memory server, a temporary folder and a
//! relative path are of this host only.

use std::collections::HashSet;

use crate::reading::document::Field;
use crate::written::error::{Fault, PlanError};
use crate::written::hosts::JOB;
use crate::written::hosts::PlannedHost;
use crate::written::hosts::UsedFrom;
use crate::written::near::unknown_word;
use crate::written::target::TargetArg;

/// Reads the hosts of a list, none of which stands twice.
pub(crate) fn read_list(
    field: &Field<'_>,
    hosts: &[PlannedHost],
) -> Result<Vec<PlannedHost>, PlanError> {
    let mut listed: Vec<PlannedHost> = Vec::new();
    let mut seen = HashSet::new();
    for item in field.items()? {
        let planned = known_host(&item, hosts)?;
        if !seen.insert(planned.host.name.clone()) {
            let what = format!("`{}` stands in the list twice", planned.host.name);
            let hint = "name it once; `slots` in its [[host]] lets it play several clients";
            return Err(item.error(Fault::new(what).hint(hint)));
        }
        listed.push(planned);
    }
    Ok(listed)
}

/// Finds the host that a field names.
pub(crate) fn known_host(
    field: &Field<'_>,
    hosts: &[PlannedHost],
) -> Result<PlannedHost, PlanError> {
    let name = field.text("\"server\"")?.value;
    let found = hosts.iter().find(|planned| planned.host.name == name);
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = hosts.iter().map(|planned| planned.host.name.as_str()).collect();
        let fault = unknown_word("host", name, &known);
        let fault = if known.is_empty() {
            fault.hint(format!("begin with [[host]] and `name = \"{name}\"`"))
        } else {
            fault
        };
        field.error(fault)
    })
}

/// Reads the `hosts` of a target that is not set up.
pub(crate) fn read_hosts(
    field: &Field<'_>,
    what: &TargetArg,
    hosts: &[PlannedHost],
) -> Result<UsedFrom, PlanError> {
    let refused = |what: &str, hint: &str| Err(field.error(Fault::new(what).hint(hint)));
    match what {
        TargetArg::Lab(_) => return refused("is for targets without `server`", "write `clients`"),
        TargetArg::Temporary => {
            let hint = "write the `path` of a directory that all hosts have";
            return refused("a temporary folder is of one host only", hint);
        }
        TargetArg::Directory(path) if path.is_relative() => {
            let what = format!("`{}` starts where nobody is on other hosts", path.display());
            return refused(&what, "write the whole path, from `/` on");
        }
        TargetArg::Directories(paths) if paths.iter().any(|path| path.is_relative()) => {
            let hint = "write whole paths, from `/` on";
            return refused("relative paths start where nobody is on other hosts", hint);
        }
        _ => {}
    }
    let is_embedded = match what {
        TargetArg::Tcp(tcp) => tcp.embedded,
        what => matches!(what, TargetArg::Embedded(_)),
    };
    if field.as_text() == Some(JOB) {
        let job = UsedFrom::Job;
        return if is_embedded { refused(ELSEWHERE, ELSEWHERE_HINT) } else { Ok(job) };
    }
    let listed = read_list(field, hosts)?;
    if is_embedded && listed.iter().any(|planned| planned.host.ssh.is_some()) {
        return refused(ELSEWHERE, ELSEWHERE_HINT);
    }
    Ok(UsedFrom::slots_of(&listed))
}

const ELSEWHERE: &str = "the in-memory server listens on this host's loopback only";
const ELSEWHERE_HINT: &str = "`dfsbench serve` on one host, and its `url` here";
