//! dd: one file after the other, block by block. It writes zeros.
//!
//! dd reports bytes, blocks and seconds for each file on stderr; the pass is their sum. Latencies
//! of single blocks are not known.
//!
//! **Source:** the GNU coreutils manual, "dd invocation"; outputs of coreutils 9.1.

use model::{Durability, Fact, OpKind, Pass, RunSpec};
use workload::Name;

use super::figures::{FailedPass, Figures, Kind};
use super::{ToolContext, ended_well};

/// dd's report on one file.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DdReport {
    bytes: u64,
    /// Number of blocks written, including a short one at the end.
    blocks: u64,
    seconds: f64,
}

/// Runs dd on every file.
pub(super) fn run(bench: &ToolContext, spec: &RunSpec, pass: Pass) -> Result<Figures, FailedPass> {
    let mut ops = 0;
    let mut bytes = 0;
    let mut seconds = 0.0;
    let mut cpu_ns = 0;
    let mut stored = 0;
    for file in 0..spec.files {
        let Some(command) = arguments(spec, pass, file) else {
            return Err(FailedPass::no_such_pass(spec.workload, pass));
        };
        let ended = bench.run_tool(&command)?;
        ended_well("dd", &ended)?;
        let printed = ended.stderr();
        let Some(copied) = parse_summary(&printed) else {
            return Err(FailedPass::unread("dd", &printed));
        };
        ops += copied.blocks;
        bytes += copied.bytes;
        seconds += copied.seconds;
        cpu_ns += ended.usage.user_ns + ended.usage.system_ns;
        stored += ended.usage.storage_read_bytes;
    }
    let kind = if pass.writes() { OpKind::Write } else { OpKind::Read };
    let mut kinds = vec![Kind::counted(kind, ops, bytes)];
    kinds.extend(Kind::syncs(spec.durability, pass, spec.files));
    Ok(Figures {
        kinds,
        window_ns: (seconds * 1e9) as u64,
        cpu_ns,
        storage_read_bytes: Some(stored),
        facts: vec![
            Fact::new("target", "content", "zeros, as always with dd", "dd if=/dev/zero"),
            Fact::new("target", "CPU time", "of the whole program", "wait4(2)"),
        ],
        ..Figures::default()
    })
}

/// Returns the command for one file, or `None` if dd doesn't support the pass.
fn arguments(spec: &RunSpec, pass: Pass, file: u32) -> Option<Vec<String>> {
    let name = Name::file(file);
    let name = name.as_str();
    let io_size = spec.io_size_bytes;
    let size = spec.file_size_bytes;
    let mut words = vec!["dd".to_owned(), format!("bs={io_size}"), format!("count={size}")];
    let direct = if spec.direct { Some("direct") } else { None };
    match pass {
        Pass::Write | Pass::Rewrite => {
            let stable = match spec.durability {
                Durability::Dsync => Some("dsync"),
                Durability::Osync => Some("sync"),
                _ => None,
            };
            let keep = if pass == Pass::Rewrite { Some("notrunc") } else { None };
            let sync = if spec.durability == Durability::Sync { Some("fsync") } else { None };
            words.extend(["if=/dev/zero".to_owned(), format!("of={name}")]);
            words.push("iflag=count_bytes".to_owned());
            words.extend(join_flags("oflag", [direct, stable]));
            words.extend(join_flags("conv", [keep, sync]));
        }
        Pass::Read | Pass::Reread => {
            words.extend([format!("if={name}"), "of=/dev/null".to_owned()]);
            words.extend(join_flags("iflag", [Some("count_bytes"), direct]));
        }
        _ => return None,
    }
    Some(words)
}

fn join_flags(name: &str, flags: [Option<&str>; 2]) -> Option<String> {
    let flags: Vec<&str> = flags.into_iter().flatten().collect();
    if flags.is_empty() { None } else { Some(format!("{name}={}", flags.join(","))) }
}

/// Parses the summary that dd prints last, regardless of earlier output.
fn parse_summary(printed: &str) -> Option<DdReport> {
    let records = printed.lines().rev().find(|line| line.ends_with(" records out"))?;
    let (whole, partial) = records.strip_suffix(" records out")?.split_once('+')?;
    let blocks = whole.parse::<u64>().ok()?.checked_add(partial.parse().ok()?)?;
    let copied = printed.lines().rev().find(|line| line.contains(" copied, "))?;
    let bytes = copied.split(' ').next()?.parse().ok()?;
    let (_, rest) = copied.split_once(" copied, ")?;
    let seconds: f64 = rest.split(' ').next()?.parse().ok()?;
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    Some(DdReport { bytes, blocks, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Workload;
    use model::testing::RunBuilder;

    #[test]
    fn parses_dd_output() {
        let printed = "15+1 records in\n15+1 records out\n\
            1000000 bytes (1.0 MB, 977 KiB) copied, 0.000505842 s, 2.0 GB/s\n";
        let read = DdReport { bytes: 1_000_000, blocks: 16, seconds: 0.000_505_842 };
        assert_eq!(parse_summary(printed), Some(read));
        let one = "1+0 records in\n1+0 records out\n1 byte copied, 0.000136665 s, 7.3 kB/s\n";
        assert_eq!(
            parse_summary(one),
            Some(DdReport { bytes: 1, blocks: 1, seconds: 0.000_136_665 })
        );
        let none = "0+0 records in\n0+0 records out\n0 bytes copied, 3.9513e-05 s, 0.0 kB/s\n";
        assert_eq!(parse_summary(none), Some(DdReport { bytes: 0, blocks: 0, seconds: 3.9513e-5 }));
        assert_eq!(parse_summary("2+0 records in\n2+0 records out\n"), None);
        assert_eq!(parse_summary("x+y records out\n1 byte copied, inf s"), None);
        assert_eq!(parse_summary(""), None);
    }

    #[test]
    fn settings_become_arguments() {
        let mut spec = RunBuilder::new(Workload::Dd)
            .io_size_bytes(65536)
            .file_size_bytes(1_000_000)
            .durability(Durability::Sync)
            .build();
        let line = |spec: &RunSpec, pass| arguments(spec, pass, 7).map(|words| words.join(" "));
        assert_eq!(
            line(&spec, Pass::Rewrite).unwrap(),
            "dd bs=65536 count=1000000 if=/dev/zero of=f00000007 iflag=count_bytes \
             conv=notrunc,fsync"
        );
        spec.durability = Durability::Dsync;
        spec.direct = true;
        assert_eq!(
            line(&spec, Pass::Write).unwrap(),
            "dd bs=65536 count=1000000 if=/dev/zero of=f00000007 iflag=count_bytes \
             oflag=direct,dsync"
        );
        assert_eq!(
            line(&spec, Pass::Read).unwrap(),
            "dd bs=65536 count=1000000 if=f00000007 of=/dev/null iflag=count_bytes,direct"
        );
        assert_eq!(line(&spec, Pass::Mix), None);
    }
}
