//! Who is refused, and what it costs.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use fleet::Transport as _;
use fleet::rendezvous::{GatherError, GatheredAgents, Token};
use fleet::wire::{Greeting, PROTOCOL};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::meeting::{self, Meeting, SOON};

/// Returns what a controller reports of a stranger that connects before the awaited agent.
fn report_of(stranger: impl FnOnce(SocketAddr)) -> String {
    let meeting = Meeting::new();
    let (address, token) = (meeting.address, meeting.token.clone());
    let gathering = thread::spawn(move || meeting.gather(1, SOON).unwrap());
    stranger(address);
    let agent = meeting::agent(address, token, ("a", 0, 1));
    let GatheredAgents { mut agents, refused } = gathering.join().unwrap();
    agents[0].agent.check_alive().unwrap();
    drop(agents);
    agent.join().unwrap().unwrap();
    assert_eq!(refused.len(), 1, "{refused:?}");
    refused[0].clone()
}

/// Sends bytes and reads the answer until the connection is closed.
fn say(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A peer that is dropped with bytes unread sees the connection reset.
    let _ = socket.read_to_end(&mut answer);
    answer
}

#[test]
fn reports_wrong_token_without_slot() {
    let meeting = Meeting::new();
    let other = meeting::agent(meeting.address, Token::draw().unwrap(), ("evil", 0, 1));
    let address = meeting.address;
    let error = meeting.gather(1, Duration::from_secs(2)).err().unwrap().to_string();
    assert_eq!(
        error,
        "0 of 1 agents connected within 2 s: rank 0 is missing; refused: 127.0.0.1: its token \
         is not that of the campaign"
    );
    let message = other.join().unwrap().unwrap_err().to_string();
    assert_eq!(
        message,
        format!(
            "the controller at {address} refused this agent (hint: DFSBENCH_TOKEN must be \
             that of the campaign)"
        )
    );
}

#[test]
fn rejects_replayed_handshake() {
    let meeting = Meeting::new();
    let (address, token) = (meeting.address, meeting.token.clone());
    let gathering = thread::spawn(move || meeting.gather(2, SOON).unwrap());
    let (between, recorded) = recorder(address);
    let first = meeting::agent(between, token.clone(), ("a", 0, 2));
    let bytes = recorded.recv_timeout(SOON).unwrap();
    // The same bytes again; at first up to the answer, then all.
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    for part in bytes {
        socket.write_all(&part).unwrap();
        let _ = socket.read(&mut [0; 512]);
    }
    let last = meeting::agent(address, token, ("b", 1, 2));
    let gathered = gathering.join().unwrap();
    assert_eq!(
        gathered.refused,
        ["127.0.0.1: its introduction was recorded on another connection, or damaged on its way"]
    );
    drop(gathered);
    assert!(first.join().unwrap().is_ok() && last.join().unwrap().is_ok());
}

/// Forwards a connection, and sends the two parts that the agent sent before it was accepted.
fn recorder(to: SocketAddr) -> (SocketAddr, std::sync::mpsc::Receiver<[Vec<u8>; 2]>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, sent) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let (mut agent, _) = listener.accept().unwrap();
        let mut controller = TcpStream::connect(to).unwrap();
        let pass = |from: &mut TcpStream, to: &mut TcpStream| {
            let mut bytes = vec![0; 4_096];
            let len = from.read(&mut bytes).unwrap();
            bytes.truncate(len);
            to.write_all(&bytes).unwrap();
            bytes
        };
        let first = pass(&mut agent, &mut controller);
        pass(&mut controller, &mut agent);
        let second = pass(&mut agent, &mut controller);
        pass(&mut controller, &mut agent);
        sender.send([first, second]).unwrap();
        let mut back = (controller.try_clone().unwrap(), agent.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
        let _ = std::io::copy(&mut agent, &mut controller);
        let _ = controller.shutdown(std::net::Shutdown::Write);
    });
    (address, sent)
}

#[test]
fn strangers_are_quoted_and_learn_nothing() {
    let message = report_of(|address| {
        assert_eq!(say(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), b"");
    });
    assert!(
        message.starts_with("127.0.0.1: it answered `GET / HTTP/1.1.`, which no agent"),
        "{message}"
    );
    let message = report_of(|address| {
        assert_eq!(say(address, &[0xff; 64]), b"");
    });
    assert!(message.contains("which no agent sends"), "{message}");
    let message = report_of(|address| drop(TcpStream::connect(address).unwrap()));
    assert_eq!(message, "127.0.0.1: it closed the connection before it introduced itself");
}

#[test]
fn reports_wrong_token_among_strangers() {
    let meeting = Meeting::new();
    let (address, token) = (meeting.address, meeting.token.clone());
    let gathering = thread::spawn(move || meeting.gather(1, SOON).unwrap());
    for path in 0..20 {
        let request = format!("GET /{path} HTTP/1.1\r\n\r\n");
        assert_eq!(say(address, request.as_bytes()), b"");
    }
    let other = meeting::agent(address, Token::draw().unwrap(), ("evil", 0, 1));
    other.join().unwrap().unwrap_err();
    let agent = meeting::agent(address, token, ("a", 0, 1));
    let gathered = gathering.join().unwrap();
    let [wrong, strangers] = &gathered.refused[..] else { panic!("{:?}", gathered.refused) };
    assert_eq!(wrong, "127.0.0.1: its token is not that of the campaign");
    let start = "127.0.0.1: 20 connections that no agent made, the first: it answered `GET /0";
    assert!(strangers.starts_with(start), "{strangers}");
    drop(gathered);
    agent.join().unwrap().unwrap();
}

