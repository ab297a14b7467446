//! Checks RPC-over-TLS from outside: a NULL call that asks for it in the clear, the answer that
//! grants it, and TLS records from there on, to the last byte.
//!
//! tshark doesn't follow the change from RPC to TLS, so a capture is dissected twice. The main type
//! is [`TlsCapture`].
//!
//! **Source:** RFC 9289 sections 4.1 and 5; Wireshark display filter reference, "rpc", "tls".

use anyhow::{Result, ensure};

use crate::capture::{Capture, parse_numbers};

/// Flavor of the call that asks for TLS. **Source:** RFC 9289 section 4.1.
const AUTH_TLS: u32 = 7;
/// Bytes of the call that asks for TLS, and of its answer, with their record marks.
const PROBE_BYTES: u64 = 44 + 36;
/// Length of a TLS record header. **Source:** RFC 8446 section 5.1.
const RECORD_HEAD_BYTES: u64 = 5;

const AS_RPC: [&str; 4] = ["rpc.msgtyp", "rpc.auth.flavor", "rpc.procedure", "_ws.malformed"];
const AS_TLS: [&str; 7] = [
    "tcp.len",
    "tls.record.length",
    "_ws.malformed",
    "tls.alert_message",
    // If the capture lost something, the bytes can't be added up.
    "tcp.analysis.lost_segment",
    "tcp.analysis.ack_lost_segment",
    "tcp.analysis.retransmission",
];

/// A capture of connections that all use TLS.
pub struct TlsCapture {
    as_rpc: String,
    as_tls: String,
}

impl TlsCapture {
    /// Ends a capture and dissects it.
    pub fn dissect(mut capture: Capture) -> Result<Self> {
        capture.end()?;
        Ok(Self {
            as_rpc: capture.dissect("rpc", &AS_RPC)?,
            as_tls: capture.dissect("tls", &AS_TLS)?,
        })
    }

    /// Returns true if the capture is complete.
    pub fn is_all_there(&self) -> bool {
        self.as_tls
            .lines()
            .all(|line| read_column(line, 4).is_empty() && read_column(line, 5).is_empty())
    }

    /// Checks that only the probes are in the clear, and that every other byte is TLS.
    ///
    /// # Errors
    /// The first problem found.
    pub fn check(&self) -> Result<()> {
        let probes = self.count_probes()?;
        let mut payload = 0;
        let mut again = 0;
        let mut records = 0;
        for line in self.as_tls.lines() {
            ensure!(read_column(line, 2).is_empty(), "malformed under TLS: {line:?}");
            ensure!(read_column(line, 3).is_empty(), "an alert in the clear: {line:?}");
            let len = read_column(line, 0).parse::<u64>().unwrap_or_default();
            payload += len;
            again += if read_column(line, 6).is_empty() { 0 } else { len };
            let lengths = parse_numbers(read_column(line, 1))?;
            records += lengths.iter().map(|len| u64::from(*len) + RECORD_HEAD_BYTES).sum::<u64>();
        }
        let secured = payload - PROBE_BYTES * probes;
        ensure!(records > 0, "no TLS record was seen");
        // A segment that a busy machine sent twice is in the capture twice, completely or in part.
        let counted = records..=records + again;
        ensure!(counted.contains(&secured), "{secured} bytes after the probes, {counted:?} of TLS");
        Ok(())
    }

    /// Counts the pairs of probe and answer; there must be no other RPC in the clear.
    fn count_probes(&self) -> Result<u64> {
        let mut calls = 0;
        let mut replies = 0;
        for line in self.as_rpc.lines().filter(|line| !read_column(line, 0).is_empty()) {
            ensure!(read_column(line, 3).is_empty(), "malformed in the clear: {line:?}");
            let flavors = parse_numbers(read_column(line, 1))?;
            match read_column(line, 0) {
                "0" => {
                    let asks = flavors.first() == Some(&AUTH_TLS) && read_column(line, 2) == "0";
                    ensure!(asks, "a call in the clear that does not ask for TLS: {line:?}");
                    calls += 1;
                }
                _ => replies += 1,
            }
        }
        ensure!(calls > 0 && calls == replies, "{calls} probes, {replies} answers");
        Ok(calls)
    }
}

fn read_column(line: &str, number: usize) -> &str {
    line.split('\t').nth(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secured(rpc: &str, tls: &str) -> Result<()> {
        TlsCapture { as_rpc: rpc.to_owned(), as_tls: tls.to_owned() }.check()
    }

    #[test]
    fn allows_only_probes_in_clear() {
        let rpc = "\t\t\t\n0\t7,0\t0\t\n1\t0\t0\t\n";
        let tls = "44\t\t\t\n36\t\t\t\n695\t122,1,557\t\t\n0\t\t\t\n";
        secured(rpc, tls).unwrap();
        for (from, to) in [("7,0\t0", "1,0\t0"), ("7,0\t0", "7,0\t1"), ("1\t0\t0\t\n", "")] {
            assert!(secured(&rpc.replacen(from, to, 1), tls).is_err(), "{from}");
        }
        for (from, to) in [("122", "121"), ("695\t122,1,557", "0\t"), ("557\t", "557\tMalformed")] {
            assert!(secured(rpc, &tls.replacen(from, to, 1)).is_err(), "{from}");
        }
    }
}
