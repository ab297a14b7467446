//! rpcbind, with which NFS v2 and v3 servers register. We start it if it isn't running.

use std::path::{Path, PathBuf};

use super::{folder_undo, program_undo};
use crate::RUN;
use crate::actions::step::Step;
use crate::commands::RunAs;
use crate::host::nfsd::RPCBIND_FILES;
use crate::host::servers;
use crate::undo::Undo;

/// Port of the portmapper. **Source:** RFC 1833, 2.
const PORT: u16 = 111;

/// Whether rpcbind is running on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rpcbind {
    /// A program answers on its port.
    Runs,
    /// It must be started, and stopped afterwards.
    #[default]
    Missing,
}

impl Rpcbind {
    /// Checks whether a program answers on its loopback port.
    pub(crate) fn look() -> Self {
        if servers::answers(PORT) { Self::Runs } else { Self::Missing }
    }

    /// Returns the steps that start it if it is missing.
    pub(crate) fn steps(self) -> Vec<Step> {
        if self == Self::Runs {
            return Vec::new();
        }
        let folder = Path::new(RUN).join("rpcbind");
        // In the foreground (`-f`), so that the process we start is the one we stop later.
        let argv = ["rpcbind", "-f"].map(str::to_owned).to_vec();
        let link = folder.join("rpcbind");
        vec![Step::Folder(folder), Step::Start { link, argv, user: RunAs::Root }, Step::Await(PORT)]
    }

    /// Returns how to stop the rpcbind started by [`Self::steps`] and remove its files.
    pub(crate) fn undo(self) -> Vec<Undo> {
        if self == Self::Runs {
            return Vec::new();
        }
        let mut undo = folder_undo(Path::new("/run/rpcbind"));
        for path in RPCBIND_FILES {
            let path = PathBuf::from(path);
            // An existing file was left by another rpcbind and isn't ours.
            if !path.exists() {
                undo.push(Undo::File { path });
            }
        }
        undo.extend(program_undo(&Path::new(RUN).join("rpcbind"), "rpcbind"));
        undo
    }
}
