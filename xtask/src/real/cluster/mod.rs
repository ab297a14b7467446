//! Agents that schedulers start: real Slurm, and real Open MPI and MPICH, with plans on them.
//!
//! All daemons and agents run in namespaces of their own, see [`machine`]. Needs root. Two agents
//! are found to share a host where `mpirun` starts them, and nodes of Slurm are told apart.

mod machine;

use std::fs;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Checks;
use super::ours::{Ours, exit};
use crate::proc::{self, Background};
use crate::repo::Profile;
use machine::{Machine, NODES};

const OURS: Ours = Ours::new(Profile::Debug);

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long agents whose controller is gone may take to leave.
const LEAVING: Duration = Duration::from_secs(30);

/// By Open MPI, which asks before it starts more than there are processors.
const OPEN_MPI: [&str; 4] =
    ["--launcher", "mpi", "--launch-with", "mpirun.openmpi --oversubscribe"];

/// Arguments that launch by MPICH.
const MPICH: [&str; 4] = ["--launcher", "mpi", "--launch-with", "mpirun.mpich"];

/// By Slurm, outside of an allocation.
const SLURM: [&str; 4] = ["--launcher", "slurm", "--launch-with", "srun -N4"];

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    let Some(cluster) = checks.get("a cluster of four nodes starts", Machine::up) else { return };
    let shared = ["cluster-0", "cluster-1", "cluster-2", "cluster-3"];
    checks.run("srun brings four hosts, which are measured", || measured(&cluster, &SLURM, NODES));
    checks.run("sbatch runs the script that was written for it", || by_script(&cluster));
    checks.run("Open MPI brings four agents", || measured(&cluster, &OPEN_MPI, shared));
    checks.run("MPICH brings four agents", || measured(&cluster, &MPICH, shared));
    checks.run("nobody but agents learns the token", || secret(&cluster));
    for (name, how) in [("Slurm", &SLURM), ("Open MPI", &OPEN_MPI), ("MPICH", &MPICH)] {
        checks.run(&format!("{name} keeps the others when an agent is killed"), || {
            killed(&cluster, how)
        });
    }
    checks.run("agents whose controller is killed leave", || deserted(&cluster));
    checks.run("a launcher that fails is one error", || refused(&cluster));
}

/// A run of a few files with four agents.
fn run_command(cluster: &Machine, how: &[&str], work: &[&str]) -> Command {
    let program = OURS.command();
    let mut command = cluster.inside(&program.get_program().to_string_lossy());
    command.args(["run", "target", "--workers", "1", "--quiet"]);
    command.args(["--agents", "4", "--results", "results.db"]).args(how).args(work);
    command
}

const SHORT: [&str; 6] = ["--workload", "stream", "--file-size", "1MiB", "--trials", "1"];

/// A mix that nobody waits for; after it, a lost host would be waited for.
const LONG: [&str; 10] = [
    "--workload",
    "mixed",
    "--file-size",
    "1MiB",
    "--duration",
    "20s",
    "--trials",
    "2",
    "--on-lost",
    "1m",
];

/// Fails where a run did, or names other hosts than it should, or leaves something.
fn check(cluster: &Machine, output: &Output, names: [&str; 4]) -> Result<()> {
    let measured = [Some(0), Some(exit::INVALID)].contains(&output.status.code());
    ensure!(measured, "{}", String::from_utf8_lossy(&output.stderr));
    let results = cluster.path("results.db");
    let json = String::from_utf8(OURS.report(&results, "json")?)?;
    for name in names {
        ensure!(json.contains(&format!("\"{name}\"")), "{name} is not in the results: {json}");
    }
    ensure!(!json.contains("\"failed\":\""), "{json}");
    nothing_left(cluster)?;
    fs::remove_file(results)?;
    Ok(())
}

/// Waits until no agent and no file is left.
fn nothing_left(cluster: &Machine) -> Result<()> {
    let files = || fs::read_dir(cluster.path("target")).map_or(1, Iterator::count);
    let agents = || cluster.agents().map_or(1, |agents| agents.len());
    within(LEAVING, "leaving", || files() == 0 && agents() == 0)
        .with_context(|| format!("{} files and {} agents are left", files(), agents()))
}

fn measured(cluster: &Machine, how: &[&str], names: [&str; 4]) -> Result<()> {
    let output = proc::output(&mut run_command(cluster, how, &SHORT))?;
    check(cluster, &output, names)
}

