//! Describes what a capture missed: one sentence with the missing share.
//!
//! `capture` prints it at the end, `describe` before anything else.

use trace::Counters;

/// Advice if the snap length cut off the beginning of messages. NICs merge segments into packets of
/// up to 64 KiB, so only the first message of a packet has its head at the start of the packet.
pub(crate) const CUT_HINT: &str = "truncated packets contained several messages; capture whole packets \
    (tcpdump -s 0, or dfsbench capture --interface), or turn off packet coalescing (ethtool -K \
    eth0 gro off tso off)";

/// Describes how much of the traffic is missing, and which parts; `None` for a complete trace.
pub(crate) fn describe(counters: &Counters) -> Option<String> {
    let mut gaps = Vec::new();
    for (count, one, many) in [
        (counters.replies_without_call, "reply without its call", "replies without their call"),
        (counters.calls_without_reply, "call without its reply", "calls without their reply"),
        (
            counters.packets_dropped,
            "packet dropped by the kernel (hint: tcpdump -B with a larger buffer)",
            "packets dropped by the kernel (hint: tcpdump -B with a larger buffer)",
        ),
        (
            counters.packets_unreadable,
            "packet with unreadable headers",
            "packets with unreadable headers",
        ),
        (
            counters.fragments_incomplete,
            "IP packet with missing fragments",
            "IP packets with missing fragments",
        ),
        (
            counters.captures_cut,
            "capture that ends within a packet",
            "captures that end within a packet",
        ),
        (counters.segments_lost, "gap in TCP streams", "gaps in TCP streams"),
        (counters.bytes_lost, "byte in gaps", "bytes in gaps"),
        (
            counters.bytes_unsynchronized,
            "byte skipped (no RPC record found)",
            "bytes skipped (no RPC record found)",
        ),
        (
            counters.messages_malformed,
            "message that could not be decoded",
            "messages that could not be decoded",
        ),
        (counters.messages_cut, "message cut short", "messages cut short"),
    ] {
        match count {
            0 => {}
            1 => gaps.push(format!("1 {one}")),
            _ => gaps.push(format!("{count} {many}")),
        }
    }
    let mut sentences = describe_import(counters);
    if !gaps.is_empty() {
        let share = percent(counters.missing_share());
        sentences.push(format!("{share} of the traffic is missing: {}", gaps.join(", ")));
    }
    if sentences.is_empty() { None } else { Some(sentences.join("; ")) }
}

/// Describes what the trace of a program lacks; how much is unknown.
fn describe_import(counters: &Counters) -> Vec<String> {
    let mut sentences = Vec::new();
    match counters.files_mapped {
        0 => {}
        1 => sentences.push("1 file was mapped; its I/O is not in the trace".to_owned()),
        many => sentences.push(format!("{many} files were mapped; their I/O is not in the trace")),
    }
    match counters.calls_not_imported {
        0 => {}
        1 => sentences.push("1 system call has no counterpart".to_owned()),
        many => sentences.push(format!("{many} system calls have no counterpart")),
    }
    sentences
}

/// Returns advice if the snap length cut off whole messages.
pub(crate) fn cut_hint(counters: &Counters) -> Option<&'static str> {
    (counters.bytes_cut > 0 && counters.times_unsynchronized > 0).then_some(CUT_HINT)
}

/// Formats a share with two digits; a tiny share is never shown as zero.
fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent < 0.1 => "less than 0.1 %".to_owned(),
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_gaps_with_their_share() {
        assert_eq!(describe(&Counters { calls: 9, replies: 9, ..Counters::default() }), None);
        let counters = Counters {
            calls: 736,
            replies: 735,
            calls_without_reply: 1,
            replies_without_call: 511,
            ..Counters::default()
        };
        let dropped = Counters { packets: 9, packets_dropped: 1, ..Counters::default() };
        let few = Counters { wire_bytes: 1_000_000, bytes_lost: 1, ..Counters::default() };
        let gaps = [counters, dropped, few].map(|counters| describe(&counters).unwrap());
        insta::assert_snapshot!(gaps.join("\n"));
    }
}
