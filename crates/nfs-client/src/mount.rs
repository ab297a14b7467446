//! A mounted export, without a kernel mount.
//!
//! [`Mount`] has the root handle, the limits granted by the server, and one blocking connection for
//! setup and cleanup. None of it is used in the measured path. **Source:** RFC 1813 sections 3.3.19
//! and 5.2.1.

use std::net::SocketAddr;
use std::sync::Arc;

use nfs_proto::DecodeError;
use nfs_proto::client::{File, Operation, ProtocolVersion};
use nfs_proto::nfs3::Fsinfo;
use nfs_proto::nfs4::{Op, OpCode, OpOk};

use crate::connection::{Client4, Control, DelegationCounts, GrantedLimits, SessionSize, Target};
use crate::error::{CallFailure, MountError};
use crate::export::{MountedExport, mount_export, unmount_export};
use crate::locate::connect_nfs;
use crate::options::{MountOptions, Proto};
use crate::service::{NFS, explain};

/// An export accessed over the network.
///
/// # Examples
///
/// Connects to a server, writes a file and reads it:
/// ```
/// use nfs_client::proto::nfs3::StableHow;
/// use nfs_client::{Mount, MountOptions};
/// # use nfs_server::{Server, ServerConfig};
///
/// # let server = Server::start(ServerConfig::default())?;
/// # let port = server.address().port();
/// let mut options = MountOptions::new("127.0.0.1", "/export");
/// options.port = Some(port); // where the server has no portmapper
/// let mut mount = Mount::connect(&options)?;
/// let root = mount.root();
/// let file = mount.create(root, "greeting")?;
/// mount.write(file, 0, b"hello", StableHow::FileSync)?;
/// assert_eq!(mount.read(file, 0, 5)?, b"hello");
/// assert_eq!(mount.readdir(root)?[0].name, b"greeting");
/// mount.unmount()?;
/// # server.shutdown();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// Where the root came from.
#[derive(Debug)]
enum Source {
    /// The MOUNT service.
    Mounted(Box<MountedExport>),
    /// The server's own root, obtained by a v4 client.
    Client(Arc<Client4>, GrantedLimits),
}

impl Mount {
    /// Resolves the host, finds its services, mounts the export, walks to the requested directory
    /// and determines the transfer sizes. Blocks, for at most a few times the timeout.
    ///
    /// # Errors
    /// [`MountError`], whose message says what to check.
    pub fn connect(options: &MountOptions) -> Result<Self, MountError> {
        if options.version.is_stateful() && options.proto == Proto::Udp {
            return Err(MountError::NoUdp { version: options.version });
        }
        // Version 4 needs no MOUNT: its exports are in one tree below the server's own root, which
        // PUTROOTFH selects. Versions 2 and 3 get the root handle from the MOUNT service.
        let mut control = connect_nfs(options)?;
        let server = control.server();
        let (mut root, source) = if options.version.is_stateful() {
            let (root, client, granted) =
                join_client(&mut control).map_err(|failure| explain(NFS, options, failure))?;
            let root = walk_path(&mut control, root, &options.export, options)?;
            (root, Source::Client(Arc::new(client), granted))
        } else {
            let mounted = mount_export(server, options)
                .map_err(|error| blame_version(&mut control, options, error))?;
            let root = walk_path(&mut control, mounted.root, &mounted.below, options)?;
            (root, Source::Mounted(Box::new(mounted)))
        };
        let mut fsinfo = control.fsinfo(&root).map_err(|failure| explain(NFS, options, failure))?;
        // A session limits its messages for all file systems; FSINFO only applies to one.
        if let Source::Client(_, granted) = &source {
            fsinfo.read_bytes_max = lesser_limit(fsinfo.read_bytes_max, granted.read_bytes);
            fsinfo.write_bytes_max = lesser_limit(fsinfo.write_bytes_max, granted.write_bytes);
        }
        root = walk_path(&mut control, root, &options.subdir, options)?;
        let congestion_control = control
            .connection()
            .transport()
            .congestion_control()
            .map_err(|reason| MountError::Socket { server, reason })?;
        Ok(Self {
            control,
            source,
            root,
            rsize: options.granted_bytes(options.rsize, fsinfo.read_bytes_max),
            wsize: options.granted_bytes(options.wsize, fsinfo.write_bytes_max),
            fsinfo,
            congestion_control,
            options: options.clone(),
        })
    }

    /// Returns the requested directory.
    pub fn root(&self) -> File {
        self.root
    }

