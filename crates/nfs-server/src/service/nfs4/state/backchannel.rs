//! The backchannel of one session: recalls and reports of copies on their way to the client.
//!
//! A [`Backchannel`] has one slot, so one call is in flight and others wait behind it. It may use
//! any connection bound to it, and prefers the one bound last. If that connection is lost before
//! the reply arrives, the same call is sent again over another one, with the same sequence, so that
//! the client executes it once.
//!
//! **Source:** RFC 8881 sections 2.10.3.1, 2.10.6, 20.2 and 20.9.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use nfs_proto::nfs4::{
    CALLBACK_VERSION, CallbackOp, CallbackSecurity, ChannelAttributes, FileRecall, LayoutIoMode,
    LayoutRecall, List, SessionId, encode_callback,
};
use nfs_proto::record;
use nfs_proto::rpc::{AuthSys, CallHeader, Credential, Groups, RPC_VERSION};
use nfs_proto::xdr::Writer;

use super::background_copy::BackgroundCopy;
use super::held_state::State;
use crate::callback_line::CallbackLine;
use crate::sync;

/// The procedure CB_COMPOUND. **Source:** RFC 8881 section 20.
const CB_COMPOUND: u32 = 1;
/// Operations of a recall: CB_SEQUENCE and CB_RECALL.
const RECALL_OPERATIONS: u32 = 2;

/// How a client wants to be called.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallbackCaller {
    program: u32,
    minor: u32,
    user: Option<CallbackUser>,
}

/// Body of an AUTH_SYS credential.
#[derive(Clone, Debug)]
struct CallbackUser {
    stamp: u32,
    machine_name: Vec<u8>,
    uid: u32,
    gid: u32,
    groups: Groups,
}

/// The outcome of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecallReply {
    /// The client accepted it: it knows the state and will return it, or knows the copy's end.
    Confirmed,
    /// The client executed the call and refused it.
    Failed,
    /// The client has no such layouts.
    Nothing,
    /// The client did not execute the call: its sequence counts as unused.
    NotTaken,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Backchannel {
    session: [u8; 16],
    /// Whether the client granted a slot and enough room for a recall.
    is_usable: bool,
    was_bound: AtomicBool,
    traffic: Mutex<Traffic>,
}

#[derive(Debug, Default)]
struct Traffic {
    caller: CallbackCaller,
    lines: Vec<Weak<CallbackLine>>,
    /// Number of calls that the client executed.
    taken: u32,
    in_flight: Option<InFlight>,
    waiting: VecDeque<Callback>,
}

#[derive(Debug)]
struct InFlight {
    callback: Callback,
    line: Weak<CallbackLine>,
}

/// The reason for a call.
#[derive(Debug)]
pub(crate) enum Callback {
    /// A delegation, or the layouts of a file, are recalled.
    Recall(Arc<State>),
    /// A copy has ended.
    Report(Arc<BackgroundCopy>),
}

impl Callback {
    /// Whether the call is still needed: the state was not returned, or the copy forgotten.
    fn is_needed(&self) -> bool {
        match self {
            Self::Recall(state) => state.is_live(),
            Self::Report(copy) => copy.is_live(),
        }
    }
}

impl CallbackCaller {
    /// Uses a client's program and the first AUTH_SYS credential that it offers; without one,
    /// callbacks are anonymous.
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
    /// Makes the backchannel of a session; no connection is bound yet.
    pub(super) fn new(session: [u8; 16], granted: &ChannelAttributes) -> Self {
        let is_usable = granted.requests_max > 0 && granted.operations_max >= RECALL_OPERATIONS;
        Self { session, is_usable, was_bound: AtomicBool::new(false), traffic: Mutex::default() }
    }

    /// Sets how the client wants to be called.
    pub(crate) fn set_caller(&self, caller: CallbackCaller) {
        sync::lock(&self.traffic).caller = caller;
    }

    /// Binds a connection.
    pub(super) fn bind(&self, line: &Arc<CallbackLine>) {
        let mut traffic = sync::lock(&self.traffic);
        traffic.lines.retain(|bound| {
            bound.strong_count() > 0 && !std::ptr::eq(bound.as_ptr(), Arc::as_ptr(line))
        });
        traffic.lines.push(Arc::downgrade(line));
        self.was_bound.store(true, Ordering::Relaxed);
        self.send_next(&mut traffic);
    }

    /// Whether the client can be called.
    pub(super) fn is_alive(&self) -> bool {
        self.is_usable && sync::lock(&self.traffic).live_line().is_some()
    }

