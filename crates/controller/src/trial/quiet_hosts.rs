//! Waits before a trial until its hosts are idle.
//!
//! Data written by one contender may still be flushed, healed or uploaded while the next one is
//! measured. So disks and networks of all hosts are checked, and a trial gets a caveat if its hosts
//! stayed busy.

use fleet::{QuietWait, request};
use model::units::three_digits;
use model::{BusyDevice, Caveat, CaveatCode, Evidence, Fact, LabSpec, Trial};

use crate::hosts::Hosts;

/// Waits up to `within_ms`, if that is not 0. Returns a caveat for each pass if a host stayed busy.
///
/// # Errors
/// If a host is lost; the error is a sentence.
pub(crate) fn await_quiet(
    hosts: &mut Hosts<'_>,
    within_ms: u64,
    lab: &LabSpec,
    trial: &mut Trial,
) -> Result<Vec<Caveat>, String> {
    if within_ms == 0 {
        return Ok(Vec::new());
    }
    let mut names: Vec<&str> = Vec::new();
    for host in lab.hosts() {
        if !names.contains(&host.name.as_str()) {
            names.push(&host.name);
        }
    }
    let requests: Vec<_> =
        names.iter().map(|name| (*name, request::await_quiet(within_ms))).collect();
    let mut caveats = Vec::new();
    for (name, answer) in names.iter().zip(hosts.ask_each(requests)) {
        let wait = answer?;
        let value = format!("{} s", three_digits(wait.waited_ms as f64 / 1e3));
        trial.facts.push(Fact::new(*name, "waited until quiet", value, SOURCE));
        caveats.extend(caveat(name, &wait));
    }
    Ok(caveats)
}

const SOURCE: &str = "/proc/diskstats, /proc/net/dev";

/// Raises a caveat if a host was still busy. The caveat's data describe the busiest device.
pub fn caveat(host: &str, wait: &QuietWait) -> Option<Caveat> {
    let busiest = wait.busy.iter().max_by_key(|device| device.bytes_per_s)?;
    let mut devices = Vec::with_capacity(wait.busy.len());
    for device in &wait.busy {
        let rate = three_digits(device.bytes_per_s as f64 / 1e6);
        devices.push(format!("{} moved {rate} MB/s", device.name));
    }
    let waited = three_digits(wait.waited_ms as f64 / 1e3);
    let evidence =
        format!("host {host} was still busy after {waited} s: {} ({SOURCE})", devices.join(", "));
    let found = busiest.bytes_per_s;
    let limit = BusyDevice::QUIET_BYTES_PER_S;
    let data = Evidence::counts(found, limit, "B/s", SOURCE);
    Some(CaveatCode::NotQuiet.because(evidence).with_data(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(busy: &[(&str, u64)]) -> QuietWait {
        let mut devices = Vec::new();
        for (name, bytes_per_s) in busy {
            devices.push(BusyDevice { name: (*name).to_owned(), bytes_per_s: *bytes_per_s });
        }
        QuietWait { waited_ms: 10_000, busy: devices }
    }

    #[test]
    fn names_busy_host_and_traffic() {
        let devices = [("disk vdb", 12_300_000), ("network lo", 45_600_000)];
        let caveat = caveat("server", &wait(&devices)).unwrap();
        insta::assert_snapshot!(caveat.evidence);
        let data = caveat.data.unwrap();
        assert_eq!((data.found as u64, data.limit as u64), (45_600_000, 1_000_000));
    }

    #[test]
    fn a_quiet_host_has_no_caveat() {
        assert_eq!(caveat("server", &wait(&[])), None);
    }
}
