//! `dfsbench capture`: creates a trace from packet captures or a network interface.
//!
//! The `trace` crate does the work. This command opens the files, stops on Ctrl-C with a trace of
//! everything read so far, and reports how complete the trace is.

pub(crate) mod gaps;
mod imported;
mod interface;

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::{Clock as _, SystemClock};
use model::units::parse_time_ns;
use trace::{Capture, CaptureSettings, Counters, Names, PacketReader, TraceError};

use crate::args::CaptureArgs;
use crate::exit::{End, Failure};
use crate::files::input_file::{self, STDIN};
use crate::files::output_file::{self, StreamedFile};
use crate::signals;
use crate::terminal::output;
use interface::{Interface, InterfaceError};

/// How long to wait for packets of an interface, in milliseconds.
const WAIT_MS: u32 = 100;
/// Packets between two checks of the stop flag.
const PACKETS_PER_CHECK: u64 = 1024;

/// Creates a trace.
///
/// # Errors
/// If a capture can't be read or contains no NFS, or if the trace can't be written.
pub(crate) fn run(args: &CaptureArgs) -> Result<ExitCode, Failure> {
    let path = match args.output.to_str() {
        Some(STDIN) => Path::new("/dev/stdout"),
        _ => &args.output,
    };
    output_file::check_with_inputs(Some(path), &args.captures)?;
    if let Some(kind) = args.from {
        return imported::run(args, kind, path);
    }
    let mut sources = Vec::new();
    for capture in &args.captures {
        // Open all of them before writing anything, so that a wrong name fails right away.
        sources.push((name_of(capture), input_file::open_stream(capture, "capture")?));
    }
    let live =
        args.interface.as_ref().map(|name| Live::open(name, args.r#for.as_deref())).transpose()?;
    let stop = signals::stop_flag()?;
    let mut file = StreamedFile::create(path)?;
    let settings = CaptureSettings {
        names: if args.keep_names { Names::Kept } else { Names::Hashed },
        made_by: format!("dfsbench {}", env!("CARGO_PKG_VERSION")),
    };
    let captured = match live {
        Some(live) => capture_interface(&mut file, settings, live, &stop),
        None => capture_all(&mut file, settings, sources, &stop),
    };
    let (counters, bytes) = match captured {
        Ok(captured) => captured,
        Err(CaptureFailure::Source(failure)) => return Err(failure),
        Err(CaptureFailure::Trace(TraceError::Write(error))) => return Err(file.failure(&error)),
        Err(CaptureFailure::Trace(error)) => return Err(Failure::lab(error)),
    };
    if counters.calls == 0 {
        return Err(Failure::Usage(describe_nothing(args, &counters)));
    }
    file.commit()?;
    if !args.quiet {
        for line in describe(&counters, bytes) {
            output::message(&line);
        }
    }
    Ok(End::Ok.into())
}

/// Why a capture was aborted.
enum CaptureFailure {
    Source(Failure),
    Trace(TraceError),
}

impl From<TraceError> for CaptureFailure {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

type Source = (String, Box<dyn Read>);

/// An interface and how long to capture it.
struct Live {
    interface: Interface,
    time_ns: u64,
}

impl Live {
    fn open(name: &str, time: Option<&str>) -> Result<Self, Failure> {
        let time_ns = match time {
            Some(text) => parse_time_ns(text).map_err(|error| {
                Failure::Usage(format!("--for `{text}`: {error} (hint: for example 10m)"))
            })?,
            None => u64::MAX,
        };
        let interface = Interface::open(name).map_err(|error| match error {
            InterfaceError::Unknown(_) => Failure::Usage(error.to_string()),
            _ => Failure::lab(error),
        })?;
        Ok(Self { interface, time_ns })
    }
}

/// Captures an interface until the time is up or the user stops it.
fn capture_interface(
    file: &mut StreamedFile,
    settings: CaptureSettings,
    live: Live,
    stop: &AtomicBool,
) -> Result<(Counters, u64), CaptureFailure> {
    let Live { mut interface, time_ns } = live;
    let clock = SystemClock::new();
    let end_ns = clock.now_ns().saturating_add(time_ns);
    let mut capture = Capture::new(file, settings);
    let mut count = 0_u64;
    loop {
        let packet = interface
            .next_packet(WAIT_MS)
            .map_err(|error| CaptureFailure::Source(Failure::lab(error)))?;
        let is_idle = packet.is_none();
        if let Some(packet) = packet {
            capture.packet(&packet)?;
        }
        count += 1;
        let looks = is_idle || count.is_multiple_of(PACKETS_PER_CHECK);
        if looks && (stop.load(Relaxed) || clock.now_ns() >= end_ns) {
            break;
        }
    }
    capture.note_source(interface.dropped(), false);
    Ok(capture.finish()?)
}

fn capture_all(
    file: &mut StreamedFile,
    settings: CaptureSettings,
    sources: Vec<Source>,
    stop: &AtomicBool,
) -> Result<(Counters, u64), CaptureFailure> {
    let mut capture = Capture::new(file, settings);
    for (name, source) in sources {
        let mut packets = PacketReader::new(source);
        let mut count = 0_u64;
        loop {
            count += 1;
            if count.is_multiple_of(PACKETS_PER_CHECK) && stop.load(Relaxed) {
                break;
            }
            match packets.next_packet() {
                Ok(Some(packet)) => capture.packet(&packet)?,
                Ok(None) => break,
                Err(error) => {
                    return Err(CaptureFailure::Source(Failure::Usage(format!(
                        "`{name}` {error}"
                    ))));
                }
            }
        }
        capture.note_source(packets.dropped(), packets.is_cut());
        if packets.is_cut() {
            output::message(&format!(
                "warning: `{name}` ends within a packet; everything before it is in the trace"
            ));
        }
    }
    Ok(capture.finish()?)
}

fn name_of(path: &Path) -> String {
    if path.as_os_str() == STDIN { "stdin".to_owned() } else { path.display().to_string() }
}

fn describe_nothing(args: &CaptureArgs, counters: &Counters) -> String {
    let mut names = Vec::new();
    if let Some(name) = &args.interface {
        names.push(format!("interface `{name}`"));
    }
    names.extend(args.captures.iter().map(|capture| format!("`{}`", name_of(capture))));
    format!(
        "no NFS or MOUNT calls in {} packets of {} (hint: is it the right interface, and is the \
         traffic encrypted with TLS or krb5p?)",
        counters.packets,
        names.join(", ")
    )
}

/// Describes in a few lines what the trace contains and what is missing.
fn describe(counters: &Counters, bytes: u64) -> Vec<String> {
    let per_call = bytes as f64 / counters.calls as f64;
    let mut lines = vec![format!(
        "{} calls with {} operations, {} replies, {} clients, {} connections; {bytes} bytes, \
         {per_call:.1} per call",
        counters.calls, counters.ops, counters.replies, counters.clients, counters.connections
    )];
    lines.extend(gaps::describe(counters).map(|gaps| format!("incomplete: {gaps}")));
    lines.extend(gaps::cut_hint(counters).map(|hint| format!("hint: {hint}")));
    lines
}
