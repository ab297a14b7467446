//! The agents that make one trial together, one or a thousand in the same way.
//!
//! An [`AgentGroup`] gives each order to all of its agents and waits until all have answered: that
//! is the barrier. While it waits it watches all hosts of the run, those that are idle and those
//! that serve among them, so that a lost host is noticed wherever the others are.

mod ending;
mod rounds;

use std::ops::Range;

use fleet::{Answer, Begun, Order, Report, Request, request};
use model::{Host, LabSpec, RunSpec, Share};

use crate::Walk;
use crate::clock::{Exchanges, Sample};
use crate::trial_error::TrialError;
use rounds::Rounds;

/// The agents of one trial, in the order of their workers.
pub(crate) struct AgentGroup<'s> {
    members: Vec<Member>,
    /// Agents that a soak has killed, whose places other agents take.
    killed: Vec<Killed>,
    /// The hosts that are set up for it.
    lab: Option<&'s LabSpec>,
}

/// An agent that was killed.
struct Killed {
    /// Its place in the group.
    index: usize,
    member: Member,
}

/// One of them.
struct Member {
    /// The name of its host; `None` is this process.
    host: Option<String>,
    share: Share,
    state: State,
    /// It makes the working directory, and removes it.
    is_maker: bool,
}

/// The state of one agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The agent has no trial, or is lost.
    Away,
    /// The agent has a trial, and no order to execute.
    Free,
    /// The agent has not answered its order yet; its workers may be waiting for the start.
    Busy {
        /// The workers wait for the start, and still do when the agent has answered.
        is_armed: bool,
    },
    /// The workers wait for the start.
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

/// Handles each report of an agent as it arrives, and returns the one that is its answer. A handler
/// that keeps an answer has sent that agent another order.
pub(crate) type HandleReport<'h> = dyn FnMut(&mut Walk<'_>, usize, Report) -> Option<Report> + 'h;

impl<'s> AgentGroup<'s> {
    /// The agents of a run, none of which has a trial yet.
    pub(crate) fn of(spec: &'s RunSpec) -> Self {
        let agents = spec.agents();
        let mut members = Vec::new();
        for index in 0..agents {
            members.push(Member {
                // Without client hosts the one agent is that of this process.
                host: spec.client_hosts().get(index as usize).map(|host| host.name.clone()),
                share: Share::of(index, agents, spec.all_workers()),
                state: State::Away,
                is_maker: index == 0,
            });
        }
        Self { members, killed: Vec::new(), lab: spec.lab.as_deref() }
    }

    /// How many agents there are.
    pub(crate) const fn len(&self) -> usize {
        self.members.len()
    }

    /// Says whether one agent makes the whole trial.
    pub(crate) const fn is_alone(&self) -> bool {
        self.members.len() + self.killed.len() == 1
    }

    /// Returns the hosts in their order; none for this process.
    pub(crate) fn hosts(&self) -> Vec<&str> {
        self.members.iter().filter_map(|member| member.host.as_deref()).collect()
    }

    /// Returns the workers of the agent at an index.
    pub(crate) fn neighbour(&self, index: usize, places: u32) -> Share {
        self.members[(index + places as usize) % self.len()].share
    }

    /// Gives an order to some agents and waits until all of them have answered; what the answers
    /// hold.
    ///
    /// # Errors
    /// When one is lost, can't obey, or answers something else; the group is to be settled then.
    pub(crate) fn ask<T>(
        &mut self,
        walk: &mut Walk<'_>,
        who: Range<usize>,
        request: impl Fn(usize) -> Request<T>,
    ) -> Result<Vec<T>, TrialError> {
        let mut expected = Vec::with_capacity(who.len());
        for index in who.clone() {
            let (order, answer) = request(index).into_parts();
            self.send(walk, index, order)?;
            expected.push(answer);
        }
        // A pass that ends before its start has a last sample all the same, which answers nothing.
        let reports =
            self.answers_of_each(walk, who.clone(), &mut |_, _, report| match report {
                Report::Progress(_) => None,
                report => Some(report),
            })?;
        let mut answers = Vec::with_capacity(who.len());
        for (place, report) in reports.into_iter().enumerate() {
            // An agent that was killed as was planned has no answer, and is left out.
            if let Some(report) = report {
                answers.push(self.read_answer(
                    walk,
                    who.start + place,
                    &expected[place],
                    report,
                )?);
            }
        }
        Ok(answers)
    }

