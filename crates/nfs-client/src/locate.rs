//! Finds out where a server's services listen and gets the root of an export.
//!
//! The order of the search stands at [`MountOptions::mount_port`].

use std::net::{SocketAddr, ToSocketAddrs};

use nfs_proto::client::File;
use nfs_proto::mount3::{self, MountStatus};
use nfs_proto::nfs3;
use nfs_proto::portmap::{self, Mapping};
use nfs_proto::program::Call;
use nfs_proto::xdr::Reader;
use nfs_proto::{CallError, RpcError};

use crate::control::Control;
use crate::error::{CallFailure, MountError};
use crate::options::MountOptions;

pub(crate) const NFS: &str = "NFS";
const MOUNT: &str = "MOUNT";
const PORTMAPPER: &str = "the portmapper";

/// What MOUNT gave: the root, how much of the path is below it, and where MOUNT listens.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) root: File,
    /// The path that was mounted, as UMNT wants it.
    pub(crate) export: String,
    /// What is left of the path asked for.
    pub(crate) below: String,
    pub(crate) service: SocketAddr,
}

/// Resolves the host and connects to NFS on the first of its addresses that answers.
pub(crate) fn connect_nfs(options: &MountOptions) -> Result<Control, MountError> {
    let mut failure = None;
    for address in resolve(&options.host)? {
        let connected = nfs_port(address, options)
            .and_then(|port| Control::connect(NFS, SocketAddr::new(address.ip(), port), options));
        match connected {
            Ok(control) => return Ok(control),
            // The first address is the preferred one; its failure is the one to report.
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.expect("a name that resolves has at least one address"))
}

/// Calls MNT, at the service that the options and the portmapper lead to.
pub(crate) fn mount_export(nfs: SocketAddr, options: &MountOptions) -> Result<Mounted, MountError> {
    let mut control = connect_mount(nfs, options)?;
    let export = options.export.as_str();
    let server = control.server();
    let status = match call_mnt(&mut control, export)? {
        Ok(root) => {
            let (export, below) = (export.into(), String::new());
            return Ok(Mounted { root, export, below, service: server });
        }
        Err(status) => status,
    };
    if !matches!(status, MountStatus::NoEnt | MountStatus::Access | MountStatus::NotDir) {
        return Err(MountError::Refused { export: export.into(), server, status });
    }
    // The path may lead below an export, which not every server resolves.
    let exports = list_exports(&mut control).ok();
    let above = exports.iter().flatten().filter(|above| is_above(above, export));
    if let Some(above) = above.max_by_key(|above| above.len())
        && let Ok(root) = call_mnt(&mut control, above)?
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

/// Turns a failure of a call into the error of mounting that says most.
pub(crate) fn explain(service: &'static str, failure: CallFailure) -> MountError {
    match failure {
        CallFailure::TimedOut { server, timeout, .. } => {
            MountError::NoAnswer { service, server, timeout }
        }
        CallFailure::Answered {
            server,
            error: CallError::Rpc(RpcError::ProgramMismatch { low, high }),
            ..
        } => MountError::Version { service, server, low, high },
        CallFailure::Answered {
            server,
            error: CallError::Rpc(RpcError::ProgramUnavailable),
            ..
        } => MountError::NotOffered { service, server },
        failure => MountError::Call { service, failure: Box::new(failure) },
    }
}

/// Takes back a MNT. The reply says nothing; servers forget clients by themselves.
pub(crate) fn unmount(mounted: &Mounted, options: &MountOptions) -> Result<(), MountError> {
    let mut control = Control::connect(MOUNT, mounted.service, options)?;
    let call = Call::Mount3(mount3::Call::Umnt(mounted.export.as_bytes()));
    control.call(&call, |_| Ok(())).map_err(|failure| explain(MOUNT, failure))
}

fn resolve(host: &str) -> Result<Vec<SocketAddr>, MountError> {
    let failed = |reason| MountError::Resolve { host: host.into(), reason };
    // An address of version 6 may come in brackets, as in a URL.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<_> = (bare, 0).to_socket_addrs().map_err(failed)?.collect();
    if addresses.is_empty() {
        return Err(failed(std::io::Error::other("it has no address")));
    }
    Ok(addresses)
}

fn nfs_port(address: SocketAddr, options: &MountOptions) -> Result<u16, MountError> {
    if let Some(port) = options.port {
        return Ok(port);
    }
    match ask_portmapper(address, nfs3::PROGRAM, options) {
        Ok(0) => {
            Err(MountError::NotRegistered { service: NFS, server: portmapper(address, options) })
        }
        Ok(port) => Ok(port),
        Err(_) => Ok(nfs3::PORT),
    }
}

fn connect_mount(nfs: SocketAddr, options: &MountOptions) -> Result<Control, MountError> {
    if let Some(port) = options.mount_port {
        return Control::connect(MOUNT, SocketAddr::new(nfs.ip(), port), options);
    }
    if options.port.is_some()
        && let Ok(control) = offers_mount(nfs, options)
    {
        return Ok(control);
    }
    match ask_portmapper(nfs, mount3::PROGRAM, options) {
        Ok(0) => {
            Err(MountError::NotRegistered { service: MOUNT, server: portmapper(nfs, options) })
        }
        Ok(port) => Control::connect(MOUNT, SocketAddr::new(nfs.ip(), port), options),
        Err(_) => offers_mount(nfs, options),
    }
}

/// Connects to MOUNT where NFS is, if it is offered there.
fn offers_mount(nfs: SocketAddr, options: &MountOptions) -> Result<Control, MountError> {
    let mut control = Control::connect(MOUNT, nfs, options)?;
    let call = Call::Mount3(mount3::Call::Null);
    control.call(&call, |_| Ok(())).map_err(|failure| explain(MOUNT, failure))?;
    Ok(control)
}

fn portmapper(server: SocketAddr, options: &MountOptions) -> SocketAddr {
    SocketAddr::new(server.ip(), options.portmap_port)
}

fn ask_portmapper(
    server: SocketAddr,
    program: u32,
    options: &MountOptions,
) -> Result<u16, MountError> {
    let mut control = Control::connect(PORTMAPPER, portmapper(server, options), options)?;
    let mapping = Mapping { program, version: 3, protocol: portmap::PROTOCOL_TCP, port: 0 };
    let call = Call::Portmap(portmap::Call::Getport(mapping));
    let port = control.call(&call, |event| portmap::Reply::decode_getport(Reader::new(event.body)));
    port.map_err(|failure| explain(PORTMAPPER, failure))
}

fn call_mnt(control: &mut Control, path: &str) -> Result<Result<File, MountStatus>, MountError> {
    let call = Call::Mount3(mount3::Call::Mnt(path.as_bytes()));
    let result = control.call(&call, |event| mount3::Reply::decode_mnt(Reader::new(event.body)));
    let result = result.map_err(|failure| explain(MOUNT, failure))?;
    Ok(result.map(|ok| ok.root.into()))
}

fn list_exports(control: &mut Control) -> Result<Vec<String>, CallFailure> {
    control.call(&Call::Mount3(mount3::Call::Export), |event| {
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
