//! The counters of a system's servers, printed by a command from its recipe.

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::SystemCounters;
use model::system::COUNTER_NAMES;

use super::LabAction;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::search::ProgramSearch;
use crate::commands::{self, SOON};
use crate::error::LabError;
use crate::undo::Undo;

impl LabAction for SystemCounters {
    programs_of_recipe!();

    fn accept(&self) -> Result<(), LabError> {
        Ok(())
    }

    fn steps(&self, _search: &ProgramSearch) -> Vec<Step> {
        Vec::new()
    }

    fn undo(&self, _search: &ProgramSearch, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        Ok(Vec::new())
    }

    fn check(&self, search: &ProgramSearch) -> Result<EffectiveSettings, LabError> {
        let command = commands::show(&self.run);
        let output = search.output(&self.run, SOON)?;
        let refused =
            |why: String| LabError::Refused(format!("counters of {}: {why}", self.system));
        if !output.status.success() {
            let last = output.stderr.lines().last().unwrap_or_default();
            return Err(refused(format!("`{command}` failed with {}: {last}", output.status)));
        }
        let mut findings = Findings::new("server");
        for (name, number) in parse(&output.stdout).map_err(refused)? {
            findings.fact(name, number.to_string(), command.as_str());
        }
        Ok(findings.finish())
    }
}

/// Parses lines such as `read_bytes 4096`. Counts with the same name are added up.
fn parse(text: &str) -> Result<Vec<(&'static str, u64)>, String> {
    let mut counts: Vec<(&'static str, u64)> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [word, number] = words.as_slice() else {
            return Err(format!("`{line}` is not a name and a number"));
        };
        let Some(name) = COUNTER_NAMES.into_iter().find(|name| name == word) else {
            return Err(format!("`{word}` is not one of {}", COUNTER_NAMES.join(", ")));
        };
        let Ok(number) = number.parse::<u64>() else {
            return Err(format!("`{number}` is not a valid {name} count"));
        };
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(number),
            None => counts.push((name, number)),
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod recipes;

#[cfg(test)]
mod tests {
    use model::action::CommandContext;

    use super::*;

    fn run(script: &str) -> Result<EffectiveSettings, LabError> {
        let run = ["sh", "-c", script].map(str::to_owned).to_vec();
        let context = CommandContext::default();
        let counters = SystemCounters { system: "plain".to_owned(), context, run };
        counters.check(&counters.assume())
    }

    #[test]
    fn lines_of_a_command_are_counters() {
        let read = run("echo read_bytes 4; echo creates 1; echo read_bytes 38").unwrap();
        let facts: Vec<_> = read.facts.iter().map(|fact| (&*fact.name, &*fact.value)).collect();
        assert_eq!(facts, [("read_bytes", "42"), ("creates", "1")]);
    }

    #[test]
    fn rejects_bad_counters() {
        let errors =
            ["echo ops 4", "echo read_bytes", "echo creates -1", "echo no such volume >&2; exit 3"]
                .map(|script| run(script).unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"));
    }
}
