//! The hosts that a plan uses, and what would be lost on them.
//!
//! A device that is formatted must be repeated by whoever starts the plan; nothing here acts on a
//! host.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use model::Host;

use crate::meaning::resolve::Plan;
use crate::written::error::{Fault, Place, PlanError};

impl Plan {
    /// The hosts that the plan names and uses, each once, in the order of their first use.
    pub fn hosts(&self) -> Vec<&Host> {
        let mut seen = HashSet::new();
        let all = self.runs.iter().flat_map(|run| {
            let of_lab = run.lab.iter().flat_map(|lab| [&lab.server, &lab.client]);
            let named = if run.placement.of_job { &[][..] } else { &run.placement.hosts };
            of_lab.chain(named)
        });
        all.filter(|host| host.name_and_slot().1 == 1 && seen.insert(&host.name)).collect()
    }

    /// The devices that are formatted, with the names of their hosts; what is on them is lost.
    pub fn destroys(&self) -> Vec<(&str, &Path)> {
        let mut devices = Vec::new();
        let possible = self.runs.iter().filter(|run| run.impossible().is_none());
        let labs = possible.filter_map(|run| run.lab.as_ref());
        for lab in labs.filter(|lab| lab.has_storage()) {
            // A file that must not exist loses nothing.
            let used = if lab.storage.loop_bytes > 0 { &[] } else { lab.storage.used() };
            for device in used {
                let device = (lab.server.name.as_str(), device.as_path());
                if !devices.contains(&device) {
                    devices.push(device);
                }
            }
        }
        devices
    }

    /// Lets the plan pass if `allowed` repeats every device that is formatted, and no other.
    ///
    /// # Errors
    /// When one is missing there, or is not in the plan; the error shows the flag.
    pub fn check_destroy(&self, allowed: &[PathBuf]) -> Result<(), PlanError> {
        const FLAG: &str = "--allow-destroy";
        let devices = self.destroys();
        let flags = |devices: &[(&str, &Path)]| {
            let flags: Vec<_> =
                devices.iter().map(|(_, path)| format!("{FLAG} {}", path.display())).collect();
            flags.join(" ")
        };
        if let Some(other) = allowed.iter().find(|path| devices.iter().all(|(_, p)| p != path)) {
            let fault = Fault::new(format!("the plan formats no `{}`", other.display()));
            let hint = if devices.is_empty() { "leave it out".to_owned() } else { flags(&devices) };
            return Err(fault.hint(hint).at(Place::Flag(FLAG)));
        }
        let missing: Vec<_> =
            devices.into_iter().filter(|(_, path)| !allowed.iter().any(|a| a == path)).collect();
        let Some((host, path)) = missing.first() else { return Ok(()) };
        let what = format!("what is on {} of host `{host}` would be lost", path.display());
        let hint = format!("if that is meant, add {}", flags(&missing));
        Err(Fault::new(what).hint(hint).at(Place::Flag(FLAG)))
    }
}
