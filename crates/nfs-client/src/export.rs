//! Gets the root of an export from the MOUNT service.
//!
//! NFS v2 uses MOUNT v1, NFS v3 uses MOUNT v3; NFS v4 has none. **Source:** RFC 1813 section 5, RFC
//! 1094 appendix A.

use std::net::SocketAddr;

use nfs_proto::client::{File, ProtocolVersion};
use nfs_proto::mount1;
use nfs_proto::mount3::{self, MountStatus};
use nfs_proto::program::Call;
use nfs_proto::xdr::Reader;

use crate::connection::Control;
use crate::error::{CallFailure, MountError};
use crate::locate::connect_mount;
use crate::options::MountOptions;
use crate::service::{MOUNT, explain};

/// The result of MOUNT: the root, the rest of the path below it, and the address of MOUNT.
#[derive(Debug)]
pub(crate) struct MountedExport {
    pub(crate) root: File,
    /// The mounted path, as UMNT needs it.
    pub(crate) export: String,
    /// The rest of the requested path.
    pub(crate) below: String,
    /// Address of MOUNT.
    pub(crate) service: SocketAddr,
}

/// Calls MNT at the service found by means of the options and the portmapper.
pub(crate) fn mount_export(
    nfs: SocketAddr,
    options: &MountOptions,
) -> Result<MountedExport, MountError> {
    let mut control = connect_mount(nfs, options)?;
    let export = options.export.as_str();
    let server = control.server();
    let status = match call_mnt(&mut control, export, options)? {
        Ok(root) => {
            return Ok(MountedExport {
                root,
                export: export.into(),
                below: String::new(),
                service: server,
            });
        }
        Err(status) => status,
    };
    if !matches!(status, MountStatus::NoEnt | MountStatus::Access | MountStatus::NotDir) {
        return Err(MountError::Refused { export: export.into(), server, status });
    }
    // The path may be below an export, which many servers do not mount directly: mount the longest
    // export above it and walk the rest with LOOKUP.
    let exports = list_exports(&mut control).ok();
    if let Some(above) = longest_above(exports.as_deref().unwrap_or_default(), export)
        && let Ok(root) = call_mnt(&mut control, above, options)?
    {
        let below = export[above.trim_end_matches('/').len()..].to_owned();
        return Ok(MountedExport { root, export: above.to_owned(), below, service: server });
    }
    let export = export.to_owned();
    let Some(listed) = &exports else {
        // Even without a list, the server's status may mean that there is no such export.
        if status == MountStatus::NoEnt {
            return Err(MountError::NoSuchExport { export, server, exports });
        }
        return Err(MountError::Refused { export, server, status });
    };
    // Some servers return MNT3ERR_ACCES for exports that do not exist; the list tells the two
    // apart.
    if listed.contains(&export) {
        return Err(MountError::Refused { export, server, status });
    }
    Err(MountError::NoSuchExport { export, server, exports })
}

/// Undoes a MNT. The reply contains nothing; servers forget clients by themselves.
pub(crate) fn unmount_export(
    mounted: &MountedExport,
    options: &MountOptions,
) -> Result<(), MountError> {
    let mut control = Control::connect(MOUNT, mounted.service, options)?;
    let call = in_version(options.version, mount3::Call::Umnt(mounted.export.as_bytes()));
    control.call(&call, |_| Ok(())).map_err(|failure| explain(MOUNT, options, failure))
}

fn in_version(version: ProtocolVersion, call: mount3::Call<'_>) -> Call<'_> {
    if version == ProtocolVersion::V2 { Call::Mount1(call) } else { Call::Mount3(call) }
}

fn call_mnt(
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

fn list_exports(control: &mut Control) -> Result<Vec<String>, CallFailure> {
    let call = in_version(control.version(), mount3::Call::Export);
    control.call(&call, |event| {
        let mut exports = Vec::new();
        mount3::Reply::decode_export(Reader::new(event.body), |path, _| {
            exports.push(String::from_utf8_lossy(path).into_owned());
        })?;
        Ok(exports)
    })
}

/// Returns the longest export that `path` is below.
fn longest_above<'e>(exports: &'e [String], path: &str) -> Option<&'e str> {
    let mut longest: Option<&str> = None;
    for export in exports {
        let is_longer = longest.is_none_or(|found| export.len() >= found.len());
        if is_above(export, path) && is_longer {
            longest = Some(export);
        }
    }
    longest
}

/// Returns true if `path` is below the export `above`.
fn is_above(above: &str, path: &str) -> bool {
    // `/` is above everything; `/data` is above `/data/x` but not above `/database`.
    path.strip_prefix(above.trim_end_matches('/'))
        .is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_exports_by_whole_names() {
        assert!(is_above("/a", "/a/b"));
        assert!(is_above("/", "/a"));
        assert!(is_above("/a/", "/a/b"));
        assert!(!is_above("/a", "/a"));
        assert!(!is_above("/a", "/a/"));
        assert!(!is_above("/a", "/ab"));
    }
}
