//! TLS in the kernel: whether software or network devices encrypt.
//!
//! **Source:** Documentation/networking/tls.rst of Linux, "Statistics".

use std::fs;

use model::Fact;

use crate::mounts::Mount;

pub(crate) const STATISTICS: &str = "/proc/net/tls_stat";

/// Current sessions that send, in software and on devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TlsSessions {
    pub software: u64,
    pub device: u64,
}

impl TlsSessions {
    /// Parses the kernel's statistics. Returns `None` if they don't have both numbers.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let count = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            if line.starts_with(char::is_whitespace) { line.trim().parse().ok() } else { None }
        };
        Some(Self { software: count("TlsCurrTxSw")?, device: count("TlsCurrTxDevice")? })
    }
}

/// Collects the facts about a mount with TLS; none for other mounts.
pub(crate) fn facts(scope: &str, mount: &Mount) -> Vec<Fact> {
    if mount.option("xprtsec").is_none_or(|level| level == "none") {
        return Vec::new();
    }
    let text = fs::read_to_string(STATISTICS).unwrap_or_default();
    let Some(TlsSessions { software, device }) = TlsSessions::parse(&text) else {
        return Vec::new();
    };
    let value = format!("{software} in software, {device} on network devices");
    vec![Fact::new(scope, "TLS sessions of this host", value, STATISTICS)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_current_sessions() {
        let text = "TlsCurrTxSw                     \t3\nTlsCurrRxSw                     \t9\n\
                    TlsCurrTxDevice                 \t1\nTlsTxSw                         \t7\n";
        assert_eq!(TlsSessions::parse(text), Some(TlsSessions { software: 3, device: 1 }));
        assert_eq!(TlsSessions::parse("TlsCurrTxSwitch 3\nTlsCurrTxDevice 1\n"), None);
        assert_eq!((TlsSessions::parse(""), TlsSessions::parse("TlsCurrTxSw x")), (None, None));
    }
}
