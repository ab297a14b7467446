//! Writes a plan with an `op_mix` that resembles a trace: `dfsbench describe --as-plan`.
//!
//! Shares, rate, clients, access sizes and the file set are taken from the trace as far as `op_mix`
//! has settings for them. For everything else, a comment in the plan gives the values of both the
//! trace and the plan.

use std::fmt::Write as _;

use model::OpKind;
use model::units::{Nanos, Size};
use trace::{Description, KindDescription};
use workload::opmix::{self, PROFILES, Profile, RequestSize};

use crate::commands::capture::gaps;

/// Smallest and largest size of a read or write in a plan.
const IO_BYTES: [u64; 2] = [4 << 10, 1 << 20];
/// Maximum size of a plan's file set, so that it runs on the in-memory server unchanged.
const SET_BYTES_MAX: u64 = 1 << 30;
/// Memory of that server beyond four times the file set.
const MEMORY_BYTES: u64 = 512 << 20;
/// Minimum duration to compute a rate from: a few calls in a millisecond are not a load.
const DURATION_MIN_S: f64 = 1.0;
/// Maximum number of kinds to list in a line.
const NAMED_MAX: usize = 6;
/// The mix whose sizes are used with a plan's own shares: the one of SPEC SFS for version 3.
const SIZES_OF: &str = "sfs3-like-v3";

/// Writes the plan.
///
/// # Errors
/// If no call of the trace has a counterpart in a mix, or if the trace has no duration; the message
/// is a full sentence.
pub(super) fn write(description: &Description) -> Result<String, String> {
    let duration_s = description.end.duration_ns as f64 / 1e9;
    let counts = count_by_name(description);
    let mut names = String::new();
    let mut numbers = String::new();
    let mut mixed = 0;
    for (name, count) in &counts {
        let _ = write!(names, "{name} ");
        let _ = write!(numbers, "{count} ");
        mixed += count;
    }
    // Mixes are parsed from nfsstat output, so format the counts that way to apply the same rules.
    let shares = opmix::nfsstat::shares(&format!("{names}\n{numbers}\n"))
        .map_err(|_| "none of its calls has a counterpart in op_mix".to_owned())?;
    if duration_s <= 0.0 {
        return Err("its duration is 0, so it has no rate".to_owned());
    }
    let rate = ((mixed as f64 / duration_s.max(DURATION_MIN_S)).round() as u64).max(1);
    let mut text = describe_distance(description, mixed);
    let _ = writeln!(text, "\nname = \"trace\"\n");
    let set_bytes = description.files.bytes.min(SET_BYTES_MAX).max(rate * 1024);
    let memory_mib = (MEMORY_BYTES + 4 * set_bytes) >> 20;
    let _ = writeln!(text, "[server]\nmemory = \"{memory_mib}MiB\"\n");
    let _ = writeln!(text, "[[target]]\nname = \"nfs\"");
    let _ = writeln!(text, "embedded = true          # instead: url = \"nfs://server/export\"\n");
    let _ = writeln!(text, "[[workload]]\nkind = \"op_mix\"");
    let _ = writeln!(text, "shares = {{ {} }}", list_shares(&shares));
    write_settings(&mut text, description, rate);
    Ok(text)
}

/// Counts calls by the names that op_mix has for them. A compound counts as its main operation.
fn count_by_name(description: &Description) -> Vec<(&'static str, u64)> {
    let mut counts: Vec<(&'static str, u64)> = Vec::new();
    let creating = description.files.creating_opens;
    for kind in &description.kinds {
        let Some(name) = name_in_mix(kind) else { continue };
        // Only count the OPENs that may create a file.
        let calls = principal_calls(kind);
        let calls = if kind.kind == "OPEN" { calls.min(creating) } else { calls };
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += calls,
            None => counts.push((name, calls)),
        }
    }
    counts.retain(|(_, count)| *count > 0);
    counts
}

/// Returns the number of calls that were sent mainly for this kind of operation.
fn principal_calls(kind: &KindDescription) -> u64 {
    if kind.version.starts_with("v4") { kind.response.count } else { kind.ops }
}

/// Returns op_mix's name for an operation.
fn name_in_mix(kind: &KindDescription) -> Option<&'static str> {
    let is_v4 = kind.version.starts_with("v4");
    Some(match kind.kind {
        _ if kind.version.starts_with("mount") => return None,
        "NULL" => "null",
        "GETATTR" => "getattr",
        "SETATTR" => "setattr",
        "LOOKUP" => "lookup",
        "ACCESS" => "access",
        "READLINK" => "readlink",
        "READ" | "READ_PLUS" => "read",
        "WRITE" => "write",
        // In v4, CREATE creates everything except files, usually directories.
        "CREATE" if is_v4 => "mkdir",
        "CREATE" | "OPEN" => "create",
        "MKDIR" => "mkdir",
        "SYMLINK" => "symlink",
        "REMOVE" => "remove",
        "RMDIR" => "rmdir",
        "LINK" => "link",
        "READDIR" => "readdir",
        "READDIRPLUS" => "readdirplus",
        "FSSTAT" | "STATFS" => "fsstat",
        "FSINFO" => "fsinfo",
        "PATHCONF" => "pathconf",
        "COMMIT" => "commit",
        _ => return None,
    })
}

fn list_shares(shares: &[(OpKind, u32)]) -> String {
    let words: Vec<_> = shares
        .iter()
        .map(|(kind, hundredths)| format!("{kind} = {}.{:02}", hundredths / 100, hundredths % 100))
        .collect();
    words.join(", ")
}

