//! A controller on loopback, and agents in threads.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fleet::rendezvous::{
    ControllerStream, ExpectedAgents, GatherError, GatheredAgents, Hello, JoinError, Rendezvous,
    Token, join,
};
use fleet::{ClockReading, stdio};

/// Generous, because the machine may be busy.
pub const SOON: Duration = Duration::from_secs(60);

pub struct Meeting {
    pub rendezvous: Rendezvous,
    pub address: SocketAddr,
    pub token: Token,
    pub stop: Arc<AtomicBool>,
}

impl Meeting {
    pub fn new() -> Self {
        Self::at((Ipv4Addr::LOCALHOST, 0).into(), Token::draw().unwrap())
    }

    pub fn at(address: SocketAddr, token: Token) -> Self {
        let rendezvous = Rendezvous::open(address, token.clone()).unwrap();
        let address = rendezvous.address().unwrap();
        Self { rendezvous, address, token, stop: Arc::default() }
    }

    pub fn parts(self, count: u32, within: Duration) -> (Rendezvous, ExpectedAgents) {
        (self.rendezvous, ExpectedAgents { count, within, stop: self.stop })
    }

    pub fn gather(self, count: u32, within: Duration) -> Result<GatheredAgents, GatherError> {
        let (rendezvous, wanted) = self.parts(count, within);
        rendezvous.gather(&wanted, &mut || Ok(()))
    }

    /// A client that connects as an agent and does nothing.
    pub fn join(
        &self,
        host: &str,
        rank: u32,
        size: u32,
    ) -> JoinHandle<Result<ControllerStream, JoinError>> {
        let address = self.address;
        let token = self.token.clone();
        let host = host.to_owned();
        thread::spawn(move || come(address, &token, (&host, rank, size)))
    }

    /// An agent that follows orders until its controller is gone; returns the number of orders.
    pub fn agent(&self, host: &str, rank: u32, size: u32) -> JoinHandle<Result<u32, JoinError>> {
        agent(self.address, self.token.clone(), (host, rank, size))
    }
}

pub fn agent(
    address: SocketAddr,
    token: Token,
    (host, rank, size): (&str, u32, u32),
) -> JoinHandle<Result<u32, JoinError>> {
    let host = host.to_owned();
    thread::spawn(move || {
        let ControllerStream { input, output } = come(address, &token, (&host, rank, size))?;
        let requests = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&requests);
        let clocks = move || {
            count.fetch_add(1, Relaxed);
            ClockReading { mono_ns: rank.into(), wall_ns: 0 }
        };
        let end = stdio::agent_end(input, output, clocks, <_>::default());
        // Clock readings are exchanged before anything that could be a request.
        assert_eq!(end.next_order(), None);
        Ok(requests.load(Relaxed))
    })
}

fn come(
    address: SocketAddr,
    token: &Token,
    (host, rank, size): (&str, u32, u32),
) -> Result<ControllerStream, JoinError> {
    let hello = Hello { rank, size, host: host.to_owned(), kernel: "k".to_owned() };
    join(&address.to_string(), token, &hello, SOON, &AtomicBool::new(false))
}
