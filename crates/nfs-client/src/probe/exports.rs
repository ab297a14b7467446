//! Exports: who may mount them, how secure, with which limits.
//!
//! The list and the mounts come from MOUNT; each export that is looked at closely is mounted and
//! released, which leaves no line in the server's list.
//!
//! **Source:** RFC 1813 sections 3.3.19 and 5, RFC 1094 section 2.2.18 and appendix A.

use std::net::SocketAddr;

use nfs_proto::program::Call;
use nfs_proto::xdr::Reader;
use nfs_proto::{DecodeError, ProtocolVersion, mount1, mount3, nfs2, nfs3};

use super::ask::Asker;
use super::data::{Answer, Export, Flavor, Limits, Mounted, NoAnswer, Service, Transport};
use super::options::ProbeOptions;
use super::v4::Talk;

/// Lines of a list that are kept.
const LINES_MAX: usize = 65_536;

/// The transport and address where one version of a program answered.
type Found = Answer<(Transport, SocketAddr)>;

/// The services over which exports are requested.
#[derive(Debug)]
pub(super) struct Doors {
    pub(super) mount1: Found,
    pub(super) mount3: Found,
    pub(super) nfs2: Found,
    pub(super) nfs3: Found,
}

/// Returns where a version answered; TCP goes first.
pub(super) fn answered(services: &[Service], version: u32) -> Found {
    let mut of_version = services.iter().filter(|service| service.version == version);
    let mut first = None;
    let found = of_version.find_map(|service| match (&service.null, service.address) {
        (Ok(_), Some(address)) => Some((service.transport, address)),
        (Err(reason), _) => {
            first.get_or_insert_with(|| reason.clone());
            None
        }
        _ => None,
    });
    found.ok_or_else(|| first.unwrap_or(NoAnswer::NotRequested("the version was not looked for")))
}

/// A reply of another procedure than the one that was called.
const fn other_reply() -> DecodeError {
    DecodeError::BadValue { what: "the procedure of the reply", value: 0 }
}

fn open(found: &Found, options: &ProbeOptions) -> Answer<Asker> {
    let (transport, address) = found.clone()?;
    Asker::connect(transport, address, options)
}

impl Doors {
    /// A MOUNT service of either version; their lists are the same.
    fn mount(&self, options: &ProbeOptions) -> Answer<(Asker, bool)> {
        match open(&self.mount3, options) {
            Ok(asker) => Ok((asker, true)),
            Err(reason) => match open(&self.mount1, options) {
                Ok(asker) => Ok((asker, false)),
                Err(_) => Err(reason),
            },
        }
    }
}

