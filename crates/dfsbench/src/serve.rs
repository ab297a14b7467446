//! `dfsbench serve`: the in-memory server alone, for other people's clients.
//!
//! The first line of stdout is the address as `dfsbench run` takes it, so that scripts can read
//! it; how to mount it goes to stderr. It listens on loopback only.

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use model::units::{parse_size, parse_time_ns};
use nfs_proto::mount3::MountStatus;
use nfs_server::{FaultPlan, Server, ServerConfig, ServiceTime, StoreMode};

use crate::args::ServeArgs;
use crate::exit::{End, Failure};
use crate::{embedded, output, signals};

/// How often a wish to stop is looked for.
const TICK: Duration = Duration::from_millis(50);

/// Serves until somebody stops it.
///
/// # Errors
/// When the server can't be started.
pub fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let stop = signals::stop_flag()?;
    embedded::raise_descriptor_limit();
    let server = Server::start(config(args)?).map_err(|error| Failure::Lab(error.to_string()))?;
    let (address, port) = (server.address().ip(), server.address().port());
    output::data(format!("nfs://{address}:{port}/export?version=3&mountport={port}\n").as_bytes())?;
    output::message(&format!(
        "mount it with:  mount -t nfs -o vers=3,proto=tcp,port={port},mountport={port},\
         mountproto=tcp,nolock {address}:/export /mnt\nstop it with ctrl-C"
    ));
    while !stop.load(Relaxed) {
        std::thread::sleep(TICK);
    }
    server.shutdown();
    Ok(End::Ok.into())
}

fn config(args: &ServeArgs) -> Result<ServerConfig, Failure> {
    let usage =
        |flag: &str, error: &dyn std::fmt::Display| Failure::Usage(format!("{flag}: {error}"));
    let memory = parse_size(&args.memory).map_err(|error| usage("--memory", &error))?;
    let service_time = match args.service_time.as_deref() {
        Some(text) => ServiceTime::Fixed {
            time_ns: parse_time_ns(text).map_err(|error| usage("--service-time", &error))?,
        },
        None => ServiceTime::None,
    };
    Ok(ServerConfig {
        port: args.port,
        memory_limit_bytes: memory,
        threads: match args.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        },
        store: if args.discard { StoreMode::Discard } else { StoreMode::Keep },
        congestion_control: Some("cubic".to_owned()),
        faults: FaultPlan {
            service_time,
            hang_after_calls: args.hang_after,
            close_after_calls: args.close_after,
            refuse_mount: args.refuse_mount.then_some(MountStatus::Access),
            ..FaultPlan::default()
        },
        ..ServerConfig::default()
    })
}
