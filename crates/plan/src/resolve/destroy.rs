//! The hosts that a plan uses, and the data that it would destroy on them.
//!
//! Users must name each device to be formatted again when they start the plan. Nothing here
//! accesses a host.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use model::Host;

use crate::resolve::loads::HERE;
use crate::resolve::plan::Plan;
use crate::syntax::error::{Fault, PlanError, PlanPosition};

/// The flag with which the user confirms a device.
const FLAG: &str = "--allow-destroy";

impl Plan {
    /// Returns the hosts that the plan names and uses, without duplicates, in the order of their
    /// first use.
    pub fn hosts(&self) -> Vec<&Host> {
        let mut seen = HashSet::new();
        let mut hosts = Vec::new();
        for run in &self.runs {
            let mut used: Vec<&Host> = Vec::new();
            if let Some(lab) = &run.lab {
                used.extend(lab.servers());
                used.push(&lab.client);
            }
            // The hosts of a job are not part of the plan.
            if !run.placement.of_job {
                used.extend(&run.placement.hosts);
            }
            for host in used {
                // Additional agents on a host don't count as hosts.
                let is_first = !host.name.contains(Host::FURTHER) && host.name != HERE;
                if is_first && seen.insert(&host.name) {
                    hosts.push(host);
                }
            }
        }
        hosts
    }

    /// Returns the devices that will be formatted, with the names of their hosts.
    pub fn destroys(&self) -> Vec<(&str, &Path)> {
        let mut devices = Vec::new();
        for run in &self.runs {
            let Some(lab) = &run.lab else { continue };
            // The backing file of a loop device must not exist yet, so no data is lost with it.
            if run.impossible().is_some() || !lab.has_storage() || lab.storage.loop_bytes > 0 {
                continue;
            }
            for host in lab.storage_hosts() {
                for device in lab.storage.used() {
                    let device = (host.name.as_str(), device.as_path());
                    if !devices.contains(&device) {
                        devices.push(device);
                    }
                }
            }
        }
        devices
    }

    /// Checks that `allowed` contains exactly the devices that will be formatted.
    ///
    /// # Errors
    /// If a device is missing from it, or one of its devices is not in the plan; the error shows
    /// the right flag.
    pub fn check_destroy(&self, allowed: &[PathBuf]) -> Result<(), PlanError> {
        let devices = self.destroys();
        for path in allowed {
            if !devices.iter().any(|(_, device)| device == path) {
                let fault = Fault::new(format!("the plan does not format `{}`", path.display()));
                let hint =
                    if devices.is_empty() { "leave it out".to_owned() } else { flags(&devices) };
                return Err(fault.hint(hint).at(PlanPosition::Flag(FLAG)));
            }
        }
        let mut missing = devices;
        missing.retain(|(_, device)| !allowed.iter().any(|path| path == device));
        let Some((_, path)) = missing.first() else { return Ok(()) };
        let of_path = missing.iter().filter(|(_, device)| device == path);
        let hosts: Vec<String> = of_path.map(|(host, _)| format!("`{host}`")).collect();
        let path = path.display();
        let hosts = hosts.join(", ");
        let what = format!("the contents of {path} on host {hosts} would be lost");
        let hint = format!("if this is intended, add {}", flags(&missing));
        Err(Fault::new(what).hint(hint).at(PlanPosition::Flag(FLAG)))
    }
}

/// Writes the flags that allow the devices to be formatted.
fn flags(devices: &[(&str, &Path)]) -> String {
    let mut flags: Vec<String> = Vec::new();
    for (_, path) in devices {
        let flag = format!("{FLAG} {}", path.display());
        if !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    flags.join(" ")
}
