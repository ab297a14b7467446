//! The control of one data server: a thread that makes one NFSv3 call after the other.
//!
//! A [`ControlLine`] hands [`Work`] to the thread, which does it in order; whoever needs the
//! outcome waits for its [`Pending`], but never for long. In between the thread creates data files
//! for the pool, removes those of files that are gone, and connects again if the connection is
//! lost.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nfs_proto::nfs3::{Call, CreateHow, FileHandle, Reply, Sattr, StableHow, Status};
use nfs_proto::nfs4::exchange;

use super::caller::{Caller, refused};
use crate::clock::{monotonic_ns, pause};
use crate::config::LayoutKind;
use crate::fs::FsError;
use crate::placement::{DataFile, owner_of};
use crate::sync;

/// Time in which a data server must answer before it counts as down.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which it must accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between attempts to connect, in nanoseconds.
const RETRY_NS: u64 = 200_000_000;
/// Interval between questions for the space, in nanoseconds.
const SPACE_NS: u64 = 1_000_000_000;
/// Data files to keep ready at first; the number doubles each time there is none left.
const POOL_START: usize = 64;
/// Maximum number of data files to keep ready.
const POOL_MAX: usize = 4096;
/// Largest READ and WRITE, in bytes.
const TRANSFER_BYTES: u64 = 1 << 20;
/// Jobs that may wait for a data server.
const JOBS_MAX: usize = 1024;

/// A data server and the settings of its data files.
#[derive(Clone, Debug)]
pub(super) struct ControlConfig {
    pub(super) index: usize,
    pub(super) address: SocketAddr,
    pub(super) export: String,
    /// Name of the directory of the data files.
    pub(super) directory: String,
    /// Decides who may access data files, and over which version.
    pub(super) layout: LayoutKind,
    /// Whether data files have to be removed at the end, since the data server continues.
    pub(super) cleans_up: bool,
}

/// What a job is about to do to a data file.
#[derive(Debug)]
pub(super) enum Work {
    Read {
        offset: u64,
        count: u64,
    },
    Write {
        offset: u64,
        data: Vec<u8>,
    },
    Resize(u64),
    /// Find out how large it is.
    Size,
    /// Change the users that may access it.
    Fence(u32),
}

/// The outcome of a job.
#[derive(Clone, Debug)]
pub(super) enum WorkDone {
    /// Bytes that were read, up to the end of the data file.
    Data(Arc<[u8]>),
    Size(u64),
    Changed,
}

/// READ and WRITE calls to a data server for clients without a layout, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProxiedCounts {
    pub(crate) read_calls: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_calls: u64,
    pub(crate) written_bytes: u64,
}

/// The outcome of a job once it is there.
#[derive(Debug, Default)]
pub(super) struct Pending {
    outcome: Mutex<Option<Result<WorkDone, FsError>>>,
    is_done: Condvar,
}

