//! Caveats about one pass of one trial, each with its numbers and their source.
//!
//! Caveats that need several trials (too few trials, wide interval, outliers) are raised by
//! `stats`.

mod delegations;
mod interference;
mod listing;
mod load;
mod local_server;
mod loops;
mod memory;
mod mount;
mod paths;
mod processors;
mod ranges;
mod segments;
mod storage;
mod surroundings;
mod timeline;
mod training;
mod transport;

use engine::backend::{BackendCounts, PnfsCounts, ShortTransfers, TcpCounters};
use engine::worker::Ending;
use lab::mounts::Mount;
use model::io500::STONEWALL_MS;
use model::soak::Recovery;
use model::units::{Nanos, Size, three_digits};
use model::{
    Caveat, CaveatCode, Durability, Evidence, Fact, OpError, Opens, Pass, PassResult, RunSpec,
    Stable, Workload,
};

use crate::accounting;
use crate::processor_use::ProcessorUse;

pub use delegations::about_delegations;
pub use interference::interference;
pub use listing::about_listing;
pub(crate) use listing::listing_work;
pub use load::{about_data, about_load};
pub use local_server::find_server;
pub use loops::{about_loops, about_uncounted_loops};
pub use memory::about_memory;
pub use mount::{IN_FLIGHT_MAX, about_mount, mount_traffic};
pub use paths::{about_data_servers, about_paths};
pub use ranges::{about_copies, about_holes, is_unsupported};
pub(crate) use ranges::{copies_followed, ends_found};
pub use segments::{LOST_MIN, SEGMENTS_AGAIN_MAX, about_segments};
pub use storage::{
    RESIDENT_SHARE_MAX, RunCounts, about_cache, about_commits, about_direct, about_run,
};
pub(crate) use surroundings::{about_neighbors, about_tracers};
pub use timeline::{Calendar, about_calendar};
pub use training::{about_data_set, about_steps};
pub use transport::about_transport;

/// Minimum length of a pass: five scheduling slices of about 4 ms. In anything shorter, a single
/// slice lost to another process is more than a fifth of the pass.
pub(crate) const WINDOW_MIN_NS: u64 = 20_000_000;

/// Minimum share of bytes read that must come from storage. Below it, the page cache affected the
/// result.
pub(crate) const STORAGE_SHARE_MIN: f64 = 0.9;

/// Raises caveats about whether the pass did what it reports.
pub fn about_outcome(result: &PassResult, ending: &Ending, tally: &BackendCounts) -> Vec<Caveat> {
    let mut caveats = accounting::caveats(&result.cross_checks);
    let mismatches = count_errors(result, OpError::MISMATCH);
    if mismatches > 0 {
        let found = tally.mismatches;
        let ops = result.ops() + result.errors();
        let evidence =
            format!("{mismatches} of {ops} ops read different data than was written: {found}");
        let source = "stamps and checksums of the data read";
        let data = Evidence::counts(mismatches, 0, "ops", source);
        caveats.push(CaveatCode::DataMismatch.because(evidence).with_data(data));
    }
    if result.errors() > 0 {
        let mut errors = errors_in_words(result);
        if let Some(reply) = tally.bad_reply {
            errors = format!("{errors}; first {reply}");
        }
        if is_unsupported(result) {
            errors = format!("the target does not support {}: {errors}", result.pass);
        }
        let evidence = match ending {
            Ending::Lost(reason) => format!("{errors}: {reason}"),
            _ => errors,
        };
        let data = Evidence::counts(result.errors(), 0, "ops", "errors counted by the recorder");
        caveats.push(CaveatCode::Errors.because(evidence).with_data(data));
    }
    if *ending == Ending::Stopped {
        let after = Nanos(result.window_ns);
        caveats.push(CaveatCode::Interrupted.because(format!("stopped after {after}")));
    }
    caveats
}

