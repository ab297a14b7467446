//! Load from many clients at once, on one thread, for comparisons with other programs.
//!
//! `load nfs://HOST:PORT/EXPORT?version=3&mountport=PORT OP CLIENTS DEPTH SECONDS BYTES [keep]` OP
//! is `getattr`, `read` or `write`; each client has its own connection, name and user id and keeps
//! DEPTH operations of BYTES in flight. Opening and preparing are not timed. It prints one line of
//! JSON: operations, bytes, seconds, CPU time, and memory before the first and after the last
//! client was opened. Payload is discarded, or with `keep` compared.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool for tests that prints and reads the clock"
)]

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs_client::proto::client::{Data, Event, File, OpenAccess, Operation, Outcome, PayloadRange};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::{Connection, ConnectionOptions, Identity, Mount, MountOptions, Proto, Scratch};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::process::Resource;

/// Size of the file, in bytes.
const FILE_BYTES: u64 = 256 << 20;
const FILE: &str = "load";
const PATIENCE: Duration = Duration::from_secs(10);

type Failure = Box<dyn std::error::Error>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Getattr,
    Read,
    Write,
}

/// The command line.
struct Settings {
    options: MountOptions,
    op: Op,
    clients: usize,
    depth: usize,
    time: Duration,
    bytes: u32,
    keep: bool,
}

/// Everything needed to start the next operation and to check the last.
struct Work {
    op: Op,
    /// The file as opened by each client.
    files: Vec<File>,
    bytes: u32,
    next_offset: u64,
    pattern: Option<Arc<Vec<u8>>>,
    done: u64,
    moved: u64,
    wrong: Option<String>,
}

fn main() -> Result<(), Failure> {
    let settings = settings()?;
    raise_descriptor_limit();
    let mut mount = Mount::connect(&settings.options)?;
    // Twice the longest transfer, so that a payload can start anywhere in the first half.
    let pool: Vec<u8> = (0..2 * settings.bytes as usize).map(|at| (at % 251) as u8).collect();
    let pool = Arc::new(pool);
    let file = prepare(&mut mount, &settings, &pool)?;
    let before = resident_bytes()?;
    let mut connections = Vec::with_capacity(settings.clients);
    for number in 0..settings.clients {
        let identity = Identity { machine_name: format!("client-{number}"), ..Identity::default() };
        let options = ConnectionOptions {
            slots: settings.depth,
            write_pool: Arc::clone(&pool),
            keep_payload: settings.keep.then_some(settings.bytes),
            identity: Some(identity),
            ..ConnectionOptions::default()
        };
        connections.push(Connection::open(&mount, &options)?);
    }
    let root = mount.root();
    let mut files = vec![file; settings.clients];
    if mount.version().is_stateful() && settings.op != Op::Getattr {
        for (connection, file) in connections.iter_mut().zip(&mut files) {
            *file = open(connection, &root)?;
        }
    }
    let mut work = Work {
        op: settings.op,
        files,
        bytes: settings.bytes,
        next_offset: 0,
        pattern: settings.keep.then(|| Arc::clone(&pool)),
        done: 0,
        moved: 0,
        wrong: None,
    };
    let start = Instant::now();
    let cpu = processor_s();
    if let [connection] = &mut connections[..] {
        alone(connection, &mut work, start, settings.time)?;
    } else {
        many(&mut connections, &mut work, start, settings.time)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu = processor_s() - cpu;
    if let Some(wrong) = work.wrong {
        return Err(wrong.into());
    }
    let ops = work.done;
    let moved = work.moved;
    let after = resident_bytes()?;
    println!(
        "{{\"ops\": {ops}, \"bytes\": {moved}, \"seconds\": {seconds}, \"cpu_s\": {cpu}, \
         \"memory_before\": {before}, \"memory_after\": {after}}}"
    );
    Ok(())
}

fn settings() -> Result<Settings, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, op, clients, depth, seconds, bytes, more @ ..] = &arguments[..] else {
        return Err("load ADDRESS OP CLIENTS DEPTH SECONDS BYTES [keep]".into());
    };
    let op = match op.as_str() {
        "getattr" => Op::Getattr,
        "read" => Op::Read,
        "write" => Op::Write,
        other => return Err(format!("unknown operation `{other}`").into()),
    };
    let bytes: u32 = bytes.parse()?;
    let mut options = parse(address)?;
    options.rsize = Some(bytes.max(512));
    options.wsize = Some(bytes.max(512));
    options.congestion_control = Some("cubic".to_owned());
    Ok(Settings {
        options,
        op,
        clients: clients.parse()?,
        depth: depth.parse()?,
        time: Duration::from_secs(seconds.parse()?),
        bytes,
        keep: more.first().is_some_and(|word| word == "keep"),
    })
}

fn parse(address: &str) -> Result<MountOptions, Failure> {
    let rest = address.strip_prefix("nfs://").ok_or("an address must start with nfs://")?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, export) = path.split_once('/').ok_or("the address has no export")?;
    let (host, port) = host.rsplit_once(':').ok_or("the address has no port")?;
    let mut options = MountOptions::new(host, format!("/{export}"));
    options.port = Some(port.parse()?);
    options.timeout = PATIENCE;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("version", value)) => options.version = value.parse()?,
            Some(("mountport", value)) => options.mount_port = Some(value.parse()?),
            Some(("proto", "udp")) => options.proto = Proto::Udp,
            Some(("proto", "tcp")) => options.proto = Proto::Tcp,
            _ => return Err(format!("`{pair}` is unknown").into()),
        }
    }
    Ok(options)
}

