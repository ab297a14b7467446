//! Checks of settings that don't go together.
//!
//! Each check looks at one run and reports the setting that is best changed, with the line or flag
//! where its level was written. Single values were checked when they were parsed.

mod checkpoint;
mod cluster;
mod database;
pub(crate) mod lab;
mod training;
mod work;

use model::setting::{Setting, Value};
use model::units::Size;
use model::{Impossible, Io500Part, RunSpec, Sharing, Target, Workload};

use workload::FileSet;
use workload::opmix::OpMixSet;

use crate::resolve::defaults;
use crate::resolve::server::ServerPlan;
use crate::syntax::error::{Fault, Located, PlanError, PlanPosition};
use crate::syntax::limits::{self, show_size};
use crate::syntax::settings::Settings;
use crate::syntax::text;

/// Settings written for a run: in its workload, which takes precedence, its target, or the factors.
pub(crate) struct WrittenSettings<'a> {
    pub workload: &'a Settings,
    /// The target's own settings, which take precedence over the factors.
    pub target: Option<&'a Settings>,
    pub factors: &'a Settings,
    pub server: &'a ServerPlan,
}

impl WrittenSettings<'_> {
    /// The levels of a setting, or its default in `run`.
    pub(crate) fn levels(&self, setting: Setting, run: &RunSpec) -> Vec<Value> {
        if let Some(levels) = self.written(setting) {
            return levels.iter().map(|level| level.value.clone()).collect();
        }
        let of_server = cluster::usual_level(setting, run, self.server);
        vec![of_server.unwrap_or_else(|| defaults::level(setting, run))]
    }

    /// The levels of a setting, if any were written.
    pub(crate) fn written(&self, setting: Setting) -> Option<&[Located<Value>]> {
        // The workload takes precedence over the target, and both over the factors.
        [Some(self.workload), self.target, Some(self.factors)]
            .into_iter()
            .find_map(|settings| settings?.get(setting))
    }

    /// Returns the place where the level that `run` has was written.
    fn place_of_level(&self, setting: Setting, run: &RunSpec) -> PlanPosition {
        let value = setting.get(run);
        for level in self.written(setting).unwrap_or_default() {
            if level.value == value {
                return level.place;
            }
        }
        PlanPosition::Whole
    }

    /// Places a fault at the first of `settings` that was written.
    fn fault(&self, run: &RunSpec, settings: &[Setting], fault: Fault) -> PlanError {
        let written =
            settings.iter().find(|s| self.place_of_level(**s, run) != PlanPosition::Whole);
        let message = format!("{} workload: {}", run.workload.name(), fault.message);
        let fault = Fault { message, ..fault };
        match written.or(settings.first()) {
            Some(setting) => fault.of_key(setting.key(), self.place_of_level(*setting, run)),
            None => fault.at(PlanPosition::Whole),
        }
    }
}

/// Returns an error if a run contradicts the protocols.
pub(crate) fn contradiction(run: &RunSpec, written: &WrittenSettings<'_>) -> Option<PlanError> {
    let why = run.impossible()?;
    let (settings, hint) = remedy(why);
    Some(written.fault(run, settings, Fault::new(why.to_string()).hint(hint)))
}

