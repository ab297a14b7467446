//! Drops all packets that leave an interface from one port, as a fault during a soak.
//!
//! Only traffic from the NFS port is cut, so the connection through which the host is controlled
//! stays up and can end the fault. **Source:** tc-prio(8), tc-netem(8), tc-u32(8).

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::Cut;
use model::options::check_interface;

use super::LabAction;
use super::accept::accept;
use super::shape::{add_qdisc, undo_rules};
use crate::actions::step::Step;
use crate::error::LabError;
use crate::host::interfaces::{HANDLE, INNER};
use crate::undo::Undo;

impl LabAction for Cut {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        accept("interface", check_interface(&self.interface))
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        let interface = &self.interface;
        // The usual three bands, plus a fourth one that only our filters select: for packets that
        // match no filter, prio's default map uses the first three bands.
        let fourth = format!("{HANDLE}4");
        vec![
            add_qdisc(interface, &["root", "handle", HANDLE], &["prio", "bands", "4"]),
            add_qdisc(interface, &["parent", &fourth, "handle", INNER], &["netem", "loss", "100%"]),
            filter(self, "ip", "ip", "1"),
            // A separate filter, since u32 matches the header of one IP version.
            filter(self, "ipv6", "ip6", "2"),
        ]
    }

    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        undo_rules(&self.interface)
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        Ok(EffectiveSettings::default())
    }
}

/// Returns the step that directs packets from the port to the fourth band.
fn filter(cut: &Cut, protocol: &str, header: &str, priority: &str) -> Step {
    let class = format!("{HANDLE}4");
    let port = cut.port.to_string();
    Step::run([
        "tc",
        "filter",
        "add",
        "dev",
        cut.interface.as_str(),
        "parent",
        HANDLE,
        "protocol",
        protocol,
        "prio",
        priority,
        "u32",
        "match",
        header,
        "sport",
        &port,
        "0xffff",
        "flowid",
        &class,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_only_packets_from_port() {
        let cut = Cut { interface: "eth0".to_owned(), port: 2_049 };
        let steps: Vec<String> = cut.steps(&()).iter().map(ToString::to_string).collect();
        assert_eq!(
            steps,
            [
                "tc qdisc add dev eth0 root handle df5: prio bands 4",
                "tc qdisc add dev eth0 parent df5:4 handle df6: netem loss 100%",
                "tc filter add dev eth0 parent df5: protocol ip prio 1 u32 match ip sport 2049 \
                 0xffff flowid df5:4",
                "tc filter add dev eth0 parent df5: protocol ipv6 prio 2 u32 match ip6 sport 2049 \
                 0xffff flowid df5:4",
            ]
        );
    }
}
