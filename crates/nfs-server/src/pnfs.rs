//! The metadata server's side of pNFS: data servers, the data files on them, and access to them for
//! clients that have no layout.
//!
//! A [`Pnfs`] has one control line per data server, whatever that is: ours in this process, ours in
//! another, or any server with NFSv3. Data files are created before they are needed, so LAYOUTGET
//! never waits. Reads, writes and truncations of clients without a layout are passed on to the data
//! servers; the event loop waits for the outcome only briefly, and otherwise tells the client to
//! try again: the repeated call then finds the outcome of the first.
//!
//! **Source:** RFC 8881 chapters 12 and 13, RFC 8435.

mod caller;
mod control;
mod jobs;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use self::control::ProxiedCounts;
pub(crate) use self::jobs::DataRange;

use nfs_proto::nfs4::{List, decode_body, layout_type};

use self::control::{ControlConfig, ControlLine, Work, WorkDone};
use self::jobs::{JobKey, Jobs, Part};
use crate::clock::monotonic_ns;
use crate::config::{DataServerAddress, LayoutKind, PnfsConfig};
use crate::fs::FsError;
use crate::placement::{DataFile, Placement, ReleaseDataFiles};

/// How long an event loop waits for data servers before its client has to try again, in
/// nanoseconds.
const WAIT_NS: u64 = 50_000_000;
/// How long a data server may be down before calls that need it fail, in nanoseconds.
const DOWNTIME_NS_MAX: u64 = 10_000_000_000;
/// Preferred unit of files that are not striped, in bytes.
const UNSTRIPED_BYTES: u32 = 1 << 20;
/// How long the data servers may take until they are ready, in nanoseconds.
const START_NS_MAX: u64 = 10_000_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pnfs {
    pub(crate) layout: LayoutKind,
    pub(crate) stripe_unit: u64,
    pub(crate) mirrors: usize,
    /// Distinguishes our device ids from those of another start.
    pub(crate) boot_id: u64,
    servers: Arc<DataServerLines>,
    /// Number of placements so far, which decides where the next file starts.
    placed: AtomicU64,
    /// Number of the next fence: the upper half of all numbers, so that none is that of a new file.
    next_fence: AtomicU64,
    jobs: Jobs,
    /// Whether the data servers have all addresses that we have.
    is_everywhere: bool,
    client_errors: Vec<AtomicU64>,
}

/// Where the data servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In this process, on an address of their own.
    Here,
    /// In this process, on all addresses of this host.
    AllAddresses,
    /// In other processes.
    Elsewhere,
}

/// A part of a job and its outcome.
type PartOutcome = (Part, Result<WorkDone, FsError>);

#[derive(Debug)]
struct DataServerLines(Vec<ControlLine>);

impl ReleaseDataFiles for DataServerLines {
    fn release(&self, files: Vec<DataFile>) {
        for file in files {
            self.0[file.server].remove(file.number);
        }
    }
}

