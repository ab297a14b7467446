//! Group of agents that run one trial together, from one agent to a thousand.
//!
//! An [`AgentGroup`] sends each order to all of its agents and waits until every one has answered;
//! this is the barrier between steps. While it waits, it checks all hosts of the run, including
//! idle hosts and servers, so that a lost host is noticed no matter which step the others are in.

mod ending;
mod rounds;

use std::ops::Range;

use fleet::clock::{Exchanges, Sample};
use fleet::{AnswerReader, Order, Report, Request, TrialSetup, request};
use model::{Host, LabSpec, RunSpec, Share};

use crate::error::TrialError;
use crate::hosts::Hosts;
use rounds::Rounds;

/// The agents of one trial, in the order of their workers.
pub(crate) struct AgentGroup<'s> {
    members: Vec<Member>,
    /// Agents killed by a soak, until they are replaced.
    killed: Vec<Killed>,
    /// Hosts that are set up for the run.
    lab: Option<&'s LabSpec>,
}

/// An agent that was killed on purpose.
struct Killed {
    /// Its index in the group before it was killed.
    index: usize,
    member: Member,
}

/// One agent of the group.
struct Member {
    /// Host name, or `None` for the agent of this process.
    host: Option<String>,
    share: Share,
    state: State,
    /// This agent creates and removes the working directory.
    is_maker: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The agent has no trial, or was lost.
    Away,
    /// The agent has a trial and is waiting for an order.
    Free,
    /// The agent has not answered its order yet; its workers may be waiting for the start.
    Busy {
        /// The workers are waiting for the start and will still be when the agent has answered.
        is_armed: bool,
    },
    /// The workers are waiting for the start.
    Armed,
    /// The agent was killed as planned.
    Killed,
}

impl Member {
    const fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy { .. })
    }

    const fn has_trial(&self) -> bool {
        !matches!(self.state, State::Away | State::Killed)
    }
}

/// Handles each report as it arrives and returns the one that answers the order. A handler that
/// returns `None` for an answer must have sent the agent another order.
pub(crate) type HandleReport<'h> = dyn FnMut(&mut Hosts<'_>, usize, Report) -> Option<Report> + 'h;

impl<'s> AgentGroup<'s> {
    /// Creates the group for a run. None of its agents has a trial yet.
    pub(crate) fn new(spec: &'s RunSpec) -> Self {
        let agents = spec.agents();
        let mut members = Vec::new();
        for index in 0..agents {
            members.push(Member {
                // Without client hosts, the only agent is the one in this process.
                host: spec.client_hosts().get(index as usize).map(|host| host.name.clone()),
                share: Share::for_agent(index, agents, spec.all_workers()),
                state: State::Away,
                is_maker: index == 0,
            });
        }
        Self { members, killed: Vec::new(), lab: spec.lab.as_deref() }
    }

    pub(crate) const fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if one agent runs the whole trial.
    pub(crate) const fn is_alone(&self) -> bool {
        self.members.len() + self.killed.len() == 1
    }

    /// Returns the host names in order. The agent of this process has none.
    pub(crate) fn hosts(&self) -> Vec<&str> {
        self.members.iter().filter_map(|member| member.host.as_deref()).collect()
    }

    /// Returns the share of the agent `places` positions after the one at `index`, wrapping around.
    pub(crate) fn neighbour(&self, index: usize, places: u32) -> Share {
        self.members[(index + places as usize) % self.len()].share
    }

