//! Caveats about load, op mix and data: whether the pass did what was requested.
//!
//! Each function checks the result of one pass against a rule with a source. If chance affects a
//! number, three standard deviations are allowed.

use lab::mounts::Mount;
use model::units::three_digits;
use model::{
    Arrivals, Caveat, CaveatCode, Evidence, Fill, KeptData, OpKind, Pass, PassResult, RunSpec,
};

use workload::opmix::call_shares;

/// Minimum share of the offered load. Below it, the response times belong to a different load.
///
/// **Source:** SPECstorage Solution 2020, run rules: 95 % of the requested rate over all.
pub(crate) const LOAD_SHARE_MIN: f64 = 0.95;

/// Maximum deviation of an op's share, in percentage points.
///
/// **Source:** SPEC SFS 3.0, what makes a run invalid: 1.5 points.
pub(crate) const SHARE_POINTS_MAX: f64 = 1.5;

/// Allowed standard deviations. Chance exceeds them about once in 700 cases.
const SIGMAS: f64 = 3.0;

/// Raises caveats about whether the load was as requested.
pub fn about_load(spec: &RunSpec, result: &PassResult) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    caveats.extend(check_rate(spec, result));
    caveats.extend(check_shares(spec, result));
    caveats
}

/// The load that a pass should have completed, in ops.
struct ExpectedLoad {
    span_s: f64,
    /// How long the pass took; longer than its schedule if it fell behind and ends with its files.
    carried_in_s: f64,
    scheduled: f64,
    /// How many fewer ops than scheduled chance can explain.
    chance: f64,
    /// Ops in the window that were started after its end and don't count.
    late: u64,
    /// Ops scheduled in the warm-up that were completed in the window instead.
    carried_over: u64,
    unanswered: u64,
}

impl ExpectedLoad {
    fn new(spec: &RunSpec, result: &PassResult) -> Self {
        let workers = f64::from(spec.workers);
        // If the scheduled ops were counted, use that number, which involves no chance. Each worker
        // may have one op whose completion is not seen.
        if let Some(offered) = result.scope.offered
            && offered.span_ns > 0
        {
            return Self {
                span_s: offered.span_ns as f64 / 1e9,
                carried_in_s: result.carried_in_ns().unwrap_or(offered.span_ns) as f64 / 1e9,
                scheduled: offered.scheduled_ops as f64,
                chance: workers,
                late: result.scope.overdue_ops(),
                carried_over: offered.carried_over_ops,
                unanswered: offered.unanswered_ops,
            };
        }
        let span_s = result.window_ns as f64 / 1e9;
        let scheduled = spec.load.rate_per_s as f64 * span_s;
        let chance = match spec.load.arrivals {
            // The variance of a Poisson count equals its mean.
            Arrivals::Poisson => SIGMAS * scheduled.sqrt(),
            // The last op of each worker may be scheduled just after the end.
            Arrivals::Constant => workers,
        };
        let carried_in_s = span_s;
        Self { span_s, carried_in_s, scheduled, chance, late: 0, carried_over: 0, unanswered: 0 }
    }
}

/// Raises a caveat if less than the offered load was completed.
fn check_rate(spec: &RunSpec, result: &PassResult) -> Option<Caveat> {
    if spec.load.rate_per_s == 0 || spec.workload.is_external() {
        return None;
    }
    let load = ExpectedLoad::new(spec, result);
    let ExpectedLoad { span_s, carried_in_s, scheduled, chance, .. } = load;
    let ExpectedLoad { late, carried_over, unanswered, .. } = load;
    // An op that got an error as its answer was still served. Its failure is a separate caveat.
    let answered = result.ops().saturating_add(result.answered_errors());
    let done = answered.saturating_sub(late).saturating_add(carried_over) as f64;
    // What was done in the time of the schedule.
    let done = done * span_s / carried_in_s;
    if done >= scheduled * LOAD_SHARE_MIN - chance {
        return None;
    }
    let rest = match (late, unanswered) {
        (0, 0) => String::new(),
        (late, 0) => format!("; {late} ops were started only after the end of the window"),
        (late, unanswered) => format!(
            "; {late} ops were started only after the end of the window, and {unanswered} were \
             never started: response times include them with the time that they waited"
        ),
    };
    let evidence = format!(
        "only {} of {} op/s offered were answered ({:.0} %){rest}",
        three_digits(done / span_s),
        three_digits(scheduled / span_s),
        done / scheduled * 100.0
    );
    // The limit as a share of what was scheduled, lowered by the allowance for chance.
    let limit = LOAD_SHARE_MIN - chance / scheduled;
    let source = "share of scheduled ops that were answered";
    let data = Evidence::shares(done / scheduled, limit, source);
    Some(CaveatCode::BelowOffered.because(evidence).with_data(data))
}