impl Pnfs {
    /// Connects to all data servers and makes their first data files.
    ///
    /// # Errors
    /// The data server that can't be used, and why.
    pub(crate) fn start(
        config: &PnfsConfig,
        boot_id: u64,
        servers: &[DataServerAddress],
        location: Location,
    ) -> Result<Self, (SocketAddr, io::Error)> {
        let mut lines = Vec::new();
        for (index, server) in servers.iter().enumerate() {
            let control = ControlConfig {
                index,
                address: server.address,
                export: server.export.clone(),
                directory: format!("pnfs-{boot_id:016x}"),
                layout: config.layout,
                cleans_up: location == Location::Elsewhere,
            };
            let line = ControlLine::start(control, START_NS_MAX)
                .map_err(|error| (server.address, error))?;
            lines.push(line);
        }
        Ok(Self {
            layout: config.layout,
            stripe_unit: u64::from(config.stripe_unit),
            mirrors: config.mirrors,
            boot_id,
            servers: Arc::new(DataServerLines(lines)),
            placed: AtomicU64::new(0),
            next_fence: AtomicU64::new(1 << 26),
            jobs: Jobs::default(),
            is_everywhere: location == Location::AllAddresses,
            client_errors: servers.iter().map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// The type of layouts that is offered.
    pub(crate) fn layout_type(&self) -> u32 {
        if self.layout.is_flexible() { layout_type::FLEX_FILES } else { layout_type::FILES }
    }

    /// The list of all types of layouts that are offered.
    pub(crate) fn offered_types(&self) -> List<'static, u32> {
        let encoded: &'static [u8] = if self.layout.is_flexible() {
            &[0, 0, 0, 1, 0, 0, 0, layout_type::FLEX_FILES as u8]
        } else {
            &[0, 0, 0, 1, 0, 0, 0, layout_type::FILES as u8]
        };
        decode_body(encoded).unwrap_or_default()
    }

    /// The address of a data server for a client that reached us at `local`: a data server of ours
    /// that listens on all addresses is there, too.
    pub(crate) fn address_for(&self, address: SocketAddr, local: Option<IpAddr>) -> SocketAddr {
        match local {
            Some(ip) if self.is_everywhere => SocketAddr::new(ip.to_canonical(), address.port()),
            _ => address,
        }
    }

    /// Counts an error that a client reported about a data server.
    pub(crate) fn note_client_error(&self, server: usize) {
        if let Some(count) = self.client_errors.get(server) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Errors that clients reported, by data server.
    pub(crate) fn client_errors(&self) -> Vec<u64> {
        self.client_errors.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// The addresses of the data servers.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.servers.0.iter().map(|line| line.config.address)
    }

    /// Total and free space for files, in bytes; each mirror takes its share.
    pub(crate) fn space(&self) -> (u64, u64) {
        let each = self.servers.0.iter().map(ControlLine::space);
        let (total, free) = each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (total / self.mirrors as u64, free / self.mirrors as u64)
    }

    /// What was read and written for clients without a layout, by data server.
    pub(crate) fn proxied(&self) -> Vec<ProxiedCounts> {
        self.servers.0.iter().map(ControlLine::proxied).collect()
    }

    /// The unit in which clients should write, in bytes.
    pub(crate) fn preferred_bytes(&self) -> u32 {
        if self.stripe_unit == 0 { UNSTRIPED_BYTES } else { self.stripe_unit as u32 }
    }

    /// Number of data servers that a mirror is striped over.
    pub(crate) fn stripes(&self) -> usize {
        if self.stripe_unit == 0 { 1 } else { self.servers.0.len() / self.mirrors }
    }

    /// Takes data files for a file; `None` if some data server has none ready.
    pub(crate) fn place(&self) -> Option<Placement> {
        let servers = &self.servers.0;
        let needed = self.mirrors * self.stripes();
        let first = self.placed.fetch_add(1, Ordering::Relaxed) as usize;
        let mut files: Vec<DataFile> = Vec::with_capacity(needed);
        // Files start on different data servers, so that small ones are spread, too. A data server
        // that is down gets no new files if there are enough others.
        let turn = (0..servers.len()).map(|index| &servers[(first + index) % servers.len()]);
        let (up, down): (Vec<_>, Vec<_>) =
            turn.partition(|line| needed == servers.len() || line.is_up());
        for line in up.into_iter().chain(down).take(needed) {
            let Some(file) = line.take_file() else {
                for file in files {
                    servers[file.server].put_back(file);
                }
                return None;
            };
            files.push(file);
        }
        let lines = Arc::clone(&self.servers) as Arc<dyn ReleaseDataFiles>;
        Some(Placement::new(files, self.mirrors, self.stripe_unit, lines))
    }

    /// Returns true if all data servers of a mirror answer.
    pub(crate) fn is_up(&self, placement: &Placement, mirror: usize) -> bool {
        let mut files = placement.mirror(mirror).iter();
        files.all(|file| self.servers.0[file.server].is_up())
    }

    /// Reads from a file of `size` bytes; holes are zeros.
    ///
    /// # Errors
    /// `TryLater`, or `DataServer` if the data can't be read.
    pub(crate) fn read(
        &self,
        placement: &Placement,
        range: DataRange,
        size: u64,
    ) -> Result<Vec<u8>, FsError> {
        let count = range.length.min(size.saturating_sub(range.offset));
        let mut bytes = vec![0; count as usize];
        if count == 0 {
            return Ok(bytes);
        }
        let range = DataRange { length: count, ..range };
        let mirrors: Vec<_> = placement.current_mirrors().collect();
        let up = mirrors.iter().find(|mirror| self.is_up(placement, **mirror));
        let Some(mirror) = up.or(mirrors.first()).copied() else {
            return Err(FsError::DataServer);
        };
        let key = JobKey::read(range);
        let parts = self.perform(placement, key, || {
            let begin = |(stripe, offset, length)| {
                let work = Work::Read { offset, count: length };
                self.begin_part(placement, mirror, stripe, offset, work)
            };
            placement.split(range.offset, count).into_iter().map(begin).collect()
        })?;
        for (part, outcome) in parts {
            let WorkDone::Data(data) = outcome? else { return Err(FsError::DataServer) };
            let at = (part.offset - range.offset) as usize;
            bytes[at..at + data.len()].copy_from_slice(&data);
        }
        Ok(bytes)
    }

    /// Writes to all mirrors that have all data.
    ///
    /// # Errors
    /// `TryLater`, `NoSpace`, or `DataServer` if no mirror could be written.
    pub(crate) fn write(
        &self,
        placement: &Placement,
        range: DataRange,
        data: &[u8],
    ) -> Result<(), FsError> {
        let key = JobKey::write(range, data);
        let parts = self.perform(placement, key, || {
            let mut parts = Vec::new();
            for mirror in placement.current_mirrors() {
                for (stripe, offset, length) in placement.split(range.offset, range.length) {
                    let at = (offset - range.offset) as usize;
                    let data = data[at..at + length as usize].to_vec();
                    let work = Work::Write { offset, data };
                    parts.push(self.begin_part(placement, mirror, stripe, offset, work));
                }
            }
            parts
        })?;
        judge_mirrors(placement, parts)
    }

    /// Sets the size of all data files.
    ///
    /// # Errors
    /// Like [`Pnfs::write`].
    pub(crate) fn resize(
        &self,
        file: u64,
        placement: &Placement,
        size: u64,
    ) -> Result<(), FsError> {
        let parts = self.perform(placement, JobKey::resize(file, size), || {
            let mut parts = Vec::new();
            for mirror in placement.current_mirrors() {
                for stripe in 0..placement.stripes() {
                    let work = Work::Resize(size);
                    parts.push(self.begin_part(placement, mirror, stripe, 0, work));
                }
            }
            parts
        })?;
        judge_mirrors(placement, parts)
    }

    /// Changes the users or stateids of all data files, so that nobody who got a layout before can
    /// access them.
    pub(crate) fn fence(&self, placement: &Placement) {
        for file in &placement.files {
            let fence = self.next_fence.fetch_add(1, Ordering::Relaxed) as u32;
            file.fence.store(fence, Ordering::Release);
            // In the order of the line: a layout that is granted from now on names the new users,
            // and a call that comes too early is answered ACCES and repeated.
            self.servers.0[file.server].begin(file.handle, Work::Fence(fence));
        }
    }

    /// The size of a file according to its data files.
    ///
    /// # Errors
    /// `TryLater` or `DataServer`.
    pub(crate) fn find_size(&self, file: u64, placement: &Placement) -> Result<u64, FsError> {
        let parts = self.perform(placement, JobKey::size(file), || {
            let mirror = placement.current_mirrors().next().unwrap_or(0);
            let begin = |stripe| self.begin_part(placement, mirror, stripe, 0, Work::Size);
            (0..placement.stripes()).map(begin).collect()
        })?;
        let mut size = 0;
        for (_, outcome) in parts {
            if let WorkDone::Size(found) = outcome? {
                size = found.max(size);
            }
        }
        Ok(size)
    }

    fn begin_part(
        &self,
        placement: &Placement,
        mirror: usize,
        stripe: usize,
        offset: u64,
        work: Work,
    ) -> Part {
        let file = &placement.mirror(mirror)[stripe];
        let pending = self.servers.0[file.server].begin(file.handle, work);
        Part { mirror, offset, pending }
    }

    /// Finds or begins a job and waits for it briefly.
    ///
    /// # Errors
    /// `TryLater` if it is not done yet.
    fn perform(
        &self,
        placement: &Placement,
        key: JobKey,
        begin: impl FnOnce() -> Vec<Part>,
    ) -> Result<Vec<PartOutcome>, FsError> {
        let parts = self.jobs.find_or_begin(key, begin);
        let until_ns = monotonic_ns().saturating_add(WAIT_NS);
        let mut done = Vec::with_capacity(parts.len());
        for part in parts {
            let Some(mut outcome) = part.pending.wait_until(until_ns) else {
                return Err(FsError::TryLater);
            };
            let down =
                |file: &DataFile| self.servers.0[file.server].downtime_ns() > DOWNTIME_NS_MAX;
            if matches!(outcome, Err(FsError::TryLater))
                && placement.mirror(part.mirror).iter().any(down)
            {
                outcome = Err(FsError::DataServer);
            }
            done.push((part, outcome));
        }
        self.jobs.end(key);
        Ok(done)
    }

    /// Stops all control threads.
    pub(crate) fn stop(&self) {
        for line in &self.servers.0 {
            line.stop();
        }
    }
}

/// Decides on a change of all mirrors: it succeeds if one of them has it, and the others are
/// stale from then on.
fn judge_mirrors(placement: &Placement, parts: Vec<PartOutcome>) -> Result<(), FsError> {
    let mut failed = vec![None; placement.mirrors];
    let mut changed = vec![false; placement.mirrors];
    for (part, outcome) in parts {
        changed[part.mirror] = true;
        if let Err(error) = outcome {
            failed[part.mirror] = Some(error);
        }
    }
    let succeeded = |mirror: usize| changed[mirror] && failed[mirror].is_none();
    let first_error = failed.iter().flatten().next().copied();
    if let Some(error) = first_error
        && !(0..placement.mirrors).any(succeeded)
    {
        return Err(error);
    }
    for (mirror, error) in failed.iter().enumerate() {
        if error.is_some() {
            placement.set_stale(mirror);
        }
    }
    Ok(())
}
