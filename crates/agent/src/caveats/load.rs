//! Caveats about what was offered and what was written: load, shares of ops, data.
//!
//! Each function sees the figures of one pass and what is known of its target, and decides by a
//! rule with a source; where chance moves a figure, three standard deviations are allowed for.

use lab::mounts::Mount;
use model::units::{Size, three_digits};
use model::{Arrivals, Caveat, CaveatCode, Fill, Keeps, OpKind, Pass, PassResult, RunSpec};

use workload::opmix::call_shares;

/// Below this share of the offered load the response times are those of another load.
///
/// **Source:** SPECstorage Solution 2020, run rules: 95 % of the requested rate over all.
pub const LOAD_SHARE_MIN: f64 = 0.95;

/// So many points a share of ops may lie off.
///
/// **Source:** SPEC SFS 3.0, what makes a run invalid: 1.5 points.
pub const SHARE_POINTS_MAX: f64 = 1.5;

/// Chance alone leads so many standard deviations astray once in some 700 times.
const SIGMAS: f64 = 3.0;

/// Doubts about the load: whether what was done is what was requested.
pub fn about_load(spec: &RunSpec, result: &PassResult) -> Vec<Caveat> {
    below_offered(spec, result).into_iter().chain(off_shares(spec, result)).collect()
}

fn below_offered(spec: &RunSpec, result: &PassResult) -> Option<Caveat> {
    let rate = spec.load.rate_per_s;
    if rate == 0 || spec.workload.is_external() {
        return None;
    }
    // What really fell due, where that was counted: chance has no part in it then.
    let counted = result.scope.offered.filter(|offered| offered.span_ns > 0);
    let (span_s, due, late, chance);
    let mut carried_over = 0;
    if let Some(offered) = counted {
        (span_s, due) = (offered.span_ns as f64 / 1e9, offered.scheduled_ops as f64);
        (late, chance) = (result.scope.overdue_ops(), f64::from(spec.workers));
        carried_over = offered.carried_over_ops;
    } else {
        span_s = result.window_ns as f64 / 1e9;
        due = rate as f64 * span_s;
        late = 0;
        chance = match spec.load.arrivals {
            Arrivals::Poisson => SIGMAS * due.sqrt(),
            // The last op may be due just after the end.
            Arrivals::Constant => f64::from(spec.workers),
        };
    }
    // An op that was answered with an error was carried all the same: that it failed is a caveat of
    // its own. What fell due in the warm-up and was done in the window was done in others' place.
    let answered = result.ops() + result.answered_errors();
    let done = (answered.saturating_sub(late) + carried_over) as f64;
    (done < due * LOAD_SHARE_MIN - chance).then(|| {
        let unanswered = counted.map_or(0, |offered| offered.unanswered_ops);
        let rest = match (late, unanswered) {
            (0, 0) => String::new(),
            (late, 0) => format!("; {late} ops were started after the window had ended"),
            (late, unanswered) => format!(
                "; {late} ops were started after the window had ended, and {unanswered} not at \
                 all: they stand among the response times with the time that they had waited"
            ),
        };
        CaveatCode::BelowOffered.because(format!(
            "{} op/s were answered of {} op/s offered ({:.0} %){rest}",
            three_digits(done / span_s),
            three_digits(due / span_s),
            done / due * 100.0
        ))
    })
}

/// The kinds of op whose shares were requested, in percent.
fn shares_asked(spec: &RunSpec, pass: Pass) -> Vec<(OpKind, f64)> {
    match pass {
        Pass::Mix => vec![(OpKind::Read, spec.read_percent.into())],
        Pass::OpMix => {
            let shares = call_shares(&spec.op_mix).into_iter();
            shares.map(|(kind, share)| (kind, f64::from(share) / 100.0)).collect()
        }
        _ => Vec::new(),
    }
}

