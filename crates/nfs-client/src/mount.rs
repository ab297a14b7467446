//! A mounted export, without a mount.
//!
//! [`Mount`] holds the root handle, what the server granted, and one blocking connection for
//! set-up and clean-up. Nothing of it is in the measured path.
//! **Source:** RFC 1813 sections 3.3.19 and 5.2.1.

use std::net::SocketAddr;

use nfs_proto::client::{File, Operation, Outcome};
use nfs_proto::nfs3::Fsinfo;
use nfs_proto::{CallError, DecodeError};

use crate::control::Control;
use crate::error::{CallFailure, MountError};
use crate::locate::{self, Mounted, NFS};
use crate::options::{MountOptions, TRANSFER_BYTES_DEFAULT};

/// An export that was mounted over the network.
#[derive(Debug)]
pub struct Mount {
    pub(crate) control: Control,
    pub(crate) options: MountOptions,
    mounted: Mounted,
    root: File,
    fsinfo: Fsinfo,
    rsize: u32,
    wsize: u32,
    congestion_control: String,
}

impl Mount {
    /// Resolves the host, finds its services, mounts the export, walks to the directory asked for
    /// and agrees on transfer sizes. Blocks, for at most a few times the timeout.
    ///
    /// # Errors
    /// [`MountError`], whose message says what to look at.
    pub fn connect(options: &MountOptions) -> Result<Self, MountError> {
        let mut control = locate::connect_nfs(options)?;
        let server = control.server();
        let mounted = locate::mount_export(server, options)?;
        let mut root = mounted.root;
        for path in [&mounted.below, &options.subdir] {
            root = walk(&mut control, root, path)?;
        }
        let fsinfo = call_fsinfo(&mut control, &mounted.root)
            .map_err(|failure| locate::explain(NFS, failure))?;
        let congestion_control = rustix::net::sockopt::tcp_congestion(control.stream())
            .map_err(|errno| MountError::Socket { server, reason: errno.into() })?;
        Ok(Self {
            control,
            mounted,
            root,
            rsize: granted(options.rsize, fsinfo.read_bytes_max),
            wsize: granted(options.wsize, fsinfo.write_bytes_max),
            fsinfo,
            congestion_control,
            options: options.clone(),
        })
    }

    /// Returns the handle of the directory that was asked for.
    pub fn root(&self) -> File {
        self.root
    }

    /// Returns the READ size in force, in bytes: what was asked, what the server allows, or 1 MiB,
    /// whichever is least.
    pub fn rsize(&self) -> u32 {
        self.rsize
    }

    /// Returns the WRITE size in force, in bytes.
    pub fn wsize(&self) -> u32 {
        self.wsize
    }

    /// Returns the address of the NFS service.
    pub fn server(&self) -> SocketAddr {
        self.control.server()
    }

    /// Returns the file system's limits, as the server stated them.
    pub fn fsinfo(&self) -> &Fsinfo {
        &self.fsinfo
    }

    /// Returns the TCP congestion control in force, as the system stated it.
    pub fn congestion_control(&self) -> &str {
        &self.congestion_control
    }

    /// Returns what was asked for.
    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// Tells the server that the export is no longer in use.
    ///
    /// # Errors
    /// [`MountError`] when MOUNT can't be reached any more, which harms nothing.
    pub fn unmount(self) -> Result<(), MountError> {
        locate::unmount(&self.mounted, &self.options)
    }
}

/// Calls FSINFO.
pub(crate) fn call_fsinfo(control: &mut Control, root: &File) -> Result<Fsinfo, CallFailure> {
    control.operate(&Operation::Fsinfo { root }, |event| match event.result {
        Ok(Outcome::Fsinfo(fsinfo)) => Ok(fsinfo),
        _ => Err(DecodeError::BadValue { what: "FSINFO", value: 0 }),
    })
}

/// Calls LOOKUP.
pub(crate) fn call_lookup(
    control: &mut Control,
    dir: &File,
    name: &[u8],
) -> Result<File, CallFailure> {
    control.operate(&Operation::Lookup { dir, name }, |event| match event.result {
        Ok(Outcome::Object { file: Some(file), .. }) => Ok(file),
        _ => Err(DecodeError::BadValue { what: "handle_follows", value: 0 }),
    })
}

fn walk(control: &mut Control, from: File, path: &str) -> Result<File, MountError> {
    let mut dir = from;
    for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
        dir = call_lookup(control, &dir, name.as_bytes()).map_err(|reason| {
            let is_status = matches!(reason.answered(), Some(CallError::Status(_)));
            if is_status {
                MountError::Walk { path: path.into(), name: name.into(), reason: Box::new(reason) }
            } else {
                locate::explain(NFS, reason)
            }
        })?;
    }
    Ok(dir)
}

/// A server that states no limit at all is taken at the default.
fn granted(asked: Option<u32>, server_max: u32) -> u32 {
    let server_max = if server_max == 0 { TRANSFER_BYTES_DEFAULT } else { server_max };
    asked.unwrap_or(TRANSFER_BYTES_DEFAULT).min(server_max).clamp(1, TRANSFER_BYTES_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_size_is_the_least_of_three() {
        assert_eq!(granted(None, 65_536), 65_536);
        assert_eq!(granted(Some(8_192), 65_536), 8_192);
        assert_eq!(granted(Some(4 << 20), 4 << 20), 1 << 20);
        assert_eq!(granted(None, 0), 1 << 20);
    }
}
