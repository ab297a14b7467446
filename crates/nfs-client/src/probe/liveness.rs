//! Notices that a server stops answering in the middle of a probe.
//!
//! A question without an answer is a result of its own as long as the server answers others.
//! [`Liveness`] calls NULL again where it had an answer before; where that has none any more,
//! nothing further is requested, so that a server that dies costs two timeouts and not one for
//! each question that is left.

use std::net::SocketAddr;

use nfs_proto::rpc::ProcedureId;

use super::ask::Asker;
use super::data::{Answer, NoAnswer, Service};
use super::options::ProbeOptions;
use crate::options::Proto;

const STOPPED: NoAnswer = NoAnswer::NotRequested("the server has stopped answering");

/// A version of a program that answered at the beginning.
#[derive(Debug, Clone, Copy)]
struct Known {
    null_call: ProcedureId,
    transport: Proto,
    address: SocketAddr,
}

/// Knows whether the server still answers.
#[derive(Debug)]
pub(super) struct Liveness<'a> {
    options: &'a ProbeOptions,
    known: Option<Known>,
    stopped: Option<NoAnswer>,
}

impl<'a> Liveness<'a> {
    /// Watches the first service of a program that answered, if one did.
    pub(super) fn of(services: &[Service], program: u32, options: &'a ProbeOptions) -> Self {
        let mut known = None;
        for service in services {
            if let (Ok(_), Some(address), None) = (&service.null, service.address, known) {
                let null_call = ProcedureId::null(program, service.version);
                known = Some(Known { null_call, transport: service.transport, address });
            }
        }
        Self { options, known, stopped: None }
    }

    /// Puts a question, unless the server has stopped answering.
    pub(super) fn ask<T>(&mut self, question: impl FnOnce() -> Answer<T>) -> Answer<T> {
        if self.stopped.is_some() {
            return Err(STOPPED);
        }
        let answer = question();
        // An error is an answer; silence and closed connections are what a dead server has, too.
        if matches!(answer, Err(NoAnswer::Silent | NoAnswer::Refused | NoAnswer::Closed)) {
            self.check();
        }
        answer
    }

    /// Calls NULL where it had an answer before.
    fn check(&mut self) {
        let Some(Known { null_call, transport, address }) = self.known else { return };
        let answered = Asker::connect(transport, address, self.options)
            .and_then(|mut asker| asker.ask(null_call, |_| {}, |_| Ok(())));
        self.stopped = answered.err();
    }

    /// Returns why the server does not answer any more, after a last NULL.
    pub(super) fn finish(mut self) -> Option<NoAnswer> {
        if self.stopped.is_none() {
            self.check();
        }
        self.stopped
    }
}
