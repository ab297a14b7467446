//! Parses the command and the op shares of a `[[workload]]`.
//!
//! A command is a list of arguments and never a line for a shell. Shares are percent with at most
//! two decimals, and are kept as whole hundredths.

use std::fmt::Write as _;

use model::setting::Setting;
use model::{Command, OpKind, OpMix, Pass, Workload};

use workload::opmix;
use workload::opmix::nfsstat::NfsstatError;

use crate::parse::document::{Field, Table};
use crate::syntax::error::{Fault, Located, PlanError};
use crate::syntax::raw::RawPlan;
use crate::syntax::suggestion::unknown_word;
use crate::syntax::text::{list_of, quoted, with_article};

/// Name of a mix whose shares are given in the plan.
pub(crate) const OWN_MIX: &str = "custom";

/// Hundredths of a percent in a whole.
const WHOLE: u32 = 10_000;

/// Parses the command of a workload.
pub(crate) fn read_command(table: &Table<'_>, kind: Workload) -> Result<Command, PlanError> {
    let mut command = Command::default();
    let parts = [
        ("run", &mut command.run),
        ("setup", &mut command.setup),
        ("cleanup", &mut command.cleanup),
    ];
    for (key, words) in parts {
        let Some(field) = table.field(key) else { continue };
        if !kind.is_external() || (kind != Workload::App && key != "run") {
            let fault = without_meaning(kind);
            return Err(field.error(fault.hint("an app workload runs a command")));
        }
        *words = read_words(&field)?;
    }
    if kind == Workload::App && command.run.is_empty() {
        let hint = "the command to time, such as `run = [\"tar\", \"cf\", \"all.tar\", \"tree\"]`";
        return Err(Fault::new("key `run` is missing in [[workload]]").hint(hint).at(table.place));
    }
    Ok(command)
}

/// Refuses settings that this workload does not have.
pub(crate) fn check_settings(table: &Table<'_>, kind: Workload) -> Result<(), PlanError> {
    for setting in Setting::ALL {
        let Some(field) = table.field(setting.key()) else { continue };
        if setting.has_workload(kind) {
            continue;
        }
        let hint = match setting.counterpart() {
            Some(other) => format!("it is called `{}` for {}", other.key(), kind.name()),
            None if setting == Setting::TimeMax && kind.is_external() => {
                "a program's time is bounded by `timeout`".into()
            }
            None => "leave it out here; in [factors], only workloads that use it get it".into(),
        };
        return Err(field.error(without_meaning(kind).hint(hint)));
    }
    Ok(())
}

/// The fault of a key that has no meaning for this workload.
pub(crate) fn without_meaning(kind: Workload) -> Fault {
    Fault::new(format!("doesn't apply to {} workload", with_article(kind.name())))
}

fn read_words(field: &Field<'_>) -> Result<Vec<String>, PlanError> {
    if let Some(line) = field.as_text()
        && line.trim().contains(' ')
    {
        let words: Vec<String> = line.split_whitespace().map(quoted).collect();
        let fault = Fault::new("must be a list; no shell is used")
            .hint(format!("write a list: [{}]", words.join(", ")));
        return Err(field.error(fault));
    }
    let mut words = Vec::new();
    for item in field.items()? {
        let word = item.text("[\"tar\", \"cf\", \"all.tar\", \"tree\"]")?.value;
        // Arguments can't contain NUL, and the first one is the program's name.
        if word.contains('\0') || (words.is_empty() && word.is_empty()) {
            return Err(field.error(Fault::new("a program without a name can't be run")));
        }
        words.push(word.to_owned());
    }
    Ok(words)
}

/// Parses the shares of a custom mix.
pub(crate) fn read_mix(table: &Table<'_>, kind: Workload) -> Result<OpMix, PlanError> {
    let mut mix = OpMix::default();
    let Some(field) = table.field("shares") else { return Ok(mix) };
    if kind != Workload::OpMix {
        let fault = without_meaning(kind);
        return Err(field.error(fault.hint("only op_mix has shares")));
    }
    let mut sum = 0;
    for share in field.entries("for example `shares = { read = 60, write = 40 }`")? {
        let Some(hundredths) = hundredths(&share.shown()) else {
            let what = format!("`{}` is not a percentage", share.shown());
            let fault = Fault::new(what).hint("0 to 100, with at most two decimals");
            return Err(share.error(fault));
        };
        sum += hundredths;
        mix.shares.push((op_named(&share)?, hundredths));
    }
    // Checked here because the message gives the missing share; `OpMix` checks everything else.
    if sum != WHOLE {
        let what = format!("the shares add up to {} %, not to 100 %", percent(sum));
        let hint = if sum < WHOLE {
            format!("{} % are missing", percent(WHOLE - sum))
        } else {
            format!("{} % is too much", percent(sum - WHOLE))
        };
        return Err(field.error(Fault::new(what).hint(hint)));
    }
    OWN_MIX.clone_into(&mut mix.name);
    match opmix::check(&mix) {
        Ok(()) => Ok(mix),
        Err(error) => Err(field.error(Fault::new(error.to_string()))),
    }
}

