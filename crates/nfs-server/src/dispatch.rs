//! Carries one request through the planned faults.
//!
//! [`handle_request`] executes a request and decides on its reply: sent now, later, twice or never.
//! It is the same for streams and datagrams, which differ only in how a reply is sent.

use nfs_proto::server::Request;

use crate::clock::monotonic_ns;
use crate::fault::{CallOutcome, CappedBytes, DamagedReply, FaultKind, FaultState, damage};
use crate::origin::Origin;
use crate::outbox::Outbox;
use crate::service::Service;

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum RequestOutcome {
    /// It is answered.
    Reply {
        reply: Outbox,
        /// Nanoseconds to wait before it is sent.
        hold_ns: u64,
        /// It is sent twice.
        twice: bool,
        /// The connection is closed after it.
        closes: bool,
    },
    /// It is not answered.
    Silence,
    /// The connection goes silent.
    Hang,
    /// The connection is closed.
    Close,
}

/// Executes a request under planned faults.
pub(crate) fn handle_request(
    service: &mut Service,
    faults: &mut Option<Box<FaultState>>,
    request: &Request<'_>,
    origin: &Origin,
) -> RequestOutcome {
    let Some(state) = faults else {
        let mut reply = Outbox::default();
        service.answer(request, origin, &mut reply);
        return RequestOutcome::Reply { reply, hold_ns: 0, twice: false, closes: false };
    };
    let (drop, delay_ns, twice) = match state.begin_call(&service.shared.faults) {
        CallOutcome::Execute { drop, delay_ns, duplicate } => (drop, delay_ns, duplicate),
        CallOutcome::Hang => {
            service.counters.fault(FaultKind::Hang);
            return RequestOutcome::Hang;
        }
        CallOutcome::Close => {
            service.counters.fault(FaultKind::Close);
            return RequestOutcome::Close;
        }
    };
    // The payload counters belong to this thread, so their growth is the payload of this call.
    let payload_before = payload_bytes(service);
    let mut reply = Outbox::default();
    // The service owns the fault state meanwhile: each operation of a compound draws from it.
    service.faults = faults.take();
    service.answer(request, origin, &mut reply);
    *faults = service.faults.take();
    let service_time_ns = faults.as_ref().map_or(0, |state| state.service_time_ns());
    let counters = &service.counters;
    if drop {
        counters.fault(FaultKind::Drop);
        return RequestOutcome::Silence;
    }
    if reply.bytes() == 0 {
        return RequestOutcome::Silence;
    }
    let payload = payload_bytes(service) - payload_before;
    let pipe_ns = bandwidth_delay_ns(service, payload, (service.call_bytes + reply.bytes()) as u64);
    let strikes = [
        (FaultKind::ServiceTime, service_time_ns > 0),
        (FaultKind::Delay, delay_ns > 0),
        (FaultKind::Duplicate, twice),
        (FaultKind::Bandwidth, pipe_ns > 0),
    ];
    for (kind, struck) in strikes {
        if struck {
            counters.fault(kind);
        }
    }
    // The pipe transmits replies while they are being served, so the longer of the two times
    // counts, not their sum.
    let hold_ns = service_time_ns.saturating_add(delay_ns).max(pipe_ns);
    // A retransmission must not be answered from the cache before the original reply has been sent.
    if hold_ns > 0 {
        service.hold_repeats(hold_ns);
    }
    let plan = service.shared.faults.damage;
    let DamagedReply { reply, struck, closes } = match faults {
        Some(state) => damage(&plan, state, reply, origin.transport),
        None => DamagedReply { reply, struck: None, closes: false },
    };
    if let Some(kind) = struck {
        service.counters.fault(kind);
    }
    RequestOutcome::Reply { reply, hold_ns, twice, closes }
}

/// Payload of READ and WRITE so far, in bytes.
fn payload_bytes(service: &Service) -> u64 {
    service.counters.payload_read_bytes.get() + service.counters.payload_written_bytes.get()
}

/// How long the bandwidth cap holds back a reply, in nanoseconds.
fn bandwidth_delay_ns(service: &Service, payload_bytes: u64, wire_bytes: u64) -> u64 {
    let Some(cap) = service.shared.faults.bandwidth else { return 0 };
    let bytes = match cap.counts {
        CappedBytes::Payload => payload_bytes,
        CappedBytes::Wire => wire_bytes,
    };
    if bytes == 0 {
        return 0;
    }
    let now_ns = monotonic_ns();
    service.shared.pipe.reserve(bytes, cap, now_ns).saturating_sub(now_ns)
}
