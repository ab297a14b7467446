//! The backchannel of one session: recalls on their way to the client.
//!
//! A [`Backchannel`] has one slot, so one recall is in flight and others wait behind it. It may use
//! each connection that is bound to it, and takes the one that was bound last. Where that is lost
//! before the reply has come, the same call is sent again over another one, with the same number,
//! so that the client carries it out once.
//!
//! **Source:** RFC 8881 sections 2.10.3.1, 2.10.6, 20.2 and 20.9.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use nfs_proto::nfs4::{
    CALLBACK_VERSION, CallbackOp, CallbackSecurity, ChannelAttributes, List, SessionId,
    encode_callback,
};
use nfs_proto::record;
use nfs_proto::rpc::{AuthSys, CallHeader, Credential, Groups, RPC_VERSION};
use nfs_proto::xdr::Writer;

use super::held_state::State;
use crate::callback_line::CallbackLine;
use crate::sync;

/// The procedure CB_COMPOUND. **Source:** RFC 8881 section 20.
const CB_COMPOUND: u32 = 1;
/// Operations of a recall: CB_SEQUENCE and CB_RECALL.
const RECALL_OPERATIONS: u32 = 2;

/// Program, version and credential of calls to a client, as the client chose them.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallbackCaller {
    program: u32,
    minor: u32,
    user: Option<CallbackUser>,
}

/// The body of an AUTH_SYS credential, kept.
#[derive(Clone, Debug)]
struct CallbackUser {
    stamp: u32,
    machine_name: Vec<u8>,
    uid: u32,
    gid: u32,
    groups: Groups,
}

/// The outcome of a recall that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecallReply {
    /// The client knows the delegation and will return it.
    Confirmed,
    /// It has taken the call and refuses the recall.
    Failed,
    /// It has not taken the call: its number counts as unused.
    NotTaken,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Backchannel {
    session: [u8; 16],
    /// Whether the client granted a slot and room for a recall.
    is_usable: bool,
    /// Whether a connection was ever bound to it.
    was_bound: AtomicBool,
    traffic: Mutex<Traffic>,
}

#[derive(Debug, Default)]
struct Traffic {
    caller: CallbackCaller,
    lines: Vec<Weak<CallbackLine>>,
    /// Calls that the client has taken.
    taken: u32,
    in_flight: Option<InFlight>,
    waiting: VecDeque<Arc<State>>,
}

#[derive(Debug)]
struct InFlight {
    delegation: Arc<State>,
    line: Weak<CallbackLine>,
}

impl CallbackCaller {
    /// Takes the program of a client and the first credential that it offers for AUTH_SYS; without
    /// one callbacks are anonymous.
    pub(crate) fn new(program: u32, minor: u32, security: &List<'_, CallbackSecurity<'_>>) -> Self {
        let mut user = None;
        for offered in security.iter() {
            if let CallbackSecurity::Sys(sys) = offered
                && user.is_none()
            {
                user = Some(CallbackUser {
                    stamp: sys.stamp,
                    machine_name: sys.machine_name.to_vec(),
                    uid: sys.uid,
                    gid: sys.gid,
                    groups: sys.groups,
                });
            }
        }
        Self { program, minor, user }
    }

    fn credential(&self) -> Credential<'_> {
        match &self.user {
            None => Credential::None,
            Some(user) => Credential::Sys(AuthSys {
                stamp: user.stamp,
                machine_name: &user.machine_name,
                uid: user.uid,
                gid: user.gid,
                groups: user.groups,
            }),
        }
    }
}

impl Backchannel {
    /// Makes the backchannel of a session; no connection is bound to it yet.
    pub(super) fn new(session: [u8; 16], granted: &ChannelAttributes) -> Self {
        let is_usable = granted.requests_max > 0 && granted.operations_max >= RECALL_OPERATIONS;
        Self { session, is_usable, was_bound: AtomicBool::new(false), traffic: Mutex::default() }
    }

    /// Says how the client wants to be called.
    pub(crate) fn set_caller(&self, caller: CallbackCaller) {
        sync::lock(&self.traffic).caller = caller;
    }

    /// Adds a connection.
    pub(super) fn bind(&self, line: &Arc<CallbackLine>) {
        let mut traffic = sync::lock(&self.traffic);
        traffic.lines.retain(|bound| {
            bound.strong_count() > 0 && !std::ptr::eq(bound.as_ptr(), Arc::as_ptr(line))
        });
        traffic.lines.push(Arc::downgrade(line));
        self.was_bound.store(true, Ordering::Relaxed);
        self.send_next(&mut traffic);
    }

