//! Limits the traffic that leaves an interface: a token bucket for the rate, netem for the delay.
//!
//! Fails if the interface already has rules. **Source:** tc(8), tc-tbf(8), tc-netem(8).

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::Shape;
use model::options::check_interface;
use serde_json::Value;

use super::LabAction;
use super::accept::accept;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::Runner;
use crate::error::LabError;
use crate::host::interfaces::{self, HANDLE, INNER};
use crate::undo::Undo;

const SOURCE: &str = "tc -json qdisc show";
/// Maximum time in the queue, in microseconds. Packets that would wait longer are dropped.
const QUEUE_US: u64 = 50_000;
/// Minimum bucket size in bytes: one packet of the maximum size with segmentation offload.
const BURST_BYTES_MIN: u64 = 65_536;
/// Maximum number of packets in the delay queue.
const DELAYED_MAX: &str = "100000";

impl LabAction for Shape {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        accept("interface", check_interface(&self.interface))
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        let mut steps = Vec::new();
        let inner_parent = format!("{HANDLE}1");
        let mut place: &[&str] = &["root", "handle", HANDLE];
        let below_delay = ["parent", &inner_parent, "handle", INNER];
        // The delay is at the root with the bucket below it, as shown in tc-netem(8).
        if let Some(delay_us) = self.delay_us {
            let delay = format!("{delay_us}us");
            steps.push(add_qdisc(
                &self.interface,
                place,
                &["netem", "delay", &delay, "limit", DELAYED_MAX],
            ));
            place = &below_delay;
        }
        if let Some(rate) = self.rate_bits_per_s {
            let burst = burst_bytes(rate).to_string();
            let rate = format!("{rate}bit");
            let latency = format!("{QUEUE_US}us");
            let bucket = ["tbf", "rate", &rate, "burst", &burst, "latency", &latency];
            steps.push(add_qdisc(&self.interface, place, &bucket));
        }
        steps
    }

    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        undo_rules(&self.interface)
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let interface = &self.interface;
        let mut findings = Findings::new("network");
        let rules = interfaces::rules(&Runner::default(), interface)?;
        if let Some(rate) = self.rate_bits_per_s {
            // tc prints bytes per second, and the kernel uses whole bytes.
            let requested = (rate / 8 * 8).to_string();
            let found = match option_of(&rules, "tbf", "rate").as_u64() {
                Some(bytes_per_s) => (bytes_per_s * 8).to_string(),
                None => "none".to_owned(),
            };
            let name = format!("bits per second from {interface}");
            findings.compare(&name, &requested, &found, SOURCE);
        }
        if let Some(delay_us) = self.delay_us {
            let found = match option_of(&rules, "netem", "delay")["delay"].as_f64() {
                Some(delay_s) => format!("{:.0}", delay_s * 1_000_000.0),
                None => "none".to_owned(),
            };
            let name = format!("delay from {interface} in us");
            findings.compare(&name, &delay_us.to_string(), &found, SOURCE);
        }
        Ok(findings.finish())
    }
}

/// Returns the step that adds a queueing discipline to an interface.
pub(crate) fn add_qdisc(interface: &str, place: &[&str], words: &[&str]) -> Step {
    let mut argv = vec!["tc", "qdisc", "add", "dev", interface];
    argv.extend(place);
    argv.extend(words);
    Step::run(argv)
}

/// Returns how to remove our rules from an interface.
///
/// # Errors
/// If the interface doesn't exist or has rules that aren't ours.
pub(crate) fn undo_rules(interface: &str) -> Result<Vec<Undo>, LabError> {
    for rule in interfaces::rules(&Runner::default(), interface)? {
        // The kernel's default rules have handle 0.
        if let Some(handle) = rule["handle"].as_str()
            && handle != "0:"
        {
            let kind = rule["kind"].as_str().unwrap_or("?");
            return Err(LabError::Refused(format!(
                "{interface} already has a tc rule ({kind}), not created by dfsbench; `tc qdisc \
                 del dev {interface} root` removes it"
            )));
        }
    }
    Ok(vec![Undo::Shape { interface: interface.to_owned() }])
}

/// Returns an option of the first rule of a kind, or null if there is none.
fn option_of<'r>(rules: &'r [Value], kind: &str, name: &str) -> &'r Value {
    for rule in rules {
        if rule["kind"].as_str() == Some(kind) {
            return &rule["options"][name];
        }
    }
    &Value::Null
}

/// Returns the bucket size that a 250 Hz timer can keep full: the bytes sent in 4 ms.
///
/// **Source:** tc-tbf(8), `burst`.
const fn burst_bytes(rate_bits_per_s: u64) -> u64 {
    let brought = rate_bits_per_s / 8 / 250;
    if brought > BURST_BYTES_MIN { brought } else { BURST_BYTES_MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rate: Option<u64>, delay: Option<u32>) -> Vec<String> {
        let shape = Shape { interface: "eth0".to_owned(), rate_bits_per_s: rate, delay_us: delay };
        shape.steps(&()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nests_rate_below_delay() {
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
