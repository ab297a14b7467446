//! Connections that are refused, and their cost.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use fleet::Transport as _;
use fleet::rendezvous::{GatherError, GatheredAgents, Token};
use fleet::wire::{Greeting, PROTOCOL};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::meeting::{self, Meeting, SOON};

/// Returns the controller's report about a stranger that connects before the expected agent.
fn report_of(stranger: impl FnOnce(SocketAddr)) -> String {
    let meeting = Meeting::new();
    let address = meeting.address;
    let token = meeting.token.clone();
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
    // If unread bytes are left when a peer is dropped, it sees a connection reset.
    let _ = socket.read_to_end(&mut answer);
    answer
}

#[test]
fn reports_wrong_token_without_slot() {
    let meeting = Meeting::new();
    let other = meeting::agent(meeting.address, Token::draw().unwrap(), ("evil", 0, 1));
    let address = meeting.address;
    let theirs = meeting.gather(1, Duration::from_secs(2)).err().unwrap().to_string();
    let ours = other.join().unwrap().unwrap_err().to_string();
    let messages = [theirs, ours.replace(&address.to_string(), "[address]")];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn rejects_replayed_handshake() {
    let meeting = Meeting::new();
    let address = meeting.address;
    let token = meeting.token.clone();
    let gathering = thread::spawn(move || meeting.gather(2, SOON).unwrap());
    let (between, recorded) = recorder(address);
    let first = meeting::agent(between, token.clone(), ("a", 0, 2));
    let bytes = recorded.recv_timeout(SOON).unwrap();
    // Replays the same bytes: first up to the answer, then all of them.
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    for part in bytes {
        socket.write_all(&part).unwrap();
        let _ = socket.read(&mut [0; 512]);
    }
    let last = meeting::agent(address, token, ("b", 1, 2));
    let gathered = gathering.join().unwrap();
    let [refused] = &gathered.refused[..] else { panic!("{:?}", gathered.refused) };
    assert!(refused.starts_with("127.0.0.1: its introduction was replayed"), "{refused}");
    drop(gathered);
    assert!(first.join().unwrap().is_ok() && last.join().unwrap().is_ok());
}

/// Forwards a connection, and returns the two parts that the agent sent before it was accepted.
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
    let request = report_of(|address| {
        assert_eq!(say(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), b"");
    });
    let bytes = report_of(|address| {
        assert_eq!(say(address, &[0xff; 64]), b"");
    });
    let nothing = report_of(|address| drop(TcpStream::connect(address).unwrap()));
    insta::assert_snapshot!([request, bytes, nothing].join("\n"));
}

#[test]
fn reports_wrong_token_among_strangers() {
    let meeting = Meeting::new();
    let address = meeting.address;
    let token = meeting.token.clone();
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
    assert!(wrong.starts_with("127.0.0.1: it has the wrong token"), "{wrong}");
    assert!(strangers.starts_with("127.0.0.1: 20 connections"), "{strangers}");
    assert!(strangers.contains("`GET /0"), "{strangers}");
    drop(gathered);
    agent.join().unwrap().unwrap();
}

#[test]
fn names_other_version_on_both_sides() {
    let other = Greeting { protocol: PROTOCOL + 3, version: "9.9.9".into() };
    let ours = Greeting::own();
    let message = report_of(|address| {
        // It receives the controller's greeting, and can send the same one.
        assert_eq!(say(address, &other.to_bytes()), ours.to_bytes());
    });
    let names_both =
        |message: &str| message.contains(&other.to_string()) && message.contains(&ours.to_string());
    assert!(message.starts_with("127.0.0.1: ") && names_both(&message), "{message}");
    // A controller of another version.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let agent = meeting::agent(address, Token::draw().unwrap(), ("a", 0, 1));
    let (mut socket, _) = listener.accept().unwrap();
    let _ = socket.read(&mut [0; 512]);
    socket.write_all(&other.to_bytes()).unwrap();
    let message = agent.join().unwrap().unwrap_err().to_string();
    let start = format!("the controller at {address}: ");
    assert!(message.starts_with(&start) && names_both(&message), "{message}");
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
    let garbage = lost_for(&[0, 0, 0, 1, 0x40]);
    insta::assert_snapshot!([of_4_gib, garbage].join("\n"), @"
    host a: received a message of 4294967295 bytes; the limit is 67108864
    host a: received 1 bytes that are not a message: Serde Deserialization Error
    ");
}

#[test]
fn ends_connection_after_damaged_record() {
    let meeting = Meeting::new();
    let address = meeting.address;
    let token = meeting.token.clone();
    let gathering = thread::spawn(move || meeting.gather(1, SOON).unwrap());
    // A process in between flips one bit after the handshake.
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
    insta::assert_snapshot!(lost, @"host a: received a damaged or forged record (decrypt error)");
    drop(gathered);
    let _ = agent.join().unwrap();
}

/// Forwards bytes, and flips a bit of the second record after the given number of bytes.
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
    // The connection stays open, so the record itself must end it.
    let _ = std::io::copy(&mut from, &mut std::io::sink());
}

#[test]
fn admits_agents_despite_strangers() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let meeting = Meeting::new();
    let address = meeting.address;
    let token = meeting.token.clone();
    let gathering = thread::spawn(move || meeting.gather(2, SOON));
    // More connections than the limit; half of them send the beginning of an agent's handshake.
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
    // Hundreds of them are summarized on one line.
    let [refused] = &gathered.refused[..] else { panic!("{:?}", gathered.refused) };
    let start = "127.0.0.1: dropped in favor of newer connections (";
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
    insta::assert_snapshot!(refused, @"; refused: 127.0.0.1: no handshake within 10 s");
}
