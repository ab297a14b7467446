//! Calls from the server to a client, over a connection that the client made.
//!
//! A [`CallbackLine`] belongs to its connection and lives as long as it does; sessions keep weak
//! references, which is how they notice that the connection is gone. It hands framed calls to the
//! loop that serves the connection, and remembers which session each call was made for until its
//! reply arrives.
//!
//! **Source:** RFC 8881 section 2.10.3.1.

use std::sync::{Arc, Mutex};

use crate::mailbox::{LoopOrder, Mailbox};
use crate::sync;

/// See the module.
#[derive(Debug)]
pub(crate) struct CallbackLine {
    mailbox: Arc<Mailbox>,
    token: u64,
    calls: Mutex<Calls>,
}

/// The calls waiting for their replies: at most one per session.
#[derive(Debug, Default)]
struct Calls {
    last_xid: u32,
    waiting: Vec<(u32, [u8; 16])>,
}

impl CallbackLine {
    /// Makes the line of the connection with `token` in the loop of `mailbox`.
    pub(crate) fn new(mailbox: Arc<Mailbox>, token: u64) -> Self {
        Self { mailbox, token, calls: Mutex::default() }
    }

    /// Sends the call that `encode` builds for its xid, on behalf of a session; returns the xid.
    pub(crate) fn call(&self, session: [u8; 16], encode: impl FnOnce(u32) -> Vec<u8>) -> u32 {
        let mut calls = sync::lock(&self.calls);
        calls.last_xid = calls.last_xid.wrapping_add(1);
        let xid = calls.last_xid;
        calls.waiting.push((xid, session));
        drop(calls);
        self.mailbox.send(LoopOrder::CallBack(self.token, encode(xid)));
        xid
    }

    /// Takes the call that a reply belongs to, and returns its session.
    pub(crate) fn end_call(&self, xid: u32) -> Option<[u8; 16]> {
        let mut calls = sync::lock(&self.calls);
        let index = calls.waiting.iter().position(|(waiting, _)| *waiting == xid)?;
        Some(calls.waiting.swap_remove(index).1)
    }
}