    /// Sends an order to some agents, waits until all of them have answered, and returns the
    /// contents of the answers.
    ///
    /// # Errors
    /// If an agent is lost, cannot carry out the order, or gives a different answer. The group must
    /// be settled afterwards.
    pub(crate) fn ask<T>(
        &mut self,
        hosts: &mut Hosts<'_>,
        who: Range<usize>,
        request: impl Fn(usize) -> Request<T>,
    ) -> Result<Vec<T>, TrialError> {
        let mut expected = Vec::with_capacity(who.len());
        for index in who.clone() {
            let (order, answer) = request(index).into_parts();
            self.send(hosts, index, order)?;
            expected.push(answer);
        }
        // A pass that is stopped before its start still sends a final progress report; skip it.
        let reports =
            self.answers_of_each(hosts, who.clone(), &mut |_, _, report| match report {
                Report::Progress(_) => None,
                report => Some(report),
            })?;
        let mut answers = Vec::with_capacity(who.len());
        for (place, report) in reports.into_iter().enumerate() {
            // An agent that was killed as planned gives no answer.
            if let Some(report) = report {
                answers.push(self.read_answer(
                    hosts,
                    who.start + place,
                    &expected[place],
                    report,
                )?);
            }
        }
        Ok(answers)
    }

    /// Decodes an agent's answer. A host that gives the wrong kind of answer counts as lost.
    pub(crate) fn read_answer<T>(
        &mut self,
        hosts: &mut Hosts<'_>,
        index: usize,
        answer: &AnswerReader<T>,
        report: Report,
    ) -> Result<T, TrialError> {
        let member = &mut self.members[index];
        let read = match &member.host {
            Some(host) => hosts.read_answer(host, answer, report),
            None => answer.read(report).map_err(|wrong| format!("the agent of this host {wrong}")),
        };
        match read {
            Ok(read) => Ok(read),
            Err(why) => {
                if member.host.is_some() {
                    member.state = State::Away;
                }
                Err(TrialError::Failed(why))
            }
        }
    }

    /// Sends an order to all agents, like [`Self::ask`].
    pub(crate) fn ask_all<T>(
        &mut self,
        hosts: &mut Hosts<'_>,
        request: impl Fn(usize) -> Request<T>,
    ) -> Result<Vec<T>, TrialError> {
        self.ask(hosts, 0..self.len(), request)
    }

    /// Sends an order to the first agent, then to all others, which depend on what the first one
    /// created.
    pub(crate) fn ask_first<T>(
        &mut self,
        hosts: &mut Hosts<'_>,
        request: impl Fn(usize) -> Request<T>,
    ) -> Result<Vec<T>, TrialError> {
        let mut answers = self.ask(hosts, 0..1, &request)?;
        answers.extend(self.ask(hosts, 1..self.len(), &request)?);
        Ok(answers)
    }

    /// Sends an order to one agent.
    pub(crate) fn send(
        &mut self,
        hosts: &mut Hosts<'_>,
        index: usize,
        order: Order,
    ) -> Result<(), TrialError> {
        let member = &mut self.members[index];
        let is_armed = member.state == State::Armed && matches!(order, Order::Clock);
        let sent = match &member.host {
            Some(host) => hosts.send(host, order).map_err(TrialError::Failed),
            None => {
                hosts.local_agent().and_then(|agent| agent.send(order)).map_err(TrialError::from)
            }
        };
        // An agent that cannot be reached no longer has a trial, so there is nothing to end.
        member.state = if sent.is_ok() { State::Busy { is_armed } } else { State::Away };
        sent
    }