/// Returns the settings that contradict each other, and which values don't.
const fn remedy(why: Impossible) -> (&'static [Setting], &'static str) {
    match why {
        Impossible::VersionOverUdp(_) => {
            (&[Setting::Proto, Setting::NfsVers], "proto tcp, or nfsvers 2 or 3")
        }
        Impossible::TlsOverUdp => {
            (&[Setting::Proto, Setting::XprtSec], "proto tcp, or xprtsec none")
        }
        Impossible::TlsWithV2 => {
            (&[Setting::XprtSec, Setting::NfsVers], "xprtsec none, or nfsvers 3 or newer")
        }
        Impossible::XattrsOfVersion(_) | Impossible::DataOpsOfVersion(_) => {
            (&[Setting::Passes, Setting::NfsVers], "nfsvers 4.2, or other passes")
        }
        Impossible::ConnectionsOverUdp => {
            (&[Setting::Nconnect, Setting::Proto], "nconnect 1, or proto tcp")
        }
        Impossible::AddressesOverUdp => {
            (&[Setting::MaxConnect, Setting::Proto], "max_connect 1, or proto tcp")
        }
        Impossible::FileTooLargeForV2 => (
            &[Setting::FileSize, Setting::NfsVers],
            "at most 2147483647 bytes, or nfsvers 3 or newer",
        ),
        Impossible::TransferTooLargeForV2 => (
            &[Setting::TransferSize, Setting::NfsVers],
            "transfer_size 8KiB, or nfsvers 3 or newer",
        ),
        Impossible::TransferTooLargeForUdp => {
            (&[Setting::TransferSize, Setting::Proto], "transfer_size 32KiB, or proto tcp")
        }
        Impossible::TransferTooLargeForServer => (
            &[Setting::TransferSize, Setting::MaxBlockSize],
            "a smaller transfer_size, or a larger max_block_size",
        ),
        Impossible::MappedDirectly => {
            (&[Setting::Mmap, Setting::Direct], "mmap false, or direct false")
        }
        Impossible::ZerosVerified => {
            (&[Setting::Verify, Setting::Data], "verify false, or data random")
        }
        Impossible::ZerosStamped => {
            (&[Setting::Stamp, Setting::Data], "stamp false, or data random")
        }
        Impossible::RepeatsStamped => {
            (&[Setting::Dedup, Setting::Stamp], "dedup 0, or stamp false")
        }
        Impossible::ProgramElsewhere => {
            (&[], "use a target with a `path`: programs work in a mounted directory")
        }
        Impossible::ProgramOnManyHosts => {
            (&[Setting::ClientHosts], "client_hosts 1 uses the first host")
        }
        Impossible::PnfsOfManyConnections => cluster::ONE_CONNECTION,
        Impossible::FewerClientsThanWorkers => (
            &[Setting::Clients, Setting::Workers],
            "each worker needs its own clients: at least as many as workers",
        ),
        Impossible::UidsBeyondTheLast => {
            (&[Setting::ClientUids], "fewer client_uids, or a smaller uid: ids have 32 bits")
        }
        Impossible::UidsWithoutAuthSys => (&[Setting::ClientUids], "client_uids 1, or sec sys"),
        Impossible::DiskByNfs => {
            (&[Setting::DataPath], "backend posix or uring, or data_path loopback")
        }
        Impossible::DatagramsInTunnel => {
            (&[Setting::Proto, Setting::TunnelForwards], "proto tcp, or tunnel_forwards packets")
        }
        Impossible::VersionOfServer(..) => {
            (&[Setting::NfsVers, Setting::ServerKind], "nfsvers 3, or server_kind knfsd")
        }
        Impossible::DynamicThreadsOfServer(_) => (
            &[Setting::NfsdThreads, Setting::ServerKind],
            "a fixed number of nfsd_threads, or server_kind knfsd",
        ),
        Impossible::TlsOfOwnServer => {
            (&[Setting::XprtSec, Setting::ServerKind], "xprtsec none, or server_kind knfsd")
        }
        Impossible::RdmaOfOwnClient => {
            (&[Setting::Proto], "proto tcp, or backend posix with a target that has `server`")
        }
        Impossible::MtlsOfOwnClient => {
            (&[Setting::XprtSec], "xprtsec tls, with tls_cert and tls_key in the target")
        }
        Impossible::RdmaInTunnel => {
            (&[Setting::Proto, Setting::DataPath], "proto tcp, or data_path network")
        }
        Impossible::RdmaOfServer => {
            (&[Setting::Proto, Setting::ServerKind], "proto tcp, or server_kind knfsd")
        }
        Impossible::TrunkingOfVersion(_) => {
            (&[Setting::MaxConnect, Setting::NfsVers], "max_connect 1, or nfsvers 4.1 or newer")
        }
        Impossible::FlavorOfServer(..) => {
            (&[Setting::Sec, Setting::ServerKind], "sec sys, or server_kind knfsd")
        }
        Impossible::DataServersOfForeignServer => cluster::OF_FOREIGN_SERVER,
        Impossible::MoreMirrorsThanDataServers => cluster::FEWER_MIRRORS,
    }
}

