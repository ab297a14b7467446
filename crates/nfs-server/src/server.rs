//! Starting, asking and stopping a server.
//!
//! [`Server`] owns the threads; dropping it stops and joins them. Everything it tells is read
//! from shared state without disturbing the loops.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use nfs_proto::limits::{RECORD_OVERHEAD_BYTES, TRANSFER_BYTES_MAX, V2_TRANSFER_BYTES_MAX};
use nfs_proto::program::Offered;
use rustix::net::sockopt::{set_socket_reuseaddr, set_tcp_congestion, tcp_congestion};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use crate::access::AllowList;
use crate::clock::new_boot_id;
use crate::config::{Portmap, ServerConfig, ServerError};
use crate::counters::{ServerCounters, ThreadCounters};
use crate::event_loop::{EventLoop, Fleet, Listener, Mailbox};
use crate::fault::Pipe;
use crate::fs::{Context, FileSystem};
use crate::limits::{BACKLOG, TRANSFER_BYTES_MIN};
use crate::service::{Granted, Registered, Service, Shared, registrations};

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    portmap_address: Option<SocketAddr>,
    congestion_control: Option<String>,
    shared: Arc<Shared>,
    counters: Vec<Arc<ThreadCounters>>,
    mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<()>>,
    thread_ids: Vec<i32>,
}

impl Server {
    /// Starts a server; it listens when this returns.
    ///
    /// # Errors
    /// [`ServerError`] where a setting is out of range or the system refuses; nothing is left
    /// running then.
    pub fn start(config: ServerConfig) -> Result<Self, ServerError> {
        check(&config)?;
        let fs = file_system(&config)?;
        let listeners = open_listeners(&config)?;
        let local = |listener: &Listener| listener.socket.local_addr();
        let address = local(&listeners[0]).map_err(ServerError::system("read the own address"))?;
        let portmap_address = match (config.portmap, listeners.get(1)) {
            (Portmap::Off, _) => None,
            (Portmap::Port(_), Some(own)) => local(own).ok(),
            _ => Some(address),
        };
        let congestion_control = tcp_congestion(&listeners[0].socket).ok();
        let (threads, clients_max) = (thread_count(config.threads), config.clients_max);
        let registered = listeners.iter().filter_map(|listener| {
            Some(registrations(local(listener).ok()?, false, listener.offered))
        });
        let registered = registered.flatten().collect();
        let shared = Arc::new(share(config, fs, registered));
        let mut server = Self {
            address,
            portmap_address,
            congestion_control,
            shared,
            counters: (0..threads).map(|_| Arc::default()).collect(),
            mailboxes: Vec::new(),
            threads: Vec::new(),
            thread_ids: Vec::new(),
        };
        server.spawn(threads, clients_max, listeners)?;
        Ok(server)
    }

    /// Address of NFS and MOUNT.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of the portmapper, where it is answered.
    pub fn portmap_address(&self) -> Option<SocketAddr> {
        self.portmap_address
    }

    /// Congestion control in force on the sockets, where the system tells.
    pub fn congestion_control(&self) -> Option<&str> {
        self.congestion_control.as_deref()
    }

    /// Sums over all threads since the start.
    pub fn counters(&self) -> ServerCounters {
        let mut sum = ServerCounters::default();
        self.counters.iter().for_each(|thread| sum.merge(thread));
        sum
    }

    /// Kernel ids of the threads, to find their CPU time in `/proc`.
    pub fn thread_ids(&self) -> &[i32] {
        &self.thread_ids
    }

