//! Starting, querying and stopping a server.
//!
//! [`Server`] owns the threads; dropping it stops and joins them. Everything it reports is read
//! from shared state without disturbing the loops.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use model::server_memory::file_bytes;
use nfs_proto::limits::{RECORD_OVERHEAD_BYTES, TRANSFER_BYTES_MAX, V2_TRANSFER_BYTES_MAX};
use rustix::net::sockopt::tcp_congestion;
use rustix::process::{Resource, getrlimit};

use crate::access::{AllowList, Network};
use crate::clock::new_boot_id;
use crate::config::{
    DataServerAddress, DataServers, Delegations, PnfsConfig, ServerConfig, Versions,
};
use crate::controls::Controls;
use crate::counters::{ServerCounters, ThreadCounters};
use crate::error::ServerError;
use crate::event_loop::{EventLoop, Listener, Sockets};
use crate::fault::{LayoutEvent, Pipe};
use crate::fs::{Context, FileSystem};
use crate::limits::{
    DATA_MEMORY_SHARES, DATA_SERVERS_MAX, DESCRIPTORS_RESERVED, MIRRORS_MAX, STRIPE_UNIT_MULTIPLE,
    TRANSFER_BYTES_MIN,
};
use crate::listen::{self, OpenedSockets};
use crate::mailbox::{EventLoops, Mailbox};
use crate::memory::Memory;
use crate::origin::Transport;
use crate::pnfs::{Location, Pnfs};
use crate::replies::Replies;
use crate::schedule::Schedule;
use crate::service::{GrantedSizes, Registered, Service, Shared, Tables, registrations};
use crate::tls::TlsServer;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// A running server.
///
/// # Examples
///
/// Serves an empty export `/export` on loopback until it is stopped:
/// ```
/// use nfs_server::{Server, ServerConfig};
///
/// let server = Server::start(ServerConfig::default())?;
/// let address = server.address();
/// assert!(address.ip().is_loopback());
/// let (host, port) = (address.ip(), address.port());
/// println!("mount -t nfs -o port={port},mountport={port} {host}:/export /mnt");
/// assert_eq!(server.list_directory("/export"), Some(Vec::new()));
/// server.shutdown();
/// # Ok::<(), nfs_server::ServerError>(())
/// ```
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    portmap_address: Option<SocketAddr>,
    congestion_control: Option<String>,
    shared: Arc<Shared>,
    /// Data servers in this process.
    data_servers: Vec<Self>,
    counters: Vec<Arc<ThreadCounters>>,
    controls: Arc<Controls>,
    schedule: Option<Schedule>,
    mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<()>>,
    thread_ids: Vec<i32>,
}

impl Server {
    /// Starts a server; when this returns, it is listening.
    ///
    /// # Errors
    /// [`ServerError`] if a setting is out of range or the system refuses something; then nothing
    /// is left running.
    pub fn start(config: ServerConfig) -> Result<Self, ServerError> {
        check_config(&config)?;
        let fs = file_system(&config)?;
        let data_servers = start_data_servers(&config)?;
        let pnfs = start_pnfs(&config, fs.boot_id(), &data_servers)?;
        let tls = config.tls.as_ref().map(|tls| TlsServer::new(tls, config.listen)).transpose()?;
        let threads = thread_count(config.threads);
        let OpenedSockets { sockets, address, portmap_address } = listen::open(&config, threads)?;
        // Accepted sockets inherit it from the listener.
        let listener = sockets[0].listeners.first();
        let congestion_control =
            listener.and_then(|listener| tcp_congestion(&listener.socket).ok());
        let clients_max = clients_max(config.clients_max);
        let registrations = registered_programs(&sockets[0]);
        let shared = Arc::new(shared_state(config, threads, fs, tls, pnfs, registrations));
        let mut mailboxes = Vec::new();
        for _ in 0..threads {
            let mailbox =
                Mailbox::new().map_err(ServerError::system("create an event descriptor"))?;
            mailboxes.push(Arc::new(mailbox));
        }
        let mut server = Self {
            address,
            portmap_address,
            congestion_control,
            controls: Arc::new(Controls::new(Arc::clone(&shared), mailboxes.clone())),
            shared,
            data_servers,
            counters: (0..threads).map(|_| Arc::default()).collect(),
            schedule: None,
            mailboxes,
            threads: Vec::new(),
            thread_ids: Vec::new(),
        };
        server.spawn_loops(sockets, clients_max)?;
        let events = &server.shared.faults.schedule;
        server.schedule = Schedule::start(events, Arc::clone(&server.controls))
            .map_err(ServerError::system("start a thread"))?;
        Ok(server)
    }