/// Creates the file, and fills it if it will be read.
fn prepare(mount: &mut Mount, settings: &Settings, pool: &[u8]) -> Result<File, Failure> {
    let root = mount.root();
    let file = mount.create(root, FILE)?;
    if settings.op == Op::Read {
        let block = &pool[..settings.bytes as usize];
        for offset in (0..FILE_BYTES).step_by(block.len()) {
            mount.write(file, offset, block, StableHow::Unstable)?;
        }
    }
    Ok(file)
}

/// Opens the file for one client: in version 4 an open belongs to its client.
fn open(connection: &mut Connection, dir: &File) -> Result<File, Failure> {
    let access = OpenAccess::Both;
    connection.start(0, 0, &Operation::Open { dir, name: FILE.as_bytes(), access })?;
    let mut scratch = Scratch::new();
    let mut opened = None;
    while opened.is_none() {
        let mut take = |event: &Event<'_>| opened = Some(event.file.copied().ok_or(event.result));
        connection.wait(&mut scratch, &|| 0, PATIENCE, &mut take)?;
    }
    match opened {
        Some(Ok(file)) => Ok(file),
        other => Err(format!("OPEN gave {other:?}").into()),
    }
}

impl Work {
    /// Fills the slots of a connection and sends the started operations.
    fn fill(
        &mut self,
        (number, connection): (usize, &mut Connection),
        clock: &dyn Fn() -> u64,
    ) -> Result<(), Failure> {
        let now_ns = clock();
        while connection.free_slots() > 0 {
            let file = &self.files[number];
            let offset = self.next_offset;
            let count = self.bytes;
            let operation = match self.op {
                Op::Getattr => Operation::Getattr { file },
                Op::Read => Operation::Read { file, offset, count },
                Op::Write => {
                    let data = Data::Pool(PayloadRange { start: 0, len: count });
                    Operation::Write { file, offset, stable: StableHow::Unstable, data }
                }
            };
            connection.start(now_ns, 0, &operation)?;
            let next = offset + u64::from(count);
            self.next_offset = if next + u64::from(count) > FILE_BYTES { 0 } else { next };
        }
        Ok(connection.flush(clock)?)
    }

    fn take(&mut self, event: &Event<'_>) {
        let moved = match event.result {
            Ok(Outcome::Attributes(_)) => Some(0),
            Ok(Outcome::Read { count, .. } | Outcome::Written { count, .. })
                if count == self.bytes =>
            {
                Some(count)
            }
            _ => None,
        };
        let Some(moved) = moved else {
            self.wrong = Some(format!("{}: {:?}", event.kind, event.result));
            return;
        };
        if let (Op::Read, Some(pattern)) = (self.op, &self.pattern)
            && event.payload != &pattern[..self.bytes as usize]
        {
            self.wrong = Some("a READ returned different data".to_owned());
        }
        self.done += 1;
        self.moved += u64::from(moved);
    }
}

/// One connection: no event loop is needed.
fn alone(
    connection: &mut Connection,
    work: &mut Work,
    start: Instant,
    time: Duration,
) -> Result<(), Failure> {
    let clock = || start.elapsed().as_nanos() as u64;
    let mut scratch = Scratch::new();
    while start.elapsed() < time && work.wrong.is_none() {
        work.fill((0, &mut *connection), &clock)?;
        connection.wait(&mut scratch, &clock, PATIENCE, &mut |event| work.take(event))?;
    }
    Ok(())
}

/// Many connections behind one `epoll_wait`.
fn many(
    connections: &mut [Connection],
    work: &mut Work,
    start: Instant,
    time: Duration,
) -> Result<(), Failure> {
    let clock = || start.elapsed().as_nanos() as u64;
    let mut scratch = Scratch::new();
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (number, connection) in connections.iter_mut().enumerate() {
        let data = EventData::new_u64(number as u64);
        epoll::add(&epoll, connection.as_fd(), data, EventFlags::IN)?;
        work.fill((number, connection), &clock)?;
    }
    let mut ready = Vec::with_capacity(256);
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    while start.elapsed() < time && work.wrong.is_none() {
        ready.clear();
        if epoll::wait(&epoll, spare_capacity(&mut ready), Some(&patience))? == 0 {
            return Err("no answer".into());
        }
        for event in &ready {
            let number = { event.data }.u64();
            let connection = &mut connections[number as usize];
            connection.receive(&mut scratch, &clock, &mut |event| work.take(event))?;
            work.fill((number as usize, connection), &clock)?;
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::OUT, connection.wants_write());
            if connection.wants_write() || { event.flags }.contains(EventFlags::OUT) {
                epoll::modify(&epoll, connection.as_fd(), EventData::new_u64(number), flags)?;
            }
        }
    }
    Ok(())
}

/// Raises the limit on open files as far as allowed.
fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    // If that is refused, opening the clients will fail with a message.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// CPU time of this process so far, in seconds.
fn processor_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Memory in use, in bytes. **Source:** proc_pid_statm(5), second field, in pages.
fn resident_bytes() -> io::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages =
        pages.ok_or_else(|| io::Error::other("/proc/self/statm has the expected format"))?;
    Ok(pages * rustix::param::page_size() as u64)
}
