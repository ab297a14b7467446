//! MOUNT v1 and v3: how clients get their first file handle.
//!
//! MNT grants an export or a directory below it. The versions differ only in the form of a granted
//! handle.
//!
//! **Source:** RFC 1094 appendix A, RFC 1813 section 5.

use std::sync::MutexGuard;

use nfs_proto::limits::MOUNT_PATH_BYTES_MAX;
use nfs_proto::mount1;
use nfs_proto::mount3::{self, Export, Flavors, MountOk, MountStatus, Mounted};
use nfs_proto::nfs2;
use nfs_proto::program::Reply;
use nfs_proto::rpc::{AUTH_NONE, AUTH_SYS};
use nfs_proto::server::encode_reply;

use super::convert::handle;
use super::{Service, Shared};
use crate::fault::FaultKind;
use crate::fs::{FileKind, FsError};
use crate::limits::MOUNTS_MAX;
use crate::origin::Origin;
use crate::outbox::Outbox;
use crate::sync;

/// The first port that any process may call from. **Source:** Linux, PROT_SOCK.
const RESERVED_PORTS_END: u16 = 1024;

/// Memory needed for the longest line of DUMP.
const MOUNT_LINE_BYTES: u64 = MOUNT_PATH_BYTES_MAX as u64 + 256;

impl Service {
    /// Executes a call of MOUNT v1.
    pub(super) fn answer_mount1(
        &self,
        call: mount1::Call<'_>,
        origin: &Origin,
        xid: u32,
        out: &mut Outbox,
    ) {
        let mount1::Call::Mnt(path) = call else {
            // Everything except MNT is identical in both versions.
            return self.answer_mount(call, origin, xid, out);
        };
        self.counters.mount_calls.add(1);
        let granted = match self.mount(path, origin) {
            Ok(ok) => {
                nfs2::FileHandle::from_slice(ok.root.as_slice()).ok_or(MountStatus::ServerFault)
            }
            Err(status) => Err(status),
        };
        encode_reply(out.head(), xid, &Reply::Mount1(mount1::Reply::Mnt(granted)));
    }

    /// Executes a call of MOUNT v3.
    pub(super) fn answer_mount(
        &self,
        call: mount3::Call<'_>,
        origin: &Origin,
        xid: u32,
        out: &mut Outbox,
    ) {
        self.counters.mount_calls.add(1);
        let peer = origin.peer.ip().to_canonical();
        let reply = |reply: mount3::Reply<'_>, out: &mut Outbox| {
            encode_reply(out.head(), xid, &Reply::Mount3(reply));
        };
        match call {
            mount3::Call::Null => reply(mount3::Reply::Null, out),
            mount3::Call::Mnt(path) => reply(mount3::Reply::Mnt(self.mount(path, origin)), out),
            mount3::Call::Dump => {
                let mounts = self.shared.lock_mounts();
                let lines: Vec<_> = mounts
                    .iter()
                    .map(|(host, dir)| Mounted { host: host.as_bytes(), dir: dir.as_bytes() })
                    .collect();
                reply(mount3::Reply::Dump(&lines), out);
            }
            mount3::Call::Umnt(path) => {
                let path = String::from_utf8_lossy(path);
                self.shared
                    .lock_mounts()
                    .remove(&(peer.to_string(), without_slash(&path).to_owned()));
                reply(mount3::Reply::Umnt, out);
            }
            mount3::Call::Umntall => {
                let host = peer.to_string();
                self.shared.lock_mounts().retain(|(mounted, _)| *mounted != host);
                reply(mount3::Reply::Umntall, out);
            }
            mount3::Call::Export => {
                let mut exports = Vec::new();
                for path in &self.shared.exports {
                    exports.push(Export { dir: path.as_bytes(), groups: &[] });
                }
                reply(mount3::Reply::Export(&exports), out);
            }
        }
    }

    /// Grants an export or a directory below it, and remembers the mount for DUMP.
    fn mount(&self, path: &[u8], origin: &Origin) -> Result<MountOk, MountStatus> {
        let shared = &self.shared;
        if let Some(status) = shared.faults.refuse_mount {
            self.counters.fault(FaultKind::RefusedMount);
            return Err(status);
        }
        if shared.faults.reserved_ports_only && origin.peer.port() >= RESERVED_PORTS_END {
            self.counters.fault(FaultKind::RefusedMount);
            return Err(MountStatus::Access);
        }
        let path = std::str::from_utf8(path).map_err(|_| MountStatus::NoEnt)?;
        let path = without_slash(path);
        // `..` could lead out of the export.
        let is_below = shared.exports.iter().any(|export| is_within(path, without_slash(export)));
        if !is_below || path.split('/').any(|name| name == "..") {
            return Err(MountStatus::NoEnt);
        }
        let (id, attributes) = shared.fs.find_path(path).map_err(|error| match error {
            FsError::NotDirectory => MountStatus::NotDir,
            FsError::NameTooLong => MountStatus::NameTooLong,
            _ => MountStatus::NoEnt,
        })?;
        if attributes.kind != FileKind::Directory {
            return Err(MountStatus::NotDir);
        }
        // The list is for people who run `showmount`; a full list does not refuse mounts.
        let mut mounts = shared.lock_mounts();
        if mounts.len() < shared.mounts_max() {
            let peer = origin.peer.ip().to_canonical();
            mounts.insert((peer.to_string(), path.to_owned()));
        }
        let flavors = Flavors::from_slice(&[AUTH_SYS, AUTH_NONE]);
        Ok(MountOk { root: handle(&shared.fs, id), flavors })
    }
}

impl Shared {
    /// Maximum number of lines in DUMP: a sixteenth of the memory for clients holds them, however
    /// long they are.
    fn mounts_max(&self) -> usize {
        let affordable = self.memory.clients.limit_bytes() / 16 / MOUNT_LINE_BYTES;
        MOUNTS_MAX.min(affordable as usize).max(16)
    }

    fn lock_mounts(&self) -> MutexGuard<'_, std::collections::BTreeSet<(String, String)>> {
        sync::lock(&self.mounts)
    }
}

/// Returns true if a path is an export or below it.
fn is_within(path: &str, export: &str) -> bool {
    path.strip_prefix(export).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn without_slash(path: &str) -> &str {
    path.trim_end_matches('/')
}
