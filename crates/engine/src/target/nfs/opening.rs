//! Opens the files and connections for a worker's pass and creates its backend.
//!
//! Files are opened over the target's own connection. A file must be large enough for everything
//! that will be read from it. In an op mix, files are opened once for all workers.

use std::sync::{Arc, PoisonError};

use model::work::mark_of;
use model::{
    Caveat, CaveatCode, ConnectionPolicy, Durability, Evidence, Histogram, OpKind, OpMix, Opens,
    Pass, PathWork, RunSpec, Stable, Workload,
};
use nfs_client::proto::client::{File, OpenAccess};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::version::ProtocolVersion;
use nfs_client::{
    CALLS_MAX, CallFailure, Connection, ConnectionOptions, Mount, SessionPlan,
    TRANSFER_BYTES_DEFAULT,
};
use workload::names::Sort;
use workload::opmix::{OpMixSet, Profile};
use workload::{FileSet, Name, Places};

use super::super::access::WorkerPass;
use super::super::job_timer::Job;
use super::super::{
    OpenedBackend, TargetConfig, TargetError, check_stop, opened_files, opens_before, sparse_layout,
};
use super::filling::make_file;
use super::layouts::{self, WorkerLayouts};
use super::{NfsAccess, SharedFiles, mount_error};
use crate::backend::Backend;
use crate::backend::find::{FIND_AGE_MAX_S, FindRule};
use crate::backend::nfs::{Grid, Many, Nfs, NfsFiles, PlusListing, Pnfs, depth_on};
use crate::clients::ClientRecords;
use crate::clock::Clock;
use crate::limits::{LISTING_REPLY_BYTES, UNCOMMITTED_BITS_MAX};

impl NfsAccess {
    pub(super) fn open_backend(&self, work: WorkerPass<'_>) -> Result<OpenedBackend, TargetError> {
        let WorkerPass { spec, pass, worker, config, .. } = work;
        self.timer.begin(Job::SetUp);
        let clients: Vec<u32> = (worker..spec.clients()).step_by(spec.workers as usize).collect();
        let mut set = self.make_set(work)?;
        let mut mount = self.mount();
        let per_op = op_bytes(spec).div_ceil(u64::from(set.rsize.min(set.wsize))).max(1) as usize;
        set.queue_depth = total_depth(spec, pass, per_op as u32) as usize;
        let of_client = connections_per_client(spec);
        let is_owner = self.identity_of(&mount, worker, spec.workers).is_none();
        set.own = if is_owner { of_client as usize } else { 0 };
        let recorded = if spec.nfs().per_client { clients.len() } else { 0 };
        set.clients = ClientRecords::new(recorded, worker, spec.workers, of_client);
        set.connections_per_client = of_client as usize;
        set.policy = spec.nfs().connection_policy;
        set.paths = path_records(&mount, spec.nfs().nconnect, clients.len() as u32);
        let depth = set.queue_depth;
        let per_connection = depth_per_connection(spec, depth as u32) as usize;
        // Keep received data only if it is verified or processed byte by byte; otherwise, discard
        // it.
        let keeps = spec.verify || pass == Pass::CharRead;
        let options = ConnectionOptions {
            slots: (per_op * per_connection).min(CALLS_MAX),
            write_pool: config.pattern.pool(),
            keep_payload: if keeps { Some(set.rsize) } else { None },
            ..ConnectionOptions::default()
        };
        let mut caveats = Vec::new();
        if layouts::wants_layouts(mount.options()) && layouts::moves_data(pass) {
            let files = &set.files;
            let of = (spec, pass);
            match self.pnfs.open(&mut mount, files, of, &options, config, &self.shown)? {
                Err(why) => caveats.push(layouts::no_layouts(&why)),
                Ok(found) => return self.open_pnfs(found, set, &options, &mount, config, pass),
            }
        }
        let mut connections = self.open_connections(&mount, &options, spec, &clients, config)?;
        if config.pattern.is_copied() || pass == Pass::CharWrite {
            // Data that has to be assembled is copied into its call.
            for connection in &mut connections {
                connection.reserve_copies(set.wsize);
            }
        }
        if pass == Pass::ReadPlus {
            for connection in &mut connections {
                connection.reserve_replies(set.rsize);
            }
        }
        if pass.lists() {
            for connection in &mut connections {
                connection.reserve_replies(set.listing_bytes);
            }
        }
        // Files shared by all workers are closed by the target rather than by one of the workers.
        set.closable = is_owner && mount.version().is_stateful() && pass != Pass::OpMix;
        if set.closable && spec.closes_in_time() && !mount.version().has_sessions() {
            let first = connections.remove(0);
            connections.insert(0, self.open_again(first, &mut set, &mut mount, pass)?);
        }
        let replaced = replaced_calls(&spec.op_mix, pass, &set);
        let limited = slots_limited(&connections, per_connection, mount.version());
        let queue_depth: usize = match set.policy {
            ConnectionPolicy::Share => {
                connections.iter().map(|connection| depth_on(connection, per_connection)).sum()
            }
            _ => depth * clients.len(),
        };
        let backend = make_backend(connections, per_connection, set, &config.clock)?;
        caveats.extend(replaced);
        caveats.extend(limited);
        Ok(OpenedBackend { backend, caveats, kernel_counts: false, queue_depth })
    }