#[test]
fn names_other_version_on_both_sides() {
    let other = Greeting { protocol: PROTOCOL + 3, version: "9.9.9".into() };
    let ours = Greeting::own();
    let message = report_of(|address| {
        // It hears who this is, and can say the same.
        assert_eq!(say(address, &other.to_bytes()), ours.to_bytes());
    });
    assert_eq!(
        message,
        format!("127.0.0.1: it runs dfsbench {other}, and this is dfsbench {ours}")
    );
    // A controller of another version.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let agent = meeting::agent(address, Token::draw().unwrap(), ("a", 0, 1));
    let (mut socket, _) = listener.accept().unwrap();
    let _ = socket.read(&mut [0; 512]);
    socket.write_all(&other.to_bytes()).unwrap();
    let message = agent.join().unwrap().unwrap_err().to_string();
    assert_eq!(
        message,
        format!(
            "the controller at {address}: it runs dfsbench {other}, and this is dfsbench {ours}"
        )
    );
}

#[test]
fn rejects_garbage_and_huge_frames() {
    let lost_for = |bytes: &[u8]| {
        let meeting = Meeting::new();
        let joined = meeting.join("a", 0, 1);
        let mut gathered = meeting.gather(1, SOON).unwrap();
        let mut joined = joined.join().unwrap().unwrap();
        joined.output.write_all(&Greeting::own().to_bytes()).unwrap();
        joined.output.write_all(bytes).unwrap();
        joined.output.flush().unwrap();
        gathered.agents[0].agent.receive().unwrap_err().to_string()
    };
    let of_4_gib = lost_for(&vec![0xff; 40_000]);
    assert_eq!(
        of_4_gib,
        "host a: a message claims to have 4294967295 bytes, but the limit is 67108864"
    );
    let garbage = lost_for(&[0, 0, 0, 1, 0x40]);
    assert!(garbage.starts_with("host a: 1 bytes are no message: "), "{garbage}");
}

#[test]
fn ends_connection_after_damaged_record() {
    let meeting = Meeting::new();
    let (address, token) = (meeting.address, meeting.token.clone());
    let gathering = thread::spawn(move || meeting.gather(1, SOON).unwrap());
    // A process between the two flips one bit behind the handshake.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let between = listener.local_addr().unwrap();
    let agent = meeting::agent(between, token, ("a", 0, 1));
    let (from, _) = listener.accept().unwrap();
    let to = TcpStream::connect(address).unwrap();
    let mut back = (to.try_clone().unwrap(), from.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
    let handshake = Greeting::own().to_bytes().len() + 48;
    thread::spawn(move || flip(from, to, handshake));
    let mut gathered = gathering.join().unwrap();
    let lost = gathered.agents[0].agent.receive().unwrap_err().to_string();
    assert_eq!(lost, "host a: a record was damaged or forged (decrypt error)");
    drop(gathered);
    let _ = agent.join().unwrap();
}

/// Passes bytes on, and flips a bit of the second record after the given number of bytes.
fn flip(mut from: TcpStream, mut to: TcpStream, handshake: usize) {
    let mut bytes = vec![0; handshake];
    from.read_exact(&mut bytes).unwrap();
    to.write_all(&bytes).unwrap();
    for flips in [0, 1] {
        let mut head = [0; 2];
        from.read_exact(&mut head).unwrap();
        let mut record = vec![0; usize::from(u16::from_be_bytes(head))];
        from.read_exact(&mut record).unwrap();
        record[0] ^= flips;
        to.write_all(&head).unwrap();
        to.write_all(&record).unwrap();
    }
    // It is left open: the record itself must end it.
    let _ = std::io::copy(&mut from, &mut std::io::sink());
}

#[test]
fn admits_agents_despite_strangers() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let meeting = Meeting::new();
    let (address, token) = (meeting.address, meeting.token.clone());
    let gathering = thread::spawn(move || meeting.gather(2, SOON));
    // More connections than there is room for; half of them send the beginning of what an agent
    // sends.
    let greeting = Greeting::own().to_bytes();
    let held: Vec<TcpStream> = (0..1_500)
        .map(|index| {
            let mut socket = TcpStream::connect(address).unwrap();
            let len = if index % 2 == 0 { 0 } else { index % greeting.len() };
            socket.write_all(&greeting[..len]).unwrap();
            socket
        })
        .collect();
    let begun = Instant::now();
    let agents = [0, 1].map(|rank| meeting::agent(address, token.clone(), ("a", rank, 2)));
    let gathered = gathering.join().unwrap().unwrap();
    assert!(begun.elapsed() < SOON / 2, "{:?}", begun.elapsed());
    // Hundreds of them are one line.
    let [refused] = &gathered.refused[..] else { panic!("{:?}", gathered.refused) };
    let start = "127.0.0.1: it was dropped for newer connections (";
    assert!(refused.starts_with(start) && refused.ends_with(" times)"), "{refused}");
    drop((held, gathered));
    for agent in agents {
        agent.join().unwrap().unwrap();
    }
}

#[test]
fn drops_silent_stranger() {
    let meeting = Meeting::new();
    let mut socket = TcpStream::connect(meeting.address).unwrap();
    let gathering = thread::spawn(move || meeting.gather(1, Duration::from_secs(12)));
    socket.set_read_timeout(Some(SOON)).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    let error = gathering.join().unwrap().err().unwrap();
    let GatherError::TooFew { refused, .. } = &error else { panic!("{error}") };
    assert_eq!(refused, "; refused: 127.0.0.1: it sent too little for 10 s");
}