    /// Address of NFS and MOUNT.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of the portmapper, if it is served.
    pub fn portmap_address(&self) -> Option<SocketAddr> {
        self.portmap_address
    }

    /// Congestion control in effect on the sockets, if the system reports it.
    pub fn congestion_control(&self) -> Option<&str> {
        self.congestion_control.as_deref()
    }

    /// Sums over all threads since the start.
    pub fn counters(&self) -> ServerCounters {
        let mut sum = ServerCounters::default();
        for thread in &self.counters {
            sum.merge(thread);
        }
        sum.clients_out_of_memory = self.shared.memory.clients_refused();
        let delegations = &self.shared.nfs4.delegation_counts;
        sum.delegations_granted = delegations.granted.load(Relaxed);
        sum.delegations_recalled = delegations.recalled.load(Relaxed);
        sum.delegations_returned = delegations.returned.load(Relaxed);
        sum.delegations_revoked = delegations.revoked.load(Relaxed);
        let layouts = &self.shared.nfs4.layout_counts;
        sum.layouts_granted = layouts.granted.load(Relaxed);
        sum.layouts_recalled = layouts.recalled.load(Relaxed);
        sum.layouts_returned = layouts.returned.load(Relaxed);
        sum.layouts_revoked = layouts.revoked.load(Relaxed);
        sum
    }

    /// Errors of data servers that clients have reported, by data server.
    pub fn data_server_errors(&self) -> Vec<u64> {
        self.shared.pnfs.as_ref().map(|pnfs| pnfs.client_errors()).unwrap_or_default()
    }

    /// Data servers in this process, if the server has any of its own.
    pub fn data_servers(&self) -> &[Self] {
        &self.data_servers
    }

    /// Addresses of all data servers.
    pub fn data_server_addresses(&self) -> Vec<SocketAddr> {
        self.shared.pnfs.iter().flat_map(|pnfs| pnfs.addresses()).collect()
    }

    /// Bytes that were read from data servers, and written to them, for clients without a layout.
    pub fn proxied_bytes(&self) -> (u64, u64) {
        let each = self.shared.pnfs.iter().flat_map(|pnfs| pnfs.proxied());
        each.fold((0, 0), |sum, one| (sum.0 + one.read_bytes, sum.1 + one.written_bytes))
    }

    /// Like [`Server::counters`], with what clients read and wrote on the data servers in this
    /// process: READ, WRITE and COMMIT calls and their bytes. Calls of this server to its data
    /// servers don't count.
    pub fn cluster_counters(&self) -> ServerCounters {
        let mut sum = self.counters();
        let proxied = self.shared.pnfs.iter().flat_map(|pnfs| pnfs.proxied());
        for (server, proxied) in self.data_servers.iter().zip(proxied) {
            sum.add_data_server(&server.counters(), &proxied);
        }
        sum
    }

    /// Kernel ids of the threads, to find their CPU time in `/proc`.
    pub fn thread_ids(&self) -> &[i32] {
        &self.thread_ids
    }

