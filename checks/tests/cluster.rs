//! Agents started by schedulers: real Slurm, and real Open MPI and MPICH, with plans on them.
//!
//! All daemons and agents run in their own namespaces, see [`checks::cluster`]. Needs root. Agents
//! started by `mpirun` are detected to share a host; Slurm nodes are distinguished, although they
//! are one machine.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use checks::check::{Fixture, wait_until};
use checks::checks;
use checks::cluster::{Machine, NODES};
use checks::ours::{Ours, exit};
use checks::proc::{self, Background};
use checks::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);

/// Timeout for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Maximum time until agents whose controller is gone exit.
const LEAVING: Duration = Duration::from_secs(30);

/// Launch with Open MPI, which by default refuses to start more processes than CPUs.
const OPEN_MPI: [&str; 4] =
    ["--launcher", "mpi", "--launch-with", "mpirun.openmpi --oversubscribe"];

const MPICH: [&str; 4] = ["--launcher", "mpi", "--launch-with", "mpirun.mpich"];

/// Launch with Slurm, outside an allocation.
const SLURM: [&str; 4] = ["--launcher", "slurm", "--launch-with", "srun -N4"];

static CLUSTER: Fixture<Machine> = Fixture::new(Machine::start);

/// Names of agents started by `mpirun`: they share a host.
const SHARED: [&str; 4] = ["cluster", "cluster:2", "cluster:3", "cluster:4"];

checks! {
    srun_starts_agents_on_four_hosts: 200 s, measured(CLUSTER.get()?, &SLURM, NODES);
    runs_generated_sbatch_script: 200 s, by_script(CLUSTER.get()?);
    open_mpi_starts_four_agents: 200 s, measured(CLUSTER.get()?, &OPEN_MPI, SHARED);
    mpich_starts_four_agents: 200 s, measured(CLUSTER.get()?, &MPICH, SHARED);
    places_two_tasks_per_node: 200 s, laid_out(CLUSTER.get()?);
    only_agents_learn_the_token: 200 s, secret(CLUSTER.get()?);
    continues_under_slurm_without_killed_agent: 200 s, killed(CLUSTER.get()?, &SLURM);
    continues_under_open_mpi_without_killed_agent: 200 s, killed(CLUSTER.get()?, &OPEN_MPI);
    continues_under_mpich_without_killed_agent: 200 s, killed(CLUSTER.get()?, &MPICH);
    leaves_after_controller_is_killed: 200 s, deserted(CLUSTER.get()?);
    reports_failed_launcher_once: 200 s, refused(CLUSTER.get()?);
    maps_clocks_a_day_apart: 60 s, day_apart();
}

/// Starts two agents like `mpirun` of Open MPI, the second one in a time namespace, where the
/// monotonic clock is a day and an hour ahead. **Source:** time_namespaces(7), unshare(1).
const DAY_APART: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo 'mpirun (Open MPI) 4.1.4'; exit; fi
while [ "$1" != "${1#-}" ] || [ "$2" != agent ]; do shift; done
export OMPI_COMM_WORLD_SIZE=2
OMPI_COMM_WORLD_RANK=0 "$@" &
OMPI_COMM_WORLD_RANK=1 unshare --time --monotonic 90000 --boottime 90000 "$@" &
wait
"#;

/// Hosts started on different days have such clocks: every instant reported by an agent must be
/// converted before it is compared with another.
fn day_apart() -> Result<()> {
    let folder = TempDir::new()?;
    let launcher = folder.path().join("mpirun");
    fs::write(&launcher, DAY_APART)?;
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))?;
    fs::create_dir(folder.path().join("target"))?;
    let mut command = OURS.command();
    command.current_dir(folder.path());
    command.args(["run", "target", "--workload", "mixed", "--file-size", "1MiB", "--quiet"]);
    command.args(["--duration", "1s", "--trials", "1", "--workers", "1", "--results", "r.db"]);
    command.args(["--agents", "2", "--launcher", "mpi", "--launch-with"]).arg(&launcher);
    let output = proc::capture_output(&mut command)?;
    let measured = [Some(0), Some(exit::INVALID)].contains(&output.status.code());
    ensure!(measured, "{}", String::from_utf8_lossy(&output.stderr));
    let json = String::from_utf8(OURS.report(&folder.path().join("r.db"), "json")?)?;
    for code in ["clock", "clock-rate", "accounting"] {
        ensure!(!json.contains(&format!("\"code\":\"{code}\"")), "{code} is raised: {json}");
    }
    let report: serde_json::Value = serde_json::from_str(&json)?;
    let trial = &report["runs"][0]["trials"][0];
    ensure!(trial["state"].to_string().contains("done"), "{trial}");
    // Without converting clocks the pass would last a day.
    let window_ns = trial["passes"][0]["window_ns"].as_u64().context("no window")?;
    ensure!((900_000_000..3_600_000_000_000).contains(&window_ns), "{window_ns} ns");
    Ok(())
}

