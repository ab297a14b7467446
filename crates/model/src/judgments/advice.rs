//! Advice on a caveat, limited to what a particular run can do.
//!
//! [`CaveatCode::advice_for`] returns it as text, and [`CaveatCode::flag_for`] as a flag. The
//! general advice ([`CaveatCode::advice`]) mentions settings that some runs refuse, such as
//! `--durability` for names. Here, each piece of text is paired with the setting it mentions and
//! left out if the setting doesn't apply. A test feeds every flag back into the plan reader.

use crate::judgments::caveat::CaveatCode;
use crate::runs::pass::Pass;
use crate::runs::spec::{Durability, RunSpec};
use crate::setting::Setting;

/// A piece of advice and the setting that it needs, if any.
struct Hint {
    text: &'static str,
    needs: Option<Setting>,
}

impl Hint {
    /// Returns true if the run supports the setting and doesn't use it yet.
    fn helps(&self, run: &RunSpec) -> bool {
        match self.needs {
            None => true,
            Some(Setting::Direct) if run.direct => false,
            Some(Setting::Durability) if run.durability == Durability::Sync => false,
            Some(setting) => setting.applies(run),
        }
    }
}

const fn hint(text: &'static str) -> Hint {
    Hint { text, needs: None }
}

const fn with(needs: Setting, text: &'static str) -> Hint {
    Hint { text, needs: Some(needs) }
}

impl CaveatCode {
    /// Returns the advice on how to avoid the caveat in a pass of a run, without settings that the
    /// run refuses.
    pub fn advice_for(self, run: &RunSpec, pass: Pass) -> String {
        let hints = self.hints(pass);
        let texts: Vec<_> =
            hints.into_iter().filter(|hint| hint.helps(run)).map(|hint| hint.text).collect();
        match texts.split_last() {
            None => self.advice().to_owned(),
            Some((last, [])) => format!("Use {last}."),
            Some((last, others)) => format!("Use {}, or {last}.", others.join(", ")),
        }
    }

    /// Returns a flag of `dfsbench run` that resolves the caveat in a pass of a run, or `None` if
    /// there is none or the run refuses it. If more trials are needed, their number depends on the
    /// existing ones; see [`CaveatCode::needs_trials`].
    pub fn flag_for(self, run: &RunSpec, pass: Pass) -> Option<&'static str> {
        self.flags(pass).iter().find(|flag| flag.helps(run)).map(|flag| flag.text)
    }

    /// Returns true if more trials resolve the caveat.
    pub const fn needs_trials(self) -> bool {
        matches!(self, Self::TooFewTrials | Self::WideInterval | Self::Outlier)
    }

    /// Returns the flags that may resolve the caveat, the best one first.
    fn flags(self, pass: Pass) -> Vec<Hint> {
        match self {
            Self::TooShort => vec![
                with(Setting::Duration, "--duration 30s"),
                with(Setting::BootSize, "--boot-size 1GiB"),
                with(Setting::Epochs, "--epochs 100"),
                with(Setting::FileSize, "--file-size 1GiB"),
                with(Setting::SmallFiles, "--small-files 100000"),
                with(Setting::Entries, "--entries 1000000"),
            ],
            Self::NotSteady | Self::Burst => {
                vec![with(Setting::Duration, "--warmup 10s --duration 60s")]
            }
            Self::Unsynchronised | Self::MixShares => {
                vec![with(Setting::Duration, "--duration 60s")]
            }
            // Attributes cannot bypass the cache.
            Self::Cached if needs_no_data(pass) => Vec::new(),
            Self::Cached => vec![with(Setting::Direct, "--direct")],
            Self::Localio => vec![with(Setting::Localio, "--localio false")],
            Self::Delegated => {
                vec![with(Setting::ServerDelegations, "--server-delegations false")]
            }
            Self::MixedTrials => vec![hint("--discard cached")],
            Self::Compressible => vec![with(Setting::Data, "--data random")],
            Self::BackendFallback => vec![hint("--backend posix")],
            Self::SlotsLimited => vec![with(Setting::Nconnect, "--nconnect 2")],
            Self::PnfsFallback => vec![with(Setting::Pnfs, "--pnfs off")],
            Self::Retransmits => vec![with(Setting::Proto, "--proto tcp")],
            _ => Vec::new(),
        }
    }

    /// Returns the pieces of advice, or nothing if the general advice applies to every run.
    fn hints(self, pass: Pass) -> Vec<Hint> {
        match self {
            Self::Cached if needs_no_data(pass) => vec![hint("a remount between the passes")],
            Self::Cached => vec![
                with(Setting::Direct, "--direct true"),
                with(Setting::FileSize, "files larger than memory (--file-size)"),
                hint("a remount between the passes"),
                hint("direct I/O of the loop device (losetup) if it is on one"),
            ],
            Self::Localio => vec![with(Setting::Localio, "--localio false")],
            Self::Delegated => {
                vec![with(Setting::ServerDelegations, "--server-delegations false")]
            }
            Self::FitsMemory => vec![
                with(Setting::Direct, "--direct true"),
                with(Setting::FileSize, "files larger than memory (--file-size)"),
                hint("a remount between the passes"),
            ],
            Self::NotSteady | Self::Burst => vec![
                with(Setting::Duration, "a longer --duration"),
                with(Setting::FileSize, "larger files (--file-size)"),
                with(Setting::Warmup, "a longer --warmup"),
                hint("more work in each pass"),
            ],
            Self::TooShort => vec![
                with(Setting::Epochs, "more --epochs"),
                with(Setting::Duration, "a longer --duration"),
                with(Setting::FileSize, "larger files (--file-size)"),
                with(Setting::Files, "more --files"),
                with(Setting::SmallFiles, "more --small-files"),
                with(Setting::Entries, "more --entries"),
                hint("more work in each pass"),
            ],
            Self::MixedTrials => vec![
                hint("--discard cached"),
                with(Setting::Invalidation, "--invalidation remount before each pass that reads"),
                with(Setting::Invalidate, "--invalidate true"),
            ],
            Self::SlotsLimited => vec![
                with(Setting::QueueDepth, "a lower --queue-depth"),
                with(Setting::Nconnect, "a higher --nconnect"),
                hint("a server that grants more slots"),
            ],
            Self::ServerCached => vec![
                hint("files larger than the server's memory"),
                with(Setting::Invalidation, "--invalidation server-remount"),
            ],
            Self::Compressible => vec![
                with(Setting::Data, "--data random without --compress and --dedup"),
                hint("a directory that does not compress"),
            ],
            Self::NotDurable => vec![
                with(Setting::Durability, "--durability sync to include fsync or COMMIT"),
                hint("a target on storage whose mount or export has the option sync"),
            ],
            _ => Vec::new(),
        }
    }
}

