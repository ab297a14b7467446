//! Logs of fio (`--write_iolog`): an action per line, on files given by their paths.
//!
//! Version 2 has no times but waits, so its actions follow each other at once; version 3 has
//! microseconds since the start. Neither has response times, nor the number of actions in flight.
//!
//! **Source:** fio(1) of fio 3.33, "TRACE FILE FORMAT"; the unit of the times was determined with
//! fio 3.33.

use std::io::BufRead;

use nfs_proto::nfs4::OpCode;

use super::builder::{Builder, Caller, REGULAR, operation};
use super::{ImportError, ImportSettings, ImportSummary, Lines};

/// Open for reading and writing, without denying anything. **Source:** RFC 7530 section 16.16.
const SHARE_BOTH: u64 = 3;

/// Time between two actions of version 2, which only keeps them in order.
const STEP_NS: u64 = 1_000;

/// An action of the log.
struct LogLine {
    time_ns: Option<u64>,
    path: Vec<u8>,
    action: String,
    numbers: Option<(u64, u64)>,
}

/// Reads a log.
pub(super) fn read<R: BufRead>(
    lines: &mut Lines<R>,
    settings: &ImportSettings,
    builder: &mut Builder,
    summary: &mut ImportSummary,
) -> Result<(), ImportError> {
    let has_times = match lines.next()? {
        Some(b"fio version 2 iolog") => false,
        Some(b"fio version 3 iolog") => true,
        _ => {
            return Err(ImportError::Foreign(
                "is not a log of fio: its first line is not `fio version 2 iolog` or 3 (hint: \
                 write it with --write_iolog)"
                    .to_owned(),
            ));
        }
    };
    let mut parsed = Vec::new();
    while let Some(line) = lines.next()? {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let log_line = parse(line, has_times);
        let number = lines.number;
        match log_line {
            Some(log_line) if parsed.len() < super::builder::CALLS_MAX => parsed.push(log_line),
            Some(_) => {
                let what = "more actions than a trace can have".to_owned();
                return Err(ImportError::Line { line: number, what });
            }
            None => {
                let form = if has_times { "time file action" } else { "file action" };
                let what = format!("not `{form} [offset length]`");
                return Err(ImportError::Line { line: number, what });
            }
        }
    }
    let root = match &settings.root {
        Some(root) => root.clone().into_bytes(),
        None => common_directory(&parsed),
    };
    summary.root = String::from_utf8_lossy(&root).into_owned();
    let client = builder.new_client();
    let mut now_ns = 0;
    for line in &parsed {
        now_ns = line.time_ns.unwrap_or(now_ns + STEP_NS);
        if line.action == "wait" {
            now_ns += line.numbers.map_or(0, |(us, _)| us).saturating_mul(1_000).min(1 << 60);
            continue;
        }
        let start_ns = now_ns.min(1 << 61);
        let caller = Caller { client, start_ns, response_ns: None };
        replay_line(line, &root, caller, builder, summary);
    }
    Ok(())
}

fn replay_line(
    line: &LogLine,
    root: &[u8],
    caller: Caller,
    builder: &mut Builder,
    summary: &mut ImportSummary,
) {
    let below =
        line.path.strip_prefix(root).filter(|rest| root.is_empty() || rest.first() == Some(&b'/'));
    let Some(below) = below else {
        summary.outside += 1;
        return;
    };
    let components: Vec<&[u8]> =
        below.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    if components.iter().any(|part| *part == b".." || *part == b".") {
        summary.outside += 1;
        return;
    }
    let Some(place) = builder.place(&components) else { return };
    // fio creates its files before it logs anything.
    let file = builder.existing(place, REGULAR);
    let (offset, length) = line.numbers.unwrap_or_default();
    let op = match line.action.as_str() {
        "add" => return,
        "open" => crate::record::Op {
            name: place.name,
            result: file,
            offset: SHARE_BOTH,
            ..operation(OpCode::Open, place.dir, 0)
        },
        "close" => operation(OpCode::Close, file, 0),
        "read" => builder.read(file, offset, length, length),
        "write" => builder.write_op(file, offset, length, 0),
        "sync" | "datasync" => operation(OpCode::Commit, file, 0),
        "trim" => crate::record::Op { offset, length, ..operation(OpCode::Deallocate, file, 0) },
        other => {
            summary.skip(other);
            return;
        }
    };
    builder.call(caller, vec![op]);
}

fn parse(line: &[u8], has_times: bool) -> Option<LogLine> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
    let time_ns = if has_times { Some(number(words.next()?)?.checked_mul(1_000)?) } else { None };
    let rest: Vec<&[u8]> = words.collect();
    // A path may contain spaces, so the other fields are found from the end.
    let action_of = |word: &[u8]| {
        let known: [&[u8]; 10] = [
            b"add",
            b"open",
            b"close",
            b"wait",
            b"read",
            b"write",
            b"sync",
            b"datasync",
            b"trim",
            b"sync_file_range",
        ];
        known.contains(&word).then(|| String::from_utf8_lossy(word).into_owned())
    };
    let join = |parts: &[&[u8]]| parts.join(&b' ');
    if let [path @ .., action, offset, length] = rest.as_slice()
        && !path.is_empty()
        && let (Some(action), Some(offset), Some(length)) =
            (action_of(action), number(offset), number(length))
    {
        let numbers = Some((offset, length));
        return Some(LogLine { time_ns, path: join(path), action, numbers });
    }
    let [path @ .., action] = rest.as_slice() else { return None };
    let action = action_of(action)?;
    let needs_numbers = !matches!(action.as_str(), "add" | "open" | "close" | "sync" | "datasync");
    if path.is_empty() || needs_numbers {
        return None;
    }
    Some(LogLine { time_ns, path: join(path), action, numbers: None })
}

/// Returns the longest directory that contains all files.
fn common_directory(lines: &[LogLine]) -> Vec<u8> {
    let mut common: Option<Vec<u8>> = None;
    for line in lines.iter().filter(|line| line.action == "add") {
        let end = line.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let mut directory = line.path[..end].to_vec();
        if let Some(known) = &common {
            let parts =
                |path: &[u8]| path.split(|it| *it == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
            let same: Vec<Vec<u8>> = parts(known)
                .into_iter()
                .zip(parts(&directory))
                .take_while(|(one, other)| one == other)
                .map(|(one, _)| one)
                .collect();
            directory = same.join(&b'/');
        }
        common = Some(directory);
    }
    common.unwrap_or_default()
}
