//! Exports: who may mount them, with which security flavors and limits.
//!
//! The list and the mounts come from MOUNT; each export that is examined is mounted and released,
//! which leaves no line in the server's list.
//!
//! **Source:** RFC 1813 sections 3.3.19 and 5, RFC 1094 section 2.2.18 and appendix A.

use std::net::SocketAddr;

use nfs_proto::program::Call;
use nfs_proto::xdr::Reader;
use nfs_proto::{DecodeError, ProtocolVersion, mount1, mount3, nfs2, nfs3};

use super::ask::Asker;
use super::data::{Answer, Export, Flavor, Limits, MountEntry, NoAnswer, ReservedPort, Service};
use super::options::ProbeOptions;
use super::v4::Conversation;
use crate::options::Proto;

/// Maximum number of lines kept of a list.
const LINES_MAX: usize = 65_536;

/// The transport and address where one version of a program answered.
type ServiceAddress = Answer<(Proto, SocketAddr)>;

/// Converts a MOUNT call to one of a version.
type Wrap = fn(mount3::Call<'static>) -> Call<'static>;

/// The services used to query exports.
#[derive(Debug)]
pub(super) struct MountServices {
    pub(super) mount1: ServiceAddress,
    pub(super) mount3: ServiceAddress,
    pub(super) nfs2: ServiceAddress,
    pub(super) nfs3: ServiceAddress,
}

/// Returns where a version answered, preferring TCP.
pub(super) fn find_answered(services: &[Service], version: u32) -> ServiceAddress {
    let mut first_reason = None;
    for service in services {
        if service.version != version {
            continue;
        }
        match (&service.null, service.address) {
            (Ok(_), Some(address)) => return Ok((service.transport, address)),
            (Err(reason), _) if first_reason.is_none() => first_reason = Some(reason.clone()),
            _ => {}
        }
    }
    Err(first_reason.unwrap_or(NoAnswer::NotRequested("the version was not probed")))
}

/// A reply of another procedure than the called one.
const fn other_reply() -> DecodeError {
    DecodeError::BadValue { what: "the procedure of the reply", value: 0 }
}

fn connect_service(found: &ServiceAddress, options: &ProbeOptions) -> Answer<Asker> {
    let (transport, address) = found.clone()?;
    Asker::connect(transport, address, options)
}

impl MountServices {
    /// A MOUNT service of either version; their lists are the same.
    fn connect_mount(&self, options: &ProbeOptions) -> Answer<(Asker, Wrap)> {
        match connect_service(&self.mount3, options) {
            Ok(asker) => Ok((asker, Call::Mount3)),
            Err(reason) => match connect_service(&self.mount1, options) {
                Ok(asker) => Ok((asker, Call::Mount1)),
                Err(_) => Err(reason),
            },
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asks who has mounted what.
pub(super) fn list_mounted(
    services: &MountServices,
    options: &ProbeOptions,
) -> Answer<Vec<MountEntry>> {
    let (mut asker, wrap) = services.connect_mount(options)?;
    asker.call(&wrap(mount3::Call::Dump), |results| {
        let mut lines = Vec::new();
        mount3::Reply::decode_dump(results, |line| {
            if lines.len() < LINES_MAX {
                lines.push(MountEntry { host: text(line.host), path: text(line.dir) });
            }
        })?;
        Ok(lines)
    })
}

/// Queries the exports and examines the first ones.
pub(super) fn list_exports(
    services: &MountServices,
    conversation: &mut Answer<Conversation>,
    options: &ProbeOptions,
) -> Answer<Vec<Export>> {
    let (mut asker, wrap) = services.connect_mount(options)?;
    let mut exports = asker.call(&wrap(mount3::Call::Export), read_exports)?;
    let mut examiner = Examiner {
        mount1: connect_service(&services.mount1, options),
        mount3: connect_service(&services.mount3, options),
        nfs2: connect_service(&services.nfs2, options),
        nfs3: connect_service(&services.nfs3, options),
        conversation,
    };
    for export in exports.iter_mut().take(options.exports_max) {
        examiner.examine_export(export);
    }
    Ok(exports)
}

/// Determines whether an export is granted to calls from any port, or only from reserved ones.
///
/// # Errors
/// The refusal of the export if the port is not the reason, or why a reserved port is not available
/// if it could be.
pub(super) fn ask_reserved_port(
    reach: impl Fn(&ProbeOptions) -> Answer<()>,
    options: &ProbeOptions,
) -> Answer<ReservedPort> {
    let from_port = |resvport| ProbeOptions { resvport, ..options.clone() };
    let Err(refusal) = reach(&from_port(false)) else { return Ok(ReservedPort::NotNeeded) };
    match reach(&from_port(true)) {
        Ok(()) => Ok(ReservedPort::Needed),
        Err(NoAnswer::System(reason)) => {
            Err(NoAnswer::System(format!("{refusal}; cannot try a reserved port: {reason}")))
        }
        Err(_) => Err(refusal),
    }
}

/// Reaches an export with v3, or v2, over its own connections.
pub(super) fn reach_export(
    services: &MountServices,
    path: &str,
    options: &ProbeOptions,
) -> Answer<()> {
    let mut examiner = Examiner {
        mount1: connect_service(&services.mount1, options),
        mount3: connect_service(&services.mount3, options),
        nfs2: connect_service(&services.nfs2, options),
        nfs3: connect_service(&services.nfs3, options),
        conversation: &mut Err(NoAnswer::NotRequested("v3 and v2 are probed first")),
    };
    if services.nfs3.is_err() && services.nfs2.is_ok() {
        return examiner.limits_v2(path).map(drop);
    }
    let root = examiner.mount_v3(path);
    examiner.limits_v3(root).map(drop)
}

fn read_exports(results: Reader<'_>) -> Result<Vec<Export>, DecodeError> {
    let mut exports = Vec::new();
    let mut lines = 0;
    mount3::Reply::decode_export(results, |path, groups| {
        let groups: Vec<_> = groups.take(LINES_MAX - lines).map(text).collect();
        lines += groups.len();
        if lines < LINES_MAX {
            lines += 1;
            let reason = NoAnswer::NotRequested("beyond the limit of exports that are examined");
            exports.push(Export {
                path: text(path),
                groups,
                flavors: Err(reason.clone()),
                flavors_v4: Err(reason),
                limits: Vec::new(),
            });
        }
    })?;
    Ok(exports)
}

/// Returns the names of a path.
pub(super) fn names_of(path: &str) -> Vec<&[u8]> {
    path.split('/').filter(|name| !name.is_empty()).map(str::as_bytes).collect()
}

/// The connections used to examine exports.
struct Examiner<'a> {
    mount1: Answer<Asker>,
    mount3: Answer<Asker>,
    nfs2: Answer<Asker>,
    nfs3: Answer<Asker>,
    conversation: &'a mut Answer<Conversation>,
}

/// Returns a connection, or why there is none.
fn connected(asker: &mut Answer<Asker>) -> Answer<&mut Asker> {
    match asker {
        Ok(asker) => Ok(asker),
        Err(reason) => Err(reason.clone()),
    }
}

impl Examiner<'_> {
    fn examine_export(&mut self, export: &mut Export) {
        let path = export.path.clone();
        let root3 = self.mount_v3(&path);
        export.flavors = match &root3 {
            Ok((_, flavors)) => Ok(flavors.clone()),
            Err(reason) => Err(reason.clone()),
        };
        let limits = [
            (ProtocolVersion::V2, self.limits_v2(&path)),
            (ProtocolVersion::V3, self.limits_v3(root3)),
        ];
        export.limits = limits.into();
        match self.conversation {
            Ok(conversation) => {
                let names = names_of(&path);
                let limits = conversation.limits_at(&names).map(|(limits, _)| limits);
                export.limits.push((conversation.version(), limits));
                export.flavors_v4 = conversation.flavors_of(&names);
            }
            Err(reason) => export.flavors_v4 = Err(reason.clone()),
        }
    }

    fn mount_v3(&mut self, path: &str) -> Answer<(nfs3::FileHandle, Vec<Flavor>)> {
        let asker = connected(&mut self.mount3)?;
        let call = Call::Mount3(mount3::Call::Mnt(path.as_bytes()));
        let ok = asker.call(&call, mount3::Reply::decode_mnt)?.map_err(NoAnswer::Mount)?;
        asker.call(&Call::Mount3(mount3::Call::Umnt(path.as_bytes())), |_| Ok(()))?;
        let mut flavors = Vec::new();
        for number in ok.flavors.as_slice() {
            flavors.push(Flavor(*number));
        }
        Ok((ok.root, flavors))
    }

    fn mount_v2(&mut self, path: &str) -> Answer<nfs2::FileHandle> {
        let asker = connected(&mut self.mount1)?;
        let call = Call::Mount1(mount3::Call::Mnt(path.as_bytes()));
        let root = asker.call(&call, mount1::Reply::decode_mnt)?.map_err(NoAnswer::Mount)?;
        asker.call(&Call::Mount1(mount3::Call::Umnt(path.as_bytes())), |_| Ok(()))?;
        Ok(root)
    }

    fn limits_v3(&mut self, mounted: Answer<(nfs3::FileHandle, Vec<Flavor>)>) -> Answer<Limits> {
        // If the version itself is not supported, that is the reason, whatever MOUNT returns.
        let asker = connected(&mut self.nfs3)?;
        let (root, _) = mounted?;
        let call = Call::Nfs3(nfs3::Call::Fsinfo { root: &root });
        let result = asker.call(&call, |results| {
            match nfs3::Reply::decode(nfs3::Procedure::Fsinfo, results)? {
                nfs3::Reply::Fsinfo { result, .. } => Ok(result),
                _ => Err(other_reply()),
            }
        })?;
        let found =
            result.map_err(|status| NoAnswer::Status(status.in_version(ProtocolVersion::V3)))?;
        Ok(Limits {
            read_bytes_max: found.read_bytes_max.into(),
            read_bytes_preferred: Some(found.read_bytes_preferred.into()),
            write_bytes_max: found.write_bytes_max.into(),
            write_bytes_preferred: Some(found.write_bytes_preferred.into()),
            directory_bytes_preferred: Some(found.directory_bytes_preferred.into()),
            file_bytes_max: found.file_bytes_max,
        })
    }

    fn limits_v2(&mut self, path: &str) -> Answer<Limits> {
        connected(&mut self.nfs2)?;
        let file = self.mount_v2(path)?;
        let call = Call::Nfs2(nfs2::Call::Statfs { file });
        let result =
            connected(&mut self.nfs2)?.call(&call, |results| {
                match nfs2::Reply::decode(nfs2::Procedure::Statfs, results)? {
                    nfs2::Reply::Statfs(result) => Ok(result),
                    _ => Err(other_reply()),
                }
            })?;
        let found =
            result.map_err(|status| NoAnswer::Status(status.in_version(ProtocolVersion::V2)))?;
        // The protocol only has its own fixed limit for the largest transfer.
        let bytes = found.transfer_bytes.min(nfs_proto::limits::V2_TRANSFER_BYTES_MAX).into();
        Ok(Limits {
            read_bytes_max: bytes,
            write_bytes_max: bytes,
            file_bytes_max: nfs2::FILE_BYTES_MAX.into(),
            ..Limits::default()
        })
    }
}
