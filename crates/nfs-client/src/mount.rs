//! A mounted export, without a mount.
//!
//! [`Mount`] holds the root handle, what the server granted, and one blocking connection for
//! set-up and clean-up. Nothing of it is in the measured path.
//! **Source:** RFC 1813 sections 3.3.19 and 5.2.1.

use std::net::SocketAddr;
use std::sync::Arc;

use model::Proto;
use nfs_proto::DecodeError;
use nfs_proto::client::{File, OpenAccess, Operation, Outcome, ProtocolVersion};
use nfs_proto::nfs3::Fsinfo;
use nfs_proto::nfs4::{Op, OpCode, OpOk};

use crate::client4::{Client4, Granted};
use crate::connection::Target;
use crate::control::Control;
use crate::error::{CallFailure, MountError};
use crate::export::{self, Mounted};
use crate::locate::{self, NFS};
use crate::options::MountOptions;

/// An export that was mounted over the network.
#[derive(Debug)]
pub struct Mount {
    pub(crate) control: Control,
    options: MountOptions,
    source: Source,
    root: File,
    fsinfo: Fsinfo,
    rsize: u32,
    wsize: u32,
    congestion_control: Option<String>,
}

/// The origin of the root.
#[derive(Debug)]
enum Source {
    /// The MOUNT service.
    Mounted(Box<Mounted>),
    /// The server's own root, by a client of version 4.
    Client(Arc<Client4>, Granted),
}

impl Mount {
    /// Resolves the host, finds its services, mounts the export, walks to the directory requested
    /// and agrees on transfer sizes. Blocks, for at most a few times the timeout.
    ///
    /// # Errors
    /// [`MountError`], whose message says what to look at.
    pub fn connect(options: &MountOptions) -> Result<Self, MountError> {
        if options.version.is_stateful() && options.proto == Proto::Udp {
            return Err(MountError::NoUdp { version: options.version });
        }
        let mut control = locate::connect_nfs(options)?;
        let server = control.server();
        let failed = |failure| locate::explain(NFS, options, failure);
        let (mut root, source) = if options.version.is_stateful() {
            let name = &options.identity.machine_name;
            let client = Client4::introduce(&mut control, name).map_err(failed)?;
            let granted = client.join(&mut control).map_err(failed)?;
            let root = server_root(&mut control).map_err(failed)?;
            let root = walk(&mut control, root, &options.export, options)?;
            (root, Source::Client(Arc::new(client), granted))
        } else {
            let mounted = export::mount(server, options)
                .map_err(|error| blame_version(&mut control, options, error))?;
            let root = walk(&mut control, mounted.root, &mounted.below, options)?;
            (root, Source::Mounted(Box::new(mounted)))
        };
        let mut fsinfo = call_fsinfo(&mut control, &root).map_err(failed)?;
        if let Source::Client(_, granted) = &source {
            let least = |stated: u32, max: u32| if stated == 0 { max } else { stated.min(max) };
            fsinfo.read_bytes_max = least(fsinfo.read_bytes_max, granted.read_bytes);
            fsinfo.write_bytes_max = least(fsinfo.write_bytes_max, granted.write_bytes);
        }
        root = walk(&mut control, root, &options.subdir, options)?;
        let congestion_control = control
            .connection()
            .transport()
            .congestion_control()
            .map_err(|reason| MountError::Socket { server, reason })?;
        Ok(Self {
            control,
            source,
            root,
            rsize: options.granted(options.rsize, fsinfo.read_bytes_max),
            wsize: options.granted(options.wsize, fsinfo.write_bytes_max),
            fsinfo,
            congestion_control,
            options: options.clone(),
        })
    }

    /// Returns the directory that was requested.
    pub fn root(&self) -> File {
        self.root
    }

    /// Returns the version of NFS that is spoken.
    pub fn version(&self) -> ProtocolVersion {
        self.options.version
    }

    /// Returns the READ size in effect, in bytes: what was queried, what the server allows, or what
    /// version and transport can carry, whichever is least.
    pub fn rsize(&self) -> u32 {
        self.rsize
    }

    /// Returns the WRITE size in effect, in bytes.
    pub fn wsize(&self) -> u32 {
        self.wsize
    }

