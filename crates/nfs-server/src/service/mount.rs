//! MOUNT v1 and v3: how clients find the way in.
//!
//! MNT grants an export or a directory below it. Both versions share everything but the form of a
//! granted handle.
//!
//! **Source:** RFC 1094 appendix A, RFC 1813 section 5.

use std::net::IpAddr;
use std::sync::{MutexGuard, PoisonError};

use nfs_proto::mount1;
use nfs_proto::mount3::{self, Export, Flavors, MountOk, MountStatus, Mounted};
use nfs_proto::nfs2;
use nfs_proto::program::Reply;
use nfs_proto::rpc::{AUTH_NONE, AUTH_SYS};
use nfs_proto::server::encode_reply;

use super::convert::handle;
use super::{Origin, Service, Shared};
use crate::fault::FaultKind;
use crate::fs::{FileKind, FsError};
use crate::limits::MOUNTS_MAX;
use crate::outbox::Outbox;

impl Service {
    /// Carries out a call of MOUNT v1.
    pub(super) fn answer_mount1(
        &self,
        call: mount1::Call<'_>,
        origin: &Origin,
        xid: u32,
        out: &mut Outbox,
    ) {
        let mount1::Call::Mnt(path) = call else {
            // All but MNT is the same in both versions, down to the bytes.
            return self.answer_mount(call, origin, xid, out);
        };
        self.counters.mount_calls.add(1);
        let peer = origin.peer.ip().to_canonical();
        if self.shared.faults.refuse_mount.is_some() {
            self.counters.fault(FaultKind::RefusedMount);
        }
        let handle = |ok: MountOk| {
            nfs2::FileHandle::from_slice(ok.root.as_slice()).ok_or(MountStatus::ServerFault)
        };
        let reply = mount1::Reply::Mnt(self.shared.mount(path, peer).and_then(handle));
        encode_reply(out.head(), xid, &Reply::Mount1(reply));
    }

    /// Carries out a call of MOUNT v3.
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
            mount3::Call::Mnt(path) => {
                if self.shared.faults.refuse_mount.is_some() {
                    self.counters.fault(FaultKind::RefusedMount);
                }
                reply(mount3::Reply::Mnt(self.shared.mount(path, peer)), out);
            }
            mount3::Call::Dump => {
                let mounts = self.shared.mounts();
                let lines: Vec<_> = mounts
                    .iter()
                    .map(|(host, dir)| Mounted { host: host.as_bytes(), dir: dir.as_bytes() })
                    .collect();
                reply(mount3::Reply::Dump(&lines), out);
            }
            mount3::Call::Umnt(path) => {
                let path = String::from_utf8_lossy(path);
                self.shared.mounts().remove(&(peer.to_string(), trimmed(&path).to_owned()));
                reply(mount3::Reply::Umnt, out);
            }
            mount3::Call::Umntall => {
                let host = peer.to_string();
                self.shared.mounts().retain(|(mounted, _)| *mounted != host);
                reply(mount3::Reply::Umntall, out);
            }
            mount3::Call::Export => {
                let exports: Vec<_> = self
                    .shared
                    .exports
                    .iter()
                    .map(|path| Export { dir: path.as_bytes(), groups: &[] })
                    .collect();
                reply(mount3::Reply::Export(&exports), out);
            }
        }
    }
}

impl Shared {
    fn mounts(&self) -> MutexGuard<'_, std::collections::BTreeSet<(String, String)>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mount(&self, path: &[u8], peer: IpAddr) -> Result<MountOk, MountStatus> {
        if let Some(status) = self.faults.refuse_mount {
            return Err(status);
        }
        let path = std::str::from_utf8(path).map_err(|_| MountStatus::NoEnt)?;
        let path = trimmed(path);
        let below = |export: &String| {
            path.strip_prefix(trimmed(export)).is_some_and(|r| r.is_empty() || r.starts_with('/'))
        };
        // `..` could lead out of the export.
        if !self.exports.iter().any(below) || path.split('/').any(|name| name == "..") {
            return Err(MountStatus::NoEnt);
        }
        let (id, attributes) = self.fs.find_path(path).map_err(|error| match error {
            FsError::NotDirectory => MountStatus::NotDir,
            FsError::NameTooLong => MountStatus::NameTooLong,
            _ => MountStatus::NoEnt,
        })?;
        if attributes.kind != FileKind::Directory {
            return Err(MountStatus::NotDir);
        }
        let mut mounts = self.mounts();
        if mounts.len() < MOUNTS_MAX {
            mounts.insert((peer.to_string(), path.to_owned()));
        }
        let flavors = Flavors::from_slice(&[AUTH_SYS, AUTH_NONE]);
        Ok(MountOk { root: handle(&self.fs, id), flavors })
    }
}

fn trimmed(path: &str) -> &str {
    path.trim_end_matches('/')
}