    /// Whether the client wants to be called: it has bound a connection, even if that is lost by
    /// now.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_usable && self.was_bound.load(Ordering::Relaxed)
    }

    /// Sends a recall, or queues it behind earlier ones; returns false if no connection is left.
    pub(super) fn recall(&self, state: &Arc<State>) -> bool {
        let mut traffic = sync::lock(&self.traffic);
        if !self.is_usable || traffic.live_line().is_none() {
            return false;
        }
        traffic.waiting.push_back(Callback::Recall(Arc::clone(state)));
        self.send_next(&mut traffic);
        true
    }

    /// Reports the end of a copy, now or once a connection is bound; returns whether it is now.
    pub(super) fn report(&self, copy: &Arc<BackgroundCopy>) -> bool {
        if !self.is_usable || !copy.begin_report() {
            return false;
        }
        let mut traffic = sync::lock(&self.traffic);
        traffic.waiting.push_back(Callback::Report(Arc::clone(copy)));
        self.send_next(&mut traffic);
        traffic.live_line().is_some()
    }

    /// Sends the call in flight again if its connection is lost.
    pub(super) fn check_in_flight(&self) {
        self.send_next(&mut sync::lock(&self.traffic));
    }

    /// Completes the call in flight, and sends the next one. Returns what the client now knows.
    pub(crate) fn note_reply(&self, reply: RecallReply) -> Option<Callback> {
        let mut traffic = sync::lock(&self.traffic);
        let ended = traffic.in_flight.take()?.callback;
        if reply != RecallReply::NotTaken {
            traffic.taken = traffic.taken.wrapping_add(1);
        }
        let is_known = matches!(reply, RecallReply::Confirmed | RecallReply::Nothing);
        match &ended {
            Callback::Recall(state) => match state.recall() {
                Some(recall) if is_known => recall.confirm_recall(),
                Some(recall) => recall.repeat_recall(),
                None => {}
            },
            Callback::Report(copy) => {
                if !is_known && copy.begin_report() {
                    traffic.waiting.push_back(Callback::Report(Arc::clone(copy)));
                }
            }
        }
        self.send_next(&mut traffic);
        is_known.then_some(ended)
    }

    /// Leaves all recalls to the client's other sessions.
    pub(super) fn close(&self) {
        let mut traffic = sync::lock(&self.traffic);
        traffic.lines.clear();
        let in_flight = traffic.in_flight.take();
        traffic.waiting.extend(in_flight.map(|call| call.callback));
        traffic.give_up();
        // The client has to ask for the ends of its copies.
        traffic.waiting.clear();
    }

    /// Sends the first in the queue, unless a call is in flight over a live connection.
    fn send_next(&self, traffic: &mut Traffic) {
        let mut is_repeated = false;
        if let Some(in_flight) = &traffic.in_flight {
            if in_flight.line.strong_count() > 0 {
                return;
            }
            // The client may or may not have executed it. The same call with the same sequence gets
            // it executed once in either case (RFC 8881 section 2.10.6.2).
            is_repeated = true;
        }
        let Some(line) = traffic.live_line() else { return traffic.give_up() };
        if is_repeated && let Some(in_flight) = traffic.in_flight.take() {
            traffic.waiting.push_front(in_flight.callback);
        }
        while let Some(callback) = traffic.waiting.pop_front() {
            // What was returned meanwhile need not be recalled.
            if !is_repeated && !callback.is_needed() {
                continue;
            }
            let sequence = traffic.taken.wrapping_add(1);
            line.call(self.session, |xid| {
                encode_callback_call(xid, &traffic.caller, self.session, sequence, &callback)
            });
            let line = Arc::downgrade(&line);
            traffic.in_flight = Some(InFlight { callback, line });
            return;
        }
    }
}

impl Traffic {
    /// The live connection that was bound last.
    fn live_line(&self) -> Option<Arc<CallbackLine>> {
        self.lines.iter().rev().find_map(Weak::upgrade)
    }

    /// Leaves the queued recalls to be sent again later, perhaps over another session. The call in
    /// flight, if there is one, is kept for its sequence.
    fn give_up(&mut self) {
        self.waiting.retain(|callback| {
            // No other session reports the end of a copy, which waits for the next connection.
            let Callback::Recall(state) = callback else { return callback.is_needed() };
            if let Some(recall) = state.recall() {
                recall.repeat_recall();
            }
            false
        });
    }
}

fn encode_callback_call(
    xid: u32,
    caller: &CallbackCaller,
    session: [u8; 16],
    sequence: u32,
    callback: &Callback,
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
    let op = match callback {
        Callback::Recall(state) => recall_op(state),
        Callback::Report(copy) => Some(CallbackOp::Offload {
            file: copy.handle,
            stateid: copy.stateid(),
            result: copy.result(),
        }),
    };
    if let Some(op) = op {
        let sequence = CallbackOp::Sequence {
            session: SessionId(session),
            sequence,
            slot: 0,
            highest_slot: 0,
            cache_this: false,
            referring: List::default(),
        };
        encode_callback(&mut writer, caller.minor, 0, &[sequence, op]);
    }
    record::end(&mut call, mark, 0);
    call
}

/// The operation that recalls a delegation, or all layouts of a file.
fn recall_op(state: &State) -> Option<CallbackOp<'static>> {
    let stateid = state.stateid();
    let file = state.recall()?.handle;
    let Some(layout) = &state.layout else {
        return Some(CallbackOp::Recall { stateid, truncate: false, file });
    };
    let recall = FileRecall { file, offset: 0, length: u64::MAX, stateid };
    Some(CallbackOp::LayoutRecall {
        layout_type: layout.layout_type,
        iomode: LayoutIoMode::Any,
        changed: false,
        recall: LayoutRecall::File(recall),
    })
}
