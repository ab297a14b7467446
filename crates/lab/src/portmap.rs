//! Encodes and decodes a single portmapper request: the port of the MOUNT service.
//!
//! It deals only with the bytes of the call and its reply; the caller provides the connection, for
//! example through ssh. A reply comes from another host and may contain anything, so whatever isn't
//! a valid reply to our call is rejected. **Source:** RFC 1833, 3 (version 2, PMAPPROC_GETPORT);
//! RFC 5531, 9 to 11; RFC 1813, 5 (MOUNT).

pub const PORT: u16 = 111;
/// Size of a reply in bytes: the mark of its only fragment and seven words.
pub const REPLY_BYTES: usize = 4 + 7 * 4;

const XID: u32 = 0x6466_706d;
const PORTMAP: [u32; 3] = [100_000, 2, 3];
const MOUNT: u32 = 100_005;
const TCP: u32 = 6;
/// Mark of the last fragment, with 14 words.
const MARK: u32 = 0x8000_0000 | (14 * 4);

/// Returns the call that asks for the TCP port of a version of MOUNT.
pub fn mount_port_call(version: u32) -> Vec<u8> {
    let [program, program_version, get_port] = PORTMAP;
    // Mark, XID, call (0), RPC version 2, program, version and procedure; then credentials and
    // verifier, both AUTH_NONE with 0 bytes; then the mapping, with 0 for the port we are asking
    // for.
    [
        [MARK, XID, 0, 2, program, program_version, get_port].as_slice(),
        &[0, 0, 0, 0],
        &[MOUNT, version, TCP, 0],
    ]
    .concat()
    .into_iter()
    .flat_map(u32::to_be_bytes)
    .collect()
}

/// Returns the port from a reply (0 if the service isn't registered), or `None` if it isn't a valid
/// reply.
pub fn port_of(reply: &[u8]) -> Option<u16> {
    let (chunks, _) = reply.as_chunks::<4>();
    let words: Vec<u32> = chunks.iter().map(|word| u32::from_be_bytes(*word)).collect();
    // Mark, XID, reply (1), accepted (0), no verifier (AUTH_NONE, 0 bytes), success (0), port.
    match words[..] {
        [_, XID, 1, 0, 0, 0, 0, port] => u16::try_from(port).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_the_answer_and_nothing_else_is_one() {
        let reply = |words: [u32; 8]| words.map(u32::to_be_bytes).concat();
        let answer = [0x8000_001c, XID, 1, 0, 0, 0, 0, 41_234];
        assert_eq!(port_of(&reply(answer)), Some(41_234));
        assert_eq!(port_of(&reply(answer)[..31]), None);
        for (at, word) in [(1, 7), (2, 0), (3, 1), (6, 2), (7, 65_536)] {
            let mut other = answer;
            other[at] = word;
            assert_eq!(port_of(&reply(other)), None, "word {at}");
        }
    }

    #[test]
    fn a_call_is_one_fragment_of_its_length() {
        let call = mount_port_call(3);
        assert_eq!(call.len(), 4 + 14 * 4);
        assert_eq!(call[..4], [0x80, 0, 0, 56]);
        assert_eq!(call[44..], [0, 1, 0x86, 0xa5, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 0]);
    }
}