    /// Reads what an agent answered; a host that answers something else is lost.
    ///
    /// # Errors
    /// When it is no answer to the order.
    pub(crate) fn read_answer<T>(
        &mut self,
        walk: &mut Walk<'_>,
        index: usize,
        answer: &Answer<T>,
        report: Report,
    ) -> Result<T, TrialError> {
        let member = &mut self.members[index];
        let read = match &member.host {
            Some(host) => walk.hosts.read_answer(host, answer, report),
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

    /// Sends an order to all agents, as [`Self::ask`] does to one.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn ask_all<T>(
        &mut self,
        walk: &mut Walk<'_>,
        request: impl Fn(usize) -> Request<T>,
    ) -> Result<Vec<T>, TrialError> {
        self.ask(walk, 0..self.len(), request)
    }

    /// Sends an order to the first agent and then to all others, which find what it made.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn ask_first<T>(
        &mut self,
        walk: &mut Walk<'_>,
        request: impl Fn(usize) -> Request<T>,
    ) -> Result<Vec<T>, TrialError> {
        let mut answers = self.ask(walk, 0..1, &request)?;
        answers.extend(self.ask(walk, 1..self.len(), &request)?);
        Ok(answers)
    }

    /// Gives an order to one agent.
    ///
    /// # Errors
    /// When it is lost.
    pub(crate) fn send(
        &mut self,
        walk: &mut Walk<'_>,
        index: usize,
        order: Order,
    ) -> Result<(), TrialError> {
        let member = &mut self.members[index];
        let is_armed = member.state == State::Armed && matches!(order, Order::Clock);
        let sent = match &member.host {
            Some(host) => walk.hosts.send(host, order).map_err(TrialError::Failed),
            None => walk.agent.send(order).map_err(TrialError::from),
        };
        // An agent that can't be reached has no trial any more: nothing is to be ended there.
        member.state = if sent.is_ok() { State::Busy { is_armed } } else { State::Away };
        sent
    }

    /// Waits until some agents have answered; in the order of the agents, none of one that was
    /// killed as was planned.
    ///
    /// # Errors
    /// When one is lost or could not obey, or a host is lost that they need.
    pub(crate) fn answers_of_each(
        &mut self,
        walk: &mut Walk<'_>,
        who: Range<usize>,
        handle: &mut HandleReport<'_>,
    ) -> Result<Vec<Option<Report>>, TrialError> {
        let mut answers: Vec<Option<Report>> = Vec::with_capacity(who.len());
        answers.resize_with(who.len(), || None);
        let mut missing = who.len();
        let mut rounds = Rounds::of(self, walk, who.clone());
        while missing > 0 {
            let round = rounds.next(walk);
            let mut is_quiet = true;
            for &index in &round.who {
                let answer = &mut answers[index - who.start];
                while answer.is_none() && self.members[index].state != State::Killed {
                    let before = self.members[index].state;
                    let received = match self.try_receive(walk, index) {
                        Err(TrialError::Failed(_)) if self.note_if_killed(walk, index) => {
                            missing -= 1;
                            continue;
                        }
                        received => received?,
                    };
                    let Some(report) = received else { break };
                    is_quiet = false;
                    *answer = handle(walk, index, report);
                    if answer.is_none() {
                        // A report that is no answer leaves the agent with its order.
                        self.members[index].state = before;
                    }
                    missing -= usize::from(answer.is_some());
                    if matches!(answer, Some(Report::Worked { is_broken: true, .. })) {
                        // A pass that is broken for one agent is broken for all.
                        self.cancel(walk);
                    }
                }
            }
            if missing == 0 {
                break;
            }
            if round.is_of_all {
                self.check_hosts(walk)?;
            }
            if is_quiet {
                rounds.wait(walk);
            }
        }
        Ok(answers)
    }

    /// Says whether an agent that is gone was killed as planned, so that it is not waited for.
    fn note_if_killed(&mut self, walk: &mut Walk<'_>, index: usize) -> bool {
        let member = &mut self.members[index];
        let Some(host) = &member.host else { return false };
        if !walk.hosts.note_killed(host) {
            return false;
        }
        member.state = State::Killed;
        true
    }