/// Raises caveats about how the result was measured. `server_here` describes the server if it is on
/// this host, and `used` is the CPU usage if the kernel counts it.
pub fn about_figures(
    spec: &RunSpec,
    result: &PassResult,
    server_here: Option<&str>,
    used: Option<&ProcessorUse>,
) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    caveats.extend(too_short(result));
    // In some passes workers are idle by design, so they cannot be synchronized.
    if !spec.has_idle_workers(result.pass) {
        caveats.extend(result.unsynchronised(spec.workers));
    }
    caveats.extend(processors::about_processors(spec, result, used, server_here.is_some()));
    caveats.extend(timeline::stalled(spec, result));
    caveats.extend(server_here.map(|server| processors::shared_host(server, result, used)));
    caveats.extend(not_durable(spec, result.pass));
    caveats
}

/// Minimum share of time in which our connections must have had data to send. Below it, as in
/// passes that mostly read, the pass shows nothing about the limits of sending.
pub(crate) const SENDING_SHARE_MIN: f64 = 0.1;

/// Reports what limited our connections while they had data to send: the server's receive window
/// (the server was slow), our send buffer, or else the congestion window and the network.
pub fn sending_limits(result: &PassResult, tcp: &TcpCounters) -> Option<Fact> {
    let TcpCounters { connections, busy_us, bytes_retransmitted, .. } = *tcp;
    let sent_share = busy_us as f64 * 1e3 / (result.window_ns as f64 * f64::from(connections));
    // Without a connection or a window, the share is not a number.
    if !sent_share.is_finite() || sent_share < SENDING_SHARE_MIN {
        return None;
    }
    let receiver_share = tcp.receiver_limited_us as f64 / busy_us as f64;
    let buffer_share = tcp.send_buffer_limited_us as f64 / busy_us as f64;
    let value = format!(
        "{connections} connections were busy for {} in total, {} of it limited by the server's \
         receive window and {} by the send buffer; {} retransmitted",
        Nanos(busy_us.saturating_mul(1_000)),
        processors::percent(receiver_share),
        processors::percent(buffer_share),
        Size(bytes_retransmitted),
    );
    let source = "TCP_INFO (tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited, \
                  tcpi_bytes_retrans)";
    Some(Fact::new("target", format!("{}: TCP sending", result.pass), value, source))
}

/// Raises caveats about calls without a reply at first, and about deferred calls.
pub fn about_recovery(recovered: &Recovery) -> Vec<Caveat> {
    let Recovery { retransmissions, delays, .. } = *recovered;
    let mut caveats = Vec::new();
    if retransmissions > 0 {
        let evidence =
            format!("{retransmissions} calls were retransmitted (counted by the client)");
        let data = Evidence::counts(retransmissions, 0, "calls", "counted by the client");
        caveats.push(CaveatCode::Retransmits.because(evidence).with_data(data));
    }
    if delays > 0 {
        let evidence =
            format!("{delays} replies asked the client to try again later (JUKEBOX, DELAY, GRACE)");
        let source = "JUKEBOX, DELAY and GRACE replies counted by the client";
        let data = Evidence::counts(delays, 0, "answers", source);
        caveats.push(CaveatCode::ServerBusy.because(evidence).with_data(data));
    }
    caveats
}

/// Raises a caveat about lost connections and lost data, for a pass that recovered from all of it.
pub fn recovered(recovered: &Recovery) -> Option<Caveat> {
    let losses = losses_in_words(recovered)?;
    let Recovery { reconnects, resent_bytes, .. } = *recovered;
    let source = "counted by the client";
    let data = if reconnects > 0 {
        Evidence::counts(reconnects, 0, "reconnects", source)
    } else {
        Evidence::bytes(resent_bytes, 0, source)
    };
    Some(CaveatCode::Recovered.because(format!("{losses} ({source})")).with_data(data))
}

/// Keeps the same counts as a fact of a pass that failed nevertheless.
pub fn unrecovered(pass: Pass, recovered: &Recovery) -> Option<Fact> {
    let losses = losses_in_words(recovered)?;
    Some(Fact::new("target", format!("{pass}: failed recovery"), losses, "counted by the client"))
}

/// Counts lost connections and lost data; `None` without any.
fn losses_in_words(recovered: &Recovery) -> Option<String> {
    let Recovery { reconnects, replays, resent_bytes, .. } = *recovered;
    (reconnects > 0 || resent_bytes > 0).then(|| {
        format!(
            "{reconnects} reconnects, {replays} calls resent over new connections, {} written more \
             than once",
            Size(resent_bytes)
        )
    })
}

