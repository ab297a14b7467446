//! Actions on this host: one file for each struct of [`model::action`].
//!
//! Every action implements [`LabAction`]: it validates its texts and looks up the facts it needs.
//! The steps, how to undo them, and the check of the resulting settings then follow from the action
//! and its facts. A dry run uses assumed facts instead, so it shows what would be done. The list of
//! actions is [`model::for_each_action`] and is not repeated here.

use std::path::{Path, PathBuf};

use model::system::Secrets;
use model::{Action, EffectiveSettings};

use crate::error::LabError;
use crate::undo::Undo;
use step::Step;

/// The part of an impl of [`LabAction`] for an action that needs no facts.
macro_rules! no_facts {
    () => {
        type Facts = ();

        fn look(&self) -> Result<(), LabError> {
            Ok(())
        }

        fn assume(&self) {}
    };
}

/// The part of an impl of [`LabAction`] for an action that runs programs of a recipe.
macro_rules! programs_of_recipe {
    () => {
        type Facts = ProgramSearch;

        fn look(&self) -> Result<ProgramSearch, LabError> {
            ProgramSearch::of_recipe(&self.context)
        }

        fn assume(&self) -> ProgramSearch {
            ProgramSearch::assumed(&self.context)
        }

        fn give_secrets(search: &mut ProgramSearch, secrets: &model::system::Secrets) {
            search.secrets = secrets.clone();
        }
    };
}

mod accept;
mod clock_step;
mod cores;
mod cpu_frequency;
mod crypt;
mod cut;
mod export;
mod fill;
mod findings;
mod format;
mod ganesha;
mod kernel_switch;
mod localio;
mod loop_file;
mod mount;
mod mount_needs;
mod mtu;
mod nfs_mount;
mod nfsd;
mod nfsd_modes;
mod nfsd_stop;
mod options;
mod own_server;
mod packet_tunnel;
mod raid;
mod ram;
mod read_ahead;
mod remote_mount;
mod rpcbind;
mod service;
mod shape;
pub(crate) mod step;
mod storage;
mod sysctl;
mod system_command;
mod system_counters;
mod system_crash;
mod system_exits;
mod try_paths;
mod tunnel;
mod unfs3;

/// The part of a host's setup that an action belongs to. Determines what is redone to invalidate
/// caches and what is kept between runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// A setting, device or service that never needs to be redone to invalidate caches.
    Base,
    /// A file system that is created again if a run asks for it, but never to invalidate caches.
    FileSystem,
    /// The mount of a file system on which the server keeps its files.
    Storage,
    /// The same, but in memory, so that remounting would lose the files.
    Memory,
    /// A server that is restarted to invalidate its caches.
    Server,
    /// A directory exported by a running server.
    Export,
    /// A client's part, which depends on another host's server.
    Client,
}

/// A kind of action on this host.
pub(crate) trait LabAction {
    /// Facts about the host that the action needs; see `no_facts` if none.
    type Facts;

    /// Validates every text of the action that ends up as a command-line argument or in a file
    /// owned by root.
    ///
    /// The same parsers have checked the plan, but an agent running as root must not trust the text
    /// sent by its controller. This does not look at the host.
    ///
    /// # Errors
    /// If one of the texts is invalid.
    fn accept(&self) -> Result<(), LabError>;

    /// Looks up the facts.
    ///
    /// # Errors
    /// If the host lacks something the action needs.
    fn look(&self) -> Result<Self::Facts, LabError>;

    /// Returns the facts assumed by a dry run: those of a host on which nothing is running.
    fn assume(&self) -> Self::Facts;

    /// Adds the values of secrets to the facts of an action whose check needs them.
    fn give_secrets(_facts: &mut Self::Facts, _secrets: &Secrets) {}

    /// Returns the steps in order.
    fn steps(&self, facts: &Self::Facts) -> Vec<Step>;

    /// Returns how to undo the steps, to be executed from last to first. Inspects what the steps
    /// are going to change.
    ///
    /// `allowed` lists the devices that may be overwritten according to the command line.
    ///
    /// # Errors
    /// If the host cannot do it, or it would harm something that isn't ours.
    fn undo(&self, facts: &Self::Facts, allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError>;

    /// Reads back the settings that are in effect after the steps.
    ///
    /// # Errors
    /// If they cannot be read.
    fn check(&self, facts: &Self::Facts) -> Result<EffectiveSettings, LabError>;

    /// Returns the directory that the action exports to other hosts.
    fn served(&self) -> Option<&Path> {
        None
    }

    fn layer(&self) -> Layer {
        Layer::Base
    }
}

/// An action of any kind together with its facts.
pub(crate) trait PreparedAction {
    /// See [`LabAction::steps`].
    fn steps(&self) -> Vec<Step>;

    /// See [`LabAction::undo`].
    ///
    /// # Errors
    /// Same as there.
    fn undo(&self, allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError>;

    /// See [`LabAction::check`].
    ///
    /// # Errors
    /// Same as there.
    fn check(&self) -> Result<EffectiveSettings, LabError>;

    /// See [`LabAction::served`].
    fn served(&self) -> Option<&Path>;
}

struct WithFacts<'a, A: LabAction> {
    action: &'a A,
    facts: A::Facts,
}

impl<A: LabAction> PreparedAction for WithFacts<'_, A> {
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
        /// Validates an action and looks up its facts.
        ///
        /// # Errors
        /// If a text is invalid, or the host lacks something the action needs.
        pub(crate) fn prepare<'a>(
            action: &'a Action,
            secrets: &Secrets,
        ) -> Result<Box<dyn PreparedAction + 'a>, LabError> {
            match action {
                $(Action::$kind(action) => {
                    action.accept()?;
                    let mut facts = action.look()?;
                    model::action::$kind::give_secrets(&mut facts, secrets);
                    Ok(Box::new(WithFacts { action, facts }))
                })+
            }
        }

        /// Combines an action with assumed facts, for a dry run.
        pub(crate) fn assume(action: &Action) -> Box<dyn PreparedAction + '_> {
            match action {
                $(Action::$kind(action) => {
                    Box::new(WithFacts { action, facts: action.assume() })
                })+
            }
        }

        /// Returns the layer an action belongs to.
        pub(crate) fn layer(action: &Action) -> Layer {
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

/// Returns the commands of an action as shown by a dry run.
///
/// Anything that depends on the host is shown for a host on which nothing is running.
pub fn commands(action: &Action) -> Vec<String> {
    assume(action).steps().iter().map(ToString::to_string).collect()
}

/// Describes an action for people and the undo log, using the last step that changes something.
pub(crate) fn describe(action: &Action) -> String {
    for step in assume(action).steps().iter().rev() {
        // Skip steps that only wait or whose failure is ignored.
        if !step.only_waits() && !matches!(step, Step::Offer { .. }) {
            return step.to_string();
        }
    }
    "nothing".to_owned()
}

/// Returns how to undo the creation of a folder and of its missing parents.
fn folder_undo(path: &Path) -> Vec<Undo> {
    let mut undo = Vec::new();
    for folder in path.ancestors() {
        if folder.exists() {
            break;
        }
        undo.push(Undo::Folder { path: folder.to_owned() });
    }
    // The last entry is undone first, so it has to be the innermost folder.
    undo.reverse();
    undo
}

/// Returns how to stop one of our programs and remove its folder below /run/dfsbench.
fn program_undo(folder: &Path, program: &str) -> Vec<Undo> {
    let mut undo = folder.parent().map(folder_undo).unwrap_or_default();
    undo.push(Undo::Tree { path: folder.to_owned() });
    undo.push(Undo::End { program: folder.join(program) });
    undo
}
