//! Comparisons over NFS: our client with libnfs and iperf3, our server with nfs-ganesha, many
//! clients with few, datagrams with a stream.
//!
//! The server is a separate process and the same for both clients. iperf3 shows the maximum of one
//! TCP stream here, a bare echo the cost of a small call without a protocol; both with the same
//! congestion control.

use anyhow::{Result, anyhow};

use super::Setting;
use super::case::{self, Case, Outcome, Rival, Row, SideResult, Spread, Unit};
use super::load::{self, CONGESTION, Load, MessageBytes};
use super::ours::{self, OURS};
use checks::ganesha::Ganesha;
use checks::ours::Serve;

/// Room for the file of each comparison.
const MEMORY: &str = "1600MiB";
const MIB: u32 = 1 << 20;
/// Sizes of a GETATTR call and its reply over v3, with their marks, in bytes: a handle of 32 bytes
/// and a machine name of 8.
const GETATTR_BYTES: MessageBytes = MessageBytes { request: 116, reply: 116 };
/// Maximum memory per client with 10,000 clients, in bytes.
const CLIENT_BYTES_MAX: f64 = 32.0 * 1024.0;
const CROWD: u32 = 10_000;

const READ: Load =
    Load { op: "read", version: "3", proto: "tcp", clients: 1, depth: 8, bytes: MIB, keep: false };
const WRITE: Load = Load { op: "write", ..READ };
const GETATTR: Load = Load { op: "getattr", clients: 64, depth: 16, bytes: 4096, ..READ };

/// A server that may have failed to start; then every row has the reason.
type Started<T> = Result<T, String>;

fn started<T>(server: Result<T>) -> Started<T> {
    server.map_err(|error| format!("{error:#}"))
}

fn start_ours() -> Started<Serve> {
    started(OURS.serve(MEMORY, &[]))
}

/// Returns a server if it has started.
fn running<T>(server: &Started<T>) -> Result<&T> {
    server.as_ref().map_err(|error| anyhow!("{error}"))
}

fn by_us(server: &Started<Serve>, load: &Load, setting: &Setting) -> Result<load::LoadResults> {
    load.by_us(&running(server)?.export, setting.seconds)
}

fn figure_by_us(server: &Started<Serve>, load: &Load, setting: &Setting) -> Result<SideResult> {
    Ok(by_us(server, load, setting)?.figure())
}

fn by_libnfs(server: &Started<Serve>, load: &Load, setting: &Setting) -> Result<SideResult> {
    Ok(load.by_libnfs(&running(server)?.export, setting.seconds)?.figure())
}

/// One of the two stores of our server.
///
/// iperf3 sends and drops one small buffer, which is always in the cache. The comparable store is
/// the one that discards data; with the one that keeps it, each byte comes from or goes to memory,
/// and the targets are lower.
#[derive(Clone, Copy)]
struct Store {
    name: &'static str,
    flags: &'static [&'static str],
}

const KEEP: Store = Store { name: "keep", flags: &[] };
const DISCARD: Store = Store { name: "discard", flags: &["--discard"] };

/// One stream to compare.
struct Stream {
    what: &'static str,
    load: Load,
    store: Store,
    iperf3_target: f64,
    /// Minimum ratios of the rate and of the CPU time to those of libnfs, which can't compare.
    libnfs_targets: Option<(f64, f64)>,
}

/// Sequential READ and WRITE of 1 MiB against one TCP stream, and against libnfs.
pub fn compare_streams(setting: &Setting) -> Vec<Row> {
    let mut rows = Vec::new();
    for version in ["3", "4.1"] {
        let read = Load { version, ..READ };
        let write = Load { version, ..WRITE };
        let verified = Load { keep: true, ..read };
        let stream = |what, load, store, iperf3_target, libnfs_targets| Stream {
            what,
            load,
            store,
            iperf3_target,
            libnfs_targets,
        };
        let streams = [
            stream("READ, discarded", read, DISCARD, 1.5, Some((1.2, 2.5))),
            stream("READ, discarded", read, KEEP, 1.0, Some((1.0, 2.5))),
            stream("READ, verified", verified, KEEP, 0.95, None),
            stream("WRITE", write, DISCARD, 1.2, Some((1.5, 1.5))),
            // The server takes as long for libnfs.
            stream("WRITE", write, KEEP, 0.85, Some((1.0, 1.0))),
        ];
        rows.extend(streams.iter().flat_map(|stream| compare_stream(stream, setting)));
    }
    rows
}

