//! Interfaces: their largest packet, and tc rules that slow down what leaves them.
//!
//! Our rules have a handle of their own, so that they can be told from others': where an
//! interface has rules already, ours are refused. **Source:** ip-link(8), tc(8), tc-tbf(8),
//! tc-netem(8).

use std::path::Path;

use model::EffectiveSettings;
use serde_json::Value;

use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::findings::Findings;
use crate::step::Step;
use crate::undo::Undo;

/// Handle of our rule at the root of an interface.
pub const HANDLE: &str = "df5:";
/// Handle of the rate limit below a delay.
pub const INNER: &str = "df6:";
/// The longest wait in the queue, in microseconds: then packets are dropped.
const QUEUE_US: u64 = 50_000;
/// Smallest bucket, in bytes: one packet as large as segmentation offload makes them.
const BURST_BYTES_MIN: u64 = 65_536;
/// Packets that wait out a delay at most.
const DELAYED_MAX: &str = "100000";

/// Sets the largest packet.
pub fn mtu_steps(interface: &str, bytes: u32) -> Vec<Step> {
    vec![Step::run(["ip", "link", "set", "dev", interface, "mtu", &bytes.to_string()])]
}

/// Keeps the old largest packet.
///
/// # Errors
/// Where there is no such interface.
pub fn mtu_undo(interface: &str) -> Result<Vec<Undo>, LabError> {
    Ok(vec![Undo::Mtu { interface: interface.to_owned(), bytes: mtu(interface)? }])
}

/// Gives an interface its largest packet back; one that is gone needs none.
///
/// # Errors
/// Where the kernel refuses.
pub fn restore_mtu(runner: &Runner, interface: &str, bytes: u32) -> Result<(), LabError> {
    if mtu(interface).is_ok_and(|now| now != bytes) {
        let bytes = bytes.to_string();
        runner.run(&["ip", "link", "set", "dev", interface, "mtu", bytes.as_str()], SOON)?;
    }
    Ok(())
}

/// Reads the largest packet back.
///
/// # Errors
/// Where it can't be read.
pub fn check_mtu(interface: &str, bytes: u32) -> Result<EffectiveSettings, LabError> {
    let mut findings = Findings::new("network");
    let name = format!("MTU of {interface}");
    findings.compare(&name, &bytes.to_string(), &mtu(interface)?.to_string(), "ip -json link");
    Ok(findings.done())
}

/// Slows down what leaves an interface: a rate by a token bucket, a delay by netem.
pub fn steps(interface: &str, rate_bits_per_s: Option<u64>, delay_us: Option<u32>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut place = vec!["root".to_owned(), "handle".to_owned(), HANDLE.to_owned()];
    if let Some(delay_us) = delay_us {
        let delay = format!("{delay_us}us");
        steps.push(rule(interface, &place, &["netem", "delay", &delay, "limit", DELAYED_MAX]));
        place = ["parent", &format!("{HANDLE}1"), "handle", INNER].map(str::to_owned).to_vec();
    }
    if let Some(rate) = rate_bits_per_s {
        let burst = burst_bytes(rate).to_string();
        let latency = format!("{QUEUE_US}us");
        let rate = format!("{rate}bit");
        let bucket = ["tbf", "rate", &rate, "burst", &burst, "latency", &latency];
        steps.push(rule(interface, &place, &bucket));
    }
    steps
}

/// Takes our rules away.
///
/// # Errors
/// Where the interface isn't there, or has rules that aren't ours.
pub fn undo(interface: &str) -> Result<Vec<Undo>, LabError> {
    let rules = rules(&Runner::default(), interface)?;
    // The kernel's own rules have the handle 0.
    let foreign = rules.iter().find(|rule| rule["handle"].as_str().is_some_and(|h| h != "0:"));
    match foreign {
        None => Ok(vec![Undo::Shape { interface: interface.to_owned() }]),
        Some(rule) => {
            let kind = rule["kind"].as_str().unwrap_or("?");
            Err(LabError::Refused(format!(
                "{interface} has a tc rule ({kind}) that isn't ours; `tc qdisc del dev {interface} \
                 root` would remove it"
            )))
        }
    }
}