/// Share of calls that transfer less than requested, above which the additional calls affect the
/// result. Each takes another round trip, so one in a hundred costs about 1 %.
pub(crate) const SHORT_SHARE_MAX: f64 = 0.01;

/// Raises a caveat about calls that transferred less data than requested, since each block then
/// takes more round trips than the transfer size suggests.
pub fn about_short_transfers(transfers: &ShortTransfers, source: &str) -> Option<Caveat> {
    let ShortTransfers { calls, short_reads, short_writes, missing_bytes } = *transfers;
    let share = (short_reads + short_writes) as f64 / calls.max(1) as f64;
    if share <= SHORT_SHARE_MAX {
        return None;
    }
    let missing = match missing_bytes {
        0 => String::new(),
        bytes => format!("; additional calls transferred the remaining {}", Size(bytes)),
    };
    let evidence = format!(
        "{short_reads} READs and {short_writes} WRITEs of {calls} calls transferred less than \
         requested ({} %, limit {} %; {source}){missing}",
        three_digits(share * 100.0),
        three_digits(SHORT_SHARE_MAX * 100.0),
    );
    let data = Evidence::shares(share, SHORT_SHARE_MAX, source);
    Some(CaveatCode::ShortTransfers.because(evidence).with_data(data))
}

/// Raises a caveat about data that went through the metadata server although pNFS was requested.
pub fn about_pnfs(counts: &PnfsCounts) -> Option<Caveat> {
    let share = counts.metadata_share().filter(|share| *share > 0.0)?;
    let source = "counted by the client";
    let mut why = Vec::new();
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            why.push(format!("{what}: {count}"));
        }
    };
    add(counts.without_layout, "files without layout");
    add(counts.recalled, "recalled layouts");
    add(counts.refused, "calls that failed at data servers");
    add(counts.lost_servers, "lost data servers");
    add(counts.regained, "layouts got again");
    let why = if why.is_empty() { String::new() } else { format!("; {}", why.join(", ")) };
    let evidence = format!(
        "{} of {} ({} %) went through the metadata server ({source}){why}",
        Size(counts.metadata_bytes),
        Size(counts.metadata_bytes + counts.data_bytes),
        three_digits(share * 100.0),
    );
    let data = Evidence::shares(share, 0.0, source);
    Some(CaveatCode::PnfsFallback.because(evidence).with_data(data))
}

/// Returns true if a directory is on a mount of the kernel's NFS client.
fn is_on_nfs(mount: Option<&Mount>) -> bool {
    mount.is_some_and(Mount::is_nfs)
}

/// Returns the bytes read by ops in the window that come from storage or a server. Half of a sparse
/// file is holes, which nobody has to send.
fn read_bytes(result: &PassResult) -> u64 {
    let mut read = 0_u64;
    for kind in &result.kinds {
        if kind.kind.reads_data() {
            read = read.saturating_add(kind.bytes);
        }
    }
    if result.pass.needs_holes() { read / 2 } else { read }
}

/// Returns the evidence that reads were served from memory because too few bytes came from the
/// source. Returns `None` if enough came from there or nothing was read.
fn evidence_of_cache(source_bytes: u64, read_bytes: u64, source: &str) -> Option<Evidence> {
    evidence_below(STORAGE_SHARE_MIN, source_bytes, read_bytes, source)
}

/// Like [`evidence_of_cache`], with a custom minimum share.
fn evidence_below(
    share_min: f64,
    source_bytes: u64,
    read_bytes: u64,
    source: &str,
) -> Option<Evidence> {
    if read_bytes == 0 || source_bytes as f64 >= read_bytes as f64 * share_min {
        return None;
    }
    let share = source_bytes as f64 / read_bytes as f64;
    Some(Evidence::shares(share, share_min, source))
}