/// Finds the op that the key of a share names.
fn op_named(share: &Field<'_>) -> Result<OpKind, PlanError> {
    let kinds = Pass::OpMix.kinds();
    match OpKind::from_name(share.key()) {
        Some(kind) if kinds.contains(&kind) => Ok(kind),
        _ => {
            let known: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            Err(share.error(unknown_word("op", share.key(), &known)))
        }
    }
}

/// Parses the name of the file that provides the shares of a mix.
pub(crate) fn read_mix_from(
    table: &Table<'_>,
    kind: Workload,
) -> Result<Option<Located<String>>, PlanError> {
    let Some(field) = table.field("mix_from") else { return Ok(None) };
    if kind != Workload::OpMix {
        return Err(field.error(without_meaning(kind).hint("only op_mix takes shares from a file")));
    }
    if table.field("shares").is_some() {
        let fault = Fault::new("conflicts with `shares`").hint("use one of the two");
        return Err(field.error(fault));
    }
    let path = field.text("\"nfsstat.txt\"")?.value.to_owned();
    Ok(Some(field.located(path)))
}

/// Parses the name of the file with the counters taken before those of `mix_from`.
pub(crate) fn read_mix_since(table: &Table<'_>) -> Result<Option<Located<String>>, PlanError> {
    let Some(field) = table.field("mix_since") else { return Ok(None) };
    if table.field("mix_from").is_none() {
        let fault = Fault::new("requires `mix_from`")
            .hint("mix_from has the counters after the load, mix_since those before it");
        return Err(field.error(fault));
    }
    let path = field.text("\"before.txt\"")?.value.to_owned();
    Ok(Some(field.located(path)))
}

impl RawPlan {
    /// Reads the files that mixes come from, which are outputs of `nfsstat` or `mountstats`. The
    /// caller opens them, since this crate does no I/O.
    ///
    /// # Errors
    /// If `read` fails, with its message, or if a text has no counts of calls.
    pub fn read_mixes(
        &mut self,
        mut read: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<(), PlanError> {
        for workload in &mut self.workloads {
            let Some(path) = workload.mix_from.take() else { continue };
            let since = workload.mix_since.take();
            let error = |key: &'static str, path: &Located<String>, why: &str| {
                let what = format!("can't take a mix from `{}`: {why}", path.value);
                let hint = "what `nfsstat -c`, `nfsstat -s` or `mountstats` prints, or a copy of \
                            /proc/net/rpc/nfs or /proc/self/mountstats";
                let error = Fault::new(what).hint(hint).of_key(key, path.place);
                error.in_source(&self.source_name)
            };
            let after = read(&path.value).map_err(|why| error("mix_from", &path, &why))?;
            let shares = match &since {
                None => opmix::nfsstat::shares(&after),
                Some(since) => {
                    let before =
                        read(&since.value).map_err(|why| error("mix_since", since, &why))?;
                    // Checked first so that the error names the right file.
                    if let Err(why @ NfsstatError::NoCounts) = opmix::nfsstat::shares(&before) {
                        return Err(error("mix_since", since, &why.to_string()));
                    }
                    opmix::nfsstat::shares_between(&before, &after)
                }
            };
            let shares = shares.map_err(|why| error("mix_from", &path, &why.to_string()))?;
            OWN_MIX.clone_into(&mut workload.mix.name);
            workload.mix.shares = shares;
        }
        Ok(())
    }
}

/// Parses a percentage into hundredths: `2.5` is 250.
fn hundredths(text: &str) -> Option<u32> {
    // Digit by digit, since most fractions have no exact float.
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    if !is_digits(whole) || !is_digits(rest) || rest.len() > 2 {
        return None;
    }
    let rest: u32 = format!("{rest:0<2}").parse().ok()?;
    let all = whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(rest)?;
    if all <= WHOLE { Some(all) } else { None }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Formats hundredths as a percentage: 250 is `2.5`.
fn percent(hundredths: u32) -> String {
    match (hundredths / 100, hundredths % 100) {
        (whole, 0) => whole.to_string(),
        (whole, rest) if rest % 10 == 0 => format!("{whole}.{}", rest / 10),
        (whole, rest) => format!("{whole}.{rest:02}"),
    }
}

/// Writes a command and shares in the form of a plan.
pub(crate) fn write(out: &mut String, command: &Command, mix: &OpMix) {
    let parts = [("run", &command.run), ("setup", &command.setup), ("cleanup", &command.cleanup)];
    for (key, words) in parts {
        if !words.is_empty() {
            // Writing to a String can't fail.
            let _ = writeln!(out, "{key} = {}", list_of(words));
        }
    }
    let mut shares = Vec::new();
    for (kind, share) in &mix.shares {
        shares.push(format!("{kind} = {}", percent(*share)));
    }
    if !shares.is_empty() {
        let _ = writeln!(out, "shares = {{ {} }}", shares.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_whole_hundredths() {
        for (text, read) in [
            ("0", Some(0)),
            ("2.5", Some(250)),
            ("33.33", Some(3_333)),
            ("100", Some(10_000)),
            ("100.01", None),
            ("1.234", None),
            ("-1", None),
            ("1e1", None),
            (".5", None),
            ("99999999999", None),
        ] {
            assert_eq!(hundredths(text), read, "{text}");
            if let Some(read) = read {
                assert_eq!(percent(read), text);
            }
        }
    }
}