    /// Returns the NFS version in use.
    pub fn version(&self) -> ProtocolVersion {
        self.options.version
    }

    /// Returns the effective READ size, in bytes: the smallest of the requested size, the server's
    /// limit, and the maximum of version and transport.
    pub fn rsize(&self) -> u32 {
        self.rsize
    }

    /// Returns the effective WRITE size, in bytes.
    pub fn wsize(&self) -> u32 {
        self.wsize
    }

    /// Returns the address of the NFS service.
    pub fn server(&self) -> SocketAddr {
        self.control.server()
    }

    /// Returns the file system's limits as reported by the server; 0 for those it does not report.
    pub fn fsinfo(&self) -> &Fsinfo {
        &self.fsinfo
    }

    /// Returns the effective TCP congestion control as reported by the system; `None` over UDP.
    pub fn congestion_control(&self) -> Option<&str> {
        self.congestion_control.as_deref()
    }

    /// Returns the options of the mount.
    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// Tells the server that the export is no longer in use.
    ///
    /// # Errors
    /// [`MountError`] if MOUNT is no longer reachable, which does no harm.
    pub fn unmount(mut self) -> Result<(), MountError> {
        match &self.source {
            Source::Mounted(mounted) => unmount_export(mounted, &self.options),
            Source::Client(client, _) => {
                self.control.return_delegations();
                client
                    .leave(&mut self.control)
                    .map_err(|failure| explain(NFS, &self.options, failure))
            }
        }
    }

    /// Returns all delegations of this mount's client, and returns the counts so far, including
    /// those of its additional clients.
    pub fn return_delegations(&mut self) -> DelegationCounts {
        let Source::Client(client, _) = &self.source else { return DelegationCounts::default() };
        self.control.return_delegations();
        client.delegations().counters().read()
    }

    /// Returns the client of v4 connections.
    pub(crate) fn client(&self) -> Option<&Arc<Client4>> {
        if let Source::Client(client, _) = &self.source { Some(client) } else { None }
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        self.control.target()
    }
}

/// Reports that NFS has other versions, if that is why MOUNT is missing for this one.
fn blame_version(control: &mut Control, options: &MountOptions, error: MountError) -> MountError {
    let no_door = matches!(error, MountError::NotOffered { .. } | MountError::Version { .. });
    if !no_door {
        return error;
    }
    // The portmapper may have MOUNT only in other versions; an error about the versions of NFS
    // itself is more helpful.
    let Err(failure) = control.operate(&Operation::Null, |_| Ok(())) else { return error };
    match explain(NFS, options, failure) {
        version @ MountError::Version { .. } => version,
        _ => error,
    }
}

/// Makes a connection part of a new v4 client, and returns the server's root.
fn join_client(control: &mut Control) -> Result<(File, Client4, GrantedLimits), CallFailure> {
    let name = control.target().options.identity.machine_name.clone();
    let size = SessionSize::for_mount(control.target().options.session);
    let client = Client4::introduce(control, &name, size, Arc::default())?;
    let granted = client.join(control)?;
    Ok((get_server_root(control)?, client, granted))
}

/// Returns the lesser of two limits; the first may be missing.
fn lesser_limit(stated: u32, max: u32) -> u32 {
    if stated == 0 { max } else { stated.min(max) }
}

/// Gets the root of a v4 server's exports.
fn get_server_root(control: &mut Control) -> Result<File, CallFailure> {
    control.compound(&[Op::Putrootfh, Op::Getfh], |event| match event.result_of(OpCode::Getfh)? {
        OpOk::Getfh { file } => Ok(file.into()),
        _ => Err(DecodeError::BadValue { what: "GETFH", value: 0 }.into()),
    })
}

/// Walks down a path with LOOKUP, name by name.
fn walk_path(
    control: &mut Control,
    from: File,
    path: &str,
    options: &MountOptions,
) -> Result<File, MountError> {
    let mut dir = from;
    for name in path.split('/') {
        if name.is_empty() || name == "." {
            continue;
        }
        dir = match control.lookup(&dir, name.as_bytes()) {
            Ok(file) => file,
            // The server has answered: the problem is the name, not the connection.
            Err(reason) if reason.status().is_some() => {
                return Err(MountError::Walk {
                    path: path.into(),
                    name: name.into(),
                    reason: Box::new(reason),
                });
            }
            Err(reason) => return Err(explain(NFS, options, reason)),
        };
    }
    Ok(dir)
}
