//! Ends a trial on all of its agents, even if some of them failed.
//!
//! After any failure, the group is settled: agents that are still working are told to stop, and
//! those that don't answer in time are disconnected. At the end of a trial, each agent that has one
//! removes its files. Every wait has a time limit.

use std::ops::Range;

use fleet::{AnswerReader, Order, Report, Request, request};
use model::units::Nanos;

use super::rounds::{Round, Rounds};
use super::{AgentGroup, Member, State};
use crate::error::{ControllerError, TrialError};
use crate::hosts::Hosts;

/// Time limit for removing the files of a trial, in nanoseconds. A million files on a slow server
/// take a good part of it.
const END_WITHIN_NS: u64 = 1_800_000_000_000;

/// Time limit for agents to finish work in flight when the trial cannot continue, in nanoseconds.
const SETTLE_WITHIN_NS: u64 = 3_000_000_000;

impl AgentGroup<'_> {
    /// Asks all agents that have not answered yet to stop what they are doing.
    pub(super) fn cancel(&self, hosts: &mut Hosts<'_>) {
        for member in &self.members {
            if !member.is_busy() {
                continue;
            }
            match &member.host {
                Some(host) => hosts.cancel(host),
                None => {
                    if let Ok(agent) = hosts.local_agent() {
                        agent.cancel();
                    }
                }
            }
        }
    }

    /// Stops all agents after a failure, so that they are free for new orders.
    pub(crate) fn settle(&mut self, hosts: &mut Hosts<'_>) -> Result<(), ControllerError> {
        self.cancel(hosts);
        self.disarm(hosts)?;
        let until_ns = hosts.now_ns().saturating_add(SETTLE_WITHIN_NS);
        let mut rounds = Rounds::new(self, hosts, 0..self.len());
        while self.members.iter().any(Member::is_busy) {
            let round = rounds.next(hosts);
            // Ignore further failures: the first one is the more informative.
            let (is_quiet, _) = self.receive_answers(hosts, &round, None)?;
            self.disarm(hosts)?;
            if hosts.now_ns() > until_ns {
                self.leave_requested(hosts);
            }
            if is_quiet {
                rounds.wait(hosts);
            }
        }
        Ok(())
    }

    /// Receives what has arrived from the busy agents of a round. Returns whether nothing had
    /// arrived, and the first error of an agent that was lost, could not carry out its order, or
    /// did not give the `expected` answer. If `expected` is `None`, any answer is accepted.
    fn receive_answers(
        &mut self,
        hosts: &mut Hosts<'_>,
        round: &Round,
        expected: Option<&AnswerReader<()>>,
    ) -> Result<(bool, Result<(), TrialError>), ControllerError> {
        let mut is_quiet = true;
        let mut refused = Ok(());
        for &index in &round.who {
            while self.members[index].is_busy() {
                let received = self.try_receive(hosts, index);
                let read = match (received, expected) {
                    (Ok(Some(Report::Progress(_))), _) | (Ok(Some(_)), None) => Ok(Some(())),
                    (Ok(Some(report)), Some(answer)) => {
                        self.read_answer(hosts, index, answer, report).map(Some)
                    }
                    (Ok(None), _) => Ok(None),
                    (Err(why), _) => Err(why),
                };
                match read {
                    Ok(None) => break,
                    Ok(Some(())) => is_quiet = false,
                    Err(TrialError::CampaignOver(error)) => return Err(error),
                    Err(why) => (is_quiet, refused) = (false, refused.and(Err(why))),
                }
            }
        }
        Ok((is_quiet, refused))
    }

    /// Stops all workers that are waiting for the start.
    fn disarm(&mut self, hosts: &mut Hosts<'_>) -> Result<(), ControllerError> {
        for index in 0..self.len() {
            if self.members[index].state == State::Armed
                && let Err(TrialError::CampaignOver(error)) = self.send(hosts, index, Order::Disarm)
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Disconnects from the hosts that take too long to end their trial. The error names the first.
    fn give_up_requested(&mut self, hosts: &mut Hosts<'_>) -> Result<(), TrialError> {
        let first = self.members.iter().find(|member| member.is_busy());
        // The agent of this process cannot be abandoned, so wait for it.
        let Some(Member { host: Some(host), .. }) = first else { return Ok(()) };
        let host = host.clone();
        self.leave_requested(hosts);
        let limit = Nanos(END_WITHIN_NS);
        let why = format!("host {host} is still removing its files after {limit}");
        Err(TrialError::Failed(format!("{why}; its agent was left to finish on its own")))
    }

    /// Disconnects from the hosts that have not answered.
    fn leave_requested(&mut self, hosts: &mut Hosts<'_>) {
        for member in &mut self.members {
            if member.is_busy()
                && let Some(host) = &member.host
            {
                hosts.leave_one(host);
                member.state = State::Away;
            }
        }
    }

    /// Ends the trial of all agents that have one. The agent that created the working directory
    /// goes last; if it is lost, the first remaining agent removes the directory instead.
    ///
    /// # Errors
    /// If an agent cannot clean up, or the agent of this process is gone. The other agents still
    /// clean up.
    pub(crate) fn end(&mut self, hosts: &mut Hosts<'_>) -> Result<(), TrialError> {
        let Some(first) = self.members.iter().position(Member::has_trial) else { return Ok(()) };
        // The directory is removed last, because the agents that joined still have files open below
        // it.
        let joined = self.end_some(hosts, first + 1..self.len(), request::end(false));
        let inherits = !self.members[first].is_maker;
        let last = self.end_some(hosts, first..first + 1, request::end(inherits));
        joined.and(last)
    }

    /// Ends the trial of some agents and waits for each of them, up to the time limit, regardless
    /// of failures of the others.
    fn end_some(
        &mut self,
        hosts: &mut Hosts<'_>,
        who: Range<usize>,
        request: Request<()>,
    ) -> Result<(), TrialError> {
        let mut ended = Ok(());
        let (end, answer) = request.into_parts();
        for index in who.clone() {
            if self.members[index].has_trial() {
                ended = ended.and(self.send(hosts, index, end.clone()));
            }
        }
        let until_ns = hosts.now_ns().saturating_add(END_WITHIN_NS);
        let mut rounds = Rounds::new(self, hosts, who.clone());
        while self.members[who.clone()].iter().any(Member::is_busy) {
            let round = rounds.next(hosts);
            let (is_quiet, refused) = self.receive_answers(hosts, &round, Some(&answer))?;
            ended = ended.and(refused);
            if hosts.now_ns() > until_ns {
                ended = ended.and(self.give_up_requested(hosts));
            }
            if round.is_of_all {
                ended = ended.and(self.check_server(hosts));
            }
            if is_quiet {
                rounds.wait(hosts);
            }
        }
        ended
    }
}
