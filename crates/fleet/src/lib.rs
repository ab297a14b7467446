//! What controller and agents say to each other, and the ways it travels.
//!
//! The controller sends an [`Order`], the agent answers with [`Report`]s; one order is under way
//! at a time. [`Transport`] is the seam: in this process here, over ssh and TCP later. A wish to
//! stop overtakes everything else, so it is not an order.

pub mod in_process;

use model::{Fact, IntervalSample, Pass, PassResult, RunSpec};

/// One trial, as it is handed to an agent.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Every setting of the run.
    pub spec: RunSpec,
    /// Seed of the campaign.
    pub seed: u64,
    /// Name of the working directory.
    pub work_name: String,
    /// Leave the working directory behind.
    pub keep: bool,
}

/// What the controller wants done.
#[derive(Clone, Debug)]
pub enum Order {
    /// Make a fresh site for a trial.
    Begin(Box<Assignment>),
    /// Prepare and run one pass.
    Run(Pass),
    /// Remove the site.
    End,
}

/// What an agent answers.
#[derive(Clone, Debug)]
pub enum Report {
    /// The site is there; with the settings in force.
    Begun(Vec<Fact>),
    /// A pass is running.
    Progress(IntervalSample),
    /// A pass has ended.
    Ran(Box<PassEnd>),
    /// The site is gone.
    Ended,
    /// The order could not be obeyed; the reason is a sentence.
    Failed(String),
}

/// How a pass ended.
#[derive(Clone, Debug)]
pub struct PassEnd {
    /// Its figures and caveats.
    pub result: PassResult,
    /// What else was learned while it ran.
    pub facts: Vec<Fact>,
    /// Why the trial can't go on, where it can't.
    pub broken: Option<Broken>,
}

/// Why a trial can't go on after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Somebody asked to stop.
    Stopped,
    /// Ops failed or the target went away; the reason is a sentence.
    Failed(String),
}

/// The other side is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent is gone")]
pub struct Gone;

/// A way to one agent.
pub trait Transport {
    /// Sends an order.
    ///
    /// # Errors
    /// When the agent is gone.
    fn send(&mut self, order: Order) -> Result<(), Gone>;

    /// Waits for the next report.
    ///
    /// # Errors
    /// When the agent is gone.
    fn receive(&mut self) -> Result<Report, Gone>;
}