/// Returns true if a pass reads names or attributes, which cannot bypass a cache.
const fn needs_no_data(pass: Pass) -> bool {
    pass.lists() || matches!(pass.base(), Pass::Stat | Pass::StatDirs | Pass::GetXattr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::workload::Workload;
    use crate::testing::RunBuilder;
    use std::path::Path;

    fn advice(code: CaveatCode, workload: Workload, pass: Pass) -> String {
        let run = RunBuilder::new(workload).on_directory(Path::new("/srv")).build();
        code.advice_for(&run, pass)
    }

    #[test]
    fn advises_only_applicable_settings() {
        let advices = [
            advice(CaveatCode::TooShort, Workload::Mixed, Pass::Mix),
            advice(CaveatCode::TooShort, Workload::Stream, Pass::Read),
            advice(CaveatCode::NotDurable, Workload::Metadata, Pass::Create),
            advice(CaveatCode::NotDurable, Workload::Stream, Pass::Write),
        ];
        insta::assert_snapshot!(advices.join("\n"));
    }

    #[test]
    fn names_only_flags_of_run() {
        let flag = |code: CaveatCode, workload, pass| {
            let run = RunBuilder::new(workload).on_directory(Path::new("/srv")).build();
            code.flag_for(&run, pass)
        };
        let short = CaveatCode::TooShort;
        assert_eq!(flag(short, Workload::Mixed, Pass::Mix), Some("--duration 30s"));
        assert_eq!(flag(short, Workload::Stream, Pass::Read), Some("--file-size 1GiB"));
        assert_eq!(flag(short, Workload::Metadata, Pass::Create), Some("--small-files 100000"));
        let cached = CaveatCode::Cached;
        assert_eq!(flag(cached, Workload::Stream, Pass::Read), Some("--direct"));
        assert_eq!(flag(cached, Workload::Metadata, Pass::Stat), None);
        assert_eq!(flag(cached, Workload::Metadata, Pass::GetXattr), None);
        assert_eq!(flag(CaveatCode::Errors, Workload::Stream, Pass::Read), None);
        // A run that already uses O_DIRECT gains nothing from it.
        let stream = RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv"));
        let direct = stream.direct(true).build();
        assert_eq!(cached.flag_for(&direct, Pass::Read), None);
        assert!(!cached.advice_for(&direct, Pass::Read).contains("--direct"));
        // The number of trials needed for a wide interval depends on how many there were.
        assert_eq!(flag(CaveatCode::WideInterval, Workload::Stream, Pass::Read), None);
        assert!(CaveatCode::WideInterval.needs_trials() && !short.needs_trials());
    }

    #[test]
    fn skips_direct_in_direct_runs() {
        let run = RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv")).direct(true);
        let run = run.build();
        let cached = CaveatCode::Cached;
        assert_eq!(cached.flag_for(&run, Pass::Read), None);
        let advice = cached.advice_for(&run, Pass::Read);
        assert!(advice.starts_with("Use files larger") && advice.contains("losetup"), "{advice}");
    }

    #[test]
    fn falls_back_to_advice_of_code() {
        let advice = advice(CaveatCode::Errors, Workload::Stream, Pass::Read);
        assert_eq!(advice, CaveatCode::Errors.advice());
    }
}
