//! The programs of a system that have exited although they should keep running, with their last
//! words.

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::SystemExits;

use super::LabAction;
use super::accept::check_point;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands;
use crate::error::LabError;
use crate::host::{processes, servers};
use crate::undo::Undo;

impl LabAction for SystemExits {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        check_point(&self.dir)
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        Vec::new()
    }

    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        Ok(Vec::new())
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("server");
        let running = processes::steps_running(&self.dir);
        for (number, command) in &self.started {
            if running.contains(number) {
                continue;
            }
            let command = commands::show(command);
            let words = servers::last_words_of_step(&self.dir, *number);
            findings.fact("exited", format!("`{command}` has exited: {words}"), "/proc");
        }
        Ok(findings.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn recognizes_programs_without_environment() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().to_owned();
        // env(1) executes the program with an empty environment, as if it had overwritten its own.
        let words = ["env", "-i", "sh", "-c", "echo up; read line"].map(str::to_owned);
        let argv = processes::command_of_step(&dir, 2, &words);
        let mut command = Command::new(&argv[0]);
        let stderr = fs::File::create(servers::stderr_of_step(&dir, 2)).unwrap();
        command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 3]).unwrap();
        assert_eq!(processes::marked(&dir), [child.id()]);
        assert_eq!(processes::steps_running(&dir), [2]);
        fs::remove_file(servers::stderr_of_step(&dir, 2)).unwrap();
        assert_eq!(processes::steps_running(&dir), [2]);
        assert!(processes::marked(&dir.join("other")).is_empty());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(processes::marked(&dir).is_empty());
    }

    #[test]
    fn reports_only_exited_programs() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().to_owned();
        let command = |text: &str| ["sh", "-c", text].map(str::to_owned).to_vec();
        let (stays, dies) = (command("read line"), command("echo no space left >&2"));
        let start = |number: usize, words: &[String]| {
            let argv = processes::command_of_step(&dir, number, words);
            let stderr = fs::File::create(dir.join(format!("stderr-{number}"))).unwrap();
            let mut command = Command::new(&argv[0]);
            command.args(&argv[1..]).stdin(Stdio::piped()).stderr(stderr);
            command.spawn().unwrap()
        };
        let mut one = start(1, &stays);
        // env(1) puts the mark into the environment only when it executes the program.
        while one.try_wait().unwrap().is_none() && !processes::steps_running(&dir).contains(&1) {
            std::thread::yield_now();
        }
        start(3, &dies).wait().unwrap();
        let exits = SystemExits {
            system: "plain".to_owned(),
            dir: dir.clone(),
            started: vec![(1, stays), (3, dies)],
        };
        let found = exits.check(&()).unwrap().facts;
        drop(one.stdin.take());
        one.wait().unwrap();
        let found: Vec<String> = found.into_iter().map(|fact| fact.value).collect();
        assert_eq!(found, ["`sh -c 'echo no space left >&2'` has exited: no space left"]);
        assert_eq!(exits.check(&()).unwrap().facts.len(), 2);
    }
}