    /// Goes on without those that were to be killed; their places, the last first.
    pub(crate) fn remove_killed(&mut self, walk: &Walk<'_>) -> Vec<usize> {
        let mut gone = Vec::new();
        // From the last one on: so the indices of those before are not moved.
        for index in (0..self.len()).rev() {
            if let Some(host) = &self.members[index].host
                && walk.hosts.is_kill_planned(host)
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

    /// Has another agent take the place of each that was killed; `begin` is its order.
    ///
    /// # Errors
    /// When a host can't be reached, or its agent can't begin.
    pub(crate) fn replace_killed(
        &mut self,
        walk: &mut Walk<'_>,
        hosts: &[Host],
        begin: impl Fn(Share) -> Request<Begun>,
    ) -> Result<(), TrialError> {
        while let Some(Killed { index, member }) = self.killed.pop() {
            let host = hosts.iter().find(|host| Some(&host.name) == member.host.as_ref());
            let member = Member { state: State::Away, is_maker: false, ..member };
            let share = member.share;
            self.members.insert(index, member);
            if let Some(host) = host {
                walk.hosts.replace(host)?;
            }
            self.ask(walk, index..index + 1, |_| begin(share))?;
        }
        Ok(())
    }

    fn try_receive(
        &mut self,
        walk: &mut Walk<'_>,
        index: usize,
    ) -> Result<Option<Report>, TrialError> {
        let member = &mut self.members[index];
        let received = match &member.host {
            Some(host) => match walk.hosts.try_receive(host) {
                Ok(received) => received,
                Err(why) => {
                    // An agent that could not obey still has its trial; one that is lost has none.
                    let is_there = walk.hosts.is_there(host);
                    member.state = if is_there { State::Free } else { State::Away };
                    return Err(TrialError::Failed(why));
                }
            },
            None => match walk.agent.try_receive()? {
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

    /// Compares the clocks of all hosts with this one's, where the agent of one is new.
    ///
    /// # Errors
    /// When one is lost.
    pub(crate) fn compare_new_clocks(&mut self, walk: &mut Walk<'_>) -> Result<(), TrialError> {
        for host in self.hosts() {
            if walk.hosts.latest_clock(host).is_none() {
                self.sample_clocks(walk)?;
                break;
            }
        }
        Ok(())
    }

    /// Compares the clocks of all hosts with this one's: the shortest exchange of each counts. Each
    /// host is requested again as soon as it has answered, and no more often than it takes to know
    /// its clock as well as ever.
    ///
    /// # Errors
    /// When one is lost.
    pub(crate) fn sample_clocks(&mut self, walk: &mut Walk<'_>) -> Result<Vec<Sample>, TrialError> {
        let mut hosts: Vec<String> = Vec::with_capacity(self.members.len());
        let mut exchanges: Vec<Exchanges> = Vec::with_capacity(self.members.len());
        for host in self.hosts() {
            hosts.push(host.to_owned());
            exchanges.push(walk.hosts.exchanges(host));
        }
        let mut sent = Vec::with_capacity(hosts.len());
        for index in 0..hosts.len() {
            sent.push(walk.hosts.read());
            self.send(walk, index, Order::Clock)?;
        }
        let (_, clock) = request::clock().into_parts();
        let last = self.answers_of_each(walk, 0..hosts.len(), &mut |walk, index, report| {
            let there = match report {
                Report::Clock(there) => there,
                Report::Progress(_) => return None,
                // What is no answer is found below.
                other => return Some(other),
            };
            let received = walk.hosts.read();
            if exchanges[index].add(Sample::of(sent[index], there, received)) {
                return Some(report);
            }
            sent[index] = received;
            // An agent that is lost has answered all that it ever will; the next order to it
            // returns the reason.
            match walk.hosts.send(&hosts[index], Order::Clock) {
                Ok(()) => None,
                Err(_) => Some(report),
            }
        })?;
        for (index, report) in last.into_iter().enumerate() {
            if let Some(report) = report {
                self.read_answer(walk, index, &clock, report)?;
            }
        }
        let mut samples = Vec::with_capacity(hosts.len());
        for (index, host) in hosts.iter().enumerate() {
            let Some(sample) = exchanges[index].best() else {
                return Err(TrialError::Failed(format!("host {host}: its clock was not reported")));
            };
            walk.hosts.note_clock(host, sample);
            samples.push(sample);
        }
        Ok(samples)
    }

    /// Checks that all hosts are reachable, the servers included.
    fn check_hosts(&mut self, walk: &mut Walk<'_>) -> Result<(), TrialError> {
        for member in &mut self.members {
            let Some(host) = &member.host else { continue };
            // The end of one that is to be killed is noticed where its answer would be.
            if walk.hosts.is_kill_planned(host) {
                continue;
            }
            if let Err(why) = walk.hosts.check_alive(host) {
                member.state = State::Away;
                return Err(TrialError::Failed(why));
            }
        }
        self.check_server(walk)
    }

    /// Checks that the hosts that serve are reachable, where the run has any.
    fn check_server(&mut self, walk: &mut Walk<'_>) -> Result<(), TrialError> {
        let Some(lab) = self.lab else { return Ok(()) };
        for host in lab.servers() {
            if let Err(why) = walk.hosts.check_alive(&host.name) {
                // A client that waits for a server that is gone would not answer for long.
                self.leave(walk);
                return Err(TrialError::Failed(why));
            }
        }
        Ok(())
    }

    /// Disconnects for good from the agents that work: they clean up by themselves.
    pub(crate) fn leave(&mut self, walk: &mut Walk<'_>) {
        for member in &mut self.members {
            if let Some(host) = &member.host {
                walk.hosts.leave_one(host);
                member.state = State::Away;
            }
        }
    }
}
