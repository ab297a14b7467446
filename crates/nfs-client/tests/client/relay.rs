//! A further address of a server: a relay on loopback, which can be cut.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A relay that forwards TCP connections to a server.
pub struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    /// Replies are dropped, as if the network had lost them.
    drops_replies: AtomicBool,
    is_cut: AtomicBool,
    /// How long each piece of a reply is held back, in microseconds.
    delay_us: AtomicU64,
    dropped_bytes: AtomicU64,
    /// Bytes of replies to forward before the relay cuts itself.
    bytes_left: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// Starts a relay to a server.
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            drops_replies: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            delay_us: AtomicU64::new(0),
            dropped_bytes: AtomicU64::new(0),
            bytes_left: AtomicU64::new(u64::MAX),
            streams: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if shared.is_cut.load(Ordering::SeqCst) {
                    // Closing the listener refuses all further connections.
                    return;
                }
                let up = TcpStream::connect(server).unwrap();
                client.set_nodelay(true).unwrap();
                up.set_nodelay(true).unwrap();
                let ends = [client.try_clone().unwrap(), up.try_clone().unwrap()];
                shared.streams.lock().unwrap().extend(ends);
                let (from, to) = (client.try_clone().unwrap(), up.try_clone().unwrap());
                std::thread::spawn(move || forward(from, to, address, None));
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || forward(up, client, address, Some(&shared)));
            }
        });
        Self { address, state }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops all replies from now on; calls still reach the server.
    pub fn drop_replies(&self) {
        self.state.drops_replies.store(true, Ordering::SeqCst);
    }

    /// Number of bytes of replies that were dropped.
    pub fn dropped_bytes(&self) -> u64 {
        self.state.dropped_bytes.load(Ordering::SeqCst)
    }

    /// Holds back each piece of a reply.
    pub fn delay_replies(&self, delay: Duration) {
        self.state.delay_us.store(delay.as_micros() as u64, Ordering::SeqCst);
    }

    /// Closes all connections, and refuses further ones.
    pub fn cut(&self) {
        self.state.cut(self.address);
    }

    /// Does so after this many bytes of replies.
    pub fn cut_after(&self, reply_bytes: u64) {
        self.state.bytes_left.store(reply_bytes, Ordering::SeqCst);
    }
}

impl State {
    fn cut(&self, address: SocketAddr) {
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The listener is waiting for a connection.
        let _ = TcpStream::connect(address);
    }
}

/// Copies one direction of a connection until it ends.
#[expect(clippy::disallowed_methods, reason = "a relay delays by waiting")]
fn forward(mut from: TcpStream, mut to: TcpStream, address: SocketAddr, replies: Option<&State>) {
    let mut piece = vec![0; 1 << 18];
    while let Ok(len @ 1..) = from.read(&mut piece) {
        if let Some(state) = replies {
            if state.drops_replies.load(Ordering::SeqCst) {
                state.dropped_bytes.fetch_add(len as u64, Ordering::SeqCst);
                continue;
            }
            let delay_us = state.delay_us.load(Ordering::SeqCst);
            if delay_us > 0 {
                std::thread::sleep(Duration::from_micros(delay_us));
            }
            let left = state.bytes_left.load(Ordering::SeqCst);
            if left < len as u64 {
                state.cut(address);
                return;
            }
            if left < u64::MAX {
                state.bytes_left.fetch_sub(len as u64, Ordering::SeqCst);
            }
        }
        if to.write_all(&piece[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