fn wrapped(call: mount3::Call<'_>, is_v3: bool) -> Call<'_> {
    if is_v3 { Call::Mount3(call) } else { Call::Mount1(call) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asks who has mounted what.
pub(super) fn mounted(doors: &Doors, options: &ProbeOptions) -> Answer<Vec<Mounted>> {
    let (mut asker, is_v3) = doors.mount(options)?;
    asker.call(&wrapped(mount3::Call::Dump, is_v3), |results| {
        let mut lines = Vec::new();
        mount3::Reply::decode_dump(results, |line| {
            if lines.len() < LINES_MAX {
                lines.push(Mounted { host: text(line.host), path: text(line.dir) });
            }
        })?;
        Ok(lines)
    })
}

/// Asks for the exports and looks at the first ones closely.
pub(super) fn exports(
    doors: &Doors,
    talk: &mut Answer<Talk>,
    options: &ProbeOptions,
) -> Answer<Vec<Export>> {
    let (mut asker, is_v3) = doors.mount(options)?;
    let mut exports = asker.call(&wrapped(mount3::Call::Export, is_v3), read_exports)?;
    let mut examiner = Examiner {
        mount1: open(&doors.mount1, options),
        mount3: open(&doors.mount3, options),
        nfs2: open(&doors.nfs2, options),
        nfs3: open(&doors.nfs3, options),
        talk,
    };
    for export in exports.iter_mut().take(options.exports_max) {
        examiner.examine(export);
    }
    Ok(exports)
}

fn read_exports(results: Reader<'_>) -> Result<Vec<Export>, DecodeError> {
    let mut exports = Vec::new();
    let mut lines = 0;
    mount3::Reply::decode_export(results, |path, groups| {
        let groups: Vec<_> = groups.take(LINES_MAX - lines).map(text).collect();
        lines += groups.len();
        if lines < LINES_MAX {
            lines += 1;
            let not_requested =
                || NoAnswer::NotRequested("more exports than are looked at closely");
            exports.push(Export {
                path: text(path),
                groups,
                flavors: Err(not_requested()),
                flavors_v4: Err(not_requested()),
                limits: Vec::new(),
            });
        }
    })?;
    Ok(exports)
}

/// The connections over which exports are queried about.
struct Examiner<'a> {
    mount1: Answer<Asker>,
    mount3: Answer<Asker>,
    nfs2: Answer<Asker>,
    nfs3: Answer<Asker>,
    talk: &'a mut Answer<Talk>,
}

fn each(asker: &mut Answer<Asker>) -> Answer<&mut Asker> {
    asker.as_mut().map_err(|reason| reason.clone())
}

impl Examiner<'_> {
    fn examine(&mut self, export: &mut Export) {
        let path = export.path.clone();
        let root3 = self.root3(&path);
        export.flavors = root3.as_ref().map(|(_, flavors)| flavors.clone()).map_err(Clone::clone);
        // Where the version itself is not spoken that is the reason, whatever MOUNT says.
        let spoken2 = each(&mut self.nfs2).map(drop);
        let limits2 = spoken2.and_then(|()| self.root2(&path)).and_then(|root| self.limits2(root));
        let spoken3 = each(&mut self.nfs3).map(drop);
        let limits3 = spoken3.and(root3).and_then(|(root, _)| self.limits3(root));
        export.limits = vec![(ProtocolVersion::V2, limits2), (ProtocolVersion::V3, limits3)];
        match self.talk {
            Ok(talk) => {
                let names: Vec<_> =
                    path.split('/').filter(|name| !name.is_empty()).map(str::as_bytes).collect();
                let limits4 = talk.limits(&names).map(|(limits, _)| limits);
                export.limits.push((talk.version(), limits4));
                export.flavors_v4 = talk.flavors_of(&names);
            }
            Err(reason) => export.flavors_v4 = Err(reason.clone()),
        }
    }

    fn root3(&mut self, path: &str) -> Answer<(nfs3::FileHandle, Vec<Flavor>)> {
        let asker = each(&mut self.mount3)?;
        let call = Call::Mount3(mount3::Call::Mnt(path.as_bytes()));
        let ok = asker.call(&call, mount3::Reply::decode_mnt)?.map_err(NoAnswer::Mount)?;
        asker.call(&Call::Mount3(mount3::Call::Umnt(path.as_bytes())), |_| Ok(()))?;
        Ok((ok.root, ok.flavors.as_slice().iter().map(|number| Flavor(*number)).collect()))
    }

    fn root2(&mut self, path: &str) -> Answer<nfs2::FileHandle> {
        let asker = each(&mut self.mount1)?;
        let call = Call::Mount1(mount3::Call::Mnt(path.as_bytes()));
        let root = asker.call(&call, mount1::Reply::decode_mnt)?.map_err(NoAnswer::Mount)?;
        asker.call(&Call::Mount1(mount3::Call::Umnt(path.as_bytes())), |_| Ok(()))?;
        Ok(root)
    }

    fn limits3(&mut self, root: nfs3::FileHandle) -> Answer<Limits> {
        let call = Call::Nfs3(nfs3::Call::Fsinfo { root: &root });
        let result = each(&mut self.nfs3)?.call(&call, |results| {
            match nfs3::Reply::decode(nfs3::Procedure::Fsinfo, results)? {
                nfs3::Reply::Fsinfo { result, .. } => Ok(result),
                _ => Err(other_reply()),
            }
        })?;
        let found =
            result.map_err(|status| NoAnswer::Status(status.spoken(ProtocolVersion::V3)))?;
        Ok(Limits {
            read_bytes_max: found.read_bytes_max.into(),
            read_bytes_preferred: Some(found.read_bytes_preferred.into()),
            write_bytes_max: found.write_bytes_max.into(),
            write_bytes_preferred: Some(found.write_bytes_preferred.into()),
            directory_bytes_preferred: Some(found.directory_bytes_preferred.into()),
            file_bytes_max: found.file_bytes_max,
        })
    }

    fn limits2(&mut self, file: nfs2::FileHandle) -> Answer<Limits> {
        let call = Call::Nfs2(nfs2::Call::Statfs { file });
        let result = each(&mut self.nfs2)?.call(&call, |results| {
            match nfs2::Reply::decode(nfs2::Procedure::Statfs, results)? {
                nfs2::Reply::Statfs(result) => Ok(result),
                _ => Err(other_reply()),
            }
        })?;
        let found =
            result.map_err(|status| NoAnswer::Status(status.spoken(ProtocolVersion::V2)))?;
        // The protocol has no word for the largest transfer but its own limit.
        let bytes = found.transfer_bytes.min(nfs_proto::limits::V2_TRANSFER_BYTES_MAX).into();
        Ok(Limits {
            read_bytes_max: bytes,
            write_bytes_max: bytes,
            file_bytes_max: nfs2::FILE_BYTES_MAX.into(),
            ..Limits::default()
        })
    }
}