fn compare_stream(stream: &Stream, setting: &Setting) -> Vec<Row> {
    let Stream { what, load, store, iperf3_target, libnfs_targets } = stream;
    let server = started(OURS.serve(MEMORY, store.flags));
    let mut rivals = vec![Rival {
        name: format!("iperf3, one stream, {CONGESTION}"),
        rate_target: *iperf3_target,
        cpu_target: None,
        measure: Box::new(|| load::by_iperf3(setting.seconds)),
    }];
    // iperf3 shows what a stream can be that never leaves the cache; the copies, what it can be if
    // each byte comes from or goes to memory.
    if store.flags.is_empty() {
        rivals.push(Rival {
            name: "bare copies, 256 MiB".to_owned(),
            rate_target: 0.9,
            cpu_target: None,
            measure: Box::new(|| Ok(load.by_copy(setting.seconds)?.figure())),
        });
    }
    if let Some((rate_target, cpu_target)) = *libnfs_targets {
        rivals.push(Rival {
            name: "libnfs over v3, 8 in flight".to_owned(),
            rate_target,
            cpu_target: Some(cpu_target),
            measure: Box::new(|| by_libnfs(&server, load, setting)),
        });
    }
    let case = Case {
        name: format!("NFSv{} {what}, 1 MiB, store `{}`", load.version, store.name),
        unit: Unit::Bytes,
        ours: Box::new(|| figure_by_us(&server, load, setting)),
        rivals,
    };
    case::run(case, setting.rounds)
}

/// A complete run of `dfsbench`, as its users see it: 1 GiB read by one worker.
pub fn compare_whole_run(setting: &Setting) -> Vec<Row> {
    let server = start_ours();
    let case = Case {
        name: "`dfsbench run`, NFSv3, sequential READ of 1 GiB".to_owned(),
        unit: Unit::Bytes,
        ours: Box::new(|| ours::stream_read(&running(&server)?.export.for_us(""), setting)),
        rivals: vec![Rival {
            name: format!("iperf3, one stream, {CONGESTION}"),
            rate_target: 0.8,
            cpu_target: None,
            measure: Box::new(|| load::by_iperf3(setting.seconds)),
        }],
    };
    case::run(case, setting.rounds)
}

/// GETATTR against libnfs, and against an echo.
pub fn compare_small_calls(setting: &Setting) -> Vec<Row> {
    let server = start_ours();
    let mut rows = case::run(
        Case {
            name: "GETATTR, 64 clients, 16 in flight each".to_owned(),
            unit: Unit::Ops,
            ours: Box::new(|| figure_by_us(&server, &GETATTR, setting)),
            rivals: vec![Rival {
                name: "libnfs, the same".to_owned(),
                // An echo without any protocol is 8 times as fast as libnfs.
                rate_target: 3.0,
                cpu_target: Some(3.0),
                measure: Box::new(|| by_libnfs(&server, &GETATTR, setting)),
            }],
        },
        setting.rounds,
    );
    let one = Load { depth: 1, ..GETATTR };
    rows.extend(case::run(
        Case {
            name: "GETATTR, 64 clients, 1 in flight each".to_owned(),
            unit: Unit::Ops,
            ours: Box::new(|| figure_by_us(&server, &one, setting)),
            rivals: vec![Rival {
                name: "TCP echo of the same lengths".to_owned(),
                rate_target: 0.8,
                cpu_target: None,
                measure: Box::new(|| figure_by_echo(&one, setting)),
            }],
        },
        setting.rounds,
    ));
    rows
}

