//! The command that starts agents on the hosts of a job.
//!
//! A lost agent must not take the others with it, so launchers are configured to continue. Neither
//! address nor token is ever an argument, since other users of a host can see those.
//!
//! **Source:** srun(1): --kill-on-bad-exit, --wait, --mpi; mpirun(1) of Open MPI: -x,
//! --enable-recovery; mpiexec of MPICH: -genvlist. MPICH's ends all processes if one fails, even
//! with -disable-auto-cleanup if they don't use MPI (tested with 4.0), so agents always exit
//! successfully. flux-run(1): --ntasks, --nodes, --tasks-per-node, -o exit-timeout;
//! flux-getattr(1), `size`, the brokers of an instance, one on each node.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{JobError, JobRequest, Launcher, MEET, TOKEN};

/// The implementation of `mpirun`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mpi {
    Open,
    Mpich,
}

/// Returns the command that starts the requested agents, without their environment.
///
/// # Errors
/// If its command line can't be parsed, or names an unknown launcher.
pub(super) fn launch_command(
    request: &JobRequest,
    agent: &Path,
    count: u32,
    per_node: Option<u32>,
) -> Result<Command, JobError> {
    let usual = match request.launcher {
        Launcher::Slurm => "srun",
        Launcher::Flux => "flux run",
        _ => "mpirun",
    };
    let words = split_words(request.launch_with.as_deref().unwrap_or(usual))?;
    let Some((program, words)) = words.split_first() else {
        return Err(JobError::Request("--launch-with is empty".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(words);
    match request.launcher {
        Launcher::Slurm => add_srun_words(&mut command, count, per_node),
        Launcher::Flux => add_flux_words(&mut command, count, per_node),
        _ => return finish_mpi(command, agent, count, per_node),
    }
    command.arg(agent).args(["agent", "--meet"]);
    Ok(command)
}

fn add_srun_words(command: &mut Command, count: u32, per_node: Option<u32>) {
    command.arg(format!("--ntasks={count}"));
    if let Some(per_node) = per_node {
        command.arg(format!("--ntasks-per-node={per_node}"));
    }
    command.args(["--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--export=ALL"]);
}

/// Flux passes the environment on by itself, and accepts either a number of tasks or one per node.
fn add_flux_words(command: &mut Command, count: u32, per_node: Option<u32>) {
    match per_node {
        Some(per_node) => {
            command.arg(format!("--nodes={}", count.div_ceil(per_node.max(1))));
            command.arg(format!("--tasks-per-node={per_node}"));
        }
        None => _ = command.arg(format!("--ntasks={count}")),
    }
    command.args(["-o", "exit-timeout=none"]);
}

fn finish_mpi(
    mut command: Command,
    agent: &Path,
    count: u32,
    per_node: Option<u32>,
) -> Result<Command, JobError> {
    command.args(["-n", &count.to_string()]);
    match detect_mpi(&command.get_program().to_string_lossy())? {
        Mpi::Open => {
            if let Some(per_node) = per_node {
                command.args(["--map-by", &format!("ppr:{per_node}:node")]);
            }
            command.args(["--enable-recovery", "-x", MEET, "-x", TOKEN]);
            command.arg(agent).args(["agent", "--meet"]);
        }
        Mpi::Mpich => {
            if let Some(per_node) = per_node {
                command.args(["-ppn", &per_node.to_string()]);
            }
            command.args(["-genvlist", &format!("{MEET},{TOKEN}")]);
            command.args(["sh", "-c", r#""$0" agent --meet; true"#]).arg(agent);
        }
    }
    Ok(command)
}

/// Returns the number of nodes of the Flux instance that this process runs in.
pub(super) fn count_flux_nodes() -> Result<u32, JobError> {
    let hint = "(hint: run dfsbench in `flux batch` or `flux alloc`, or set the number of agents, \
                as in --agents 4)";
    let mut flux = Command::new("flux");
    let output = match flux.args(["getattr", "size"]).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            return Err(JobError::Request(format!(
                "cannot start `flux getattr size`: {error} {hint}"
            )));
        }
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.trim().parse() {
        Ok(nodes) if output.status.success() => Ok(nodes),
        _ => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let reason = stderr.trim().lines().next_back().unwrap_or("it printed no number");
            let reason = reason.escape_default();
            Err(JobError::Request(format!(
                "`flux getattr size` did not print the number of nodes: {reason} {hint}"
            )))
        }
    }
}

/// Determines the implementation that an `mpirun` belongs to.
fn detect_mpi(program: &str) -> Result<Mpi, JobError> {
    let hint = "(hint: set the command that starts the agents with --launch-with)";
    let output = match Command::new(program).arg("--version").stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            return Err(JobError::Agents(format!("cannot start `{program}`: {error} {hint}")));
        }
    };
    let version = [output.stdout, output.stderr].concat();
    match parse_mpi_version(&String::from_utf8_lossy(&version)) {
        Some(mpi) => Ok(mpi),
        None => Err(JobError::Agents(format!(
            "`{program} --version` mentions neither Open MPI nor MPICH's HYDRA {hint}"
        ))),
    }
}

fn parse_mpi_version(version: &str) -> Option<Mpi> {
    if version.contains("Open MPI") || version.contains("OpenRTE") || version.contains("PRRTE") {
        return Some(Mpi::Open);
    }
    // Intel's implementation is derived from MPICH.
    let is_mpich = ["HYDRA", "MPICH", "Intel(R) MPI"].iter().any(|name| version.contains(name));
    if is_mpich { Some(Mpi::Mpich) } else { None }
}

/// Splits a command line into words like a shell: at blanks, except inside quotes.
fn split_words(text: &str) -> Result<Vec<String>, JobError> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    match quote {
        None => Ok(words),
        Some(open) => {
            Err(JobError::Request(format!("--launch-with {text}: missing closing {open}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> String {
        let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
        let mut words: Vec<String> = args.collect();
        words.insert(0, command.get_program().to_string_lossy().into_owned());
        words.join(" ")
    }

    fn launch(launcher: Launcher, with: Option<&str>, count: u32, per_node: Option<u32>) -> String {
        words(&try_launch(launcher, with, count, per_node).unwrap())
    }

    fn try_launch(
        launcher: Launcher,
        with: Option<&str>,
        count: u32,
        per_node: Option<u32>,
    ) -> Result<Command, JobError> {
        let request = JobRequest {
            launch_with: with.map(str::to_owned),
            ..JobRequest::with_launcher(launcher)
        };
        launch_command(&request, Path::new("/bin/dfsbench"), count, per_node)
    }

    #[test]
    fn starts_srun_tasks() {
        let line = launch(Launcher::Slurm, None, 7, None);
        let start = "srun --ntasks=7 --kill-on-bad-exit=0 --wait=0 --mpi=none --export=ALL /";
        assert!(line.starts_with(start) && line.ends_with(" agent --meet"), "{line}");
        let with = "srun -p 'short jobs' -N2";
        let line = launch(Launcher::Slurm, Some(with), 2, Some(1));
        assert!(
            line.starts_with("srun -p short jobs -N2 --ntasks=2 --ntasks-per-node=1 "),
            "{line}"
        );
    }

    #[test]
    fn starts_flux_tasks() {
        let line = launch(Launcher::Flux, None, 7, None);
        assert!(line.starts_with("flux run --ntasks=7 -o exit-timeout=none /"), "{line}");
        assert!(line.ends_with(" agent --meet"), "{line}");
        let with = Some("flux run -q short");
        let line = launch(Launcher::Flux, with, 8, Some(2));
        let start = "flux run -q short --nodes=4 --tasks-per-node=2 -o exit-timeout=none /";
        assert!(line.starts_with(start), "{line}");
    }

    #[test]
    fn implementations_of_mpi_are_distinguished() {
        assert_eq!(parse_mpi_version("mpirun (Open MPI) 4.1.4\n"), Some(Mpi::Open));
        assert_eq!(parse_mpi_version("mpiexec (OpenRTE) 4.1.4\n"), Some(Mpi::Open));
        assert_eq!(
            parse_mpi_version("HYDRA build details:\n    Version: 4.0.2\n"),
            Some(Mpi::Mpich)
        );
        assert_eq!(parse_mpi_version("mpirun (mine) 1.0"), None);
        let errors = ["true", "/no/such/mpirun -q"]
            .map(|with| try_launch(Launcher::Mpi, Some(with), 1, None).unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn splits_command_like_shell() {
        let split = |text| split_words(text).unwrap();
        assert_eq!(split(" a  'b c' d\"e f\"'' \"\" "), ["a", "b c", "de f", ""]);
        assert_eq!(split(""), [""; 0]);
        insta::assert_snapshot!(
            split_words("a 'b").unwrap_err(),
            @"--launch-with a 'b: missing closing '"
        );
        assert!(try_launch(Launcher::Slurm, Some(" "), 1, None).is_err());
    }
}
