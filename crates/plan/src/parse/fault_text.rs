//! Writes planned faults as text.
//!
//! The text parses back to the same fault, which the tests of plans verify.

use std::fmt;

use crate::syntax::fault::{
    Calls, CappedBytes, ChangingVerifier, ClaimedStability, CopyFault, DataServerFate,
    EndlessListing, PartsPerMillion, PlannedFault, ServiceTime,
};
use crate::syntax::text::{size, time_ns};

impl PlannedFault {
    /// The value as written in a plan; empty if the kind takes no value.
    pub fn value(self) -> String {
        match self {
            Self::ServiceTime { time, calls: Calls::All } => service_time(time),
            Self::ServiceTime { time, calls } => format!("{} on {calls}", service_time(time)),
            Self::Bandwidth { bytes_per_s, counts, burst_bytes } => {
                let wire = if counts == CappedBytes::Wire { " wire" } else { "" };
                let after = match burst_bytes {
                    0 => String::new(),
                    burst_bytes => format!(" after {}", size(burst_bytes)),
                };
                format!("{}/s{wire}{after}", size(bytes_per_s))
            }
            Self::SlowFile { number, time_ns: late } => format!("{number} {}", time_ns(late)),
            Self::Drop(share)
            | Self::Duplicate(share)
            | Self::ShortReads(share)
            | Self::ShortWrites(share)
            | Self::LoseWrites(share)
            | Self::WrongXid(share)
            | Self::OversizedRecords(share) => percent(share),
            Self::Delay { share, time_ns: late } => {
                format!("{} {}", percent(share), time_ns(late))
            }
            Self::WriteStability(ClaimedStability::Unstable) => "UNSTABLE".to_owned(),
            Self::WriteStability(ClaimedStability::FileSync) => "FILE_SYNC".to_owned(),
            Self::Error { calls, error, share } => {
                format!("{calls} {error} {}", percent(share))
            }
            Self::Stall { lasts_ns, at_ns } => {
                format!("{} at {}", time_ns(lasts_ns), time_ns(at_ns))
            }
            Self::Restart { at_ns } => format!("at {}", time_ns(at_ns)),
            Self::Layouts { fate, at_ns } => format!("{} at {}", fate.name(), time_ns(at_ns)),
            Self::DataServer { number, fate } => match fate {
                DataServerFate::Slow { time_ns: late } => {
                    format!("{number} slow {}", time_ns(late))
                }
                DataServerFate::Hang { lasts_ns: None, at_ns } => {
                    format!("{number} hang at {}", time_ns(at_ns))
                }
                DataServerFate::Hang { lasts_ns: Some(lasts_ns), at_ns } => {
                    format!("{number} hang {} at {}", time_ns(lasts_ns), time_ns(at_ns))
                }
                DataServerFate::Die { at_ns } => format!("{number} die at {}", time_ns(at_ns)),
            },
            Self::LoseUnstable
            | Self::LoseCommitted
            | Self::RefuseMount
            | Self::ReservedPorts
            | Self::MinorIds
            | Self::DirectoryLoops
            | Self::SymlinkLoops => String::new(),
            Self::HangFromClients(n)
            | Self::HangAfter(n)
            | Self::CloseAfter(n)
            | Self::ChangingHandles(n) => n.to_string(),
            Self::EndlessReaddir(EndlessListing::RepeatedCookies) => "cookies".to_owned(),
            Self::EndlessReaddir(EndlessListing::InventedNames) => "names".to_owned(),
            Self::Trickle(bytes_per_s) => format!("{}/s", size(bytes_per_s)),
            Self::Copies(CopyFault::Synchronous) => "synchronous".to_owned(),
            Self::Copies(CopyFault::Unreported) => "unreported".to_owned(),
            Self::ChangingVerifier(ChangingVerifier::EveryCommit) => "COMMIT".to_owned(),
            Self::ChangingVerifier(ChangingVerifier::EveryWrite) => "WRITE".to_owned(),
            Self::SessionSlots(slots) => slots.to_string(),
            Self::LoseLast(writes) => writes.to_string(),
            Self::CutReplies { share, close } => {
                format!("{}{}", percent(share), if close { " close" } else { "" })
            }
            Self::IdleClose(time) | Self::Grace(time) => time_ns(time),
            Self::ReadSize(bytes) | Self::WriteSize(bytes) => size(bytes.into()),
        }
    }

    /// The whole fault as written on the command line.
    pub fn text(self) -> String {
        let text = format!("{} {}", self.kind().replace('_', "-"), self.value());
        text.trim_end().to_owned()
    }
}

fn service_time(time: ServiceTime) -> String {
    match time {
        ServiceTime::Fixed { time_ns: fixed } => time_ns(fixed),
        ServiceTime::Uniform { min_ns, max_ns } => {
            format!("uniform {} {}", time_ns(min_ns), time_ns(max_ns))
        }
        ServiceTime::Exponential { mean_ns } => format!("exponential {}", time_ns(mean_ns)),
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Named { version: Some(version), name } => write!(f, "v{version}.{name}"),
            Self::Named { version: None, name } => f.write_str(name),
        }
    }
}

