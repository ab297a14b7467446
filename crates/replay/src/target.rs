//! The target of a replay: an NFS server or a directory of this host.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use engine::Clock;
use engine::target::mount_options;
use nfs_client::MountOptions;
use nfs_client::proto::client::ProtocolVersion;
use nfs_server::{Server, ServerConfig, ServerError};
use plan::{Surroundings, TargetArg};

use crate::directory::{DirectoryReplayer, DirectoryTree, TRANSFER_BYTES};
use crate::lanes::Pace;
use crate::operation::Files;
use crate::outcome::Record;
use crate::plan::ReplayPlan;
use crate::replayer::{ReplayError, ReplaySettings, Replayer};
use crate::target_kind::TargetKind;

/// Why a trace can't be replayed on a target.
#[derive(Debug, thiserror::Error)]
pub enum NamedTargetError {
    /// Its name or its version can't be used.
    #[error("{0}")]
    Unusable(String),
    /// Its name can't be parsed.
    #[error(transparent)]
    Name(#[from] plan::PlanError),
    /// The server of this process can't be started.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// A target as named by the user, with the server if this process runs it.
pub enum NamedTarget {
    /// An NFS server.
    Server(Box<MountOptions>, Option<Box<Server>>),
    /// A directory of this host.
    Directory(PathBuf),
}

impl NamedTarget {
    /// Finds a target, and starts the in-memory server if that is the target.
    ///
    /// # Errors
    /// If a trace cannot be replayed on the target, or the version is unknown.
    pub fn find(
        text: &str,
        nfsvers: Option<&str>,
        around: &Surroundings,
    ) -> Result<Self, NamedTargetError> {
        let target = plan::parse_target(text)?;
        let (address, server) = match &target {
            TargetArg::Nfs(address) => (address, None),
            TargetArg::Embedded(address) => {
                let config = ServerConfig {
                    // Some hosts default to bbr, which paces a loopback stream.
                    congestion_control: Some("cubic".to_owned()),
                    udp: false,
                    ..ServerConfig::default()
                };
                (address, Some(Server::start(config)?))
            }
            TargetArg::Ready(model::Target::Directory { path }) if nfsvers.is_none() => {
                return Ok(Self::Directory(path.clone()));
            }
            TargetArg::Ready(model::Target::Directory { .. }) => {
                return Err(NamedTargetError::Unusable(format!(
                    "--nfsvers: `{text}` is a directory and is not accessed over NFS (hint: set \
                     the version of a mounted file system with mount)"
                )));
            }
            _ => {
                return Err(NamedTargetError::Unusable(format!(
                    "`{text}` is neither an NFS server nor a directory (hint: use \
                     nfs://host/export, embedded, or a path such as /mnt/nfs)"
                )));
            }
        };
        let mut options = mount_options(&address.resolve(around));
        if let Some(server) = &server {
            let port = Some(server.address().port());
            options.port = port;
            options.mount_port = port;
        }
        if let Some(text) = nfsvers {
            options.version = text.parse::<ProtocolVersion>().map_err(|_| {
                NamedTargetError::Unusable(format!(
                    "--nfsvers: `{text}` is not an NFS version (hint: use 2, 3, 4.0, 4.1 or 4.2)"
                ))
            })?;
        }
        Ok(Self::Server(Box::new(options), server.map(Box::new)))
    }

    /// Stops the in-memory server, if there is one.
    pub fn end(self) {
        if let Self::Server(_, Some(server)) = self {
            server.shutdown();
        }
    }
}

/// A target that is in use.
pub enum OpenTarget<'a> {
    /// A mounted export.
    Server(Box<Replayer<'a>>),
    /// An open directory.
    Directory(DirectoryReplayer<'a>),
}

/// A tree that was built.
pub(crate) enum Tree {
    /// The handles of a server.
    Handles(Files),
    /// The names in a directory.
    Directory(DirectoryTree),
}

impl<'a> OpenTarget<'a> {
    /// Mounts an export or opens a directory.
    pub fn connect(
        named: &NamedTarget,
        clock: &'a dyn Clock,
        stop: &'a AtomicBool,
    ) -> Result<Self, ReplayError> {
        Ok(match named {
            NamedTarget::Server(options, _) => {
                Self::Server(Box::new(Replayer::connect(options, clock, stop)?))
            }
            NamedTarget::Directory(path) => {
                Self::Directory(DirectoryReplayer::open(path, clock, stop)?)
            }
        })
    }

    /// Returns the kind of the target.
    pub fn kind(&self) -> TargetKind {
        match self {
            Self::Server(replayer) => TargetKind::Nfs(replayer.version()),
            Self::Directory(_) => TargetKind::Directory,
        }
    }

    /// Returns the largest READ and WRITE, in bytes.
    pub fn transfer_bytes(&self) -> [u32; 2] {
        match self {
            Self::Server(replayer) => replayer.transfer_bytes(),
            Self::Directory(_) => [TRANSFER_BYTES; 2],
        }
    }

    /// Builds the tree of a plan.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub(crate) fn prepare(
        &mut self,
        plan: &mut ReplayPlan,
        settings: &ReplaySettings,
    ) -> Result<Tree, ReplayError> {
        match self {
            Self::Server(replayer) => Ok(Tree::Handles(replayer.prepare(plan, settings)?)),
            Self::Directory(replayer) => Ok(Tree::Directory(replayer.prepare(plan, settings)?)),
        }
    }

    /// Replays a plan on its tree.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub(crate) fn replay(
        &mut self,
        plan: &ReplayPlan,
        tree: Tree,
        pace: Pace,
    ) -> Result<Record, ReplayError> {
        match (self, tree) {
            (Self::Server(replayer), Tree::Handles(mut files)) => {
                replayer.replay(plan, &mut files, pace)
            }
            (Self::Directory(replayer), Tree::Directory(mut tree)) => {
                replayer.replay(plan, &mut tree, pace)
            }
            _ => unreachable!("the tree belongs to the target"),
        }
    }

    /// Removes the tree.
    ///
    /// # Errors
    /// [`ReplayError`] with what could not be removed.
    pub(crate) fn remove(&mut self, directory: &str) -> Result<(), ReplayError> {
        match self {
            Self::Server(replayer) => replayer.remove(directory),
            Self::Directory(replayer) => replayer.remove(directory),
        }
    }

    /// Ends the use of the target.
    pub fn disconnect(self) {
        if let Self::Server(replayer) = self {
            // The server eventually forgets this client, whatever it answers here.
            let _ = replayer.disconnect();
        }
    }
}
