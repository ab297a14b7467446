//! A mounted export, without a kernel mount.
//!
//! [`Mount`] has the root handle, the limits granted by the server, and one blocking connection for
//! setup and cleanup. None of it is used in the measured path. **Source:** RFC 1813 sections 3.3.19
//! and 5.2.1.

use std::net::SocketAddr;
use std::sync::Arc;

use nfs_proto::DecodeError;
use nfs_proto::client::{File, Operation, Outcome, ProtocolVersion};
use nfs_proto::nfs3::Fsinfo;
use nfs_proto::nfs4::{Op, OpCode, OpOk};

use crate::connection::{
    Client4, Control, DelegationCounts, GrantedLimits, SessionSize, Target, addresses,
};
use crate::error::{CallFailure, Difference, MountError, NotTrunked};
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
    /// The addresses of the server.
    paths: Arc<[Arc<Target>]>,
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
        let mut mount = Self::connect_first(options)?;
        mount.paths = find_paths(&mut mount)?.into();
        Ok(mount)
    }

    /// Mounts again through the first address that answers, after this mount's connection was lost.
    /// The addresses were compared before.
    ///
    /// # Errors
    /// [`MountError`] of the first address.
    pub fn reconnect(&self) -> Result<Self, MountError> {
        let mut mounted = self.connect_again(&self.paths[0]);
        for path in &self.paths[1..] {
            if mounted.is_err()
                && let Ok(mount) = self.connect_again(path)
            {
                mounted = Ok(mount);
            }
        }
        mounted
    }

    fn connect_again(&self, path: &Target) -> Result<Self, MountError> {
        let mut mount = Self::connect_first(&path.options)?;
        mount.options = self.options.clone();
        mount.paths = Arc::clone(&self.paths);
        Ok(mount)
    }

    /// Mounts through the first address.
    fn connect_first(options: &MountOptions) -> Result<Self, MountError> {
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
            paths: Arc::from([Arc::clone(control.target())]),
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

    /// Returns the addresses of the NFS service, in the order of the options.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        addresses(&self.paths)
    }

    /// Returns the number of sessions that connections to all addresses need at least: 0 without
    /// sessions, 1 if the addresses share them.
    pub fn session_groups(&self) -> usize {
        if !self.options.version.has_sessions() {
            return 0;
        }
        self.paths.iter().map(|path| path.group + 1).max().unwrap_or(0)
    }

    /// Checks in v3 that a file created through the first address is there at each further address:
    /// a copy of a server may use the same handle for its root. Later versions compare the servers.
    ///
    /// # Errors
    /// [`MountError::NotTrunked`].
    pub fn check_addresses(&mut self, file: File) -> Result<(), MountError> {
        if self.options.version.is_stateful() {
            return Ok(());
        }
        for path in self.paths.clone().iter().skip(1) {
            let mut control = connect_nfs(&path.options)?;
            compare_files(&mut self.control, &mut control, &file)
                .map_err(|failure| explain(NFS, &path.options, failure))?
                .map_err(MountError::NotTrunked)?;
        }
        Ok(())
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

    pub(crate) fn paths(&self) -> &Arc<[Arc<Target>]> {
        &self.paths
    }
}

/// Connects to the further addresses of a mount, and checks that each belongs to the same server.
fn find_paths(mount: &mut Mount) -> Result<Vec<Arc<Target>>, MountError> {
    let first = mount.server();
    let mut paths = vec![Arc::clone(mount.control.target())];
    for address in &mount.options.more_addresses.clone() {
        let options = at_address(&mount.options, address);
        let mut control = connect_nfs(&options)?;
        let server = control.server();
        if addresses(&paths).any(|known| known == server) {
            return Err(MountError::SameAddress { address: address.clone(), server });
        }
        let found = match &mount.source {
            Source::Client(client, _) => client.find_group(&mut control, first),
            Source::Mounted(_) => compare_files(&mut mount.control, &mut control, &mount.root),
        };
        let group = found
            .map_err(|failure| explain(NFS, &options, failure))?
            .map_err(MountError::NotTrunked)?;
        paths.push(Arc::new(Target { group, ..control.target().as_ref().clone() }));
    }
    Ok(paths)
}

/// Returns the options of a mount with another address of its server.
fn at_address(options: &MountOptions, address: &str) -> MountOptions {
    let split = address.rsplit_once(':').filter(|(host, _)| {
        // An IPv6 address without brackets has no port.
        host.ends_with(']') || !host.contains(':')
    });
    let (host, port) = match split {
        Some((host, port)) => (host, port.parse().ok()),
        None => (address, options.port),
    };
    MountOptions { host: host.to_owned(), port, more_addresses: Vec::new(), ..options.clone() }
}

/// Compares a file with what a further address has under the same handle. Without sessions, all
/// addresses belong to one group.
fn compare_files(
    of_first: &mut Control,
    control: &mut Control,
    file: &File,
) -> Result<Result<usize, NotTrunked>, CallFailure> {
    let (first, server) = (of_first.server(), control.server());
    let of_first = get_identity(of_first, file)?;
    match get_identity(control, file) {
        Ok(of_other) if of_other == of_first => Ok(Ok(0)),
        Ok(of_other) => {
            let why = Difference::FileSystem { of_first, of_other };
            Ok(Err(NotTrunked { first, server, why }))
        }
        Err(failure) => match failure.status() {
            Some(status) => {
                let why = Difference::Handle { status };
                Ok(Err(NotTrunked { first, server, why }))
            }
            None => Err(failure),
        },
    }
}

/// Returns the fsid and fileid of a file.
fn get_identity(control: &mut Control, file: &File) -> Result<(u64, u64), CallFailure> {
    control.operate(&Operation::Getattr { file }, |event| match event.result {
        Ok(Outcome::Attributes(found)) => Ok((found.fsid, found.fileid)),
        _ => Err(DecodeError::BadValue { what: "GETATTR", value: 0 }),
    })
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
