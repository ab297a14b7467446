//! Detects that a server stops answering in the middle of a probe.
//!
//! An unanswered question is a result as long as the server answers others. [`Liveness`] then calls
//! NULL again where it was answered before; if it no longer is, nothing further is asked, so a
//! dying server costs two timeouts and not one for each remaining question.

use std::net::SocketAddr;

use nfs_proto::rpc::ProcedureId;

use super::ask::Asker;
use super::data::{Answer, NoAnswer, Service};
use super::options::ProbeOptions;
use crate::options::Proto;

const STOPPED: NoAnswer = NoAnswer::NotRequested("the server has stopped answering");

/// A version of a program that answered at the start.
#[derive(Debug, Clone, Copy)]
struct AnsweringVersion {
    null_call: ProcedureId,
    transport: Proto,
    address: SocketAddr,
}

/// Tracks whether the server still answers.
#[derive(Debug)]
pub(super) struct Liveness<'a> {
    options: &'a ProbeOptions,
    known: Option<AnsweringVersion>,
    stopped: Option<NoAnswer>,
}

impl<'a> Liveness<'a> {
    /// Watches the first service of a program that answered, if any.
    pub(super) fn new(services: &[Service], program: u32, options: &'a ProbeOptions) -> Self {
        let mut known = None;
        for service in services {
            if let (Ok(_), Some(address), None) = (&service.null, service.address, known) {
                let null_call = ProcedureId::null(program, service.version);
                known = Some(AnsweringVersion { null_call, transport: service.transport, address });
            }
        }
        Self { options, known, stopped: None }
    }

    /// Asks a question, unless the server has stopped answering.
    pub(super) fn ask<T>(&mut self, question: impl FnOnce() -> Answer<T>) -> Answer<T> {
        if self.stopped.is_some() {
            return Err(STOPPED);
        }
        let answer = question();
        // An error is an answer; silence and closed connections may also mean a dead server.
        if matches!(answer, Err(NoAnswer::Silent | NoAnswer::Refused | NoAnswer::Closed)) {
            self.check();
        }
        answer
    }

    /// Calls NULL where it was answered before.
    fn check(&mut self) {
        let Some(AnsweringVersion { null_call, transport, address }) = self.known else { return };
        let answered = Asker::connect(transport, address, self.options)
            .and_then(|mut asker| asker.ask(null_call, |_| {}, |_| Ok(())));
        self.stopped = answered.err();
    }

    /// Returns why the server no longer answers, after a last NULL.
    pub(super) fn finish(mut self) -> Option<NoAnswer> {
        if self.stopped.is_none() {
            self.check();
        }
        self.stopped
    }
}