    /// Returns the address of the NFS service.
    pub fn server(&self) -> SocketAddr {
        self.control.server()
    }

    /// Returns the file system's limits, as the server stated them; 0 where it states none.
    pub fn fsinfo(&self) -> &Fsinfo {
        &self.fsinfo
    }

    /// Returns the TCP congestion control in effect, as the system stated it; `None` over UDP.
    pub fn congestion_control(&self) -> Option<&str> {
        self.congestion_control.as_deref()
    }

    /// Returns what was requested.
    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// Tells the server that the export is no longer in use.
    ///
    /// # Errors
    /// [`MountError`] when MOUNT can't be reached any more, which harms nothing.
    pub fn unmount(mut self) -> Result<(), MountError> {
        match &self.source {
            Source::Mounted(mounted) => export::unmount(mounted, &self.options),
            Source::Client(client, _) => {
                let left = client.leave(&mut self.control);
                left.map_err(|failure| locate::explain(NFS, &self.options, failure))
            }
        }
    }

    /// Returns the client that connections of version 4 belong to.
    pub(crate) fn client(&self) -> Option<&Arc<Client4>> {
        if let Source::Client(client, _) = &self.source { Some(client) } else { None }
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        self.control.target()
    }
}

/// Says that NFS has other versions, where that is why MOUNT has no door for this one.
fn blame_version(control: &mut Control, options: &MountOptions, error: MountError) -> MountError {
    let no_door = matches!(error, MountError::NotOffered { .. } | MountError::Version { .. });
    if !no_door {
        return error;
    }
    match control.operate(&Operation::Null, |_| Ok(())) {
        Ok(()) => error,
        Err(failure) => match locate::explain(NFS, options, failure) {
            version @ MountError::Version { .. } => version,
            _ => error,
        },
    }
}

/// Calls FSINFO; version 2 has none, and one limit that is known.
pub(crate) fn call_fsinfo(control: &mut Control, root: &File) -> Result<Fsinfo, CallFailure> {
    if control.version() == ProtocolVersion::V2 {
        // A server that speaks it at all answers this.
        control.operate(&Operation::Getattr { file: root }, |_| Ok(()))?;
        return Ok(Fsinfo {
            file_bytes_max: nfs_proto::nfs2::FILE_BYTES_MAX.into(),
            ..Fsinfo::default()
        });
    }
    control.operate(&Operation::Fsinfo { root }, |event| match event.result {
        Ok(Outcome::Fsinfo(fsinfo)) => Ok(fsinfo),
        _ => Err(DecodeError::BadValue { what: "FSINFO", value: 0 }),
    })
}

/// Gets the root of all that a server of version 4 exports.
fn server_root(control: &mut Control) -> Result<File, CallFailure> {
    control.compound(&[Op::Putrootfh, Op::Getfh], |event| match event.result_of(OpCode::Getfh)? {
        OpOk::Getfh { file } => Ok(file.into()),
        _ => Err(DecodeError::BadValue { what: "GETFH", value: 0 }.into()),
    })
}

/// Looks a name up by LOOKUP.
pub(crate) fn call_lookup(
    control: &mut Control,
    dir: &File,
    name: &[u8],
) -> Result<File, CallFailure> {
    control.operate(&Operation::Lookup { dir, name }, |event| {
        event.file.copied().ok_or(DecodeError::BadValue { what: "handle_follows", value: 0 })
    })
}

/// Calls OPEN of a file that exists.
pub(crate) fn call_open(
    control: &mut Control,
    dir: &File,
    name: &[u8],
    access: OpenAccess,
) -> Result<File, CallFailure> {
    control.operate(&Operation::Open { dir, name, access }, |event| {
        event.file.copied().ok_or(DecodeError::BadValue { what: "handle_follows", value: 0 })
    })
}

fn walk(
    control: &mut Control,
    from: File,
    path: &str,
    options: &MountOptions,
) -> Result<File, MountError> {
    let mut dir = from;
    for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
        dir = call_lookup(control, &dir, name.as_bytes()).map_err(|reason| {
            if reason.answered().is_some_and(|error| error.status().is_some()) {
                MountError::Walk { path: path.into(), name: name.into(), reason: Box::new(reason) }
            } else {
                locate::explain(NFS, options, reason)
            }
        })?;
    }
    Ok(dir)
}
