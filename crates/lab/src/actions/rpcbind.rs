//! The rpcbind that servers of NFS v2 and v3 register with: started where none runs.

use std::path::{Path, PathBuf};

use super::{folder_undo, program_undo};
use crate::RUN;
use crate::commands::RunAs;
use crate::host::nfsd::RPCBIND_FILES;
use crate::servers;
use crate::step::Step;
use crate::undo::Undo;

/// Port of the portmapper. **Source:** RFC 1833, 2.
const PORT: u16 = 111;

/// Whether rpcbind runs on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rpcbind {
    /// A program answers on its port.
    Runs,
    /// It has to be started, and ended afterwards.
    #[default]
    Missing,
}

impl Rpcbind {
    /// Looks whether a program answers on its port of the loopback.
    pub fn look() -> Self {
        if servers::answers(PORT) { Self::Runs } else { Self::Missing }
    }

    /// Returns the steps that start it where it is missing.
    pub fn steps(self) -> Vec<Step> {
        if self == Self::Runs {
            return Vec::new();
        }
        let folder = Path::new(RUN).join("rpcbind");
        // In the foreground (`-f`): the process that is started is the one that is ended later.
        let argv = ["rpcbind", "-f"].map(str::to_owned).to_vec();
        let link = folder.join("rpcbind");
        vec![Step::Folder(folder), Step::Start { link, argv, user: RunAs::Root }, Step::Await(PORT)]
    }

    /// Returns how the rpcbind that [`Self::steps`] starts is ended, and its files are removed.
    pub fn undo(self) -> Vec<Undo> {
        if self == Self::Runs {
            return Vec::new();
        }
        let mut undo = folder_undo(Path::new("/run/rpcbind"));
        for path in RPCBIND_FILES {
            let path = PathBuf::from(path);
            // A file that is there already was left by another rpcbind, and isn't ours.
            if !path.exists() {
                undo.push(Undo::File { path });
            }
        }
        undo.extend(program_undo(&Path::new(RUN).join("rpcbind"), "rpcbind"));
        undo
    }
}
