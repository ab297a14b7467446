//! The machines of a test program, and the states that its tests need.
//!
//! Main type: [`Machines`], a copy of machines that were booted and saved. A test specifies the
//! [`Stage`] it needs; if the machines are in another one, or a test has failed in it, they are
//! resumed as saved and the stage is set up. So tests depend neither on their order nor on each
//! other.
//!
//! Each program has its own machines, network and directory, so that several can run at once.

use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use super::lab::{Lab, NewLab, TemporaryLab};
use super::machine::Suite;
use super::{lab_folder, prepare, saved};
use crate::check;

/// Client with kernel 6.12.
pub const NEW: &str = "client1";
/// Client with kernel 6.1.
pub const OLD: &str = "client2";
/// A restarted server forgets what v4 clients still have open: our runs that keep their files end
/// without closing them, and the file system would stay busy.
pub const FRESH_EXPORT: &str = "lab-nfsd 8 && lab-export ext4";
/// Prints the state of a machine: its processes, which hang in the kernel and where, mounts and
/// exports, and the latest kernel messages.
const STATE_OF_A_MACHINE: &str = "\
    cat /proc/uptime; ps -e -o pid= -o stat= -o wchan:30= -o args= | grep -v '\\[.*\\]$'; \
    for id in $(ps -e -o pid= -o stat= -o comm= | \
        awk '$2 ~ /D/ || $3 ~ /nfs|lockd|mount|lab_real/ { print $1 }'); do \
        echo \"-- $id $(cat /proc/$id/comm)\"; cat /proc/$id/stack; done; \
    grep -E 'nfs|dfsbench|export' /proc/mounts; cd /proc/fs/nfsd && \
    grep . threads versions v4_end_grace nfsv4gracetime clients/*/info clients/*/states; \
    exportfs -s; dmesg | tail -n 20; true";

/// A state of the machines; `K` is something that lasts as long as it does, such as a server next
/// to them.
pub struct Stage<K> {
    /// Distinguishes it from the others of its program.
    pub name: &'static str,
    /// Brings the machines into it from their saved state.
    pub set_up: fn(&'static Lab) -> Result<K>,
}

/// The stage that the machines are in.
struct CurrentStage<K> {
    name: &'static str,
    kept: K,
}

/// The machines of a program; without a current stage they must be resumed first.
pub struct Machines<K> {
    lab: TemporaryLab,
    current: Mutex<Option<CurrentStage<K>>>,
}

impl<K> Machines<K> {
    /// Copies the server with kernel 6.12 and this number of its clients, [`NEW`] and [`OLD`], to
    /// the laboratory with this name.
    pub fn copy(name: &str, clients: usize) -> Result<Self> {
        prepare()?;
        let wanted = NewLab {
            server: Suite::Trixie,
            clients: vec![Suite::Trixie, Suite::Bookworm],
            mtu: 1500,
            shared_mib: None,
        };
        let lab = saved::copy_booted(&lab_folder(name), &wanted, 1 + clients)?;
        Ok(Self { lab: TemporaryLab::new(lab), current: Mutex::new(None) })
    }

    /// Runs a check in a stage.
    ///
    /// # Errors
    /// Those of the check, or if the stage can't be set up.
    pub fn run_in(
        &'static self,
        stage: &Stage<K>,
        check: impl FnOnce(&'static Lab, &K) -> Result<()>,
    ) -> Result<()> {
        let mut guarded = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // However the check ends early, even by a panic, the next one finds no current stage.
        let current = match guarded.take() {
            Some(current) if current.name == stage.name => current,
            earlier => {
                // Everything that lasted as long as the previous stage ends before its machines do.
                drop(earlier);
                check::set_up(|| self.enter(stage))?
            }
        };
        let outcome = check(&self.lab, &current.kept);
        if outcome.is_ok() {
            *guarded = Some(current);
        } else {
            print_states(&self.lab);
        }
        outcome
    }

    /// Resumes the machines as saved, and sets up a stage.
    fn enter(&'static self, stage: &Stage<K>) -> Result<CurrentStage<K>> {
        self.lab.rewind()?;
        Ok(CurrentStage { name: stage.name, kept: (stage.set_up)(&self.lab)? })
    }
}

fn print_states(lab: &Lab) {
    for host in lab.names() {
        let state = lab.ssh(host, STATE_OF_A_MACHINE);
        println!("{host}:\n{}", state.unwrap_or_else(|error| format!("{error:#}")));
    }
}