/// A run of a few files on four agents.
fn run_command(cluster: &Machine, how: &[&str], work: &[&str]) -> Command {
    let program = OURS.command();
    let mut command = cluster.inside(&program.get_program().to_string_lossy());
    command.args(["run", "target", "--workers", "1", "--quiet"]);
    command.args(["--agents", "4", "--results", "results.db"]).args(how).args(work);
    command
}

const SHORT: [&str; 6] = ["--workload", "stream", "--file-size", "1MiB", "--trials", "1"];

/// A mix that is ended early; after its end, a lost host would be waited for.
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

/// Fails if a run did, or has other hosts than expected, or leaves something.
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
    let agents = || cluster.list_agents().map_or(1, |agents| agents.len());
    wait_until(LEAVING, "leaving", || files() == 0 && agents() == 0)
        .with_context(|| format!("{} files and {} agents are left", files(), agents()))
}

fn measured(cluster: &Machine, how: &[&str], names: [&str; 4]) -> Result<()> {
    let output = proc::capture_output(&mut run_command(cluster, how, &SHORT))?;
    check(cluster, &output, names)
}

/// Starts the tasks of srun in another layout than requested: three on the first of two nodes.
const UNEVEN: &str = r#"#!/bin/sh
for word; do
  shift
  case $word in --ntasks-per-node=*) ;; *) set -- "$@" "$word" ;; esac
done
exec srun --nodes=2 --distribution=plane=3 "$@"
"#;

/// Two agents on each of two nodes: one host is one node, and its two agents work.
fn laid_out(cluster: &Machine) -> Result<()> {
    let how = ["--launcher", "slurm", "--agents-per-node", "2", "--launch-with", "srun -N2"];
    let work = [&SHORT[..], &["--client-hosts", "1"]].concat();
    let output = proc::capture_output(&mut run_command(cluster, &how, &work))?;
    let json = String::from_utf8(OURS.report(&cluster.path("results.db"), "json")?)?;
    ensure!(!json.contains("\"n2\"") && !json.contains("\"n2:2\""), "{json}");
    // Its nodes are namespaces of this machine.
    ensure!(json.contains("n1 and n1:2 are the same machine"), "no shared-host: {json}");
    check(cluster, &output, ["n1", "n1:2", "shared-host", "n1"])?;
    let launcher = cluster.path("uneven");
    fs::write(&launcher, UNEVEN)?;
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))?;
    let launcher = launcher.display().to_string();
    let how = ["--launcher", "slurm", "--agents-per-node", "2", "--launch-with", &launcher];
    let output = proc::capture_output(&mut run_command(cluster, &how, &SHORT))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(exit::LAB), "{output:?}");
    let words = "error: the launcher did not start 2 agents on each host: n1 has 3, n2 has 1";
    ensure!(stderr.contains(words), "{stderr}");
    nothing_left(cluster)
}

