//! Formats a probe as JSON.
//!
//! The names and the order of the fields are those of the output, so this file is the reference of
//! the format. A query without an answer is replaced by `{"error": "..."}`.

use std::net::SocketAddr;

use nfs_client::probe::{
    Answer, DataDevice, Export, ExportLayouts, Flavor, Limits, MountEntry, Probe, Registration,
    ReservedPort, RoundTrip, Service, TriedVersion, Trunking, V4Root, layout_name,
};
use nfs_client::proto::ProtocolVersion;
use serde::Serialize;

use crate::id_text;

const SCHEMA: u32 = 1;

/// Formats the document with indentation.
#[allow(clippy::missing_panics_doc, reason = "texts and numbers can always be written as JSON")]
pub fn render(probe: &Probe) -> String {
    let json = serde_json::to_string_pretty(&Document::from_probe(probe));
    json.expect("the document holds texts and numbers only") + "\n"
}

/// The result of one query, or the reason why there is none.
#[derive(Serialize)]
#[serde(untagged)]
enum QueryResult<T> {
    Answer(T),
    Nothing { error: String },
}

impl<T> QueryResult<T> {
    fn from_answer<'a, A>(answer: &'a Answer<A>, convert: impl FnOnce(&'a A) -> T) -> Self {
        match answer {
            Ok(answer) => Self::Answer(convert(answer)),
            Err(why) => Self::Nothing { error: why.to_string() },
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    host: &'a str,
    address: String,
    addresses: Vec<String>,
    versions: Vec<&'static str>,
    versions_tried: Vec<TriedPart>,
    stopped_answering: Option<String>,
    resvport_needed: QueryResult<bool>,
    xattrs_supported: QueryResult<bool>,
    tls: QueryResult<bool>,
    nfs: Vec<ServicePart>,
    minor_versions: Vec<MinorPart>,
    mount: Vec<ServicePart>,
    exports: QueryResult<Vec<ExportPart<'a>>>,
    exports_not_examined: usize,
    mounted: QueryResult<Vec<MountedPart<'a>>>,
    v4_root: RootPart<'a>,
    identity: QueryResult<IdentityPart<'a>>,
    trunking: Vec<TrunkingPart>,
    layouts: Vec<LayoutsPart<'a>>,
    portmap: QueryResult<Vec<RegistrationPart<'a>>>,
    rpcbind: QueryResult<Vec<RegistrationPart<'a>>>,
}

#[derive(Serialize)]
struct IdentityPart<'a> {
    owner: String,
    instance: u64,
    scope: String,
    roles: &'a [&'static str],
    implementation: Option<&'a str>,
}

#[derive(Serialize)]
struct TrunkingPart {
    address: String,
    trunking: QueryResult<&'static str>,
}

#[derive(Serialize)]
struct LayoutsPart<'a> {
    path: &'a str,
    types: QueryResult<Vec<&'static str>>,
    devices: QueryResult<Vec<DevicePart<'a>>>,
}

#[derive(Serialize)]
struct DevicePart<'a> {
    id: &'a str,
    addresses: &'a [String],
    versions: &'a [String],
}

#[derive(Serialize)]
struct TriedPart {
    version: &'static str,
    call: String,
    outcome: String,
    spoken: bool,
}

#[derive(Serialize)]
struct ServicePart {
    version: u32,
    transport: &'static str,
    address: Option<String>,
    null: QueryResult<RoundTripPart>,
}

#[derive(Serialize)]
struct RoundTripPart {
    samples: u32,
    min_ns: u64,
    median_ns: u64,
}

#[derive(Serialize)]
struct MinorPart {
    version: &'static str,
    spoken: QueryResult<bool>,
}

#[derive(Serialize)]
struct ExportPart<'a> {
    path: &'a str,
    groups: &'a [String],
    flavors: QueryResult<Vec<String>>,
    flavors_v4: QueryResult<Vec<String>>,
    limits: Vec<VersionLimits>,
}

