//! MOUNT v3 and the portmapper: how clients find the way in.
//!
//! MNT grants an export or a directory below it. The portmapper tells of this server's own
//! programs and takes no registrations.
//!
//! **Source:** RFC 1813 section 5, RFC 1833 section 3.

use std::net::IpAddr;
use std::sync::{MutexGuard, PoisonError};

use nfs_proto::RpcError;
use nfs_proto::mount3::{self, Export, Flavors, MountOk, MountStatus, Mounted};
use nfs_proto::nfs3;
use nfs_proto::portmap::{self, Mapping, PROTOCOL_TCP};
use nfs_proto::program::Reply;
use nfs_proto::rpc::{AUTH_NONE, AUTH_SYS};
use nfs_proto::server::{encode_refusal, encode_reply};

use super::convert::handle;
use super::{Origin, Service, Shared};
use crate::fault::FaultKind;
use crate::fs::{FileKind, FsError};
use crate::limits::MOUNTS_MAX;
use crate::outbox::Outbox;

impl Service {
    /// Carries out a call of MOUNT.
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

    /// Carries out a call of the portmapper.
    pub(super) fn answer_portmap(&self, call: portmap::Call<'_>, xid: u32, out: &mut Outbox) {
        self.counters.portmap_calls.add(1);
        let mappings = self.shared.mappings();
        let reply = match call {
            portmap::Call::Null => portmap::Reply::Null,
            portmap::Call::Set(_) => portmap::Reply::Set(false),
            portmap::Call::Unset(_) => portmap::Reply::Unset(false),
            portmap::Call::Getport(wanted) => {
                let key = |m: &Mapping| (m.program, m.version, m.protocol);
                let found = mappings.iter().find(|mapping| key(mapping) == key(&wanted));
                portmap::Reply::Getport(found.map_or(0, |mapping| mapping.port))
            }
            portmap::Call::Dump => portmap::Reply::Dump(&mappings),
            // Passing calls on would make this server a reflector.
            portmap::Call::Callit(_) => {
                return encode_refusal(out.head(), xid, RpcError::ProcedureUnavailable);
            }
        };
        encode_reply(out.head(), xid, &Reply::Portmap(reply));
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

    fn mappings(&self) -> Vec<Mapping> {
        let mapping = |program, version, port: u16| Mapping {
            program,
            version,
            protocol: PROTOCOL_TCP,
            port: u32::from(port),
        };
        let own = self.portmap_port.unwrap_or(self.port);
        vec![
            mapping(portmap::PROGRAM, portmap::VERSION, own),
            mapping(nfs3::PROGRAM, nfs3::VERSION, self.port),
            mapping(mount3::PROGRAM, mount3::VERSION, self.port),
        ]
    }
}

fn trimmed(path: &str) -> &str {
    path.trim_end_matches('/')
}