    /// Creates the backend of a worker whose files have layouts.
    fn open_pnfs(
        &self,
        mut found: WorkerLayouts,
        mut set: NfsFiles,
        options: &ConnectionOptions,
        mount: &Mount,
        config: &TargetConfig,
        pass: Pass,
    ) -> Result<OpenedBackend, TargetError> {
        let mut metadata =
            Connection::open(mount, options).map_err(|error| mount_error(&self.shown, &error))?;
        if config.pattern.is_copied() || pass == Pass::CharWrite {
            found.reserve_copies(set.wsize);
            metadata.reserve_copies(set.wsize);
        }
        set.closable = true;
        let queue_depth = set.queue_depth;
        let limited = slots_limited(std::slice::from_ref(&metadata), queue_depth, mount.version());
        let of_layouts = found.caveat.take();
        let parts = self.pnfs.parts(metadata, found);
        let pnfs = Pnfs::new(parts, set, Arc::clone(&config.clock))
            .map_err(|error| TargetError::Nfs(format!("epoll: {error}")))?;
        Ok(OpenedBackend {
            backend: Box::new(pnfs),
            caveats: limited.into_iter().chain(of_layouts).collect(),
            kernel_counts: false,
            queue_depth,
        })
    }

    /// Creates the set of files for a worker's pass. Which connections it uses is decided later.
    fn make_set(&self, work: WorkerPass<'_>) -> Result<NfsFiles, TargetError> {
        let WorkerPass { spec, pass, files_of, config, .. } = work;
        let (first, stride) = opened_files(spec, pass, files_of);
        let mut twins = Vec::new();
        let SharedFiles { files, links, plus_listing } = if pass == Pass::OpMix {
            self.open_shared(spec, config)?
        } else {
            let last = if opens_before(spec, pass) == Opens::Nothing { 0 } else { spec.files };
            let numbers = (first.min(last)..last).step_by(stride as usize);
            if pass.opens() == Opens::Twins {
                twins = self.make_twins(spec, numbers.clone(), config)?;
            }
            let files = self.open_files(spec, pass, numbers, config)?;
            let plus_listing = self.listing_call(spec, pass)?;
            SharedFiles { files, links: Arc::default(), plus_listing }
        };
        let find = if pass.lists() { self.find_rule(spec, config)? } else { FindRule::default() };
        let mount = self.mount();
        let numbers = (first..).step_by(stride as usize).take(files.len());
        let grid = block_grid(spec, pass, files.len(), numbers);
        let mut place_files = self.places();
        if pass.makes_places() {
            // Each worker fills in the handles of the places that it creates.
            place_files = place_files.iter().copied().collect();
        }
        Ok(NfsFiles {
            version: mount.version(),
            directory: self.work,
            places: Arc::new(Places::new(spec)),
            place_files,
            links,
            plus_listing,
            lists: pass.lists().then_some(pass.kinds()[0]),
            listing_bytes: mount.rsize().min(LISTING_REPLY_BYTES),
            find,
            files,
            twins,
            sparse: sparse_layout(spec),
            first,
            stride,
            is_written: pass.opens() != Opens::Nothing && pass.writes(),
            grid,
            stable: stable_how(spec.durability, spec.nfs().stable),
            // As kernels do if fdatasync finds a single WRITE to send.
            log_stable: match spec.durability {
                Durability::Sync => StableHow::FileSync,
                other => stable_how(other, spec.nfs().stable),
            },
            // Files opened by name are transferred in pieces of at most `io_size`.
            rsize: mount.rsize().min(spec.largest_op_bytes().max(1)),
            wsize: mount.wsize().min(spec.largest_op_bytes().max(1)),
            pattern: config.pattern.in_pass(spec, pass),
            verify: spec.verify,
            queue_depth: 0,
            async_copy: spec.nfs().async_copy,
            timeout_ns: self.timeout.as_nanos() as u64,
            client_uids: spec.nfs().client_uids,
            own: 0,
            closable: false,
            connections_per_client: 1,
            policy: ConnectionPolicy::Share,
            clients: ClientRecords::default(),
            paths: Vec::new(),
        })
    }