/// Our server against nfs-ganesha's memory export, with our client.
pub fn compare_servers(setting: &Setting) -> Vec<Row> {
    let mut rows = Vec::new();
    // It does not store files beyond 1 MiB; READ stays within that.
    for (load, target) in [(GETATTR, 5.0), (Load { bytes: 64 << 10, ..READ }, 2.0)] {
        let server = start_ours();
        let ganesha = started(Ganesha::start());
        let unit = if load.op == "read" { Unit::Bytes } else { Unit::Ops };
        let case = Case {
            name: format!("our server, {}", load.op.to_uppercase()),
            unit,
            ours: Box::new(|| figure_by_us(&server, &load, setting)),
            rivals: vec![Rival {
                name: "nfs-ganesha, FSAL MEM".to_owned(),
                rate_target: target,
                cpu_target: None,
                measure: Box::new(|| {
                    let export = running(&ganesha)?.export("/mem");
                    Ok(load.by_us(&export, setting.seconds)?.figure())
                }),
            }],
        };
        rows.extend(case::run(case, setting.rounds));
    }
    rows
}

/// 10,000 clients: memory of each, and their speed compared with 100, next to bare connections.
pub fn compare_crowd(setting: &Setting) -> Vec<Row> {
    let server = start_ours();
    let few = Load { clients: 100, depth: 1, ..GETATTR };
    let many = Load { clients: CROWD, ..few };
    let mut memory = Vec::new();
    let mut rows = case::run(
        Case {
            name: "GETATTR, 10,000 clients".to_owned(),
            unit: Unit::Ops,
            ours: Box::new(|| {
                let done = by_us(&server, &many, setting)?;
                memory.push(done.memory_per_client_bytes(CROWD));
                Ok(done.figure())
            }),
            rivals: vec![Rival {
                name: "100 clients".to_owned(),
                rate_target: 0.8,
                cpu_target: None,
                measure: Box::new(|| figure_by_us(&server, &few, setting)),
            }],
        },
        setting.rounds,
    );
    // With sockets that don't fit into any cache, the kernel's cost is the same, whatever is sent.
    let bare = Case {
        name: "TCP echo, 10,000 connections".to_owned(),
        unit: Unit::Ops,
        ours: Box::new(|| figure_by_echo(&many, setting)),
        rivals: vec![Rival {
            name: "100 connections".to_owned(),
            rate_target: 0.0,
            cpu_target: None,
            measure: Box::new(|| figure_by_echo(&few, setting)),
        }],
    };
    rows.extend(case::run(bare, setting.rounds));
    let limit = Spread::from_value(CLIENT_BYTES_MAX);
    let ratios: Vec<_> = memory.iter().map(|bytes| CLIENT_BYTES_MAX / bytes.max(1.0)).collect();
    let outcome = match (Spread::from_values(&memory), Spread::from_values(&ratios)) {
        (Some(ours), Some(ratio)) => Ok(Outcome { ours, peer: limit, ratio }),
        _ => Err("no round was run".to_owned()),
    };
    let memory = Row {
        claim: "memory of each of 10,000 clients".to_owned(),
        peer: "the limit".to_owned(),
        unit: Unit::SmallMemory,
        target: 1.0,
        outcome,
    };
    rows.push(memory);
    rows
}

fn figure_by_echo(load: &Load, setting: &Setting) -> Result<SideResult> {
    Ok(load::by_echo(load, GETATTR_BYTES, setting.seconds)?.figure())
}

/// 8 KiB over datagrams next to a stream: nothing is claimed, both are shown.
pub fn compare_datagrams(setting: &Setting) -> Vec<Row> {
    let mut rows = Vec::new();
    for version in ["2", "3"] {
        for op in ["read", "write"] {
            let server = start_ours();
            let tcp = Load { op, version, bytes: 8 << 10, ..READ };
            let udp = Load { proto: "udp", ..tcp };
            let case = Case {
                name: format!("NFSv{version} {} of 8 KiB over UDP", op.to_uppercase()),
                unit: Unit::Bytes,
                ours: Box::new(|| figure_by_us(&server, &udp, setting)),
                rivals: vec![Rival {
                    name: "the same over TCP".to_owned(),
                    rate_target: 0.0,
                    cpu_target: None,
                    measure: Box::new(|| figure_by_us(&server, &tcp, setting)),
                }],
            };
            rows.extend(case::run(case, setting.rounds));
        }
    }
    rows
}