    /// Memory charged at this moment, in bytes: data, names, inodes, and data being sent.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.fs.memory_bytes()
    }

    /// Verifier of WRITE and COMMIT: another one after each start.
    pub fn write_verifier(&self) -> [u8; 8] {
        self.shared.verifier().0
    }

    /// The file system itself, to prepare or inspect it without the wire.
    pub fn file_system(&self) -> &FileSystem {
        &self.shared.fs
    }

    /// All bytes of a file by its absolute path, such as `/export/name`.
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        self.shared.fs.read_path(path).ok()
    }

    /// Size of a file in bytes.
    pub fn file_size(&self, path: &str) -> Option<u64> {
        self.shared.fs.find_path(path).ok().map(|(_, attributes)| attributes.size)
    }

    /// Names in a directory, in the order in which they were made.
    pub fn list(&self, path: &str) -> Option<Vec<String>> {
        let names = self.shared.fs.list_path(path).ok()?;
        Some(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// Stops answering, closes every connection and joins the threads; dropping does the same.
    pub fn shutdown(self) {
        drop(self);
    }

    fn spawn(
        &mut self,
        threads: usize,
        clients_max: usize,
        listeners: Vec<Listener>,
    ) -> Result<(), ServerError> {
        for _ in 0..threads {
            let mailbox =
                Mailbox::new().map_err(ServerError::system("make an event descriptor"))?;
            self.mailboxes.push(Arc::new(mailbox));
        }
        let fleet = Arc::new(Fleet {
            mailboxes: self.mailboxes.clone(),
            clients_max,
            open: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
        });
        let mut listeners = Some(listeners);
        for index in 0..threads {
            let counters = Arc::clone(&self.counters[index]);
            let service = Service::new(Arc::clone(&self.shared), counters);
            let own = listeners.take().unwrap_or_default();
            let event_loop = EventLoop::new(index, Arc::clone(&fleet), own, service)
                .map_err(ServerError::system("prepare an event loop"))?;
            let (sender, receiver) = mpsc::channel();
            let run = move || {
                // The starter waits for this, so the send can't fail.
                let _ = sender.send(rustix::thread::gettid().as_raw_nonzero().get());
                event_loop.run().expect("waiting for events works");
            };
            let handle = thread::Builder::new()
                .name(format!("nfs-server-{index}"))
                .spawn(run)
                .map_err(ServerError::system("start a thread"))?;
            self.threads.push(handle);
            self.thread_ids.extend(receiver.recv());
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.stop());
        for thread in self.threads.drain(..) {
            // A loop that panicked is a bug; it is passed on, but not out of another panic.
            if let Err(panic) = thread.join()
                && !thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn check(config: &ServerConfig) -> Result<(), ServerError> {
    let sizes = [
        ("read_bytes_max", Some(config.read_bytes_max)),
        ("write_bytes_max", Some(config.write_bytes_max)),
        ("directory_bytes_preferred", Some(config.directory_bytes_preferred)),
        ("faults.read_bytes_max", config.faults.read_bytes_max),
        ("faults.write_bytes_max", config.faults.write_bytes_max),
    ];
    for (setting, value) in sizes {
        let Some(value) = value else { continue };
        if !(TRANSFER_BYTES_MIN..=TRANSFER_BYTES_MAX).contains(&value) {
            let expected = "from 512 bytes to 4 MiB";
            return Err(ServerError::Setting { setting, value: value.to_string(), expected });
        }
    }
    if !config.listen.to_canonical().is_loopback() && config.allowed.is_empty() {
        let (setting, value) = ("allowed", "empty".to_owned());
        let expected = "a list of client addresses where the server listens off loopback";
        return Err(ServerError::Setting { setting, value, expected });
    }
    let bad = config.exports.iter().find(|path| {
        !path.starts_with('/') || path.split('/').any(|name| matches!(name, "." | ".."))
    });
    if let Some(path) = bad {
        let expected = "an absolute path without `.` and `..`";
        return Err(ServerError::Setting { setting: "exports", value: path.clone(), expected });
    }
    Ok(())
}

fn file_system(config: &ServerConfig) -> Result<FileSystem, ServerError> {
    let now = (config.clock)();
    let fs = FileSystem::new(config.store, config.memory_limit_bytes, new_boot_id(), now);
    let context = Context { now, ..Context::default() };
    for path in &config.exports {
        fs.make_path(path, context)
            .map_err(|source| ServerError::Export { path: path.clone(), source })?;
    }
    Ok(fs)
}

fn share(config: ServerConfig, fs: FileSystem, registrations: Vec<Registered>) -> Shared {
    let lower = |limit: Option<u32>, size: u32| limit.map_or(size, |limit| limit.min(size));
    Shared {
        fs,
        exports: config.exports,
        versions: config.versions,
        lease_s: config.lease_s,
        granted: Granted {
            read_bytes_max: lower(config.faults.read_bytes_max, config.read_bytes_max),
            write_bytes_max: lower(config.faults.write_bytes_max, config.write_bytes_max),
            directory_bytes_preferred: config.directory_bytes_preferred,
        },
        allowed: AllowList::new(config.allowed, config.loopback_allowed),
        partial_record_timeout_ns: config.partial_record_timeout_ns,
        // A client of v2 may write 8192 bytes whatever is granted.
        record_bytes_max: config.write_bytes_max.max(V2_TRANSFER_BYTES_MAX) as usize
            + RECORD_OVERHEAD_BYTES,
        pipe: Pipe::default(),
        faults: config.faults,
        clock: config.clock,
        registrations,
        mounts: Mutex::new(BTreeSet::new()),
        restarts: AtomicU64::new(0),
    }
}

fn thread_count(configured: usize) -> usize {
    match configured {
        0 => thread::available_parallelism().map_or(1, usize::from),
        count => count,
    }
}

/// The listener of NFS and MOUNT first, then that of the portmapper where it has one.
fn open_listeners(config: &ServerConfig) -> Result<Vec<Listener>, ServerError> {
    let open = |port, offered| {
        let address = SocketAddr::new(config.listen, port);
        let socket = open_listener(address, config.congestion_control.as_deref())
            .map_err(|error| ServerError::Listen { address, source: error.into() })?;
        Ok(Listener { socket, offered })
    };
    let same_port = config.portmap == Portmap::SamePort;
    let portmapper = Offered { portmap: true, rpcbind: true, ..Offered::NONE };
    let (v2, v3) = (config.versions.v2, config.versions.v3);
    let programs = if same_port { portmapper } else { Offered::NONE };
    let nfs = Offered { nfs2: v2, mount1: v2, nfs3: v3, mount3: v3, ..programs };
    let mut listeners = vec![open(config.port, nfs)?];
    if let Portmap::Port(port) = config.portmap {
        listeners.push(open(port, portmapper)?);
    }
    Ok(listeners)
}

/// Opens a listening socket; accepted ones inherit its congestion control.
fn open_listener(
    address: SocketAddr,
    congestion_control: Option<&str>,
) -> rustix::io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
    set_socket_reuseaddr(&socket, true)?;
    if let Some(name) = congestion_control {
        // Refused or unknown: what is in force is told by `Server::congestion_control`.
        let _ = set_tcp_congestion(&socket, name);
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}
