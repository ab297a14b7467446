//! Finds the versions that answer, how fast they do, and whether TLS is offered.
//!
//! **Source:** RFC 5531 section 9 (NULL, PROG_MISMATCH), RFC 9289 section 4.1 (AUTH_TLS).

use std::net::SocketAddr;
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use nfs_proto::rpc::{AUTH_TLS, Credential, ProcedureId};
use nfs_proto::{mount3, nfs3};

use super::ask::Asker;
use super::data::{Answer, NoAnswer, RoundTrip, Service};
use super::join_thread;
use super::liveness::Liveness;
use super::options::ProbeOptions;
use super::registrations::Addresses;
use crate::options::Proto;
use crate::transport::offers_starttls;

/// Maximum number of samples of a round trip, whatever is requested.
const SAMPLES_MAX: u32 = 10_000;

/// Calls NULL of every version of NFS and MOUNT over both transports, all in parallel.
pub(super) fn find_services(
    addresses: &Addresses<'_>,
    options: &ProbeOptions,
) -> (Vec<Service>, Vec<Service>) {
    // A service that does not answer costs its whole timeout: sequentially that would be half a
    // minute.
    std::thread::scope(|scope| {
        let mut nfs = Vec::new();
        let mut mount = Vec::new();
        for version in [2, 3, 4] {
            for transport in Proto::ALL {
                let address = vec![addresses.of_nfs(version, transport)];
                let ask = move || ask_null(nfs3::PROGRAM, version, transport, &address, options);
                nfs.push(scope.spawn(ask));
            }
        }
        for version in [1, 2, 3] {
            for transport in Proto::ALL {
                let addresses = addresses.of_mount(version, transport);
                let ask =
                    move || ask_null(mount3::PROGRAM, version, transport, &addresses, options);
                mount.push(scope.spawn(ask));
            }
        }
        (join_all(nfs), join_all(mount))
    })
}

fn join_all(threads: Vec<ScopedJoinHandle<'_, Service>>) -> Vec<Service> {
    threads.into_iter().map(join_thread).collect()
}

/// Tries one version at several addresses until one answers; otherwise the last failure is
/// returned.
fn ask_null(
    program: u32,
    version: u32,
    transport: Proto,
    addresses: &[SocketAddr],
    options: &ProbeOptions,
) -> Service {
    let null = Err(NoAnswer::NotRequested("the port is not known"));
    let mut service = Service { version, transport, address: None, null };
    for address in addresses {
        service.address = Some(*address);
        let null_call = ProcedureId::null(program, version);
        service.null = connect_and_time(transport, *address, null_call, 1, options);
        if service.null.is_ok() {
            break;
        }
    }
    service
}

/// Connects, and times NULL calls over the connection.
fn connect_and_time(
    transport: Proto,
    address: SocketAddr,
    null_call: ProcedureId,
    samples: u32,
    options: &ProbeOptions,
) -> Answer<RoundTrip> {
    let mut asker = Asker::connect(transport, address, options)?;
    time_round_trips(&mut asker, null_call, samples)
}

/// Measures all services that answered, one after the other, so that they don't disturb each other.
pub(super) fn measure_services(
    services: &mut [Service],
    program: u32,
    options: &ProbeOptions,
    liveness: &mut Liveness<'_>,
) {
    for service in services {
        if let (Ok(_), Some(address)) = (&service.null, service.address) {
            let null = ProcedureId::null(program, service.version);
            let measured = liveness.ask(|| {
                connect_and_time(service.transport, address, null, options.samples, options)
            });
            // It did answer before: only replace that result by a better one.
            if measured.is_ok() {
                service.null = measured;
            }
        }
    }
}

/// Times NULL calls one after the other; the first of several only warms the connection.
#[expect(clippy::disallowed_methods, reason = "probes read the clock themselves")]
fn time_round_trips(asker: &mut Asker, null_call: ProcedureId, samples: u32) -> Answer<RoundTrip> {
    let samples = samples.clamp(1, SAMPLES_MAX);
    let warm_ups = u32::from(samples > 1);
    let mut times = Vec::with_capacity(samples as usize);
    for call in 0..warm_ups + samples {
        let start = Instant::now();
        asker.ask(null_call, |_| {}, |_| Ok(()))?;
        if call >= warm_ups {
            times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }
    times.sort_unstable();
    let median_ns = times[(times.len() - 1) / 2];
    Ok(RoundTrip { samples, least_ns: times[0], median_ns })
}

/// Asks any version of NFS whether a TLS handshake may follow; none is made.
pub(super) fn offers_tls(
    address: SocketAddr,
    version: u32,
    options: &ProbeOptions,
) -> Answer<bool> {
    let mut asker = Asker::connect(Proto::Tcp, address, options)?;
    let credential = Credential::Other { flavor: AUTH_TLS };
    let reply = asker.exchange(ProcedureId::null(nfs3::PROGRAM, version), credential, |_| {})?;
    offers_starttls(&reply).map_err(NoAnswer::Malformed)
}