/// Takes our rules from an interface; one that is gone, or has none of ours, needs nothing.
///
/// # Errors
/// Where the kernel refuses.
pub fn remove(runner: &Runner, interface: &str) -> Result<(), LabError> {
    if mtu(interface).is_err() {
        return Ok(());
    }
    if rules(runner, interface)?.iter().any(|rule| rule["handle"].as_str() == Some(HANDLE)) {
        runner.run(&["tc", "qdisc", "del", "dev", interface, "root"], SOON)?;
    }
    Ok(())
}

/// Reads our rules back.
///
/// # Errors
/// Where they can't be read.
pub fn check(
    interface: &str,
    rate_bits_per_s: Option<u64>,
    delay_us: Option<u32>,
) -> Result<EffectiveSettings, LabError> {
    let source = "tc -json qdisc show";
    let mut findings = Findings::new("network");
    let rules = rules(&Runner::default(), interface)?;
    let of = |kind: &str| rules.iter().find(|rule| rule["kind"].as_str() == Some(kind));
    if let Some(requested) = rate_bits_per_s {
        // In bytes per second.
        let found = of("tbf").and_then(|rule| rule["options"]["rate"].as_u64());
        let found = found.map_or_else(|| "none".to_owned(), |rate| (rate * 8).to_string());
        // The kernel counts in whole bytes.
        let requested = (requested / 8 * 8).to_string();
        findings.compare(&format!("bits per second from {interface}"), &requested, &found, source);
    }
    if let Some(requested) = delay_us {
        let delay = of("netem").and_then(|rule| rule["options"]["delay"]["delay"].as_f64());
        let found = delay.map_or_else(|| "none".to_owned(), |s| format!("{:.0}", s * 1_000_000.0));
        let name = format!("delay from {interface} in us");
        findings.compare(&name, &requested.to_string(), &found, source);
    }
    Ok(findings.done())
}

/// A bucket that a timer of 250 Hz keeps full: what the rate brings in 4 ms.
///
/// **Source:** tc-tbf(8), `burst`.
const fn burst_bytes(rate_bits_per_s: u64) -> u64 {
    let brought = rate_bits_per_s / 8 / 250;
    if brought > BURST_BYTES_MIN { brought } else { BURST_BYTES_MIN }
}

fn rule(interface: &str, place: &[String], words: &[&str]) -> Step {
    let mut argv: Vec<String> =
        ["tc", "qdisc", "add", "dev", interface].map(str::to_owned).to_vec();
    argv.extend_from_slice(place);
    argv.extend(words.iter().map(|word| (*word).to_owned()));
    Step::run(argv)
}

fn rules(runner: &Runner, interface: &str) -> Result<Vec<Value>, LabError> {
    let argv = ["tc", "-json", "qdisc", "show", "dev", interface];
    json(&argv, &runner.run(&argv, SOON)?)
}

fn mtu(interface: &str) -> Result<u32, LabError> {
    let argv = ["ip", "-json", "link", "show", "dev", interface];
    let links = json(&argv, &Runner::default().run(&argv, SOON)?)?;
    let mtu = links.first().and_then(|link| u32::try_from(link["mtu"].as_u64()?).ok());
    mtu.ok_or_else(|| LabError::Unable(format!("interface {interface} has no MTU")))
}

fn json(argv: &[&str], text: &str) -> Result<Vec<Value>, LabError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text).map_err(|error| {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string());
        LabError::file("understand", Path::new(&crate::commands::show(argv)), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rate: Option<u64>, delay: Option<u32>) -> Vec<String> {
        steps("eth0", rate, delay).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_rate_below_a_delay_is_its_child() {
        let alone = "tc qdisc add dev eth0 root handle df5: tbf rate 100000000bit burst 65536 \
                     latency 50000us";
        assert_eq!(shown(Some(100_000_000), None), [alone]);
        let both = shown(Some(8_000_000_000), Some(500));
        assert_eq!(
            both[0],
            "tc qdisc add dev eth0 root handle df5: netem delay 500us limit 100000"
        );
        assert!(both[1].contains("parent df5:1 handle df6: tbf rate 8000000000bit burst 4000000"));
        assert_eq!(shown(None, None), [""; 0]);
    }
}