/// The share that lies farthest off, where one lies too far.
fn off_shares(spec: &RunSpec, result: &PassResult) -> Option<Caveat> {
    let all = result.ops() as f64;
    let off = |(kind, requested): (OpKind, f64)| {
        let of_kind = result.kinds.iter().filter(|known| known.kind == kind);
        let done: u64 = of_kind.map(|kind| kind.done).sum();
        let found = done as f64 / all * 100.0;
        let chance = SIGMAS * (requested * (100.0 - requested) / all).sqrt();
        let points = (found - requested).abs();
        (all > 0.0 && points > SHARE_POINTS_MAX + chance)
            .then_some((kind, requested, found, points))
    };
    let found = shares_asked(spec, result.pass).into_iter().filter_map(off);
    let (kind, requested, found, _) = found.max_by(|a, b| a.3.total_cmp(&b.3))?;
    Some(CaveatCode::MixShares.because(format!(
        "{found:.1} % of {} ops were {kind}, {requested:.1} % were asked for",
        result.ops()
    )))
}

/// Doubts about the data: whether it was as large on its way as it says, and whether it left the
/// memory of this host. `memory_bytes` is that of this host.
pub fn about_data(
    spec: &RunSpec,
    result: &PassResult,
    mount: Option<&Mount>,
    memory_bytes: Option<u64>,
) -> Vec<Caveat> {
    if result.bytes() == 0 || spec.workload.is_external() {
        return Vec::new();
    }
    let fits = fits_memory(spec, result, mount, memory_bytes);
    compressible(spec, mount).into_iter().chain(fits).collect()
}

fn compressible(spec: &RunSpec, mount: Option<&Mount>) -> Option<Caveat> {
    let data = spec.data;
    let what = match data.fill {
        Fill::Zeros => "every byte is zero".to_owned(),
        Fill::Random if data.compress_percent > 0 || data.dedup_percent > 0 => {
            format!("{} % compresses, {} % repeats", data.compress_percent, data.dedup_percent)
        }
        Fill::Random => return None,
    };
    let path = match spec.target.row().keeps {
        Keeps::Nothing(_) => return None,
        // A server tells nobody what it does with data.
        Keeps::FilesOnServer => "an NFS server's file system may compress".to_owned(),
        Keeps::FilesHere => compressing(mount?)?,
    };
    Some(CaveatCode::Compressible.because(format!("{what}; {path}")))
}

/// Why a mount may store less than was written.
fn compressing(mount: &Mount) -> Option<String> {
    let file_system = mount.file_system.as_str();
    let requested = mount.options.split(',').find(|option| option.starts_with("compress"));
    match (file_system, requested) {
        ("btrfs" | "f2fs" | "bcachefs" | "ubifs", Some(option)) => {
            Some(format!("{file_system} is mounted with {option}"))
        }
        ("zfs" | "ntfs3", _) => Some(format!("{file_system} compresses where it is told to")),
        ("nfs" | "nfs4" | "cifs" | "smb3" | "fuse.sshfs" | "ceph" | "lustre" | "9p", _) => {
            Some(format!("what is behind {file_system} may compress"))
        }
        _ => None,
    }
}

/// Says by the sizes alone whether the data fits memory: nothing counts what came from elsewhere.
fn fits_memory(
    spec: &RunSpec,
    result: &PassResult,
    mount: Option<&Mount>,
    memory_bytes: Option<u64>,
) -> Option<Caveat> {
    let counted = |mount: &&Mount| mount.counts_storage_reads() || mount.is_nfs();
    let mount = mount.filter(|mount| !counted(mount))?;
    let memory = memory_bytes.filter(|memory| spec.set_bytes() < *memory)?;
    (result.pass.reads() && !spec.direct).then(|| {
        CaveatCode::FitsMemory.because(format!(
            "{} of files on {}, {} of memory (/proc/meminfo)",
            Size(spec.set_bytes()),
            mount.file_system,
            Size(memory)
        ))
    })
}