fn by_script(cluster: &Machine) -> Result<()> {
    let plan = "name = \"script\"\ntrials = 1\n[[target]]\nname = \"d\"\npath = \"FOLDER\"\n\
                [factors]\nfile_size = \"1MiB\"\nworkers = 1\n[[workload]]\nkind = \"stream\"\n";
    let target = cluster.path("target").display().to_string();
    fs::write(cluster.path("plan.toml"), plan.replace("FOLDER", &target))?;
    let mut write = OURS.command();
    write.arg("slurm").arg(cluster.path("plan.toml")).args(["--nodes", "4", "--minutes", "5"]);
    write.arg("--results").arg(cluster.path("results.db"));
    fs::write(cluster.path("job.sh"), proc::capture(&mut write)?)?;
    let mut sbatch = cluster.inside("sbatch");
    sbatch.args(["--wait", "--output=job.out", "job.sh"]);
    let output = proc::output(&mut sbatch)?;
    let said = || fs::read_to_string(cluster.path("job.out")).unwrap_or_default();
    check(cluster, &output, NODES).with_context(said)
}

/// Starts a run that works for long, and waits until its four agents have come.
fn busy(cluster: &Machine, how: &[&str]) -> Result<Background> {
    let mut command = run_command(cluster, how, &LONG);
    let out = |name: &str| fs::File::create(cluster.path(name));
    command.stdout(out("stdout")?).stderr(out("stderr")?);
    let mut run = Background::start(&mut command)?;
    let mut ended = false;
    within(PATIENCE, "the work", || {
        ended = run.has_ended();
        let works = fs::read_dir(cluster.path("target")).is_ok_and(|mut it| it.next().is_some());
        ended || works && cluster.agents().is_ok_and(|agents| agents.len() == 4)
    })?;
    let said = || fs::read_to_string(cluster.path("stderr")).unwrap_or_default();
    ensure!(!ended, "it ended at once: {}", said());
    Ok(run)
}

/// Kills the controller, after which no agent may be left.
fn end(cluster: &Machine, run: &mut Background) -> Result<()> {
    cluster.processes("run ")?.iter().try_for_each(|id| cluster.kill(id))?;
    run.await_end(PATIENCE)?;
    within(LEAVING, "leaving", || cluster.agents().is_ok_and(|agents| agents.is_empty()))?;
    // A run in the controller itself, which was killed, leaves its files.
    fs::remove_dir_all(cluster.path("target"))?;
    Ok(fs::create_dir(cluster.path("target"))?)
}

/// Looks for the token in all command lines, logs and results, while agents work.
fn secret(cluster: &Machine) -> Result<()> {
    let mut run = busy(cluster, &SLURM)?;
    let agents = cluster.agents()?;
    let agent = agents.first().context("there is no agent")?;
    let environment = format!("tr '\\0' '\\n' < /proc/{agent}/environ");
    let environment = proc::text(cluster.inside("sh").args(["-c", &environment]))?;
    let token = environment.lines().find_map(|line| line.strip_prefix("DFSBENCH_TOKEN="));
    let token = token.context("the agent has no token")?;
    ensure!(token.len() == 64, "a token of {} digits", token.len());
    let lines = proc::capture(cluster.inside("sh").args(["-c", "cat /proc/[0-9]*/cmdline"]))?;
    ensure!(!holds(&lines, token), "a command line holds the token");
    end(cluster, &mut run)?;
    let mut told = Vec::new();
    for entry in fs::read_dir(cluster.path(""))?.flatten() {
        if entry.file_type()?.is_file() && holds(&fs::read(entry.path())?, token) {
            told.push(entry.file_name());
        }
    }
    ensure!(told.is_empty(), "{told:?} hold the token");
    Ok(())
}

fn holds(bytes: &[u8], token: &str) -> bool {
    bytes.windows(token.len()).any(|window| window == token.as_bytes())
}

fn killed(cluster: &Machine, how: &[&str]) -> Result<()> {
    let mut run = busy(cluster, how)?;
    let agents = cluster.agents()?;
    cluster.kill(agents.get(1).context("its agents have left")?)?;
    // The launcher has noticed by then, and would have ended the others.
    thread::sleep(Duration::from_secs(1));
    let left = cluster.agents()?;
    let kept = agents.iter().filter(|agent| left.contains(agent)).count();
    end(cluster, &mut run)?;
    ensure!(kept == 3, "{kept} of 3 others are left");
    Ok(())
}

fn deserted(cluster: &Machine) -> Result<()> {
    let mut run = busy(cluster, &OPEN_MPI)?;
    end(cluster, &mut run)
}

fn refused(cluster: &Machine) -> Result<()> {
    let how = ["--launcher", "slurm", "--launch-with", "srun --nodelist=n9"];
    let output = proc::output(&mut run_command(cluster, &how, &SHORT))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(exit::LAB), "{output:?}");
    let words = "error: 0 of 4 agents came: ranks 0 to 3 are missing: `srun` ended with exit";
    ensure!(said.contains(words) && said.matches("\nerror: 0").count() == 1, "{said}");
    nothing_left(cluster)
}

fn within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !done() {
        ensure!(Instant::now() < deadline, "{what} takes longer than {} s", limit.as_secs());
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