#[derive(Serialize)]
struct VersionLimits {
    version: &'static str,
    limits: QueryResult<LimitsPart>,
}

#[derive(Serialize)]
struct LimitsPart {
    rtmax_bytes: u64,
    rtpref_bytes: Option<u64>,
    wtmax_bytes: u64,
    wtpref_bytes: Option<u64>,
    dtpref_bytes: Option<u64>,
    maxfilesize_bytes: u64,
}

#[derive(Serialize)]
struct MountedPart<'a> {
    host: &'a str,
    path: &'a str,
}

#[derive(Serialize)]
struct RootPart<'a> {
    names: QueryResult<&'a [String]>,
    flavors: QueryResult<Vec<String>>,
    lease_seconds: QueryResult<u32>,
    limits: QueryResult<LimitsPart>,
}

#[derive(Serialize)]
struct RegistrationPart<'a> {
    program: u32,
    name: Option<&'static str>,
    version: u32,
    netid: &'a str,
    address: &'a str,
    port: Option<u16>,
    owner: &'a str,
}

impl<'a> Document<'a> {
    fn from_probe(probe: &'a Probe) -> Self {
        let mut minor_versions = Vec::new();
        for (version, spoken) in &probe.minor_versions {
            let spoken = QueryResult::from_answer(spoken, |spoken| *spoken);
            minor_versions.push(MinorPart { version: version.name(), spoken });
        }
        Self {
            schema: SCHEMA,
            host: &probe.host,
            address: probe.address.to_string(),
            addresses: probe.addresses.iter().map(ToString::to_string).collect(),
            versions: probe.versions().into_iter().map(ProtocolVersion::name).collect(),
            versions_tried: probe.tried_versions().into_iter().map(TriedPart::from).collect(),
            stopped_answering: probe.stopped.as_ref().map(ToString::to_string),
            resvport_needed: QueryResult::from_answer(&probe.reserved_port, |port| {
                *port == ReservedPort::Needed
            }),
            xattrs_supported: QueryResult::from_answer(&probe.xattrs, |supported| *supported),
            tls: QueryResult::from_answer(&probe.tls, |tls| *tls),
            nfs: service_parts(&probe.nfs),
            minor_versions,
            mount: service_parts(&probe.mount),
            exports: QueryResult::from_answer(&probe.exports, |all| {
                all.iter().map(ExportPart::from_export).collect()
            }),
            exports_not_examined: probe.exports_not_examined,
            mounted: QueryResult::from_answer(&probe.mounted, |all| {
                all.iter().map(MountedPart::from_entry).collect()
            }),
            v4_root: RootPart::from_root(&probe.root),
            identity: QueryResult::from_answer(&probe.identity, |server| IdentityPart {
                owner: id_text(&server.major_id),
                instance: server.minor_id,
                scope: id_text(&server.scope),
                roles: &server.roles,
                implementation: server.implementation.as_deref(),
            }),
            trunking: probe.trunking.iter().map(TrunkingPart::from_pair).collect(),
            layouts: probe.layouts.iter().map(LayoutsPart::from_layouts).collect(),
            portmap: QueryResult::from_answer(&probe.portmap, registration_parts),
            rpcbind: QueryResult::from_answer(&probe.rpcbind, registration_parts),
        }
    }
}

fn service_parts(services: &[Service]) -> Vec<ServicePart> {
    services.iter().map(ServicePart::from_service).collect()
}

// `QueryResult::from_answer` passes a `&Vec`.
#[allow(clippy::ptr_arg)]
fn registration_parts(all: &Vec<Registration>) -> Vec<RegistrationPart<'_>> {
    all.iter().map(RegistrationPart::from_registration).collect()
}

#[allow(clippy::ptr_arg)]
fn flavor_names(flavors: &Vec<Flavor>) -> Vec<String> {
    flavors.iter().map(ToString::to_string).collect()
}

