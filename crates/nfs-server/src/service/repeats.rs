//! Calls that must not be executed twice.
//!
//! [`key_of`] selects them: those of v2, v3 and v4.0 that change names or attributes. WRITE is not
//! among them, since writing the same data at the same offset changes nothing, nor is anything of
//! v4.1 and later, which has sessions for that. **Source:** RFC 1813 section 4.4, RFC 7530 section
//! 9.1.7.

use nfs_proto::server::Request;
use nfs_proto::{nfs4, program};

use super::Service;
use crate::clock::monotonic_ns;
use crate::fs::Caller;
use crate::origin::Origin;
use crate::outbox::Outbox;
use crate::replies::{CallKey, CallLookup, Replies};

/// Bytes of a call that its checksum covers: header, credential and most arguments.
const SUM_BYTES: usize = 256;

/// Returns the key of a call whose reply is to be kept.
pub(super) fn key_of(
    replies: &Replies,
    request: &Request<'_>,
    call: &program::Call<'_>,
    origin: &Origin,
) -> Option<CallKey> {
    if !replies.is_on() || !is_once_only(call) {
        return None;
    }
    Some(CallKey {
        peer: origin.peer,
        xid: request.xid,
        procedure: call.procedure_id(),
        sum: checksum(&request.record[..request.record.len().min(SUM_BYTES)]),
    })
}

fn is_once_only(call: &program::Call<'_>) -> bool {
    match call {
        program::Call::Nfs2(call) => call.procedure().is_once_only(),
        program::Call::Nfs3(call) => call.procedure().is_once_only(),
        program::Call::Nfs4(nfs4::Call::Compound(compound)) => {
            compound.minor == 0 && compound.ops().flatten().any(|op| op.code().is_once_only())
        }
        _ => false,
    }
}

/// Adler-32: cheap, and good enough to tell two calls apart. **Source:** RFC 1950 section 9.
fn checksum(bytes: &[u8]) -> u32 {
    // No overflow: 256 bytes of 255 give less than 2^24.
    let mut low = 1_u32;
    let mut high = 0_u32;
    for byte in bytes {
        low += u32::from(*byte);
        high += low;
    }
    ((high % 65_521) << 16) | (low % 65_521)
}

impl Service {
    /// Executes a call if it is new; otherwise repeats its reply or ignores it.
    pub(super) fn carry_out_once(
        &mut self,
        key: CallKey,
        call: &program::Call<'_>,
        caller: Caller,
        origin: &Origin,
        xid: u32,
        out: &mut Outbox,
    ) {
        match self.shared.replies.begin(key, monotonic_ns()) {
            CallLookup::New => {
                self.counters.cache_misses.add(1);
                let mut reply = Outbox::default();
                self.carry_out(call, caller, origin, xid, &mut reply);
                self.shared.replies.keep(key, reply.to_vec());
                out.append(reply);
            }
            CallLookup::Answered(reply) => {
                self.counters.cache_hits.add(1);
                out.head().extend_from_slice(&reply);
                out.seal();
            }
            CallLookup::Busy => self.counters.cache_busy.add(1),
        }
    }

    /// Records that the current reply is held back, so that repeats are ignored until then.
    pub(crate) fn hold_repeats(&self, hold_ns: u64) {
        if let Some(key) = self.repeatable {
            self.shared.replies.hold(key, monotonic_ns().saturating_add(hold_ns));
        }
    }
}