    /// Whether a client can be called.
    pub(super) fn is_alive(&self) -> bool {
        self.is_usable && sync::lock(&self.traffic).live_line().is_some()
    }

    /// Whether the client wants to be called: it has bound a connection, which may be lost by now.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_usable && self.was_bound.load(Ordering::Relaxed)
    }

    /// Sends a recall, or has it wait for those before it; false where no connection is left.
    pub(super) fn recall(&self, delegation: &Arc<State>) -> bool {
        let mut traffic = sync::lock(&self.traffic);
        if !self.is_usable || traffic.live_line().is_none() {
            return false;
        }
        traffic.waiting.push_back(Arc::clone(delegation));
        self.send_next(&mut traffic);
        true
    }

    /// Sends a recall again whose connection is lost.
    pub(super) fn check_in_flight(&self) {
        self.send_next(&mut sync::lock(&self.traffic));
    }

    /// Ends the recall in flight, and sends the next one.
    pub(crate) fn note_reply(&self, reply: RecallReply) {
        let mut traffic = sync::lock(&self.traffic);
        let Some(ended) = traffic.in_flight.take() else { return };
        if reply != RecallReply::NotTaken {
            traffic.taken = traffic.taken.wrapping_add(1);
        }
        if let Some(delegation) = &ended.delegation.delegation {
            match reply {
                RecallReply::Confirmed => delegation.confirm_recall(),
                RecallReply::Failed | RecallReply::NotTaken => delegation.repeat_recall(),
            }
        }
        self.send_next(&mut traffic);
    }

    /// Leaves all recalls to other sessions of the client.
    pub(super) fn close(&self) {
        let mut traffic = sync::lock(&self.traffic);
        traffic.lines.clear();
        let in_flight = traffic.in_flight.take();
        traffic.waiting.extend(in_flight.map(|call| call.delegation));
        traffic.give_up();
    }

    /// Sends what is first in line, unless a call is in flight over a connection that lives.
    fn send_next(&self, traffic: &mut Traffic) {
        let mut is_repeated = false;
        if let Some(in_flight) = &traffic.in_flight {
            if in_flight.line.strong_count() > 0 {
                return;
            }
            // The client may have carried it out or not. The same call with the same number gets
            // it done once in both cases (RFC 8881 section 2.10.6.2).
            is_repeated = true;
        }
        let Some(line) = traffic.live_line() else { return traffic.give_up() };
        if is_repeated && let Some(in_flight) = traffic.in_flight.take() {
            traffic.waiting.push_front(in_flight.delegation);
        }
        while let Some(delegation) = traffic.waiting.pop_front() {
            // What was returned meanwhile need not be recalled.
            if !is_repeated && !delegation.is_live() {
                continue;
            }
            let sequence = traffic.taken.wrapping_add(1);
            line.call(self.session, |xid| {
                encode_recall(xid, &traffic.caller, self.session, sequence, &delegation)
            });
            let line = Arc::downgrade(&line);
            traffic.in_flight = Some(InFlight { delegation, line });
            return;
        }
    }
}

impl Traffic {
    /// The connection that was bound last, of those that live.
    fn live_line(&self) -> Option<Arc<CallbackLine>> {
        self.lines.iter().rev().find_map(Weak::upgrade)
    }

    /// Has those that wait sent again later, perhaps over another session. The call in flight, if
    /// there is one, is kept for its number.
    fn give_up(&mut self) {
        for state in self.waiting.drain(..) {
            if let Some(delegation) = &state.delegation {
                delegation.repeat_recall();
            }
        }
    }
}

fn encode_recall(
    xid: u32,
    caller: &CallbackCaller,
    session: [u8; 16],
    sequence: u32,
    state: &State,
) -> Vec<u8> {
    let mut call = Vec::new();
    let mark = record::begin(&mut call);
    let mut writer = Writer::new(&mut call);
    let header = CallHeader {
        xid,
        rpc_version: RPC_VERSION,
        program: caller.program,
        version: CALLBACK_VERSION,
        procedure: CB_COMPOUND,
        credential: Ok(caller.credential()),
    };
    header.encode(&mut writer);
    if let Some(delegation) = &state.delegation {
        let ops = [
            CallbackOp::Sequence {
                session: SessionId(session),
                sequence,
                slot: 0,
                highest_slot: 0,
                cache_this: false,
                referring: List::default(),
            },
            CallbackOp::Recall {
                stateid: state.stateid(),
                truncate: false,
                file: delegation.handle,
            },
        ];
        encode_callback(&mut writer, caller.minor, 0, &ops);
    }
    record::end(&mut call, mark, 0);
    call
}