/// Refuses a run whose settings contradict each other.
pub(crate) fn check(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    lab::check(run, written)?;
    check_neighbour(run, written)?;
    if run.workload == Workload::App {
        return Ok(());
    }
    check_files(run, written)?;
    if Setting::FileSize.has_workload(run.workload) && run.workload != Workload::Io500 {
        check_data(run, written)?;
    }
    if Setting::IoSize.has_workload(run.workload) {
        check_direct(run, written)?;
    }
    check_buffers(run, written)?;
    work::check(run, written)?;
    check_server(run, written)
}

/// Refuses a neighbor that is the host itself.
fn check_neighbour(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let places = run.placement.neighbour;
    let agents = run.agents();
    if agents == 1 || places == 0 || !places.is_multiple_of(agents) {
        return Ok(());
    }
    let what = format!("{places} places further among {agents} client hosts is the same host");
    let fault = Fault::new(what).hint("1 is the next host");
    Err(written.fault(run, &[Setting::Neighbour], fault))
}

/// The settings for the number and the size of a run's files.
fn file_settings(workload: Workload) -> [Setting; 2] {
    if workload == Workload::Listing {
        [Setting::Entries, Setting::SmallFileSize]
    } else if workload == Workload::Io500 {
        [Setting::SmallFiles, Setting::FileSize]
    } else if workload.row().is_about_names {
        [Setting::SmallFiles, Setting::SmallFileSize]
    } else {
        [Setting::Files, Setting::FileSize]
    }
}

fn check_files(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let [files, _] = file_settings(run.workload);
    let directories = defaults::directories(&run.target);
    if u64::from(run.files) < directories && files.has_workload(run.workload) {
        let what = format!("{} files leave some of {directories} directories empty", run.files);
        let fault = Fault::new(what).hint(format!("at least {directories}"));
        return Err(written.fault(run, &[files], fault));
    }
    // Workers share all files of an op mix and of bonnie; otherwise each has its own files, unless
    // the plan shares them.
    let shared = run.workload.row().shares_files || run.layout.sharing == Sharing::Shared;
    if shared || run.workload.is_external() || run.files >= run.all_workers() {
        return Ok(());
    }
    let workers = run.all_workers();
    let what = format!("{} files are too few for {workers} workers", run.files);
    let hint = format!("each worker needs its own files: at least {workers}");
    Err(written.fault(run, &[files, Setting::Workers], Fault::new(what).hint(hint)))
}

fn check_data(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let file = run.file_size_bytes;
    let io = u64::from(run.io_size_bytes);
    let sizes = [Setting::IoSize, Setting::FileSize];
    let largest = run.largest_file_bytes();
    if io > largest {
        let what =
            format!("io_size {} is larger than file_size {}", show_size(io), show_size(largest));
        let fault = Fault::new(what).hint(format!("at most \"{}\"", text::size(largest)));
        return Err(written.fault(run, &sizes, fault));
    }
    // The shards of a checkpoint and the samples of a training follow from a model, so each may end
    // with a smaller op.
    let of_model = matches!(run.workload, Workload::Checkpoint | Workload::Training);
    let has_short_ops = of_model || run.file_sizes.is_some();
    if !file.is_multiple_of(io) && !has_short_ops {
        let [file_shown, io_shown] = [file, io].map(|bytes| Size(bytes).exact().replace(' ', ""));
        let what = format!("file_size {file_shown} is not a multiple of io_size {io_shown}");
        let hint = describe_decimal("io_size", io)
            .or_else(|| describe_decimal("file_size", file))
            .unwrap_or_else(|| {
                let near = text::size(file - file % io);
                format!("all ops have the same size; try \"{near}\"")
            });
        let fault = Fault::new(what).hint(hint);
        return Err(written.fault(run, &[Setting::FileSize, Setting::IoSize], fault));
    }
    Ok(())
}

