//! Finds the versions that answer, how fast they do, and whether TLS is offered.
//!
//! **Source:** RFC 5531 section 9 (NULL, PROG_MISMATCH), RFC 9289 section 4.1 (AUTH_TLS).

use std::net::SocketAddr;
use std::time::Instant;

use nfs_proto::rpc::{AUTH_TLS, Credential, ProcedureId};
use nfs_proto::{mount3, nfs3};

use super::ask::Asker;
use super::data::{Answer, NoAnswer, RoundTrip, Service, Transport};
use super::joined;
use super::options::ProbeOptions;
use super::registrations::Places;
use crate::transport::says_starttls;

/// Samples of a round trip at most, whatever is queried.
const SAMPLES_MAX: u32 = 10_000;

/// Asks NULL of every version of NFS and MOUNT over both transports, all at the same time.
pub(super) fn find(places: &Places<'_>, options: &ProbeOptions) -> (Vec<Service>, Vec<Service>) {
    let all = |versions: [u32; 3]| {
        versions.into_iter().flat_map(|version| {
            Transport::ALL.into_iter().map(move |transport| (version, transport))
        })
    };
    std::thread::scope(|scope| {
        let nfs: Vec<_> = all([2, 3, 4])
            .map(|(version, transport)| {
                let address = vec![places.nfs(version, transport)];
                scope.spawn(move || first(nfs3::PROGRAM, version, transport, &address, options))
            })
            .collect();
        let mount: Vec<_> = all([1, 2, 3])
            .map(|(version, transport)| {
                let addresses = places.mount(version, transport);
                scope.spawn(move || first(mount3::PROGRAM, version, transport, &addresses, options))
            })
            .collect();
        let all = |threads: Vec<_>| threads.into_iter().map(joined).collect();
        (all(nfs), all(mount))
    })
}

/// Asks one version at several addresses until one answers; else the last one counts.
fn first(
    program: u32,
    version: u32,
    transport: Transport,
    addresses: &[SocketAddr],
    options: &ProbeOptions,
) -> Service {
    let null = Err(NoAnswer::NotRequested("no port is known"));
    let mut service = Service { version, transport, address: None, null };
    for address in addresses {
        service.address = Some(*address);
        service.null = Asker::connect(transport, *address, options)
            .and_then(|mut asker| round_trip(&mut asker, ProcedureId::null(program, version), 1));
        if service.null.is_ok() {
            break;
        }
    }
    service
}

/// Measures all that answered, one after the other, so that none disturbs another.
pub(super) fn measure(services: &mut [Service], program: u32, options: &ProbeOptions) {
    for service in services {
        if let (Ok(_), Some(address)) = (&service.null, service.address) {
            let measured =
                Asker::connect(service.transport, address, options).and_then(|mut asker| {
                    let null = ProcedureId::null(program, service.version);
                    round_trip(&mut asker, null, options.samples)
                });
            // It did answer before: only better numbers replace those.
            if measured.is_ok() {
                service.null = measured;
            }
        }
    }
}

/// Times NULL calls one after the other; the first of several only warms the connection.
#[expect(clippy::disallowed_methods, reason = "a probe takes its own samples")]
fn round_trip(asker: &mut Asker, null_call: ProcedureId, samples: u32) -> Answer<RoundTrip> {
    let mut null = || {
        let start = Instant::now();
        asker.ask(null_call, |_| {}, |_| Ok(()))?;
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    };
    let samples = samples.clamp(1, SAMPLES_MAX);
    if samples > 1 {
        null()?;
    }
    let mut times = (0..samples).map(|_| null()).collect::<Answer<Vec<u64>>>()?;
    times.sort_unstable();
    let median_ns = times[(times.len() - 1) / 2];
    Ok(RoundTrip { samples, least_ns: times[0], median_ns })
}

/// Asks a version of NFS whether a TLS handshake may follow; none does.
pub(super) fn offers_tls(
    address: SocketAddr,
    version: u32,
    options: &ProbeOptions,
) -> Answer<bool> {
    let mut asker = Asker::connect(Transport::Tcp, address, options)?;
    let credential = Credential::Other { flavor: AUTH_TLS };
    let reply = asker.exchange(ProcedureId::null(nfs3::PROGRAM, version), credential, |_| {})?;
    says_starttls(&reply).map_err(NoAnswer::Malformed)
}