fn by_script(cluster: &Machine) -> Result<()> {
    let plan = "name = \"script\"\ntrials = 1\n[[target]]\nname = \"d\"\npath = \"FOLDER\"\n\
                [factors]\nfile_size = \"1MiB\"\nworkers = 1\n[[workload]]\nkind = \"stream\"\n";
    let target = cluster.path("target").display().to_string();
    fs::write(cluster.path("plan.toml"), plan.replace("FOLDER", &target))?;
    let mut write = OURS.command();
    write.arg("slurm").arg(cluster.path("plan.toml")).args(["--nodes", "4", "--minutes", "5"]);
    write.arg("--results").arg(cluster.path("results.db"));
    fs::write(cluster.path("job.sh"), proc::capture_stdout(&mut write)?)?;
    let mut sbatch = cluster.inside("sbatch");
    sbatch.args(["--wait", "--output=job.out", "job.sh"]);
    let output = proc::capture_output(&mut sbatch)?;
    let text = || fs::read_to_string(cluster.path("job.out")).unwrap_or_default();
    check(cluster, &output, NODES).with_context(text)
}

/// Starts a long run, and waits until its four agents have connected.
fn busy(cluster: &Machine, how: &[&str]) -> Result<Background> {
    let mut command = run_command(cluster, how, &LONG);
    let out = |name: &str| fs::File::create(cluster.path(name));
    command.stdout(out("stdout")?).stderr(out("stderr")?);
    let mut run = Background::start(&mut command)?;
    let mut ended = false;
    wait_until(PATIENCE, "the work", || {
        ended = run.has_ended();
        let works = fs::read_dir(cluster.path("target")).is_ok_and(|mut it| it.next().is_some());
        ended || works && cluster.list_agents().is_ok_and(|agents| agents.len() == 4)
    })?;
    let text = || fs::read_to_string(cluster.path("stderr")).unwrap_or_default();
    ensure!(!ended, "it ended at once: {}", text());
    Ok(run)
}

/// Kills the controller, after which no agent may be left.
fn end(cluster: &Machine, run: &mut Background) -> Result<()> {
    cluster.find_processes("run ")?.iter().try_for_each(|id| cluster.kill(id))?;
    run.await_end(PATIENCE)?;
    wait_until(LEAVING, "leaving", || cluster.list_agents().is_ok_and(|agents| agents.is_empty()))?;
    // A run in the controller itself, which was killed, leaves its files.
    fs::remove_dir_all(cluster.path("target"))?;
    Ok(fs::create_dir(cluster.path("target"))?)
}

/// Searches all command lines, logs and results for the token, while agents are working.
fn secret(cluster: &Machine) -> Result<()> {
    let mut run = busy(cluster, &SLURM)?;
    let agents = cluster.list_agents()?;
    let agent = agents.first().context("there is no agent")?;
    let environment = format!("tr '\\0' '\\n' < /proc/{agent}/environ");
    let environment = proc::capture_text(cluster.inside("sh").args(["-c", &environment]))?;
    let token = environment.lines().find_map(|line| line.strip_prefix("DFSBENCH_TOKEN="));
    let token = token.context("the agent has no token")?;
    ensure!(token.len() == 64, "a token of {} digits", token.len());
    let lines =
        proc::capture_stdout(cluster.inside("sh").args(["-c", "cat /proc/[0-9]*/cmdline"]))?;
    ensure!(!holds(&lines, token), "a command line contains the token");
    end(cluster, &mut run)?;
    let mut found = Vec::new();
    for entry in fs::read_dir(cluster.path(""))?.flatten() {
        if entry.file_type()?.is_file() && holds(&fs::read(entry.path())?, token) {
            found.push(entry.file_name());
        }
    }
    ensure!(found.is_empty(), "{found:?} hold the token");
    Ok(())
}

fn holds(bytes: &[u8], token: &str) -> bool {
    bytes.windows(token.len()).any(|window| window == token.as_bytes())
}

fn killed(cluster: &Machine, how: &[&str]) -> Result<()> {
    let mut run = busy(cluster, how)?;
    let agents = cluster.list_agents()?;
    cluster.kill(agents.get(1).context("its agents have left")?)?;
    // The launcher has noticed by then, and would have ended the others.
    thread::sleep(Duration::from_secs(1));
    let left = cluster.list_agents()?;
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
    let output = proc::capture_output(&mut run_command(cluster, &how, &SHORT))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(exit::LAB), "{output:?}");
    let words = "error: 0 of 4 agents connected: ranks 0 to 3 are missing: `srun` ended with exit";
    ensure!(stderr.contains(words) && stderr.matches("\nerror: 0").count() == 1, "{stderr}");
    nothing_left(cluster)
}