impl Pending {
    /// Waits for the outcome until an instant of the monotonic clock; `None` if it is not there by
    /// then.
    pub(super) fn wait_until(&self, until_ns: u64) -> Option<Result<WorkDone, FsError>> {
        let mut outcome = sync::lock(&self.outcome);
        loop {
            let left = Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()));
            if outcome.is_some() || left.is_zero() {
                return outcome.clone();
            }
            outcome =
                self.is_done.wait_timeout(outcome, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn finish(&self, outcome: Result<WorkDone, FsError>) {
        *sync::lock(&self.outcome) = Some(outcome);
        self.is_done.notify_all();
    }
}

#[derive(Debug)]
enum Order {
    Do(FileHandle, Work, Arc<Pending>),
    /// Look after the pool and the data files to remove.
    Tend,
}

/// The part of a control that other threads see.
#[derive(Debug)]
struct ControlState {
    pool: Mutex<VecDeque<DataFile>>,
    /// Number of data files to keep ready.
    wanted: AtomicUsize,
    /// Numbers of data files to remove.
    removals: Mutex<Vec<u64>>,
    /// Since when the data server does not answer; 0 if it does.
    down_ns: AtomicU64,
    /// Number of jobs that wait.
    waiting: AtomicUsize,
    is_stopped: AtomicBool,
    /// The connection, to interrupt a call when the server stops.
    stream: Mutex<Option<TcpStream>>,
    /// Number of the next data file.
    next_file: AtomicU64,
    /// Total and free space in bytes, as last reported.
    total_bytes: AtomicU64,
    free_bytes: AtomicU64,
    /// READ and WRITE calls for clients that go through the metadata server, and their bytes.
    read_calls: AtomicU64,
    read_bytes: AtomicU64,
    write_calls: AtomicU64,
    written_bytes: AtomicU64,
}

/// See the module; dropping it stops the thread.
#[derive(Debug)]
pub(super) struct ControlLine {
    pub(super) config: ControlConfig,
    state: Arc<ControlState>,
    orders: Mutex<Option<Sender<Order>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ControlLine {
    /// Starts the thread; returns when the data server has answered and the pool is filled.
    ///
    /// # Errors
    /// If it can't be used within that time.
    pub(super) fn start(config: ControlConfig, patience_ns: u64) -> io::Result<Self> {
        let state = Arc::new(ControlState {
            pool: Mutex::default(),
            wanted: AtomicUsize::new(POOL_START),
            removals: Mutex::default(),
            down_ns: AtomicU64::new(monotonic_ns().max(1)),
            waiting: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            stream: Mutex::default(),
            next_file: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
            free_bytes: AtomicU64::new(0),
            read_calls: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            write_calls: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        });
        let mut control = Control {
            config: config.clone(),
            state,
            connection: None,
            connect_again_ns: 0,
            ask_space_ns: 0,
        };
        let until_ns = monotonic_ns().saturating_add(patience_ns);
        while let Err(error) = control.connect() {
            if monotonic_ns() >= until_ns || error.kind() == ErrorKind::Other {
                return Err(error);
            }
            pause(RETRY_NS);
        }
        control.check_role()?;
        control.fill_pool()?;
        control.ask_space()?;
        let state = Arc::clone(&control.state);
        let (sender, receiver) = mpsc::channel();
        let name = format!("nfs-control-{}", config.index);
        let thread = thread::Builder::new().name(name).spawn(move || control.run(&receiver))?;
        let orders = Mutex::new(Some(sender));
        Ok(Self { config, state, orders, thread: Mutex::new(Some(thread)) })
    }

    /// How long the data server has not answered, in nanoseconds; 0 if it does.
    pub(super) fn downtime_ns(&self) -> u64 {
        match self.state.down_ns.load(Ordering::Acquire) {
            0 => 0,
            since_ns => monotonic_ns().saturating_sub(since_ns).max(1),
        }
    }

    /// Whether the data server answers.
    pub(super) fn is_up(&self) -> bool {
        self.downtime_ns() == 0
    }

    /// Takes a data file that no file uses yet; `None` if there is none right now.
    pub(super) fn take_file(&self) -> Option<DataFile> {
        let (file, left) = {
            let mut pool = sync::lock(&self.state.pool);
            (pool.pop_front(), pool.len())
        };
        let wanted = self.state.wanted.load(Ordering::Relaxed);
        if file.is_none() {
            self.state.wanted.store((wanted * 2).min(POOL_MAX), Ordering::Relaxed);
        }
        if left == wanted / 2 || file.is_none() {
            self.send(Order::Tend);
        }
        file
    }

    /// Gives back data files: unused ones to the pool, others to be removed.
    pub(super) fn put_back(&self, file: DataFile) {
        sync::lock(&self.state.pool).push_front(file);
    }

    /// Removes a data file soon.
    pub(super) fn remove(&self, number: u64) {
        sync::lock(&self.state.removals).push(number);
        self.send(Order::Tend);
    }

    /// Starts some work on a data file.
    pub(super) fn begin(&self, handle: FileHandle, work: Work) -> Arc<Pending> {
        let pending = Arc::new(Pending::default());
        let is_full = self.state.waiting.load(Ordering::Relaxed) >= JOBS_MAX;
        if is_full || !self.is_up() {
            pending.finish(Err(FsError::TryLater));
            return pending;
        }
        self.state.waiting.fetch_add(1, Ordering::Relaxed);
        self.send(Order::Do(handle, work, Arc::clone(&pending)));
        pending
    }

    /// What was read and written for clients that went through the metadata server.
    pub(super) fn proxied(&self) -> ProxiedCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProxiedCounts {
            read_calls: count(&self.state.read_calls),
            read_bytes: count(&self.state.read_bytes),
            write_calls: count(&self.state.write_calls),
            written_bytes: count(&self.state.written_bytes),
        }
    }

    /// Total and free space in bytes, not older than a second while nothing else is to be done.
    pub(super) fn space(&self) -> (u64, u64) {
        let order = Ordering::Relaxed;
        (self.state.total_bytes.load(order), self.state.free_bytes.load(order))
    }

