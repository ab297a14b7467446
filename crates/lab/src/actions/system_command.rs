//! A command of a recipe that is run once, such as one that empties a cache or checks an upload.
//!
//! Its failure is a fact rather than an error: the controller repeats it, or knows what it means.

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::SystemCommand;

use super::LabAction;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::search::ProgramSearch;
use crate::commands::{self, SOON, filled_lines};
use crate::error::LabError;
use crate::undo::Undo;

impl LabAction for SystemCommand {
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
        let output = search.output(&self.run, SOON)?;
        let command = commands::show(&self.run);
        let status = match output.status.code() {
            Some(code) => code.to_string(),
            None => output.status.to_string(),
        };
        let lines = [filled_lines(&output.stdout), filled_lines(&output.stderr)];
        let last = lines.iter().find_map(|lines| lines.last()).copied().unwrap_or_default().trim();
        let mut findings = Findings::new("server");
        findings.fact(Self::STATUS, status, command.as_str());
        findings.fact(Self::PRINTED, last, command.as_str());
        Ok(findings.finish())
    }
}

#[cfg(test)]
mod tests {
    use model::action::CommandContext;

    use super::*;

    fn run(script: &str) -> Vec<String> {
        let run = ["sh", "-c", script].map(str::to_owned).to_vec();
        let context = CommandContext::default();
        let command = SystemCommand { system: "plain".to_owned(), context, run };
        let found = command.check(&command.assume()).unwrap().facts;
        found.into_iter().map(|fact| fact.value).collect()
    }

    #[test]
    fn reports_status_and_last_line() {
        assert_eq!(run("echo 7; echo ' 0 '; echo; echo why >&2"), ["0", "0"]);
        assert_eq!(run("echo why >&2; exit 3"), ["3", "why"]);
        assert_eq!(run("kill -9 $$"), ["signal: 9 (SIGKILL)", ""]);
    }
}