    /// Returns how a pass lists names with their attributes.
    fn listing_call(&self, spec: &RunSpec, pass: Pass) -> Result<PlusListing, TargetError> {
        if !pass.lists() {
            return Ok(PlusListing::Readdirplus);
        }
        if !spec.nfs().readdirplus {
            return Ok(PlusListing::Readdir);
        }
        self.plus_listing(true)
    }

    /// Returns what a find looks for.
    fn find_rule(&self, spec: &RunSpec, config: &TargetConfig) -> Result<FindRule, TargetError> {
        let mark = mark_of(&config.work_name);
        let found = self.with_mount(|mount| {
            let file = mount.lookup(self.work, &mark)?;
            mount.getattr(file)
        });
        let found = found.map_err(|failure| self.failed("examine", &mark, &failure))?;
        let after_s = i64::from(found.mtime.seconds) - FIND_AGE_MAX_S;
        let sizes = FileSet::found_sizes(spec);
        Ok(FindRule { size_min_bytes: *sizes.start(), size_max_bytes: *sizes.end(), after_s })
    }

    /// Finds out how to list names with their attributes, if that is requested.
    fn plus_listing(&self, is_requested: bool) -> Result<PlusListing, TargetError> {
        if !is_requested && self.mount().version() != ProtocolVersion::V2 {
            return Ok(PlusListing::Readdirplus);
        }
        match self.with_mount(|mount| mount.offers_readdirplus(self.work)) {
            Ok(true) => Ok(PlusListing::Readdirplus),
            Ok(false) => Ok(PlusListing::Readdir),
            Err(failure) => Err(self.failed("list", "", &failure)),
        }
    }