/// Suggests the binary unit for a size that was written with a decimal one, such as `4kb`.
fn describe_decimal(key: &str, bytes: u64) -> Option<String> {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GiB"), (1_000_000, "MiB"), (1_000, "KiB")];
    let (factor, binary) = UNITS.iter().find(|(factor, _)| bytes.is_multiple_of(*factor))?;
    let count = bytes / factor;
    // A size that is short in binary units, such as 500KiB, was probably meant that way.
    let exact = text::size(bytes);
    let is_binary = exact.ends_with("iB") && exact.len() <= "1023KiB".len();
    if is_binary || count >= 1 << 10 {
        return None;
    }
    Some(format!("{key} is {bytes} bytes; did you mean \"{count}{binary}\"?"))
}

fn check_direct(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let io = u64::from(run.io_size_bytes);
    if !run.direct || io.is_multiple_of(limits::DIRECT_ALIGNMENT) {
        return Ok(());
    }
    let what = format!("direct I/O can't move {} at a time", show_size(io));
    let hint = format!(
        "O_DIRECT needs an io_size that is a multiple of {} bytes, such as \"{}\"",
        limits::DIRECT_ALIGNMENT,
        text::size(io.next_multiple_of(limits::DIRECT_ALIGNMENT))
    );
    Err(written.fault(run, &[Setting::IoSize, Setting::Direct], Fault::new(what).hint(hint)))
}

fn check_buffers(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    // Each client of a worker has that many ops in flight.
    let clients = run.clients().div_ceil(run.agents());
    let in_flight = u64::from(clients.max(run.workers)) * u64::from(run.queue_depth);
    let op_bytes = run.largest_op_bytes();
    let bytes = in_flight * u64::from(op_bytes);
    if bytes <= limits::BUFFERS_MAX {
        return Ok(());
    }
    let what = format!("{in_flight} ops in flight need {} of buffers", show_size(bytes));
    // A small file is written with one op.
    let [_, file_size] = file_settings(run.workload);
    let size = match run.workload {
        Workload::Metadata => file_size,
        Workload::Database if op_bytes > run.io_size_bytes => Setting::CommitSize,
        _ => Setting::IoSize,
    };
    let hint = format!(
        "{} x queue_depth x {} can be at most {}",
        if clients > run.workers { "clients" } else { "workers" },
        size.key(),
        show_size(limits::BUFFERS_MAX)
    );
    let settings = [Setting::QueueDepth, Setting::Workers, size];
    Err(written.fault(run, &settings, Fault::new(what).hint(hint)))
}

/// Refuses a file set that does not fit into the in-memory server.
fn check_server(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    if !matches!(&run.target, Target::Nfs(nfs) if nfs.embedded) {
        return Ok(());
    }
    cluster::check(run, written)?;
    if run.verify && written.server.discard {
        let fault = Fault::new("the in-memory server discards written data");
        let fault = fault.hint("leave verify out, or `discard` in [server]");
        return Err(written.fault(run, &[Setting::Verify], fault));
    }
    if run.workload == Workload::OpMix {
        return check_mix_on_server(run, written);
    }
    if run.workload == Workload::KvCache {
        return check_cache_on_server(run, written);
    }
    if run.workload == Workload::Io500 {
        return check_phases_on_server(run, written);
    }
    let twins = u64::from(run.passes().iter().any(|pass| pass.fills_twins()));
    let files = u64::from(run.files) * (1 + twins);
    let set = FileSet::new(run);
    let needed = set.sum_sizes(server_bytes).saturating_mul(1 + twins);
    let needed = needed.saturating_add(files * limits::SERVER_FILE_OVERHEAD);
    let [of_files, of_size] = file_settings(run.workload);
    let shown = match &run.file_sizes {
        None => format!("{files} x {} of files", show_size(run.file_size_bytes)),
        Some(_) => format!("{files} files of {}", show_size(set.totals().1)),
    };
    let settings = [of_size, of_files, Setting::Workers];
    let lower = [of_size, of_files];
    fits(run, written, &MemoryNeed { bytes: needed, shown, settings, lower })
}

