//! Gets the root of an export from the MOUNT service.
//!
//! Version 1 of MOUNT for version 2 of NFS, version 3 for version 3; version 4 has none.
//! **Source:** RFC 1813 section 5, RFC 1094 appendix A.

use std::net::SocketAddr;

use nfs_proto::client::{File, ProtocolVersion};
use nfs_proto::mount1;
use nfs_proto::mount3::{self, MountStatus};
use nfs_proto::program::Call;
use nfs_proto::xdr::Reader;

use crate::control::Control;
use crate::error::{CallFailure, MountError};
use crate::locate::{MOUNT, connect_mount, explain};
use crate::options::MountOptions;

/// The result of MOUNT: the root, how much of the path is below it, and where MOUNT listens.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) root: File,
    /// The path that was mounted, as UMNT wants it.
    pub(crate) export: String,
    /// The rest of the path that was requested.
    pub(crate) below: String,
    /// Address of MOUNT.
    pub(crate) service: SocketAddr,
}

/// Calls MNT, at the service that the options and the portmapper lead to.
pub(crate) fn mount(nfs: SocketAddr, options: &MountOptions) -> Result<Mounted, MountError> {
    let mut control = connect_mount(nfs, options)?;
    let export = options.export.as_str();
    let server = control.server();
    let status = match mnt(&mut control, export, options)? {
        Ok(root) => {
            let (export, below) = (export.into(), String::new());
            return Ok(Mounted { root, export, below, service: server });
        }
        Err(status) => status,
    };
    if !matches!(status, MountStatus::NoEnt | MountStatus::Access | MountStatus::NotDir) {
        return Err(MountError::Refused { export: export.into(), server, status });
    }
    let exports = list(&mut control).ok();
    let above = exports.iter().flatten().filter(|above| is_above(above, export));
    if let Some(above) = above.max_by_key(|above| above.len())
        && let Ok(root) = mnt(&mut control, above, options)?
    {
        let below = export[above.trim_end_matches('/').len()..].to_owned();
        return Ok(Mounted { root, export: above.clone(), below, service: server });
    }
    let export = export.to_owned();
    let listed = exports.iter().flatten().any(|listed| *listed == export);
    // Some servers answer MNT3ERR_ACCES for what they do not have.
    let missing = status == MountStatus::NoEnt || exports.is_some();
    if missing && !listed {
        return Err(MountError::NoSuchExport { export, server, exports });
    }
    Err(MountError::Refused { export, server, status })
}

/// Undoes a MNT. The reply says nothing; servers forget clients by themselves.
pub(crate) fn unmount(mounted: &Mounted, options: &MountOptions) -> Result<(), MountError> {
    let mut control = Control::connect(MOUNT, mounted.service, options)?;
    let call = in_version(options.version, mount3::Call::Umnt(mounted.export.as_bytes()));
    control.call(&call, |_| Ok(())).map_err(|failure| explain(MOUNT, options, failure))
}

fn in_version(version: ProtocolVersion, call: mount3::Call<'_>) -> Call<'_> {
    if version == ProtocolVersion::V2 { Call::Mount1(call) } else { Call::Mount3(call) }
}

fn mnt(
    control: &mut Control,
    path: &str,
    options: &MountOptions,
) -> Result<Result<File, MountStatus>, MountError> {
    let version = options.version;
    let call = in_version(version, mount3::Call::Mnt(path.as_bytes()));
    let result = control.call(&call, |event| {
        let body = Reader::new(event.body);
        Ok(match version {
            ProtocolVersion::V2 => mount1::Reply::decode_mnt(body)?.map(File::from),
            _ => mount3::Reply::decode_mnt(body)?.map(|ok| ok.root.into()),
        })
    });
    result.map_err(|failure| explain(MOUNT, options, failure))
}

fn list(control: &mut Control) -> Result<Vec<String>, CallFailure> {
    let call = in_version(control.version(), mount3::Call::Export);
    control.call(&call, |event| {
        let mut exports = Vec::new();
        mount3::Reply::decode_export(Reader::new(event.body), |path, _| {
            exports.push(String::from_utf8_lossy(path).into_owned());
        })?;
        Ok(exports)
    })
}

/// Tells whether `path` leads below the export `above`.
fn is_above(above: &str, path: &str) -> bool {
    let above = above.trim_end_matches('/');
    path.strip_prefix(above).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_an_export_by_whole_names() {
        assert!(is_above("/a", "/a/b"));
        assert!(is_above("/", "/a"));
        assert!(is_above("/a/", "/a/b"));
        assert!(!is_above("/a", "/a"));
        assert!(!is_above("/a", "/a/"));
        assert!(!is_above("/a", "/ab"));
    }
}
