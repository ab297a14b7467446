//! Formats a probe as JSON.
//!
//! The names and the order of the fields are those of the output, so this file is the reference of
//! the format. A query without an answer is replaced by `{"error": "..."}`.

use nfs_client::probe::{
    Answer, Export, Flavor, Limits, Mounted, Probe, Registration, ReservedPort, RoundTrip, Service,
    Tried, V4Root,
};
use nfs_client::proto::ProtocolVersion;
use serde::Serialize;

const SCHEMA: u32 = 1;

/// Formats the document with indentation.
#[allow(clippy::missing_panics_doc, reason = "texts and numbers can always be written as JSON")]
pub fn render(probe: &Probe) -> String {
    let json = serde_json::to_string_pretty(&Document::of(probe));
    json.expect("the document holds texts and numbers only") + "\n"
}

/// The result of one query, or the reason why there is none.
#[derive(Serialize)]
#[serde(untagged)]
enum Part<T> {
    Answer(T),
    Nothing { error: String },
}

impl<T> Part<T> {
    fn of<'a, A>(answer: &'a Answer<A>, convert: impl FnOnce(&'a A) -> T) -> Self {
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
    resvport_needed: Part<bool>,
    xattrs_supported: Part<bool>,
    tls: Part<bool>,
    nfs: Vec<ServicePart>,
    minor_versions: Vec<MinorPart>,
    mount: Vec<ServicePart>,
    exports: Part<Vec<ExportPart<'a>>>,
    exports_not_examined: usize,
    mounted: Part<Vec<MountedPart<'a>>>,
    v4_root: RootPart<'a>,
    portmap: Part<Vec<RegistrationPart<'a>>>,
    rpcbind: Part<Vec<RegistrationPart<'a>>>,
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
    null: Part<RoundTripPart>,
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
    spoken: Part<bool>,
}

#[derive(Serialize)]
struct ExportPart<'a> {
    path: &'a str,
    groups: &'a [String],
    flavors: Part<Vec<String>>,
    flavors_v4: Part<Vec<String>>,
    limits: Vec<VersionLimits>,
}

#[derive(Serialize)]
struct VersionLimits {
    version: &'static str,
    limits: Part<LimitsPart>,
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
    names: Part<&'a [String]>,
    flavors: Part<Vec<String>>,
    lease_seconds: Part<u32>,
    limits: Part<LimitsPart>,
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
    fn of(probe: &'a Probe) -> Self {
        let mut minor_versions = Vec::new();
        for (version, spoken) in &probe.minor_versions {
            let spoken = Part::of(spoken, |spoken| *spoken);
            minor_versions.push(MinorPart { version: version.name(), spoken });
        }
        Self {
            schema: SCHEMA,
            host: &probe.host,
            address: probe.address.to_string(),
            addresses: probe.addresses.iter().map(ToString::to_string).collect(),
            versions: probe.versions().into_iter().map(ProtocolVersion::name).collect(),
            versions_tried: probe.tried().into_iter().map(TriedPart::from).collect(),
            stopped_answering: probe.stopped.as_ref().map(ToString::to_string),
            resvport_needed: Part::of(&probe.reserved_port, |port| *port == ReservedPort::Needed),
            xattrs_supported: Part::of(&probe.xattrs, |supported| *supported),
            tls: Part::of(&probe.tls, |tls| *tls),
            nfs: service_parts(&probe.nfs),
            minor_versions,
            mount: service_parts(&probe.mount),
            exports: Part::of(&probe.exports, |all| all.iter().map(ExportPart::of).collect()),
            exports_not_examined: probe.exports_not_examined,
            mounted: Part::of(&probe.mounted, |all| all.iter().map(MountedPart::of).collect()),
            v4_root: RootPart::of(&probe.root),
            portmap: Part::of(&probe.portmap, registration_parts),
            rpcbind: Part::of(&probe.rpcbind, registration_parts),
        }
    }
}

fn service_parts(services: &[Service]) -> Vec<ServicePart> {
    services.iter().map(ServicePart::of).collect()
}

// `Part::of` passes a `&Vec`.
#[allow(clippy::ptr_arg)]
fn registration_parts(all: &Vec<Registration>) -> Vec<RegistrationPart<'_>> {
    all.iter().map(RegistrationPart::of).collect()
}

#[allow(clippy::ptr_arg)]
fn flavor_names(flavors: &Vec<Flavor>) -> Vec<String> {
    flavors.iter().map(ToString::to_string).collect()
}

impl From<Tried> for TriedPart {
    fn from(tried: Tried) -> Self {
        let Tried { version, call, outcome, spoken } = tried;
        Self { version: version.name(), call, outcome, spoken }
    }
}

impl ServicePart {
    fn of(service: &Service) -> Self {
        Self {
            version: service.version,
            transport: service.transport.name(),
            address: service.address.map(|address| address.to_string()),
            null: Part::of(&service.null, RoundTripPart::of),
        }
    }
}

impl RoundTripPart {
    const fn of(null: &RoundTrip) -> Self {
        Self { samples: null.samples, min_ns: null.least_ns, median_ns: null.median_ns }
    }
}

impl<'a> ExportPart<'a> {
    fn of(export: &'a Export) -> Self {
        let mut limits = Vec::new();
        for (version, found) in &export.limits {
            let found = Part::of(found, LimitsPart::of);
            limits.push(VersionLimits { version: version.name(), limits: found });
        }
        Self {
            path: &export.path,
            groups: &export.groups,
            flavors: Part::of(&export.flavors, flavor_names),
            flavors_v4: Part::of(&export.flavors_v4, flavor_names),
            limits,
        }
    }
}

impl LimitsPart {
    fn of(limits: &Limits) -> Self {
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
    fn of(mounted: &'a Mounted) -> Self {
        Self { host: &mounted.host, path: &mounted.path }
    }
}

impl<'a> RootPart<'a> {
    fn of(root: &'a V4Root) -> Self {
        Self {
            names: Part::of(&root.names, Vec::as_slice),
            flavors: Part::of(&root.flavors, flavor_names),
            lease_seconds: Part::of(&root.lease_seconds, |seconds| *seconds),
            limits: Part::of(&root.limits, LimitsPart::of),
        }
    }
}

impl<'a> RegistrationPart<'a> {
    fn of(registration: &'a Registration) -> Self {
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