fn percent(share: PartsPerMillion) -> String {
    let whole = share.0 / 10_000;
    let rest = share.0 % 10_000;
    if rest == 0 {
        return format!("{whole}%");
    }
    let fraction = format!("{rest:04}");
    format!("{whole}.{}%", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use crate::parse::fault::{check_faults, parse_fault};
    use crate::syntax::fault::KINDS;

    const EXAMPLES: [&str; 58] = [
        "slow-file 3 5ms",
        "service-time 200us",
        "service-time uniform 100us 1ms",
        "service-time exponential 1500ns",
        "service-time 1ms on v3.READ",
        "bandwidth 100000000B/s",
        "bandwidth 12MiB/s wire",
        "bandwidth 2MiB/s after 24MiB",
        "bandwidth 2MiB/s wire after 24MiB",
        "drop 0.1%",
        "delay 5% 200ms",
        "duplicate 100%",
        "short-reads 50%",
        "short-writes 0.0001%",
        "write-stability UNSTABLE",
        "write-stability FILE_SYNC",
        "error READ IO 1%",
        "error v4.OPEN GRACE 50%",
        "error all STALE 12.5%",
        "stall 5s at 10s",
        "restart at 1500ms",
        "lose-unstable",
        "lose-committed",
        "lose-writes 1%",
        "lose-last 3",
        "hang-from-clients 40",
        "hang-after 3000",
        "close-after 100",
        "idle-close 2s",
        "refuse-mount",
        "reserved-ports",
        "minor-ids",
        "read-size 64KiB",
        "write-size 8KiB",
        "restart at 2s",
        "grace 10s",
        "endless-readdir cookies",
        "endless-readdir names",
        "trickle 1B/s",
        "changing-verifier COMMIT",
        "changing-verifier WRITE",
        "copies synchronous",
        "copies unreported",
        "session-slots 1",
        "wrong-xid 100%",
        "cut-replies 10%",
        "cut-replies 10% close",
        "oversized-records 1%",
        "directory-loops",
        "symlink-loops",
        "changing-handles 100",
        "data-server 1 slow 3ms",
        "data-server 2 hang at 4s",
        "data-server 2 hang 3s at 4s",
        "data-server 64 die at 5s",
        "layouts recall at 6s",
        "layouts revoke at 7s",
        "layouts fence at 8s",
    ];

    #[test]
    fn what_is_written_reads_back() {
        let faults = EXAMPLES.map(|text| parse_fault(text).expect(text));
        for (fault, text) in faults.iter().zip(EXAMPLES) {
            assert_eq!(fault.text(), text);
        }
        for kind in &KINDS {
            assert!(faults.iter().any(|fault| fault.kind() == kind.name), "{}", kind.name);
        }
        let loose = parse_fault("  error  read NFS3ERR_io 1.0%").unwrap();
        assert_eq!(loose.text(), "error READ IO 1%");
        assert_eq!(parse_fault("bandwidth 100MB/s").unwrap().text(), "bandwidth 100000000B/s");
    }

    #[test]
    fn accepts_every_fault_kind() {
        let page = crate::reference_page();
        for kind in &KINDS {
            assert!(page.contains(&format!("| `{}` |", kind.name)), "{}", kind.name);
        }
    }

    #[test]
    fn rejects_bad_fault_with_form() {
        let errors = [
            "drpo 1%",
            "drop",
            "drop 1",
            "drop 101%",
            "refuse-mount yes",
            "error RAED IO 1%",
            "error v5.READ IO 1%",
            "service-time uniform 2ms 1ms",
            "bandwidth 0B/s",
            "lose-last 1000001",
            "session-slots 0",
            "trickle 0B/s",
            "changing-verifier READ",
            "read-size 2MiB",
            "stall 5s",
        ]
        .map(|text| format!("{text}\n  {}", parse_fault(text).unwrap_err()));
        insta::assert_snapshot!(errors.join("\n"));
        let clash = |texts: &[&str]| {
            let faults: Vec<_> = texts.iter().map(|text| parse_fault(text).unwrap()).collect();
            check_faults(&faults).map_err(|error| error.to_string())
        };
        assert_eq!(clash(&EXAMPLES[1..2]), Ok(()));
        assert_eq!(clash(&["restart at 1s", "restart at 2s", "error READ IO 1%"]), Ok(()));
        insta::assert_snapshot!(
            clash(&["drop 1%", "drop 2%"]).unwrap_err(),
            @"--fault: `drop 2%` conflicts with an earlier one (hint: set each once)"
        );
        assert!(clash(&["service-time 1ms", "service-time 2ms on READ"]).is_ok());
        assert!(clash(&["service-time 1ms", "service-time 2ms"]).is_err());
    }
}
