//! `cargo xtask ansible`: lints the role of `integrations/ansible` and runs it on two hosts.
//!
//! The hosts are network namespaces with an sshd each ([`Lab`]), so this needs root. Ansible and
//! its linter are installed below the target directory with the versions in `requirements.txt`;
//! that needs a Python package index, so this is not part of `cargo xtask test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use checks::hosts::Lab;

use crate::steps::Steps;
use crate::{proc, python, repo, setup};

/// The hosts of [`Lab`], as an inventory.
const INVENTORY: &str = "h1,h2,";

/// Directory on a host for the program and its results; each host has its own `/srv`.
const FOLDER: &str = "/srv/dfsbench";

/// Runs everything, and counts.
pub fn run() -> bool {
    let mut steps = Steps::new();
    let tools = repo::target_folder().join("ansible");
    let requirements = folder().join("requirements.txt");
    steps.one("environment", || {
        setup::install_packages(&["iproute2", "openssh-client", "openssh-server", "python3"])?;
        python::make_environment(&tools, &requirements)?;
        Ok(())
    });
    steps.one("ansible-lint", || lint(&tools));
    steps.one("dfsbench", || {
        python::build_program()?;
        Ok(())
    });
    let mut play = None;
    steps.one("two hosts", || {
        play = Some(Play { lab: Lab::start(2)?, tools: tools.clone() });
        Ok(())
    });
    if let Some(play) = &play {
        steps.one("installed, measured and fetched", || play.measure());
        steps.one("nothing is installed the second time", || play.install_again());
        steps.one("a host without the program", || play.refuse_program());
        steps.one("a campaign that can't run", || play.refuse_target());
        steps.one("unusable figures", || play.report_invalid());
    }
    drop(play);
    steps.finish()
}

fn folder() -> PathBuf {
    repo::root().join("integrations/ansible")
}

/// Checks the role with the strictest rules of the linter, offline.
fn lint(tools: &Path) -> Result<()> {
    let mut lint = Command::new(tools.join("bin/ansible-lint"));
    lint.args(["--offline", "--strict", "--profile", "production", "site.yml", "roles"]);
    set_surroundings(&mut lint, tools);
    proc::run_command(lint.current_dir(folder()))
}

/// Gives Ansible its own programs and home directory.
fn set_surroundings(command: &mut Command, tools: &Path) {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", tools.join("bin").display()));
    command.env("ANSIBLE_HOME", tools.join("home")).env("ANSIBLE_NOCOLOR", "1");
    command.env("LC_ALL", "C.UTF-8");
}

/// The playbook and the hosts to run it on.
struct Play {
    lab: Lab,
    tools: PathBuf,
}

impl Play {
    /// Runs the playbook with these variables; returns whether it succeeded, and its output.
    fn run(&self, variables: &[&str], words: &[&str]) -> Result<(bool, String)> {
        let program = self.tools.join("bin/ansible-playbook");
        let mut play = self.lab.near(&program.to_string_lossy());
        set_surroundings(&mut play, &self.tools);
        let config = self.lab.folder.path().join("config");
        let fetched = self.fetched("");
        let mut all = vec![
            format!("ansible_ssh_common_args=\"-F {}\"", config.display()),
            "ansible_python_interpreter=/usr/bin/python3".to_owned(),
            // Only some directories are private to a host.
            "ansible_remote_tmp=/tmp/ansible".to_owned(),
            "ansible_async_dir=/tmp/ansible-jobs".to_owned(),
            format!("dfsbench_path={FOLDER}-program"),
            format!("dfsbench_folder={FOLDER}"),
            format!("dfsbench_fetch_to={}", fetched.display()),
        ];
        for variable in variables {
            all.push((*variable).to_owned());
        }
        play.args(["--inventory", INVENTORY, "--user", "root", "site.yml"]).args(words);
        for variable in all {
            play.args(["--extra-vars", &variable]);
        }
        let output = proc::capture_output(play.current_dir(folder()))?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok((output.status.success(), text))
    }

    /// Returns the path of a file fetched from the hosts.
    fn fetched(&self, name: &str) -> PathBuf {
        self.lab.folder.path().join("fetched").join(name)
    }

    /// Installs, measures and fetches, and reads the results of both hosts as one file.
    fn measure(&self) -> Result<()> {
        let program = format!("dfsbench_program={}", Lab::program().display());
        let arguments = "{\"dfsbench_arguments\": [\"--scale\", \"1%\", \"--trials\", \"2\"]}";
        let (ended_well, text) =
            self.run(&[&program, "dfsbench_target=/srv/data", arguments], &[])?;
        ensure!(ended_well, "the playbook failed:\n{text}");
        let all = self.fetched("all.db");
        for host in ["h1", "h2"] {
            let page = fs::read_to_string(self.fetched(&format!("{host}.html")))?;
            ensure!(page.contains("/srv/data"), "the page of {host} has no results");
            let mut import = Command::new(Lab::program());
            import.arg("import").arg(self.fetched(&format!("{host}.db")));
            proc::capture_stdout(import.arg("--results").arg(&all))?;
        }
        let mut list = Command::new(Lab::program());
        let list =
            proc::capture_text(list.args(["list", "--format", "csv"]).arg("--results").arg(all))?;
        let complete = list.lines().filter(|line| line.contains("complete")).count();
        ensure!(complete == 2, "two campaigns should be complete:\n{list}");
        Ok(())
    }

    /// Installs again: no host is changed.
    fn install_again(&self) -> Result<()> {
        let program = format!("dfsbench_program={}", Lab::program().display());
        let (ended_well, text) = self.run(&[&program], &["--tags", "dfsbench_install"])?;
        let unchanged = text.matches("changed=0").count();
        ensure!(ended_well && unchanged == 2, "a host was changed again:\n{text}");
        Ok(())
    }

    /// Expects the message for a missing program.
    fn refuse_program(&self) -> Result<()> {
        let (ended_well, text) =
            self.run(&["dfsbench_path=/srv/none"], &["--tags", "dfsbench_install"])?;
        let is_clear = text.contains("/srv/none doesn't run on h1") && text.contains("hint:");
        ensure!(!ended_well && is_clear, "output for a host without the program:\n{text}");
        Ok(())
    }

    /// Expects dfsbench's own message for a missing directory, and that nothing is fetched.
    fn refuse_target(&self) -> Result<()> {
        fs::remove_file(self.fetched("h1.db"))?;
        let (ended_well, text) = self.run(&["dfsbench_target=/srv/none"], &[])?;
        ensure!(
            !ended_well && text.contains("/srv/none"),
            "output for a missing directory:\n{text}"
        );
        ensure!(!self.fetched("h1.db").exists(), "results of a failed campaign were fetched");
        Ok(())
    }

    /// Expects that invalid results are fetched, and that this is reported.
    fn report_invalid(&self) -> Result<()> {
        let plan = self.lab.folder.path().join("invalid.toml");
        fs::write(&plan, INVALID)?;
        let plan = format!("dfsbench_plan={}", plan.display());
        let (ended_well, text) = self.run(&[&plan], &[])?;
        let reported = text.matches("not all of it counts").count();
        ensure!(ended_well && reported == 2, "output for unusable figures:\n{text}");
        ensure!(self.fetched("h1.db").exists(), "the results were not fetched");
        Ok(())
    }
}

/// Every READ is answered with an error.
const INVALID: &str = r#"
name = "faulty"
trials = 2
[server.faults]
error = "READ IO 100%"
[[target]]
name = "faulty"
embedded = true
[[workload]]
kind = "stream"
file_size = "1MiB"
"#;