    /// Opens the files and finds the symlinks of an op mix. The first worker does it while holding
    /// the lock, and the others share the result.
    fn open_shared(
        &self,
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<SharedFiles, TargetError> {
        let mut shared = self.lock_shared();
        if let Some(shared) = &*shared {
            return Ok(shared.clone());
        }
        let set = FileSet::new(spec);
        let places = Places::new(spec);
        let files = self.open_files(spec, Pass::OpMix, 0..set.files(), config)?;
        let mut links = Vec::with_capacity(set.links() as usize);
        for number in 0..set.links() {
            check_stop(config)?;
            let dir = self.place_of(&places, number);
            let name = Name::new(Sort::Link, number);
            let link = self.with_mount(|mount| mount.lookup(dir, name.as_str()));
            links.push(link.map_err(|failure| self.failed("find", name.as_str(), &failure))?);
        }
        let plus_listing = self.plus_listing(is_in_mix(&spec.op_mix, OpKind::ReaddirPlus))?;
        Ok(shared.insert(SharedFiles { files, links: links.into(), plus_listing }).clone())
    }

    /// Creates or opens the files whose data a worker's pass transfers.
    fn open_files(
        &self,
        spec: &RunSpec,
        pass: Pass,
        numbers: impl Iterator<Item = u32>,
        config: &TargetConfig,
    ) -> Result<Vec<File>, TargetError> {
        let set = FileSet::new(spec);
        let places = Places::new(spec);
        let client_uids = spec.nfs().client_uids;
        let mut files = Vec::with_capacity(numbers.size_hint().0);
        for number in numbers {
            check_stop(config)?;
            let dir = self.place_of(&places, number);
            let name = Name::file(number);
            let opened = self.with_mount(|mount| open_one(mount, dir, name, pass, client_uids));
            let (file, written) =
                opened.map_err(|failure| self.failed("open", name.as_str(), &failure))?;
            // From here on, the server has it open, so remember it even if a later file fails.
            self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(file);
            let wanted = if pass.reads() { set.size(number).unwrap_or(0) } else { 0 };
            if written < wanted {
                let location = format!("{}/{}/{}", self.shown, self.work_name, name.as_str());
                return Err(TargetError::unwritten(location, written, wanted));
            }
            files.push(file);
        }
        Ok(files)
    }

    /// Creates or truncates the twins of the files of a worker's pass.
    fn make_twins(
        &self,
        spec: &RunSpec,
        numbers: impl Iterator<Item = u32>,
        config: &TargetConfig,
    ) -> Result<Vec<File>, TargetError> {
        let places = Places::new(spec);
        let client_uids = spec.nfs().client_uids;
        let mut twins = Vec::with_capacity(numbers.size_hint().0);
        for number in numbers {
            check_stop(config)?;
            let dir = self.place_of(&places, number);
            let name = Name::new(Sort::Twin, number);
            let made = self.with_mount(|mount| make_file(mount, dir, name.as_str(), client_uids));
            let twin = made.map_err(|failure| self.failed("create", name.as_str(), &failure))?;
            self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(twin);
            twins.push(twin);
        }
        Ok(twins)
    }

    /// Reopens the files of a set over the connection that will close them, replacing the target's
    /// opens. In v4.0, calls of an open owner are numbered, and the numbering is tied to a
    /// connection.
    ///
    /// **Source:** RFC 7530, 9.1.7 and 16.2 (`seqid` of CLOSE).
    fn open_again(
        &self,
        first: Connection,
        set: &mut NfsFiles,
        mount: &mut Mount,
        pass: Pass,
    ) -> Result<Connection, TargetError> {
        let failed = |failure| self.failed("open", "", &failure);
        let numbers = (0..set.files.len() as u32).map(|index| set.first + index * set.stride);
        let names = numbers.map(|number| {
            let place = set.places.of_number(number) as usize;
            (&set.place_files[place], Name::file(number).as_bytes().to_vec())
        });
        let (first, files) = first.with_opens(names, access_of(pass)).map_err(failed)?;
        for file in std::mem::replace(&mut set.files, files) {
            mount.close(file).map_err(failed)?;
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            opened.retain(|known| *known != file);
        }
        Ok(first)
    }

    /// Opens the connections of some clients, ordered by client.
    fn open_connections(
        &self,
        mount: &Mount,
        options: &ConnectionOptions,
        spec: &RunSpec,
        clients: &[u32],
        config: &TargetConfig,
    ) -> Result<Vec<Connection>, TargetError> {
        let of_client = connections_per_client(spec);
        let nconnect = spec.nfs().nconnect;
        let mut connections = Vec::with_capacity(clients.len() * of_client as usize);
        for &client in clients {
            check_stop(config)?;
            let identity = self.identity_of(mount, client, spec.workers);
            for number in 0..of_client {
                let path = (number + 1).saturating_sub(nconnect) as usize;
                let options =
                    ConnectionOptions { identity: identity.clone(), path, ..options.clone() };
                match Connection::open(mount, &options) {
                    Ok(connection) => connections.push(connection),
                    Err(error) => return Err(mount_error(&self.shown, &error)),
                }
            }
        }
        Ok(connections)
    }
}

/// Creates or opens one file. Returns it with its size, or 0 if the pass doesn't read it.
fn open_one(
    mount: &mut Mount,
    dir: File,
    name: Name,
    pass: Pass,
    client_uids: u32,
) -> Result<(File, u64), CallFailure> {
    if pass.opens() == Opens::Truncated {
        return Ok((make_file(mount, dir, name.as_str(), client_uids)?, 0));
    }
    let file = mount.open(dir, name.as_str(), access_of(pass))?;
    let size = if pass.reads() { mount.getattr(file)?.size } else { 0 };
    Ok((file, size))
}

/// Returns how a pass opens its files.
fn access_of(pass: Pass) -> OpenAccess {
    match pass.opens() {
        Opens::ToRead | Opens::Twins => OpenAccess::Read,
        _ => OpenAccess::Both,
    }
}

/// Creates the backend for a worker's connections.
fn make_backend(
    mut connections: Vec<Connection>,
    per_connection: usize,
    set: NfsFiles,
    clock: &Arc<dyn Clock>,
) -> Result<Box<dyn Backend>, TargetError> {
    let clock = Arc::clone(clock);
    if connections.len() == 1 {
        let connection = connections.remove(0);
        return Ok(Box::new(Nfs::new(connection, set, clock)));
    }
    match Many::new(connections, per_connection, set, clock) {
        Ok(many) => Ok(Box::new(many)),
        Err(error) => Err(TargetError::Nfs(format!("epoll: {error}"))),
    }
}

/// Returns a caveat if the server, or this client's own limit, grants fewer slots than ops are
/// supposed to be in flight.
fn slots_limited(
    connections: &[Connection],
    requested: usize,
    version: ProtocolVersion,
) -> Option<Caveat> {
    let slots = connections.iter().map(Connection::free_slots).min()?;
    let by = if version.has_sessions() { "CREATE_SESSION" } else { "limit of this client" };
    if slots >= requested {
        return None;
    }
    let evidence = format!(
        "queue depth {requested} per connection requested, but only {slots} slots are available \
         ({by})"
    );
    // What counts is the connection with the fewest slots.
    let data = Evidence::counts(slots as u64, requested as u64, "slots", by);
    Some(CaveatCode::SlotsLimited.because(evidence).with_data(data))
}

/// Divides files into the blocks in which they are written. Returns `None` if there are too many to
/// track.
fn block_grid(
    spec: &RunSpec,
    pass: Pass,
    files: usize,
    numbers: impl Iterator<Item = u32>,
) -> Option<Grid> {
    if pass != Pass::OpMix {
        let io_size = spec.io_size_bytes;
        if spec.file_sizes.is_none() {
            return Some(Grid::with_equal_files(files, spec.file_size_bytes, io_size));
        }
        let set = FileSet::new(spec);
        let sizes = numbers.map(|number| set.size(number).unwrap_or(0));
        let grid = Grid::from_ends(sizes, io_size, io_size);
        return if grid.blocks() > UNCOMMITTED_BITS_MAX { None } else { Some(grid) };
    }
    let set = OpMixSet::new(spec);
    // Sizes are multiples of 1 KiB, and requests start at multiples of `io_size` or at a file's
    // end.
    let unit = 1 << spec.io_size_bytes.trailing_zeros().min(10);
    let ends = (0..set.files()).map(|file| set.written_end(file));
    let grid = Grid::from_ends(ends, unit, spec.io_size_bytes);
    if grid.blocks() > UNCOMMITTED_BITS_MAX { None } else { Some(grid) }
}

/// Pieces of a developer's large file that are in flight at the same time.
const PIECES_AHEAD: u64 = 8;

/// Returns the maximum number of bytes transferred by one op.
fn op_bytes(spec: &RunSpec) -> u64 {
    match spec.workload {
        // An op is a whole file.
        Workload::Transactions | Workload::Metadata | Workload::KvCache => {
            spec.largest_file_bytes()
        }
        Workload::Media => spec.file_size_bytes,
        // Several pieces of a large file are in flight.
        Workload::Developer => PIECES_AHEAD * u64::from(spec.largest_op_bytes()),
        _ => spec.largest_op_bytes().into(),
    }
}

/// Returns the number of ops a worker keeps in flight: the queue depth, plus enough for read-ahead
/// or write-behind in a sequential pass.
fn total_depth(spec: &RunSpec, pass: Pass, transfers_per_op: u32) -> u32 {
    let ahead = match pass {
        Pass::Read | Pass::Reread | Pass::CharRead | Pass::Restore | Pass::Load => {
            spec.nfs().read_ahead
        }
        Pass::Write | Pass::Rewrite | Pass::CharWrite | Pass::Save => spec.nfs().write_behind,
        _ => 0,
    };
    spec.queue_depth + ahead.div_ceil(transfers_per_op)
}

/// Returns the session shared by a run's connections in v4.1 and later. It is sized for the deepest
/// pass, with a few more slots in case the server's transfers are smaller than requested.
pub(super) fn session_plan(spec: &RunSpec) -> SessionPlan {
    let nfs = spec.nfs();
    let requested = spec.transfer_size_bytes.unwrap_or(TRANSFER_BYTES_DEFAULT);
    let transfer_bytes = requested.clamp(1, spec.largest_op_bytes().max(1));
    let per_op = op_bytes(spec).div_ceil(u64::from(transfer_bytes)).clamp(1, CALLS_MAX as u64);
    let ahead = nfs.read_ahead.max(nfs.write_behind).div_ceil(per_op as u32);
    let of_client = connections_per_client(spec);
    let per_connection = depth_per_connection(spec, spec.queue_depth + ahead);
    let slots = (per_op as u32).saturating_mul(per_connection);
    SessionPlan {
        connections: spec.workers * of_client,
        slots: slots.clamp(SessionPlan::default().slots, CALLS_MAX as u32),
    }
}

/// Returns the number of connections of each client: `nconnect` to the first address of the server,
/// and one to each further address, as kernels have.
fn connections_per_client(spec: &RunSpec) -> u32 {
    let further = spec.target.nfs().map_or(0, |nfs| nfs.further_addresses().len());
    spec.nfs().nconnect + further as u32
}

/// Returns how many ops a connection may have in flight if its client has `depth`.
fn depth_per_connection(spec: &RunSpec, depth: u32) -> u32 {
    match spec.nfs().connection_policy {
        ConnectionPolicy::Share => depth.div_ceil(connections_per_client(spec)),
        // Any of them may be the one that is chosen.
        _ => depth,
    }
}

/// Creates a record for each of the server's addresses, if there are several.
fn path_records(mount: &Mount, nconnect: u32, clients: u32) -> Vec<PathWork> {
    let mut records = Vec::new();
    for (number, address) in mount.addresses().enumerate() {
        let connections = if number == 0 { nconnect } else { 1 };
        records.push(PathWork {
            address: address.to_string(),
            connections: connections * clients,
            // Recording must not allocate.
            times: Histogram::new(),
            ..PathWork::default()
        });
    }
    if records.len() < 2 { Vec::new() } else { records }
}

/// Returns how durable WRITEs must be: as durable as either of the two requires.
pub(in crate::target) const fn stable_how(durability: Durability, stable: Stable) -> StableHow {
    match (durability, stable) {
        (Durability::Osync, _) | (_, Stable::FileSync) => StableHow::FileSync,
        (Durability::Dsync, _) | (_, Stable::DataSync) => StableHow::DataSync,
        (_, Stable::Unstable) => StableHow::Unstable,
    }
}

/// Returns true if an op mix contains a kind of op.
fn is_in_mix(mix: &OpMix, kind: OpKind) -> bool {
    if mix.shares.is_empty() {
        let named = Profile::find(&mix.name);
        return named.is_some_and(|profile| profile.shares.iter().any(|(known, _)| *known == kind));
    }
    mix.shares.iter().any(|(known, share)| *known == kind && *share > 0)
}

/// Returns the caveat about ops of a mix for which the version or the server has no call, with the
/// calls used instead.
fn replaced_calls(op_mix: &OpMix, pass: Pass, set: &NfsFiles) -> Option<Caveat> {
    if pass != Pass::OpMix {
        return None;
    }
    if set.version != ProtocolVersion::V2 {
        return (set.plus_listing == PlusListing::Readdir).then(|| {
            let evidence =
                "the server does not support READDIRPLUS: READDIR was used for readdirplus";
            CaveatCode::OptionNotEffective.because(evidence.to_owned())
        });
    }
    let instead = [
        (OpKind::Access, "GETATTR"),
        (OpKind::Commit, "GETATTR"),
        (OpKind::ReaddirPlus, "READDIR"),
        (OpKind::Fsinfo, "STATFS"),
        (OpKind::Pathconf, "STATFS"),
    ];
    let replaced: Vec<_> = instead
        .into_iter()
        .filter(|(kind, _)| is_in_mix(op_mix, *kind))
        .map(|(kind, call)| format!("{call} for {kind}"))
        .collect();
    if replaced.is_empty() {
        return None;
    }
    let list = replaced.join(", ");
    Some(
        CaveatCode::OptionNotEffective
            .because(format!("NFSv2 lacks some calls of the mix: {list}")),
    )
}
