//! `dfsbench capture`: a trace from packet captures, or of an interface.
//!
//! The crate `trace` does the work; this command opens the files, stops at ctrl-C with a trace of
//! what was read until then, and says how complete it is.

pub mod gaps;
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
use crate::input_file::{self, STDIN};
use crate::output_file::{self, StreamedFile};
use crate::{output, signals};
use interface::{Interface, InterfaceError};

/// Milliseconds for which packets of an interface are waited for.
const WAIT_MS: u32 = 100;
/// Packets between two looks at the flag of a request to stop.
const PACKETS_PER_CHECK: u64 = 1024;

/// Makes a trace.
///
/// # Errors
/// When a capture can't be read, has no NFS in it, or the trace can't be written.
pub fn run(args: &CaptureArgs) -> Result<ExitCode, Failure> {
    let path = match args.output.to_str() {
        Some(STDIN) => Path::new("/dev/stdout"),
        _ => &args.output,
    };
    output_file::check_with_inputs(Some(path), &args.captures)?;
    let mut sources = Vec::new();
    for capture in &args.captures {
        // All of them are opened before anything is written: a name that is wrong ends it at once.
        sources.push((name_of(capture), input_file::open_stream(capture, "capture")?));
    }
    let live = match &args.interface {
        Some(name) => Some(Live::open(name, args.r#for.as_deref())?),
        None => None,
    };
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
        Err(Stopped::Source(failure)) => return Err(failure),
        Err(Stopped::Trace(TraceError::Write(error))) => return Err(file.failure(&error)),
        Err(Stopped::Trace(error)) => return Err(Failure::lab(error)),
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

/// Why a capture gives up.
enum Stopped {
    Source(Failure),
    Trace(TraceError),
}

impl From<TraceError> for Stopped {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

type Source = (String, Box<dyn Read>);

/// An interface, and for how long it is captured.
struct Live {
    interface: Interface,
    time_ns: u64,
}

impl Live {
    fn open(name: &str, time: Option<&str>) -> Result<Self, Failure> {
        let time_ns = match time {
            Some(text) => parse_time_ns(text).map_err(|error| {
                Failure::Usage(format!("--for `{text}`: {error} (hint: such as 10m)"))
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

/// Captures an interface until its time is over or the user wants to stop.
fn capture_interface(
    file: &mut StreamedFile,
    settings: CaptureSettings,
    live: Live,
    stop: &AtomicBool,
) -> Result<(Counters, u64), Stopped> {
    let Live { mut interface, time_ns } = live;
    let clock = SystemClock::new();
    let end_ns = clock.now_ns().saturating_add(time_ns);
    let mut capture = Capture::new(file, settings);
    let mut count = 0_u64;
    loop {
        let packet =
            interface.next_packet(WAIT_MS).map_err(|error| Stopped::Source(Failure::lab(error)))?;
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
) -> Result<(Counters, u64), Stopped> {
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
                    return Err(Stopped::Source(Failure::Usage(format!("`{name}` {error}"))));
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
    for capture in &args.captures {
        names.push(format!("`{}`", name_of(capture)));
    }
    format!(
        "no call of NFS or MOUNT in {} packets of {} (hint: was the right interface captured, and \
         is the traffic encrypted by TLS or krb5p?)",
        counters.packets,
        names.join(", ")
    )
}

/// Says in a few lines what is in the trace, and what is missing in it.
fn describe(counters: &Counters, bytes: u64) -> Vec<String> {
    let per_call = bytes as f64 / counters.calls as f64;
    let mut lines = vec![format!(
        "{} calls with {} operations, {} replies, {} clients, {} connections; {bytes} bytes, \
         {per_call:.1} a call",
        counters.calls, counters.ops, counters.replies, counters.clients, counters.connections
    )];
    lines.extend(gaps::describe(counters).map(|gaps| format!("incomplete: {gaps}")));
    lines.extend(gaps::cut_hint(counters).map(|hint| format!("hint: {hint}")));
    lines
}