    /// Memory currently charged to files, in bytes: data, names, inodes, and data being sent.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.fs.memory_bytes()
    }

    /// Memory currently charged to everything else, in bytes: connections, half-received calls,
    /// half-sent replies, and the state of v4 clients.
    pub fn client_memory_bytes(&self) -> u64 {
        self.shared.memory.used_bytes()
    }

    /// Verifier of WRITE and COMMIT: different after each start.
    pub fn write_verifier(&self) -> [u8; 8] {
        self.shared.verifier().0
    }

    /// The file system itself, to prepare or inspect it without going through NFS.
    pub fn file_system(&self) -> &FileSystem {
        &self.shared.fs
    }

    /// All bytes of a file by its absolute path, such as `/export/name`.
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        self.shared.fs.read_path(path).ok()
    }

    /// Size of a file in bytes.
    pub fn file_size(&self, path: &str) -> Option<u64> {
        let (_, attributes) = self.shared.fs.find_path(path).ok()?;
        Some(attributes.size)
    }

    /// Names in a directory, in order of creation.
    pub fn list_directory(&self, path: &str) -> Option<Vec<String>> {
        let names = self.shared.fs.list_path(path).ok()?;
        Some(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// Certificates of the server as PEM if it offers TLS, for clients that need to trust it.
    pub fn certificate_pem(&self) -> Option<&str> {
        let tls = self.shared.tls.as_ref()?;
        Some(tls.chain_pem.as_str())
    }

    /// Restarts as described in [`crate::ServerEvent::Restart`]; returns when it is done.
    pub fn restart_now(&self) {
        self.controls.restart();
    }

    /// Recalls, revokes or fences all layouts, as [`crate::ServerEvent::Layouts`] does.
    pub fn take_back_layouts_now(&self, event: LayoutEvent) {
        self.controls.take_back_layouts(event);
    }

    /// Closes all connections and ports, as [`crate::ServerEvent::Die`] does.
    pub fn die_now(&self) {
        self.controls.die();
    }

    /// Stalls for a while as described in [`crate::ServerEvent::Stall`]; returns at once.
    pub fn stall_now(&self, duration: Duration) {
        self.controls.stall(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Stops answering, closes every connection and joins the threads; dropping does the same.
    pub fn shutdown(self) {
        drop(self);
    }

    fn spawn_loops(
        &mut self,
        sockets: Vec<Sockets>,
        clients_max: usize,
    ) -> Result<(), ServerError> {
        let loops = Arc::new(EventLoops {
            mailboxes: self.mailboxes.clone(),
            clients_max,
            open: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
        });
        for (index, own) in sockets.into_iter().enumerate() {
            let counters = Arc::clone(&self.counters[index]);
            let service = Service::new(Arc::clone(&self.shared), counters);
            let event_loop = EventLoop::new(index, Arc::clone(&loops), own, service)
                .map_err(ServerError::system("set up an event loop"))?;
            let (sender, receiver) = mpsc::channel();
            let run = move || {
                // The thread that starts it waits for this, so the send can't fail.
                let _ = sender.send(rustix::thread::gettid().as_raw_nonzero().get());
                event_loop.run().expect("epoll_wait only fails if interrupted");
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
        // The schedule sends orders to the loops, so it stops before they do.
        self.schedule = None;
        for mailbox in &self.mailboxes {
            mailbox.stop();
        }
        // The loops may wait for data servers, but only briefly; the data servers stop last.
        if let Some(pnfs) = &self.shared.pnfs {
            pnfs.stop();
        }
        for thread in self.threads.drain(..) {
            // A loop that panicked is a bug; pass the panic on, but not during another panic.
            if let Err(panic) = thread.join()
                && !thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn check_config(config: &ServerConfig) -> Result<(), ServerError> {
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
        let setting = "allowed";
        let value = "empty".to_owned();
        let expected = "a list of client addresses if the server does not listen on loopback";
        return Err(ServerError::Setting { setting, value, expected });
    }
    check_pnfs(config)?;
    for path in &config.exports {
        if !path.starts_with('/') || path.split('/').any(|name| matches!(name, "." | "..")) {
            let expected = "an absolute path without `.` and `..`";
            return Err(ServerError::Setting { setting: "exports", value: path.clone(), expected });
        }
    }
    Ok(())
}

fn check_pnfs(config: &ServerConfig) -> Result<(), ServerError> {
    let Some(pnfs) = &config.pnfs else { return Ok(()) };
    let bad =
        |setting, value: String, expected| Err(ServerError::Setting { setting, value, expected });
    let servers = pnfs.servers.count();
    if !(1..=DATA_SERVERS_MAX).contains(&servers) {
        return bad("pnfs.servers", servers.to_string(), "from 1 to 64 data servers");
    }
    let mirrors_max = if pnfs.layout.is_flexible() { MIRRORS_MAX.min(servers) } else { 1 };
    if !(1..=mirrors_max).contains(&pnfs.mirrors) {
        let expected = "1, or up to 16 and the number of data servers for flexible files";
        return bad("pnfs.mirrors", pnfs.mirrors.to_string(), expected);
    }
    if !pnfs.stripe_unit.is_multiple_of(STRIPE_UNIT_MULTIPLE) {
        let expected = "a multiple of 4 KiB, or 0";
        return bad("pnfs.stripe_unit", pnfs.stripe_unit.to_string(), expected);
    }
    if !config.versions.v4_1 && !config.versions.v4_2 {
        let expected = "NFS v4.1 or v4.2, since no other version has layouts";
        return bad("versions", "too old for data servers".to_owned(), expected);
    }
    Ok(())
}

/// Starts the data servers that run in this process.
fn start_data_servers(config: &ServerConfig) -> Result<Vec<Server>, ServerError> {
    let Some(PnfsConfig { servers: DataServers::Own(count), .. }) = config.pnfs else {
        return Ok(Vec::new());
    };
    let mut allowed = config.allowed.clone();
    // The control calls from the address that it calls.
    if !config.listen.is_unspecified() && !config.listen.to_canonical().is_loopback() {
        allowed.push(Network::new(config.listen, 128));
    }
    let memory_limit_bytes =
        config.memory_limit_bytes / DATA_MEMORY_SHARES * (DATA_MEMORY_SHARES - 1) / count as u64;
    let start = |index| {
        Server::start(ServerConfig {
            faults: config.faults.for_data_server(index),
            listen: config.listen,
            allowed: allowed.clone(),
            udp: false,
            versions: Versions { v3: true, v4_1: true, v4_2: true, ..Versions::NONE },
            store: config.store,
            memory_limit_bytes,
            threads: config.threads,
            clients_max: config.clients_max,
            lease_s: config.lease_s,
            read_bytes_max: config.read_bytes_max,
            write_bytes_max: config.write_bytes_max,
            congestion_control: config.congestion_control.clone(),
            is_data_server: true,
            delegations: Delegations::Off,
            clock: config.clock,
            ..ServerConfig::default()
        })
    };
    (0..count).map(start).collect()
}

/// Connects to the data servers, ours or others.
fn start_pnfs(
    config: &ServerConfig,
    boot_id: u64,
    own: &[Server],
) -> Result<Option<Arc<Pnfs>>, ServerError> {
    let Some(pnfs) = &config.pnfs else { return Ok(None) };
    let own_address = |server: &Server| {
        let mut address = server.address();
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        DataServerAddress { address, export: "/export".to_owned() }
    };
    let servers = match &pnfs.servers {
        DataServers::Own(_) => own.iter().map(own_address).collect(),
        DataServers::At(servers) => servers.clone(),
    };
    let failed = |(address, source)| ServerError::DataServer { address, source };
    let location = match &pnfs.servers {
        DataServers::At(_) => Location::Elsewhere,
        DataServers::Own(_) if config.listen.is_unspecified() => Location::AllAddresses,
        DataServers::Own(_) => Location::Here,
    };
    let started = Pnfs::start(pnfs, boot_id, &servers, location).map_err(failed)?;
    Ok(Some(Arc::new(started)))
}

fn file_system(config: &ServerConfig) -> Result<FileSystem, ServerError> {
    let now = (config.clock)();
    let limit_bytes = file_bytes(config.memory_limit_bytes);
    let mut fs = FileSystem::new(config.store, limit_bytes, new_boot_id(), now);
    let context = Context { now, ..Context::default() };
    for path in &config.exports {
        let failed = |source| ServerError::Export { path: path.clone(), source };
        let export = fs.make_path(path, &context).map_err(failed)?;
        fs.set_quirks(config.faults.quirks, export, &context).map_err(failed)?;
    }
    Ok(fs)
}

fn shared_state(
    config: ServerConfig,
    threads: usize,
    fs: FileSystem,
    tls: Option<TlsServer>,
    pnfs: Option<Arc<Pnfs>>,
    registrations: Vec<Registered>,
) -> Shared {
    let lower = |limit: Option<u32>, size: u32| limit.map_or(size, |limit| limit.min(size));
    let lease_ns = u64::from(config.lease_s) * NANOSECONDS_PER_SECOND;
    let memory = Arc::new(Memory::new(config.memory_limit_bytes, threads));
    Shared {
        nfs4: Tables::new(fs.boot_id(), lease_ns, Arc::clone(&memory)),
        replies: Replies::new(config.cached_replies_max, &memory.clients),
        fs,
        memory,
        exports: config.exports,
        versions: config.versions,
        permissions: config.permissions,
        delegations: config.delegations,
        lease_s: config.lease_s,
        granted: GrantedSizes {
            read_bytes_max: lower(config.faults.read_bytes_max, config.read_bytes_max),
            write_bytes_max: lower(config.faults.write_bytes_max, config.write_bytes_max),
            directory_bytes_preferred: config.directory_bytes_preferred,
        },
        tls,
        pnfs,
        is_data_server: config.is_data_server,
        allowed: AllowList { networks: config.allowed, loopback: config.loopback_allowed },
        partial_record_timeout_ns: config.partial_record_timeout_ns,
        // A v2 client may write 8192 bytes whatever is granted.
        record_bytes_max: config.write_bytes_max.max(V2_TRANSFER_BYTES_MAX) as usize
            + RECORD_OVERHEAD_BYTES,
        pipe: Pipe::default(),
        faults: config.faults,
        clock: config.clock,
        registrations,
        mounts: Mutex::new(BTreeSet::new()),
        restarts: AtomicU64::new(0),
        verifier_changes: AtomicU64::new(0),
    }
}

/// Returns the portmapper's registrations for the sockets of one loop, which has one for each port.
fn registered_programs(sockets: &Sockets) -> Vec<Registered> {
    let mut registered = Vec::new();
    for Listener { socket, offered } in &sockets.listeners {
        if let Ok(address) = socket.local_addr() {
            registered.extend(registrations(address, Transport::Tcp, *offered));
        }
    }
    for (socket, offered) in &sockets.datagrams {
        if let Ok(address) = socket.local_addr() {
            registered.extend(registrations(address, Transport::Udp, *offered));
        }
    }
    registered
}

/// Number of connections that the process's descriptors allow, at least one.
fn clients_max(configured: usize) -> usize {
    // Running out of descriptors in `accept` leaves connections in the backlog that can be neither
    // served nor refused, so stay below that. The soft limit counts: the process may have lowered
    // it for other descriptors.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = usize::try_from(limit.saturating_sub(DESCRIPTORS_RESERVED)).unwrap_or(usize::MAX);
    configured.min(room).max(1)
}

fn thread_count(configured: usize) -> usize {
    match configured {
        0 => thread::available_parallelism().map_or(1, usize::from),
        count => count,
    }
}