fn write_settings(text: &mut String, description: &Description, rate: u64) {
    let files = &description.files;
    let clients = description.clients.iter().filter(|client| client.calls > 0).count().max(1);
    let io_bytes = description.reads.sizes.p90.max(description.writes.sizes.p90);
    let io_bytes = io_bytes.next_power_of_two().clamp(IO_BYTES[0], IO_BYTES[1]);
    let set_kib = (files.bytes.min(SET_BYTES_MAX) / rate / 1024).max(1);
    let accessed = (files.read + files.written).min(files.sizes.count);
    let accessed_percent = (accessed * 100).div_ceil(files.sizes.count.max(1)).clamp(1, 100);
    let per_directory = (files.sizes.count / files.directories.max(1)).clamp(1, 1_000_000);
    let appends = (files.appends * 100).checked_div(description.writes.ops).unwrap_or_default();
    let arrivals = if description.arrivals.gap_variation < 0.3 { "constant" } else { "poisson" };
    for line in [
        format!("rate = {rate:<17} # calls/s, as in the trace"),
        format!("arrivals = \"{arrivals}\""),
        format!("clients = {clients}"),
        format!("io_size = \"{}KiB\"", io_bytes / 1024),
        format!("set_per_rate = \"{set_kib}KiB\""),
        format!("accessed_percent = {accessed_percent}"),
        format!("append_percent = {}", appends.min(100)),
        format!("files_per_directory = {per_directory}"),
        "duration = \"30s\"".to_owned(),
        "warmup = \"5s\"".to_owned(),
    ] {
        let _ = writeln!(text, "{line}");
    }
}

/// Describes as comments how the model differs from the trace.
fn describe_distance(description: &Description, mixed: u64) -> String {
    let Description { calls, reads, writes, files, arrivals, .. } = description;
    let (reads_mean, writes_mean) = model_means();
    let percent = |part: u64, all: u64| part as f64 * 100.0 / all.max(1) as f64;
    let mut lines = vec![
        "Approximates the load of a trace, written by `dfsbench describe --as-plan`.".to_owned(),
        "How the model differs from the trace:".to_owned(),
        format!(
            "  {:.1} % of the calls have a counterpart in a mix; without one:{}",
            percent(mixed, *calls),
            list_left_out(description)
        ),
        format!(
            "  files of {} in the trace, of {} in the model",
            Size(files.bytes),
            Size(files.bytes.min(SET_BYTES_MAX))
        ),
        format!(
            "  mean size of a read: {} in the trace, {} in the model; of a write: {} and {}",
            Size(reads.sizes.mean),
            Size(reads_mean),
            Size(writes.sizes.mean),
            Size(writes_mean)
        ),
        format!(
            "  {:.1} % of the reads and {:.1} % of the writes are sequential in the trace; in the",
            percent(reads.sequential_ops, reads.ops),
            percent(writes.sequential_ops, writes.ops)
        ),
        "  model, only those within a request of several calls are".to_owned(),
        format!(
            "  the busiest tenth of the files has {} % of the accesses; 10 % in the model",
            files.hot_tenth_percent
        ),
    ];
    if let Some(gaps) = gaps::describe(&description.end.counters) {
        lines.push(format!("  the trace is incomplete: {gaps}"));
    }
    let duration = Nanos(description.end.duration_ns);
    if description.end.duration_ns < (DURATION_MIN_S * 1e9) as u64 {
        lines.push(format!(
            "  the trace lasts only {duration}; its rate is computed over one second"
        ));
    }
    for dispersion in &arrivals.dispersions {
        if dispersion.interval_ns == 1_000_000_000 {
            lines.push(format!(
                "  bursts: index of dispersion in one second {:.1}; 1 in the model",
                dispersion.index
            ));
        }
    }
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "# {line}");
    }
    text
}

/// Lists the most frequent operations without a counterpart in a mix, with their counts.
fn list_left_out(description: &Description) -> String {
    let mut words = String::new();
    let mut named = 0;
    for kind in &description.kinds {
        let calls = principal_calls(kind);
        if calls > 0 && name_in_mix(kind).is_none() && named < NAMED_MAX {
            let separator = if named == 0 { "" } else { "," };
            let _ = write!(words, "{separator} {} {} ({calls})", kind.version, kind.kind);
            named += 1;
        }
    }
    if named == 0 { " none".to_owned() } else { words }
}

/// Returns the mean sizes of READ and WRITE requests for a mix with its own shares, in bytes.
fn model_means() -> (u64, u64) {
    let profile: Option<&Profile> = PROFILES.iter().find(|profile| profile.name == SIZES_OF);
    profile.map_or((0, 0), |profile| (mean_bytes(profile.reads), mean_bytes(profile.writes)))
}

fn mean_bytes(sizes: &[RequestSize]) -> u64 {
    let sum: u64 = sizes
        .iter()
        .map(|size| u64::from(size.percent) * u64::from(size.least_kib + size.most_kib) * 512)
        .sum();
    sum / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_sizes_of_model_mixes() {
        // SPEC SFS 3.0: 1.64 calls of 8 KiB for a READ, 2 for a WRITE.
        let (reads, writes) = model_means();
        assert!((11 << 10..15 << 10).contains(&reads), "{reads}");
        assert!((9 << 10..13 << 10).contains(&writes), "{writes}");
    }
}