    /// Waits until some agents have answered. Returns their answers in agent order; agents that
    /// were killed as planned have none.
    ///
    /// # Errors
    /// If an agent is lost or cannot carry out the order, or if a host that the agents need is
    /// lost.
    pub(crate) fn answers_of_each(
        &mut self,
        hosts: &mut Hosts<'_>,
        who: Range<usize>,
        handle: &mut HandleReport<'_>,
    ) -> Result<Vec<Option<Report>>, TrialError> {
        let mut answers: Vec<Option<Report>> = Vec::with_capacity(who.len());
        answers.resize_with(who.len(), || None);
        let mut missing = who.len();
        let mut rounds = Rounds::new(self, hosts, who.clone());
        while missing > 0 {
            let round = rounds.next(hosts);
            let mut is_quiet = true;
            for &index in &round.who {
                let answer = &mut answers[index - who.start];
                while answer.is_none() && self.members[index].state != State::Killed {
                    let before = self.members[index].state;
                    let received = match self.try_receive(hosts, index) {
                        Err(TrialError::Failed(_)) if self.note_if_killed(hosts, index) => {
                            missing -= 1;
                            continue;
                        }
                        received => received?,
                    };
                    let Some(report) = received else { break };
                    is_quiet = false;
                    *answer = handle(hosts, index, report);
                    if answer.is_none() {
                        // The report was not the answer, so the agent is still working on its
                        // order.
                        self.members[index].state = before;
                    }
                    missing -= usize::from(answer.is_some());
                    if matches!(answer, Some(Report::Worked { is_broken: true, .. })) {
                        // If the pass is broken for one agent, it is broken for all of them.
                        self.cancel(hosts);
                    }
                }
            }
            if missing == 0 {
                break;
            }
            if round.is_of_all {
                self.check_hosts(hosts)?;
            }
            if is_quiet {
                rounds.wait(hosts);
            }
        }
        Ok(answers)
    }

    /// Returns true if the agent was killed as planned, so that nobody waits for its answer.
    fn note_if_killed(&mut self, hosts: &mut Hosts<'_>, index: usize) -> bool {
        let member = &mut self.members[index];
        let Some(host) = &member.host else { return false };
        if !hosts.note_killed(host) {
            return false;
        }
        member.state = State::Killed;
        true
    }

    /// Removes the agents that were killed as planned. Returns their indices in descending order.
    pub(crate) fn remove_killed(&mut self, hosts: &Hosts<'_>) -> Vec<usize> {
        let mut gone = Vec::new();
        // Go backwards, so that removals don't shift the remaining indices.
        for index in (0..self.len()).rev() {
            if let Some(host) = &self.members[index].host
                && hosts.is_kill_planned(host)
            {
                gone.push(index);
            }
        }
        for index in &gone {
            let member = self.members.remove(*index);
            self.killed.push(Killed { index: *index, member });
        }
        gone
    }

    /// Starts a new agent in place of each killed one and sends it the order from `begin`.
    ///
    /// # Errors
    /// If a host cannot be reached or its agent cannot begin.
    pub(crate) fn replace_killed(
        &mut self,
        hosts: &mut Hosts<'_>,
        clients: &[Host],
        begin: impl Fn(Share) -> Request<TrialSetup>,
    ) -> Result<(), TrialError> {
        while let Some(Killed { index, member }) = self.killed.pop() {
            let host = clients.iter().find(|host| Some(&host.name) == member.host.as_ref());
            let member = Member { state: State::Away, is_maker: false, ..member };
            let share = member.share;
            self.members.insert(index, member);
            if let Some(host) = host {
                hosts.replace(host)?;
            }
            self.ask(hosts, index..index + 1, |_| begin(share))?;
        }
        Ok(())
    }

    fn try_receive(
        &mut self,
        hosts: &mut Hosts<'_>,
        index: usize,
    ) -> Result<Option<Report>, TrialError> {
        let member = &mut self.members[index];
        let received = match &member.host {
            Some(host) => match hosts.try_receive(host) {
                Ok(received) => received,
                Err(why) => {
                    // An agent that could not carry out the order still has its trial; a lost agent
                    // has none.
                    let is_there = hosts.is_there(host);
                    member.state = if is_there { State::Free } else { State::Away };
                    return Err(TrialError::Failed(why));
                }
            },
            None => match hosts.local_agent()?.try_receive()? {
                Some(Report::Failed(why)) => {
                    member.state = State::Free;
                    return Err(TrialError::Failed(why));
                }
                received => received,
            },
        };
        match received {
            Some(Report::Armed) => member.state = State::Armed,
            Some(Report::Clock(_)) if member.state == (State::Busy { is_armed: true }) => {
                member.state = State::Armed;
            }
            Some(Report::Progress(_)) | None => {}
            Some(Report::Ended) => member.state = State::Away,
            Some(_) => member.state = State::Free,
        }
        Ok(received)
    }