/// Returns the kinds of op with a requested share, in percent.
fn requested_shares(spec: &RunSpec, pass: Pass) -> Vec<(OpKind, f64)> {
    let mut shares = Vec::new();
    match pass {
        // Programs have shares of their own among their arguments.
        _ if spec.workload.is_external() => {}
        Pass::Mix => shares.push((OpKind::Read, spec.read_percent.into())),
        Pass::Oltp => {
            let pages = spec.database.ops_per_append() as f64;
            let of_pages = pages / (pages + 1.0);
            shares.push((OpKind::Read, f64::from(spec.read_percent) * of_pages));
        }
        Pass::OpMix => {
            for (kind, share) in call_shares(&spec.op_mix) {
                shares.push((kind, f64::from(share) / 100.0));
            }
        }
        _ => {}
    }
    shares
}

/// Raises a caveat about the share with the largest deviation, if it is over the limit.
fn check_shares(spec: &RunSpec, result: &PassResult) -> Option<Caveat> {
    let all = result.ops();
    if all == 0 {
        return None;
    }
    let mut farthest = None;
    let mut points_max = 0.0;
    let mut points_limit = 0.0;
    for (kind, requested) in requested_shares(spec, result.pass) {
        let mut done = 0_u64;
        for recorded in &result.kinds {
            if recorded.kind == kind {
                done = done.saturating_add(recorded.done);
            }
        }
        let found = done as f64 / all as f64 * 100.0;
        // Each op is drawn independently, so a share of n draws has a standard deviation of sqrt(p
        // (1 - p) / n), here in percentage points.
        let chance = SIGMAS * (requested * (100.0 - requested) / all as f64).sqrt();
        let points = (found - requested).abs();
        if points > SHARE_POINTS_MAX + chance && points >= points_max {
            points_max = points;
            points_limit = SHARE_POINTS_MAX + chance;
            farthest = Some((kind, requested, found));
        }
    }
    let (kind, requested, found) = farthest?;
    let evidence =
        format!("{found:.1} % of {all} ops were {kind}, but {requested:.1} % were requested");
    let source = "recorded and requested shares of the kinds of op";
    let data = Evidence::new(points_max, points_limit, "points", source);
    Some(CaveatCode::MixShares.because(evidence).with_data(data))
}

/// Raises a caveat if data may have been compressed on the way to storage.
pub fn about_data(spec: &RunSpec, result: &PassResult, mount: Option<&Mount>) -> Option<Caveat> {
    if result.bytes() == 0 {
        return None;
    }
    check_compressible(spec, mount)
}

fn check_compressible(spec: &RunSpec, mount: Option<&Mount>) -> Option<Caveat> {
    let data = spec.data;
    let what = match data.fill {
        // Other programs write content of their own, which only matters if it is certain to be
        // compressed.
        _ if spec.workload.is_external() => {
            let path = mount?.compression.as_ref()?;
            let evidence = format!("{} writes data of its own choice; {path}", spec.workload);
            return Some(CaveatCode::Compressible.because(evidence));
        }
        Fill::Zeros => "all data is zeros".to_owned(),
        Fill::Random if data.compress_percent > 0 || data.dedup_percent > 0 => {
            format!("{} % compresses, {} % repeats", data.compress_percent, data.dedup_percent)
        }
        Fill::Random => return None,
    };
    let path = match spec.target.row().keeps {
        KeptData::Nothing(_) => return None,
        // NFS has no call that reports whether the server compresses data.
        KeptData::FilesOnServer => "the NFS server's file system may compress it".to_owned(),
        KeptData::FilesHere => find_compression(mount?)?,
    };
    Some(CaveatCode::Compressible.because(format!("{what}; {path}")))
}

/// Returns why a mount may store fewer bytes than were written.
fn find_compression(mount: &Mount) -> Option<String> {
    if mount.compression.is_some() {
        return mount.compression.clone();
    }
    let file_system = mount.file_system.as_str();
    match file_system {
        // Compression is a property of a data set or folder here, which we don't look up.
        "zfs" | "ntfs3" => Some(format!("{file_system} may be configured to compress it")),
        "nfs" | "nfs4" | "cifs" | "smb3" | "fuse.sshfs" | "ceph" | "lustre" | "9p" => {
            Some(format!("the server behind {file_system} may compress it"))
        }
        _ => None,
    }
}
