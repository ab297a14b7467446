//! The rules, each with a stable id, a title and the reason why reviewers ask for it.
//!
//! They follow what the run rules of SPEC SFS and the submission rules of IO500 demand of published
//! numbers: disclosure of the whole setup, unedited and complete results, a minimum time, data that
//! came from the storage, and the promise that written data is safe.

macro_rules! rules {
    ($($name:ident, $id:literal, $title:literal, $reason:literal;)+) => {
        /// A rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $title] $name,)+
        }

        impl Rule {
            /// All rules, in the order of their ids.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the stable id.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)+ }
            }

            /// Returns what the rule demands.
            pub(crate) const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }

            /// Returns why reviewers demand it.
            pub const fn reason(self) -> &'static str {
                match self { $(Self::$name => $reason,)+ }
            }
        }
    };
}

rules! {
    Intact, "R01", "the bundle is as it was packed",
        "Numbers that were edited afterwards are nobody's measurement.";
    Copies, "R02", "plan and facts are those of the results",
        "People read the copies, so they must say what the results say.";
    Complete, "R03", "every planned run has its trials, or a failure that is stated",
        "Leaving out bad runs or trials makes a system look better.";
    PlanMatches, "R04", "the runs are those of the plan",
        "Who repeats the plan must measure the same.";
    Recomputed, "R05", "verdicts, rates and caveats computed again are those stated",
        "A verdict is worth something if it follows from the stored samples.";
    NoInvalidRow, "R06", "no row is invalid",
        "Failed ops, wrong data and wrong counts are no results.";
    EnoughTrials, "R07", "every row has at least {min_trials} trials that count",
        "Fewer trials don't show how much a result varies.";
    NoCaveat, "R08", "no row has a caveat of the list",
        "These caveats mean that something else was measured than the storage.";
    ClocksAgree, "R09", "clocks of the hosts agree within {max_clock_error_percent} % of a pass",
        "Hosts that don't measure at the same time can't be added up.";
    CountsAgree, "R10", "all independent counts agree",
        "Ops that were counted but not done make a rate too high.";
    Durable, "R11", "written data is safe at the end of every pass",
        "Data that a crash would lose was not stored.";
    Released, "R12", "it was measured with a released version",
        "Others must be able to get the program.";
    Disclosed, "R13", "the setup is recorded: kernel, processor, memory and target",
        "A number can't be judged without knowing what produced it.";
    LongEnough, "R14", "every pass lasted at least {min_seconds} s",
        "Short passes measure caches, credits and the start.";
}

impl Rule {
    /// Finds the rule with this id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.id() == id)
    }
}

/// What breaking a rule means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSeverity {
    /// The bundle is invalid.
    Required,
    /// It is reported.
    Advised,
    /// Nothing; the rule is not checked.
    Off,
}

impl RuleSeverity {
    const ALL: [Self; 3] = [Self::Required, Self::Advised, Self::Off];

    /// Returns the name in files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Advised => "advised",
            Self::Off => "off",
        }
    }

    /// Finds the severity with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.name() == name)
    }
}