/// Notes that a server whose memory we cannot observe may have served reads from it, because
/// everything that is read was written by the same trial.
///
/// If hosts are set up by us, the controller reads the counters of the server's disks instead.
/// `memory_bytes` is the memory of this host, which matters if the server is here.
pub fn about_server_cache(
    spec: &RunSpec,
    result: &PassResult,
    mount: Option<&Mount>,
    server_here: Option<&str>,
    memory_bytes: Option<u64>,
) -> Option<Caveat> {
    let is_ours = spec.target.is_embedded() || spec.lab.is_some();
    let has_server = spec.target.nfs().is_some() || is_on_nfs(mount);
    if is_ours || !has_server || read_bytes(result) == 0 {
        return None;
    }
    let set_bytes = spec.set_bytes();
    let set = Size(set_bytes);
    // The plan may specify the server's memory; a server on this host shares our memory.
    let memory = match spec.server_memory_bytes {
        0 if server_here.is_some() => memory_bytes,
        0 => None,
        given => Some(given),
    };
    let Some(memory) = memory else {
        let evidence = format!("the files are {set}, and the server's memory size is not known");
        return Some(CaveatCode::MayBeServerCached.because(evidence));
    };
    if set_bytes >= memory {
        return None;
    }
    let evidence = format!("the files are {set}, but the server has {} of memory", Size(memory));
    let data =
        Evidence::bytes(set_bytes, memory, "size of the files compared with the server's memory");
    Some(CaveatCode::MayBeServerCached.because(evidence).with_data(data))
}

/// Describes the errors of a pass in a phrase such as `100 failed ops (100 x ENOSPC on write)`.
pub(crate) fn errors_in_words(result: &PassResult) -> String {
    let mut errors = Vec::new();
    for kind in &result.kinds {
        for (error, count) in &kind.errors {
            errors.push(format!("{count} x {error} on {}", kind.kind));
        }
    }
    format!("{} failed ops ({})", result.errors(), errors.join(", "))
}

fn count_errors(result: &PassResult, wanted: OpError) -> u64 {
    let mut total = 0_u64;
    for kind in &result.kinds {
        for (error, count) in &kind.errors {
            if *error == wanted {
                total = total.saturating_add(*count);
            }
        }
    }
    total
}

fn too_short(result: &PassResult) -> Option<Caveat> {
    if result.window_ns >= WINDOW_MIN_NS {
        return None;
    }
    let evidence =
        format!("measured for only {} (minimum {})", Nanos(result.window_ns), Nanos(WINDOW_MIN_NS));
    let data = Evidence::nanos(result.window_ns, WINDOW_MIN_NS, "measured window");
    Some(CaveatCode::TooShort.because(evidence).with_data(data))
}

/// Raises a caveat if a phase of io500 wrote for less time than published results must.
pub fn about_stonewall(phase: Pass, result: &PassResult) -> Option<Caveat> {
    let least_ns = STONEWALL_MS * 1_000_000;
    if !phase.has_stonewall() || result.window_ns >= least_ns {
        return None;
    }
    let evidence = format!("wrote for {} (minimum {})", Nanos(result.window_ns), Nanos(least_ns));
    let data = Evidence::nanos(result.window_ns, least_ns, "time until all workers were done");
    Some(CaveatCode::StonewallMissed.because(evidence).with_data(data))
}

/// Raises a caveat if the CPU is emulated. `emulator` is the result of [`lab::facts::emulated`].
pub fn about_host(emulator: Option<&str>) -> Option<Caveat> {
    let emulator = emulator?;
    Some(CaveatCode::Emulated.because(format!("the CPU is a {emulator} (/proc/cpuinfo)")))
}

fn not_durable(spec: &RunSpec, pass: Pass) -> Option<Caveat> {
    if pass == Pass::Create && spec.target.is_local() {
        return Some(CaveatCode::NotDurable.because("files were closed but not synced"));
    }
    let writes = match pass {
        Pass::Mix | Pass::Boot => spec.read_percent < 100,
        Pass::Record | Pass::Serve => true,
        _ if pass.opens() == Opens::Nothing => false,
        _ => pass.kinds().iter().any(|kind| kind.writes_data() || kind.changes_range()),
    };
    if !writes || spec.durability != Durability::None {
        return None;
    }
    // The data of a WRITE that isn't UNSTABLE is durable when the reply arrives, and bonnie++ syncs
    // by itself. **Source:** RFC 1813, section 3.3.7.
    let is_stable = spec.target.nfs().is_some_and(|nfs| nfs.settings.stable != Stable::Unstable);
    if is_stable || spec.workload == Workload::Bonniexx {
        return None;
    }
    Some(CaveatCode::NotDurable.because("durability none: no fsync and no COMMIT"))
}
