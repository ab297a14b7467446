//! Agents that connect by themselves, over real sockets: those that are allowed to, and strangers.
#![allow(clippy::disallowed_methods, reason = "waits for sockets with a timeout")]

mod meeting;
mod strangers;

use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use fleet::rendezvous::{GatherError, JoinError};
use fleet::{Order, Report, Transport as _};

use meeting::{Meeting, SOON};

#[test]
fn gathers_agents_in_any_order() {
    let meeting = Meeting::new();
    let agents: Vec<_> =
        [("b", 2), ("a", 0), ("b", 1)].map(|(host, rank)| meeting.agent(host, rank, 3)).into();
    let address = meeting.address;
    let mut gathered = meeting.gather(3, SOON).unwrap();
    let names: Vec<&str> = gathered.agents.iter().map(|met| met.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "b:2"]);
    assert!(gathered.refused.is_empty(), "{:?}", gathered.refused);
    // All agents have connected, so nothing listens any more.
    assert!(TcpStream::connect(address).is_err());
    for met in &mut gathered.agents {
        met.agent.send(Order::Clock).unwrap();
        let Ok(Report::Clock(clock)) = met.agent.receive() else { panic!("{}", met.name) };
        // Each returns its rank as the time.
        assert_eq!(clock.mono_ns, u64::from(met.hello.rank));
    }
    // Agents exit when their controller is gone.
    drop(gathered);
    for agent in agents {
        assert_eq!(agent.join().unwrap().unwrap(), 1);
    }
}

#[test]
fn accepts_agent_before_listening() {
    let meeting = Meeting::new();
    let address = meeting.address;
    let token = meeting.token.clone();
    drop(meeting.rendezvous);
    let early = meeting::agent(address, token.clone(), ("a", 0, 1));
    std::thread::sleep(Duration::from_millis(300));
    let gathered = Meeting::at(address, token).gather(1, SOON).unwrap();
    assert_eq!(gathered.agents.len(), 1);
    drop(gathered);
    assert_eq!(early.join().unwrap().unwrap(), 0);
}

#[test]
fn notices_agent_lost_later() {
    let meeting = Meeting::new();
    let joined = meeting.join("a", 0, 1);
    let mut gathered = meeting.gather(1, SOON).unwrap();
    drop(joined.join().unwrap().unwrap());
    let begun = Instant::now();
    let gone = gathered.agents[0].agent.receive().unwrap_err();
    insta::assert_snapshot!(gone, @"host a: the agent is gone");
    assert!(begun.elapsed() < SOON);
}

#[test]
fn names_missing_agents() {
    let meeting = Meeting::new();
    let agent = meeting.agent("a", 1, 5);
    let some = meeting.gather(5, Duration::from_secs(1)).err().unwrap().to_string();
    // The agent that connected is dropped again.
    assert_eq!(agent.join().unwrap().unwrap(), 0);
    let meeting = Meeting::new();
    let address = meeting.address.to_string();
    let none = meeting.gather(1, Duration::from_secs(1)).err().unwrap().to_string();
    insta::assert_snapshot!([some, none.replace(&address, "[address]")].join("\n"));
}

#[test]
fn rejects_agent_with_taken_rank() {
    let meeting = Meeting::new();
    let (ended, ends) = std::sync::mpsc::channel();
    let agent = |name, rank| {
        let address = meeting.address;
        let token = meeting.token.clone();
        let ended = ended.clone();
        move || ended.send(meeting::agent(address, token, (name, rank, 2)).join().unwrap()).unwrap()
    };
    std::thread::spawn(agent("a", 0));
    std::thread::spawn(agent("b", 0));
    let missing = agent("c", 1);
    let gathering = std::thread::spawn(move || {
        // The accepted agent may be notified before the refused one.
        let mut all = vec![ends.recv().unwrap()];
        if all[0].is_ok() {
            all.push(ends.recv().unwrap());
        }
        missing();
        all.extend((all.len()..3).map(|_| ends.recv().unwrap()).collect::<Vec<_>>());
        all
    });
    let gathered = meeting.gather(2, SOON).unwrap();
    let winner = gathered.agents[0].hello.host.clone();
    let refused = gathered.refused.clone();
    // Accepted agents exit with their controller.
    drop(gathered);
    let all = gathering.join().unwrap();
    let losers: Vec<JoinError> = all.into_iter().filter_map(Result::err).collect();
    let [loser] = &losers[..] else { panic!("{losers:?}") };
    let JoinError::Unwanted { why, .. } = loser else { panic!("{loser}") };
    assert_eq!(*why, format!("rank 0 is already connected, from host {winner}"));
    assert_eq!(refused, [format!("127.0.0.1: {why}")]);
}

#[test]
fn rejects_wrong_number_of_agents() {
    let meeting = Meeting::new();
    let agent = meeting.agent("a", 3, 4);
    let address = meeting.address.to_string();
    let theirs = meeting.gather(2, SOON).err().unwrap().to_string();
    let ours = agent.join().unwrap().unwrap_err().to_string();
    insta::assert_snapshot!([theirs, ours.replace(&address, "[address]")].join("\n"));
}

#[test]
fn stops_waiting_for_agents() {
    let meeting = Meeting::new();
    meeting.stop.store(true, Relaxed);
    insta::assert_snapshot!(
        meeting.gather(2, SOON).err().unwrap(),
        @"stopped while waiting for agents: 0 of 2 had connected"
    );
    let (rendezvous, wanted) = Meeting::new().parts(3, SOON);
    let mut looks = 0;
    let mut launcher = || {
        looks += 1;
        if looks < 3 { Ok(()) } else { Err("srun ended with 1".to_owned()) }
    };
    let error = rendezvous.gather(&wanted, &mut launcher).err().unwrap();
    assert!(matches!(error, GatherError::Launcher { .. }));
    insta::assert_snapshot!(
        error,
        @"0 of 3 agents connected: ranks 0 to 2 are missing: srun ended with 1"
    );
}