    /// Compares the clocks of all hosts with the local one if any of the agents is new.
    pub(crate) fn compare_new_clocks(&mut self, hosts: &mut Hosts<'_>) -> Result<(), TrialError> {
        for host in self.hosts() {
            if hosts.latest_clock(host).is_none() {
                self.sample_clocks(hosts)?;
                break;
            }
        }
        Ok(())
    }

    /// Compares the clocks of all hosts with the local one. Each host is asked again as soon as it
    /// has answered, until its clock is known as accurately as before; its shortest exchange
    /// counts.
    pub(crate) fn sample_clocks(
        &mut self,
        hosts: &mut Hosts<'_>,
    ) -> Result<Vec<Sample>, TrialError> {
        let mut names: Vec<String> = Vec::with_capacity(self.members.len());
        let mut exchanges: Vec<Exchanges> = Vec::with_capacity(self.members.len());
        for host in self.hosts() {
            names.push(host.to_owned());
            exchanges.push(hosts.exchanges(host));
        }
        let mut sent = Vec::with_capacity(names.len());
        for index in 0..names.len() {
            sent.push(hosts.read());
            self.send(hosts, index, Order::Clock)?;
        }
        let (_, clock) = request::clock().into_parts();
        let last = self.answers_of_each(hosts, 0..names.len(), &mut |hosts, index, report| {
            let there = match report {
                Report::Clock(there) => there,
                Report::Progress(_) => return None,
                // Any other report is checked below.
                other => return Some(other),
            };
            let received = hosts.read();
            if exchanges[index].add(Sample::new(sent[index], there, received)) {
                return Some(report);
            }
            sent[index] = received;
            // A lost agent will not answer again. The next order to it returns the reason.
            match hosts.send(&names[index], Order::Clock) {
                Ok(()) => None,
                Err(_) => Some(report),
            }
        })?;
        for (index, report) in last.into_iter().enumerate() {
            if let Some(report) = report {
                self.read_answer(hosts, index, &clock, report)?;
            }
        }
        let mut samples = Vec::with_capacity(names.len());
        for (index, host) in names.iter().enumerate() {
            let Some(sample) = exchanges[index].best() else {
                return Err(TrialError::Failed(format!("host {host} did not report its clock")));
            };
            hosts.note_clock(host, sample);
            samples.push(sample);
        }
        Ok(samples)
    }

    /// Checks that all hosts are reachable, including the servers.
    fn check_hosts(&mut self, hosts: &mut Hosts<'_>) -> Result<(), TrialError> {
        for member in &mut self.members {
            let Some(host) = &member.host else { continue };
            // The death of an agent that is to be killed is noticed while waiting for its answer.
            if hosts.is_kill_planned(host) {
                continue;
            }
            if let Err(why) = hosts.check_alive(host) {
                member.state = State::Away;
                return Err(TrialError::Failed(why));
            }
        }
        self.check_server(hosts)
    }

    /// Checks that the servers of the run are reachable, if it has any.
    fn check_server(&mut self, hosts: &mut Hosts<'_>) -> Result<(), TrialError> {
        let Some(lab) = self.lab else { return Ok(()) };
        for host in lab.servers() {
            if let Err(why) = hosts.check_alive(&host.name) {
                // A client that waits for a lost server would not answer for a long time.
                self.leave(hosts);
                return Err(TrialError::Failed(why));
            }
        }
        Ok(())
    }

    /// Disconnects from all remote agents for good. They clean up on their own.
    pub(crate) fn leave(&mut self, hosts: &mut Hosts<'_>) {
        for member in &mut self.members {
            if let Some(host) = &member.host {
                hosts.leave_one(host);
                member.state = State::Away;
            }
        }
    }
}
