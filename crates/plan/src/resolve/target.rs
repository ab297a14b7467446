//! Turns a target as written into the target of a run.
//!
//! Parts that an address omits come from the surroundings. The matrix fills in the settings of a
//! target, except for those in an address, which are filled in here.

use std::path::PathBuf;

use model::setting::Setting;
use model::{BackendKind, Identity, NfsTarget, Sec, Target, TcpTarget};

use crate::parse::level;
use crate::resolve::surroundings::Surroundings;
use crate::syntax::address::NfsAddress;
use crate::syntax::target::TargetArg;

impl NfsAddress {
    /// Fills in values from the surroundings and the settings of the address, each at its first
    /// level.
    pub fn resolve(&self, around: &Surroundings) -> NfsTarget {
        let mut target = NfsTarget {
            port: self.port,
            more_addresses: self.more_addresses.clone(),
            mount_port: self.mount_port,
            family: self.family,
            identity: Identity {
                sec: self.user.sec.unwrap_or(Sec::Sys),
                uid: self.user.uid.unwrap_or(around.uid),
                gid: self.user.gid.unwrap_or(around.gid),
                groups: self.user.groups.clone(),
                resvport: self.user.resvport,
            },
            tls: Box::new(self.tls.clone()),
            faultless: self.faultless,
            ..NfsTarget::new(&self.host, &self.path)
        };
        for setting in Setting::OF_TARGETS {
            // The transfer size belongs to the run and also applies to mounts.
            if setting != Setting::TransferSize
                && let Some(levels) = self.settings.get(setting)
            {
                level::put_nfs(setting, &mut target.settings, levels[0].value.clone());
            }
        }
        target
    }
}

impl TargetArg {
    /// Fills in values from the surroundings.
    ///
    /// For hosts that we set up, the target is what the backend works on; its location follows from
    /// the run's settings.
    pub(crate) fn resolve(&self, around: &Surroundings, backend: BackendKind) -> Target {
        match self {
            // Files on hosts that we set up belong to root.
            Self::Lab(_) if backend == BackendKind::Nfs => Target::Nfs(NfsTarget::new("", "")),
            Self::Lab(_) if backend == BackendKind::Tcp => {
                Target::Tcp(TcpTarget { host: String::new(), port: None, embedded: false })
            }
            Self::Lab(_) => Target::Directory { path: PathBuf::new() },
            Self::Ready(target) => target.clone(),
            Self::Temporary => Target::Directory { path: around.temp_dir.clone() },
            Self::Nfs(address) => Target::Nfs(address.resolve(around)),
            Self::Embedded(address) => {
                Target::Nfs(NfsTarget { embedded: true, ..address.resolve(around) })
            }
        }
    }
}