impl TrunkingPart {
    fn from_pair((address, found): &(SocketAddr, Answer<Trunking>)) -> Self {
        let word = |trunking: &Trunking| match trunking {
            Trunking::Session => "session",
            Trunking::ClientId => "client id",
            Trunking::Nothing => "none",
        };
        Self { address: address.to_string(), trunking: QueryResult::from_answer(found, word) }
    }
}

impl<'a> LayoutsPart<'a> {
    fn from_layouts(layouts: &'a ExportLayouts) -> Self {
        let names = |types: &Vec<u32>| types.iter().map(|number| layout_name(*number)).collect();
        Self {
            path: &layouts.path,
            types: QueryResult::from_answer(&layouts.types, names),
            devices: QueryResult::from_answer(&layouts.devices, device_parts),
        }
    }
}

#[allow(clippy::ptr_arg)]
fn device_parts(devices: &Vec<DataDevice>) -> Vec<DevicePart<'_>> {
    devices.iter().map(device_part).collect()
}

fn device_part(device: &DataDevice) -> DevicePart<'_> {
    DevicePart { id: &device.id, addresses: &device.addresses, versions: &device.versions }
}

impl From<TriedVersion> for TriedPart {
    fn from(tried: TriedVersion) -> Self {
        let TriedVersion { version, call, outcome, spoken } = tried;
        Self { version: version.name(), call, outcome, spoken }
    }
}

impl ServicePart {
    fn from_service(service: &Service) -> Self {
        Self {
            version: service.version,
            transport: service.transport.name(),
            address: service.address.map(|address| address.to_string()),
            null: QueryResult::from_answer(&service.null, RoundTripPart::from_round_trip),
        }
    }
}

impl RoundTripPart {
    const fn from_round_trip(null: &RoundTrip) -> Self {
        Self { samples: null.samples, min_ns: null.least_ns, median_ns: null.median_ns }
    }
}

impl<'a> ExportPart<'a> {
    fn from_export(export: &'a Export) -> Self {
        let mut limits = Vec::new();
        for (version, found) in &export.limits {
            let found = QueryResult::from_answer(found, LimitsPart::from_limits);
            limits.push(VersionLimits { version: version.name(), limits: found });
        }
        Self {
            path: &export.path,
            groups: &export.groups,
            flavors: QueryResult::from_answer(&export.flavors, flavor_names),
            flavors_v4: QueryResult::from_answer(&export.flavors_v4, flavor_names),
            limits,
        }
    }
}

impl LimitsPart {
    fn from_limits(limits: &Limits) -> Self {
        Self {
            rtmax_bytes: limits.read_bytes_max,
            rtpref_bytes: limits.read_bytes_preferred,
            wtmax_bytes: limits.write_bytes_max,
            wtpref_bytes: limits.write_bytes_preferred,
            dtpref_bytes: limits.directory_bytes_preferred,
            maxfilesize_bytes: limits.file_bytes_max,
        }
    }
}

impl<'a> MountedPart<'a> {
    fn from_entry(mounted: &'a MountEntry) -> Self {
        Self { host: &mounted.host, path: &mounted.path }
    }
}

impl<'a> RootPart<'a> {
    fn from_root(root: &'a V4Root) -> Self {
        Self {
            names: QueryResult::from_answer(&root.names, Vec::as_slice),
            flavors: QueryResult::from_answer(&root.flavors, flavor_names),
            lease_seconds: QueryResult::from_answer(&root.lease_seconds, |seconds| *seconds),
            limits: QueryResult::from_answer(&root.limits, LimitsPart::from_limits),
        }
    }
}

impl<'a> RegistrationPart<'a> {
    fn from_registration(registration: &'a Registration) -> Self {
        Self {
            program: registration.program,
            name: registration.name,
            version: registration.version,
            netid: &registration.netid,
            address: &registration.address,
            port: registration.port,
            owner: &registration.owner,
        }
    }
}