    fn send(&self, order: Order) {
        if let Some(orders) = &*sync::lock(&self.orders) {
            // It fails only if the thread has panicked, which is reported when it is joined.
            let _ = orders.send(order);
        }
    }

    /// Stops the thread after it has removed all data files, if the data server answers.
    pub(super) fn stop(&self) {
        self.state.is_stopped.store(true, Ordering::Release);
        *sync::lock(&self.orders) = None;
        if !self.is_up()
            && let Some(stream) = &*sync::lock(&self.state.stream)
        {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(thread) = sync::lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

impl Drop for ControlLine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread's side.
#[derive(Debug)]
struct Control {
    config: ControlConfig,
    state: Arc<ControlState>,
    /// The connection and the directory of the data files.
    connection: Option<(Caller, FileHandle)>,
    /// When to try to connect again.
    connect_again_ns: u64,
    /// When to ask for the space again.
    ask_space_ns: u64,
}

impl Control {
    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let order = match orders.recv_timeout(Duration::from_nanos(RETRY_NS)) {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if self.connection.is_none() && !self.connect_again() {
                self.fail(order, orders);
                continue;
            }
            let is_idle = order.is_none();
            let outcome = match order {
                Some(Order::Do(handle, work, pending)) => self.carry_out(handle, &work, &pending),
                Some(Order::Tend) | None => self.tend(),
            };
            let outcome = outcome.and_then(|()| if is_idle { self.ask_space() } else { Ok(()) });
            if outcome.is_err() {
                self.note_down();
            }
        }
        if self.config.cleans_up {
            self.remove_everything();
        }
    }

    /// Fails everything that waits for a data server that is down.
    fn fail(&self, order: Option<Order>, orders: &Receiver<Order>) {
        for order in order.into_iter().chain(orders.try_iter()) {
            if let Order::Do(_, _, pending) = order {
                self.state.waiting.fetch_sub(1, Ordering::Relaxed);
                pending.finish(Err(FsError::TryLater));
            }
        }
    }

    /// Connects if it is time to try that.
    fn connect_again(&mut self) -> bool {
        let now_ns = monotonic_ns();
        if now_ns < self.connect_again_ns {
            return false;
        }
        self.connect_again_ns = now_ns.saturating_add(RETRY_NS);
        self.connect().is_ok()
    }

    fn note_down(&mut self) {
        self.connection = None;
        *sync::lock(&self.state.stream) = None;
        let order = Ordering::AcqRel;
        let now_ns = monotonic_ns().max(1);
        let _ = self.state.down_ns.compare_exchange(0, now_ns, order, Ordering::Acquire);
    }

    fn connect(&mut self) -> io::Result<()> {
        let ControlConfig { address, export, directory, .. } = &self.config;
        let mut caller = Caller::connect(*address, CONNECT_TIMEOUT)?;
        let root = caller.mount(*address, export, CONNECT_TIMEOUT)?;
        let name = directory.as_bytes();
        let directory = if let Some(directory) = caller.lookup(&root, name)? {
            directory
        } else {
            // A data server without our directory has none of our data files either.
            sync::lock(&self.state.pool).clear();
            let attributes = Sattr::with_mode(0o755);
            caller.nfs(Call::Mkdir { dir: &root, name, attributes }, |reply| match reply {
                Reply::Mkdir { result: Err(status), .. } => Err(refused("MKDIR", status)),
                _ => Ok(()),
            })??;
            caller.lookup(&root, name)?.ok_or(ErrorKind::NotFound)?
        };
        caller.set_timeout(CALL_TIMEOUT)?;
        *sync::lock(&self.state.stream) = Some(caller.stream_handle()?);
        self.connection = Some((caller, directory));
        self.state.down_ns.store(0, Ordering::Release);
        Ok(())
    }

    /// Checks that clients can use the data server over the version that their layouts name.
    fn check_role(&mut self) -> io::Result<()> {
        let layout = self.config.layout;
        if layout == LayoutKind::FlexFiles {
            return Ok(());
        }
        let Some(roles) = self.connection()?.0.roles()? else {
            let problem = "it does not speak NFSv4.1, which these layouts need";
            return Err(io::Error::new(ErrorKind::Unsupported, problem));
        };
        // RFC 8435 section 2.3: without this role, it is loosely coupled.
        if layout != LayoutKind::FlexFilesV4 && roles & exchange::USE_PNFS_DS == 0 {
            let problem = "it is not a data server of NFSv4.1, so it refuses our stateids";
            return Err(io::Error::new(ErrorKind::Unsupported, problem));
        }
        Ok(())
    }

    fn connection(&mut self) -> io::Result<&mut (Caller, FileHandle)> {
        self.connection.as_mut().ok_or_else(|| ErrorKind::NotConnected.into())
    }

    fn carry_out(&mut self, handle: FileHandle, work: &Work, pending: &Pending) -> io::Result<()> {
        let outcome = self.try_work(&handle, work);
        self.state.waiting.fetch_sub(1, Ordering::Relaxed);
        match outcome {
            Ok(result) => {
                pending.finish(result.map_err(error_of));
                Ok(())
            }
            Err(error) => {
                pending.finish(Err(FsError::TryLater));
                Err(error)
            }
        }
    }

    fn try_work(&mut self, file: &FileHandle, work: &Work) -> io::Result<Result<WorkDone, Status>> {
        let layout = self.config.layout;
        let state = Arc::clone(&self.state);
        let caller = &mut self.connection()?.0;
        let set = |caller: &mut Caller, attributes| {
            caller.nfs(Call::Setattr { file, attributes, guard: None }, |reply| match reply {
                Reply::Setattr { result, .. } => result.map(|()| WorkDone::Changed),
                _ => Err(Status::ServerFault),
            })
        };
        match work {
            Work::Read { offset, count } => {
                let read = read_all(caller, file, *offset, *count, &state.read_calls)?;
                Ok(read.map(|data| {
                    state.read_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                    WorkDone::Data(data.into())
                }))
            }
            Work::Write { offset, data } => {
                let written = write_all(caller, file, *offset, data, &state.write_calls)?;
                state.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                Ok(written.map(|()| WorkDone::Changed))
            }
            Work::Resize(size) => set(caller, Sattr { size: Some(*size), ..Sattr::default() }),
            Work::Fence(_) if !layout.is_flexible() => Ok(Ok(WorkDone::Changed)),
            Work::Fence(fence) => set(caller, Sattr { mode: None, ..protection(layout, *fence) }),
            Work::Size => caller.nfs(Call::Getattr { file }, |reply| match reply {
                Reply::Getattr { result } => result.map(|found| WorkDone::Size(found.size)),
                _ => Err(Status::ServerFault),
            }),
        }
    }

    /// Removes data files of files that are gone, and fills the pool.
    fn tend(&mut self) -> io::Result<()> {
        loop {
            let Some(number) = sync::lock(&self.state.removals).pop() else { break };
            let (caller, directory) = self.connection()?;
            let name = file_name(number);
            let removed =
                caller.nfs(Call::Remove { dir: directory, name: name.as_bytes() }, |_| ());
            if removed.is_err() {
                sync::lock(&self.state.removals).push(number);
            }
            removed?;
        }
        self.fill_pool()
    }

    /// Asks for the space, at most once a second.
    fn ask_space(&mut self) -> io::Result<()> {
        let now_ns = monotonic_ns();
        if now_ns < self.ask_space_ns {
            return Ok(());
        }
        self.ask_space_ns = now_ns.saturating_add(SPACE_NS);
        let state = Arc::clone(&self.state);
        let (caller, directory) = self.connection()?;
        caller.nfs(Call::Fsstat { root: directory }, |reply| {
            if let Reply::Fsstat { result: Ok(space), .. } = reply {
                state.total_bytes.store(space.total_bytes, Ordering::Relaxed);
                state.free_bytes.store(space.available_bytes, Ordering::Relaxed);
            }
        })
    }

    fn fill_pool(&mut self) -> io::Result<()> {
        while sync::lock(&self.state.pool).len() < self.state.wanted.load(Ordering::Relaxed) {
            let number = self.state.next_file.fetch_add(1, Ordering::Relaxed);
            let file = self.create_file(number)?;
            sync::lock(&self.state.pool).push_back(file);
        }
        Ok(())
    }

    fn create_file(&mut self, number: u64) -> io::Result<DataFile> {
        let ControlConfig { index, layout, .. } = self.config;
        let (caller, directory) = self.connection()?;
        let dir = *directory;
        // Each data server has users of its own.
        let fence = (number as u32).wrapping_mul(64).wrapping_add(index as u32);
        let attributes = protection(layout, fence);
        let name = file_name(number);
        let name = name.as_bytes();
        let how = CreateHow::Unchecked(attributes);
        let created =
            caller.nfs(Call::Create { dir: &dir, name, how }, |reply| match reply {
                Reply::Create { result: Ok(created), .. } => Ok(created.file),
                Reply::Create { result: Err(status), .. } => Err(refused("CREATE", status)),
                _ => Err(ErrorKind::InvalidData.into()),
            })??;
        let handle = match created {
            Some(handle) => handle,
            None => caller.lookup(&dir, name)?.ok_or(ErrorKind::NotFound)?,
        };
        Ok(DataFile { server: index, number, handle, fence: fence.into() })
    }

    /// Removes all data files, and their directory: without the metadata server they are garbage.
    fn remove_everything(&mut self) {
        let last = self.state.next_file.load(Ordering::Relaxed);
        for number in 0..last {
            let Ok((caller, directory)) = self.connection() else { return };
            let name = file_name(number);
            let dir: &[u8] = directory;
            if caller.nfs(Call::Remove { dir, name: name.as_bytes() }, |_| ()).is_err() {
                return;
            }
        }
        let ControlConfig { address, export, directory, .. } = self.config.clone();
        if let Ok((caller, _)) = self.connection()
            && let Ok(root) = caller.mount(address, &export, CONNECT_TIMEOUT)
        {
            let _ = caller.nfs(Call::Rmdir { dir: &root, name: directory.as_bytes() }, |_| ());
        }
    }
}

/// Who may access a data file with this fence. Without any mode bits it takes a stateid that names
/// the fence, and our data servers find the fence in the group.
fn protection(layout: LayoutKind, fence: u32) -> Sattr {
    let (uid, gid) = owner_of(fence);
    match layout {
        LayoutKind::FlexFiles | LayoutKind::FlexFilesV4 => {
            Sattr { uid: Some(uid), gid: Some(gid), ..Sattr::with_mode(0o640) }
        }
        LayoutKind::FlexFilesTight => Sattr { uid: Some(0), gid: Some(gid), ..Sattr::with_mode(0) },
        LayoutKind::Files => Sattr::with_mode(0o666),
    }
}

fn file_name(number: u64) -> String {
    format!("{number:012x}")
}

/// Converts the status of a data server to our error.
fn error_of(status: Status) -> FsError {
    match status {
        Status::NoSpc => FsError::NoSpace,
        Status::FBig => FsError::FileTooBig,
        Status::Jukebox => FsError::TryLater,
        _ => FsError::DataServer,
    }
}

/// Reads up to `count` bytes; fewer only at the end of the file.
fn read_all(
    caller: &mut Caller,
    file: &FileHandle,
    offset: u64,
    count: u64,
    calls: &AtomicU64,
) -> io::Result<Result<Vec<u8>, Status>> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < count {
        let left = (count - bytes.len() as u64).min(TRANSFER_BYTES) as u32;
        let call = Call::Read { file, offset: offset + bytes.len() as u64, count: left };
        calls.fetch_add(1, Ordering::Relaxed);
        let read = caller.nfs(call, |reply| match reply {
            Reply::Read { result: Ok(read), .. } => {
                bytes.extend_from_slice(read.data);
                Ok(read.eof || read.data.is_empty())
            }
            Reply::Read { result: Err(status), .. } => Err(status),
            _ => Err(Status::ServerFault),
        })?;
        match read {
            Ok(false) => {}
            Ok(true) => break,
            Err(status) => return Ok(Err(status)),
        }
    }
    Ok(Ok(bytes))
}

fn write_all(
    caller: &mut Caller,
    file: &FileHandle,
    offset: u64,
    data: &[u8],
    calls: &AtomicU64,
) -> io::Result<Result<(), Status>> {
    let mut written = 0;
    while written < data.len() {
        let end = data.len().min(written + TRANSFER_BYTES as usize);
        calls.fetch_add(1, Ordering::Relaxed);
        let call = Call::Write {
            file,
            offset: offset + written as u64,
            stable: StableHow::FileSync,
            data: &data[written..end],
        };
        let count = caller.nfs(call, |reply| match reply {
            Reply::Write { result: Ok(done), .. } if done.count > 0 => Ok(done.count),
            Reply::Write { result: Err(status), .. } => Err(status),
            _ => Err(Status::ServerFault),
        })?;
        match count {
            Ok(count) => written += count as usize,
            Err(status) => return Ok(Err(status)),
        }
    }
    Ok(Ok(()))
}
