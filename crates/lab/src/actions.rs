//! Actions on this host: a struct of [`model::action`] each, with what is done for it in a file
//! here.
//!
//! Principal type: [`LabAction`], which every action implements: it accepts its texts, looks up the
//! facts that it needs, and from action and facts follow its steps, how they are undone, and the
//! check of what is effective afterwards. So a dry run, which assumes the facts, shows what would
//! be done. The list of actions is [`model::for_each_action`]; nothing here repeats it.

use std::path::{Path, PathBuf};

use model::{Action, EffectiveSettings};

use crate::error::LabError;
use crate::step::Step;
use crate::undo::Undo;

mod accept;
mod clock_step;
mod cores;
mod cpu_frequency;
mod crypt;
mod cut;
mod export;
mod fill;
mod format;
mod ganesha;
mod loop_file;
mod mount;
mod mtu;
mod nfs_mount;
mod nfsd;
mod nfsd_stop;
mod own_server;
mod packet_tunnel;
mod raid;
mod ram;
mod read_ahead;
mod remote_mount;
mod rpcbind;
mod service;
mod shape;
mod storage;
mod sysctl;
mod system_counters;
mod system_crash;
mod try_paths;
mod tunnel;
mod unfs3;

/// The layer of a host's set-up that an action makes, as far as invalidating caches and keeping
/// steps between runs need to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// A setting, a device or a service that is never redone to invalidate caches.
    Base,
    /// A file system that is made again where runs ask for that; never to invalidate caches.
    FileSystem,
    /// The mount of a file system that the server keeps files on.
    Storage,
    /// The same in memory, which a remount would empty.
    Memory,
    /// A server that is started again to invalidate its caches.
    Server,
    /// A directory that a running server serves.
    Export,
    /// A client's part, which builds on the server of another host.
    Client,
}

/// One kind of action on this host.
pub trait LabAction {
    /// The facts about the host that the action needs; `()` for none.
    type Facts;

    /// Parses every text of the action that ends in an argument or a file of root's.
    ///
    /// The plan was checked by the same parsers when it was read, but an agent that runs as root
    /// doesn't trust the text that its controller sends. Nothing here looks at the host.
    ///
    /// # Errors
    /// Where one of them isn't what it may be.
    fn accept(&self) -> Result<(), LabError>;

    /// Looks up the facts.
    ///
    /// # Errors
    /// Where the host hasn't got what the action works on.
    fn look(&self) -> Result<Self::Facts, LabError>;

    /// Returns the facts that a dry run assumes: those of a host on which nothing runs.
    fn assume(&self) -> Self::Facts;

    /// Returns the steps, in their order.
    fn steps(&self, facts: &Self::Facts) -> Vec<Step>;

    /// Returns how the steps are undone, the last first; looks at what they would change.
    ///
    /// `allowed` are the devices that the command line names as those that may lose their content.
    ///
    /// # Errors
    /// Where the host can't do it, or it would harm what isn't ours.
    fn undo(&self, facts: &Self::Facts, allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError>;

    /// Reads back which settings are effective after the steps.
    ///
    /// # Errors
    /// Where they can't be read.
    fn check(&self, facts: &Self::Facts) -> Result<EffectiveSettings, LabError>;

    /// Returns the directory that the action serves to other hosts.
    fn served(&self) -> Option<&Path> {
        None
    }

    /// Returns the layer that the action makes.
    fn layer(&self) -> Layer {
        Layer::Base
    }
}

/// An action of any kind, together with its facts.
pub trait Prepared {
    /// Returns the steps, see [`LabAction::steps`].
    fn steps(&self) -> Vec<Step>;

    /// Returns how the steps are undone, see [`LabAction::undo`].
    ///
    /// # Errors
    /// As there.
    fn undo(&self, allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError>;

    /// Reads back which settings are effective, see [`LabAction::check`].
    ///
    /// # Errors
    /// As there.
    fn check(&self) -> Result<EffectiveSettings, LabError>;

    /// Returns the directory that is served, see [`LabAction::served`].
    fn served(&self) -> Option<&Path>;
}

struct WithFacts<'a, A: LabAction> {
    action: &'a A,
    facts: A::Facts,
}

impl<A: LabAction> Prepared for WithFacts<'_, A> {
    fn steps(&self) -> Vec<Step> {
        self.action.steps(&self.facts)
    }

    fn undo(&self, allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        self.action.undo(&self.facts, allowed)
    }

    fn check(&self) -> Result<EffectiveSettings, LabError> {
        self.action.check(&self.facts)
    }

    fn served(&self) -> Option<&Path> {
        self.action.served()
    }
}

macro_rules! dispatch {
    ($($kind:ident)+) => {
        /// Accepts the texts of an action and looks up its facts.
        ///
        /// # Errors
        /// Where a text is refused, or the host hasn't got what the action works on.
        pub fn prepare(action: &Action) -> Result<Box<dyn Prepared + '_>, LabError> {
            match action {
                $(Action::$kind(action) => {
                    action.accept()?;
                    let facts = action.look()?;
                    Ok(Box::new(WithFacts { action, facts }))
                })+
            }
        }

        /// Assumes the facts of an action: what a dry run shows.
        pub fn assume(action: &Action) -> Box<dyn Prepared + '_> {
            match action {
                $(Action::$kind(action) => {
                    Box::new(WithFacts { action, facts: action.assume() })
                })+
            }
        }

        /// Returns the layer that an action makes.
        pub fn layer(action: &Action) -> Layer {
            match action {
                $(Action::$kind(action) => action.layer(),)+
            }
        }

        #[cfg(test)]
        fn accept_any(action: &Action) -> Result<(), LabError> {
            match action {
                $(Action::$kind(action) => action.accept(),)+
            }
        }
    };
}

model::for_each_action!(dispatch);

/// Returns the commands of an action, as a dry run prints them.
///
/// What depends on the host is shown as it is where nothing runs yet.
pub fn commands(action: &Action) -> Vec<String> {
    assume(action).steps().iter().map(ToString::to_string).collect()
}

/// Describes an action for people and the undo log: by its last step that changes something.
pub fn describe(action: &Action) -> String {
    for step in assume(action).steps().iter().rev() {
        // A step that waits, or that may be refused, is not what was done.
        if !step.only_waits() && !matches!(step, Step::Offer { .. }) {
            return step.to_string();
        }
    }
    "nothing".to_owned()
}

/// Returns the undoing of a folder that has to be made, and of those above it that are missing.
fn folder_undo(path: &Path) -> Vec<Undo> {
    let mut undo = Vec::new();
    for folder in path.ancestors() {
        if folder.exists() {
            break;
        }
        undo.push(Undo::Folder { path: folder.to_owned() });
    }
    // The last of the list is undone first: it has to be the innermost folder.
    undo.reverse();
    undo
}

/// Returns the undoing of a program of ours and of its folder below /run/dfsbench.
fn program_undo(folder: &Path, program: &str) -> Vec<Undo> {
    let mut undo = folder.parent().map(folder_undo).unwrap_or_default();
    undo.push(Undo::Tree { path: folder.to_owned() });
    undo.push(Undo::End { program: folder.join(program) });
    undo
}