/// Like [`check_server`] for a cache, whose files are never larger than its capacity.
fn check_cache_on_server(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let capacity = run.kv_cache.capacity_bytes;
    let needed = capacity + u64::from(run.files) * limits::SERVER_FILE_OVERHEAD;
    let shown = format!("a cache of {}", show_size(capacity));
    let settings = [Setting::CacheCapacity, Setting::ObjectSize, Setting::Files];
    let lower = [Setting::CacheCapacity, Setting::Files];
    fits(run, written, &MemoryNeed { bytes: needed, shown, settings, lower })
}

/// Like [`check_server`] for an op mix, whose file set follows from its rate.
fn check_mix_on_server(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let set = OpMixSet::new(run);
    // Sizes are powers of two; appends may double a file's last block.
    let (files, bytes) = set.totals();
    let inodes = files + u64::from(set.directories()) + u64::from(set.links());
    let appended = set.appended_bytes(run).saturating_mul(2);
    let needed = bytes + appended + inodes * limits::SERVER_FILE_OVERHEAD;
    let shown = if run.op_mix.set_bytes_per_rate > 0 {
        let rate = run.load.rate_per_s;
        let each = show_size(run.op_mix.set_bytes_per_rate);
        format!("{rate} op/s x {each} of files")
    } else {
        format!("{files} files of {}", show_size(bytes))
    };
    let settings = [Setting::SetPerRate, Setting::Rate, Setting::Duration];
    let lower = [Setting::SetPerRate, Setting::Rate];
    fits(run, written, &MemoryNeed { bytes: needed, shown, settings, lower })
}

/// Like [`check_server`] for io500, whose phases write four sets of files.
fn check_phases_on_server(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let whole = run.for_agents();
    let mut needed = 0_u64;
    for part in Io500Part::ALL.map(|part| whole.io500_part(part)) {
        let each = server_bytes(part.file_size_bytes) + limits::SERVER_FILE_OVERHEAD;
        needed = needed.saturating_add(each.saturating_mul(part.files.into()));
    }
    let shown = format!(
        "{} workers with up to {} in each phase, and 2 x {} small files",
        whole.workers,
        show_size(run.file_size_bytes),
        run.files
    );
    let settings = [Setting::FileSize, Setting::SmallFiles, Setting::Workers];
    let lower = [Setting::FileSize, Setting::SmallFiles];
    fits(run, written, &MemoryNeed { bytes: needed, shown, settings, lower })
}

/// Memory of the in-memory server that a run needs.
struct MemoryNeed {
    bytes: u64,
    /// The files that need it, for messages.
    shown: String,
    /// The settings that determine it; the first one that was written gets the blame.
    settings: [Setting; 3],
    /// The settings to lower.
    lower: [Setting; 2],
}

/// Refuses a run that needs more memory than the in-memory server has.
fn fits(run: &RunSpec, written: &WrittenSettings<'_>, need: &MemoryNeed) -> Result<(), PlanError> {
    let MemoryNeed { bytes, shown, settings, lower } = need;
    let memory = written.server.memory_bytes;
    let for_files = model::server_memory::file_bytes(memory);
    let copies = run.nfs().mirrors.unwrap_or(1);
    if bytes.saturating_mul(copies.into()) <= for_files {
        return Ok(());
    }
    let shown = if copies > 1 { format!("{copies} mirrors of {shown}") } else { shown.to_owned() };
    let what = format!(
        "{shown}, with their inodes, do not fit in {}, the part of the in-memory server's {} that \
         is for files",
        show_size(for_files),
        show_size(memory)
    );
    let hint = format!(
        "raise `memory` in [server] or --server-memory, or lower {} or {}",
        lower[0].key(),
        lower[1].key()
    );
    Err(written.fault(run, settings, Fault::new(what).hint(hint)))
}

/// Memory that the in-memory server uses for the data of one file.
fn server_bytes(file_size_bytes: u64) -> u64 {
    let rest = file_size_bytes % limits::SERVER_BLOCK;
    let last = match rest {
        0 => 0,
        _ => rest.next_power_of_two().max(limits::SERVER_BLOCK_MIN),
    };
    file_size_bytes - rest + last
}
