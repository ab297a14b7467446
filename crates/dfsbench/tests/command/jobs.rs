//! Hosts of a job, and input for schedulers, with agents that the test starts and that connect over
//! TCP.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::cli::{Cli, End};

/// A plan that can run on any host.
pub const PLAN: &str = r#"
name = "scan"
[[target]]
name = "nfs"
url = "nfs://server/export"
[[workload]]
kind = "stream"
"#;

const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Generous, because the machine may be busy.
const SOON: Duration = Duration::from_secs(90);

/// A controller that waits for agents, and the address that it prints.
fn waiting(
    cli: &Cli,
    count: &str,
    more: &[&str],
) -> (Child, BufReader<std::process::ChildStderr>, String) {
    let words = ["run", "target", "--workload", "stream", "--file-size", "1MiB", "--trials", "1"];
    let job = ["--launcher", "wait", "--agents", count];
    let mut command = cli.command(&[&words[..], &job[..], more].concat());
    command.env("DFSBENCH_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let (waiting, address) = line.trim().rsplit_once('=').unwrap();
    assert!(waiting.contains(&format!(" {count} agents ")), "{waiting}");
    assert!(waiting.ends_with(" DFSBENCH_MEET"), "{waiting}");
    (child, stderr, address.to_owned())
}

fn agent(cli: &Cli, address: &str, token: &str, (rank, size): (&str, &str)) -> Child {
    let mut command = cli.command(&["agent", "--meet"]);
    command.envs([("DFSBENCH_MEET", address), ("DFSBENCH_TOKEN", token)]);
    command.envs([("DFSBENCH_RANK", rank), ("DFSBENCH_SIZE", size), ("DFSBENCH_HOST", "node")]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end_of(child: Child) -> End {
    End::from_output(child.wait_with_output().unwrap())
}

#[test]
fn measures_agents_that_connect() {
    let cli = Cli::new();
    let (controller, mut stderr, address) = waiting(&cli, "2", &["--format", "json"]);
    let agents = [("1", "2"), ("0", "2")].map(|place| agent(&cli, &address, TOKEN, place));
    let drain = std::thread::spawn(move || stderr.read_line(&mut String::new()));
    let end = end_of(controller);
    let _ = drain.join().unwrap();
    assert!([0, 4].contains(&end.code), "{end:?}");
    assert!(end.stdout.contains("\"Write\"") || end.stdout.contains("\"write\""), "{end:?}");
    for agent in agents {
        let end = end_of(agent);
        assert_eq!((end.code, end.stdout.as_str(), end.stderr.as_str()), (0, "", ""));
    }
    cli.assert_target_is_empty();
    // The token is neither printed nor stored.
    assert!(!end.stdout.contains(TOKEN), "{end:?}");
    let results = std::fs::read(cli.folder().join("dfsbench.db")).unwrap();
    let kept = results.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes());
    assert!(!kept, "the results file contains the token");
}

#[test]
fn reports_wrong_and_missing_agents() {
    let cli = Cli::new();
    let (controller, stderr, address) = waiting(&cli, "2", &["--meet-within", "5s"]);
    let good = agent(&cli, &address, TOKEN, ("0", "2"));
    let other = "f".repeat(64);
    let bad = end_of(agent(&cli, &address, &other, ("1", "2")));
    assert_eq!(bad.code, 3, "{bad:?}");
    let message = format!("error: agent, rank 1 of 2: the controller at {address} rejected");
    assert!(bad.stderr.starts_with(&message) && !bad.stderr.contains(&other), "{bad:?}");
    let lines: Vec<String> = stderr.lines().map(Result::unwrap).collect();
    let end = end_of(controller);
    assert_eq!((end.code, lines.len()), (3, 1), "{lines:?}");
    for words in
        ["error: 1 of 2 agents", "within 5 s", "rank 1", "127.0.0.1: it has the wrong token"]
    {
        assert!(lines[0].contains(words), "{words}: {lines:?}");
    }
    // The other one exits by itself.
    assert_eq!(end_of(good).code, 0);
    assert!(!cli.folder().join("dfsbench.db").exists());
}

#[test]
fn leaves_after_controller_was_killed() {
    let cli = Cli::new();
    let (mut controller, _stderr, address) = waiting(&cli, "2", &[]);
    let left = agent(&cli, &address, TOKEN, ("0", "2"));
    std::thread::sleep(Duration::from_secs(1));
    controller.kill().unwrap();
    controller.wait().unwrap();
    let begun = Instant::now();
    assert_eq!(end_of(left).code, 0);
    assert!(begun.elapsed() < SOON);
}

#[test]
fn names_what_agent_lacks() {
    let cli = Cli::new();
    let refused = |variables: &[(&str, &str)]| {
        let mut command = cli.command(&["agent", "--meet", "--meet-within", "100ms"]);
        let all = ["DFSBENCH_MEET", "DFSBENCH_TOKEN", "DFSBENCH_RANK", "DFSBENCH_SIZE"];
        for name in all.iter().chain(&["SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK"]) {
            command.env_remove(name);
        }
        let end = End::from_output(command.envs(variables.iter().copied()).output().unwrap());
        assert!(end.code == 2 || end.code == 3, "{end:?}");
        end.stderr
    };
    let rank = [("DFSBENCH_RANK", "0"), ("DFSBENCH_SIZE", "1")];
    let meet = ("DFSBENCH_MEET", "127.0.0.1:1");
    let (bad, good) = (("DFSBENCH_TOKEN", "secret"), ("DFSBENCH_TOKEN", TOKEN));
    let messages = [
        refused(&[]),
        refused(&rank),
        refused(&[&rank[..], &[meet]].concat()),
        refused(&[&rank[..], &[meet, bad]].concat()),
        refused(&[&rank[..], &[meet, good]].concat()),
        refused(&[&rank[..], &[meet, good, ("DFSBENCH_HOST", "a b")]].concat()),
    ];
    insta::assert_snapshot!(messages.concat());
}

#[test]
fn rejects_bad_job_arguments() {
    let cli = Cli::new();
    insta::assert_snapshot!(cli.errors_of(&[
        &["run", "target", "--launcher", "wait"],
        &["run", "target", "--launcher", "wait", "--agents", "2"],
        &["run", "target", "--launcher", "slurm", "--agents", "0"],
        &["run", "target", "--launcher", "mpi", "--agents", "2", "--listen", "a:b"],
        &["run", "target", "--launcher", "mpi", "--agents", "2", "--meet-within", "x"],
        &["run", "target", "--launcher", "wait", "--agents", "2", "--launch-with", "x"],
    ]));
    let run = |more: &[&'static str]| [&["run", "target"], more].concat();
    let missing = run(&["--launcher", "mpi", "--agents", "2", "--launch-with", "/no/mpirun"]);
    cli.refused(&missing, 3, &["cannot start `/no/mpirun`", "--launch-with"]);
    let other = run(&[
        "--launcher",
        "slurm",
        "--agents",
        "2",
        "--launch-with",
        "sh -c 'echo no luck >&2' srun",
    ]);
    let end = cli.run(&other);
    assert_eq!(end.code, 3, "{end:?}");
    for words in ["0 of 2 agents", "ranks 0, 1", "`sh` ended"] {
        assert!(end.stderr.contains(words), "{words}: {end:?}");
    }
}

#[test]
fn writes_sbatch_script() {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("scan.toml"), PLAN).unwrap();
    let end = cli.run(&["slurm", "scan.toml", "--nodes", "3", "--partition", "short"]);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    assert!(end.stdout.starts_with("#!/bin/sh\n#SBATCH --job-name=dfsbench-scan\n"), "{end:?}");
    assert!(end.stdout.contains(" run scan.toml --launcher slurm --agents 3 "), "{end:?}");
    assert!(!end.stdout.contains("TOKEN"), "{end:?}");
    let own = PLAN.replace("url = \"nfs://server/export\"", "temporary = true");
    std::fs::write(cli.folder().join("own.toml"), own).unwrap();
    cli.refused(&["slurm", "own.toml", "--nodes", "3"], 2, &["no target of the plan can be used"]);
    let with_hosts = PLAN.replace("\nurl", "\nhosts = [\"a\", \"b\"]\nurl");
    let hosts = "[[host]]\nname = \"a\"\nssh = \"a\"\n[[host]]\nname = \"b\"\nssh = \"b\"\n";
    std::fs::write(cli.folder().join("hosts.toml"), format!("{with_hosts}{hosts}")).unwrap();
    let words = ["no target of the plan can be used", "the job provides the hosts"];
    cli.refused(&["slurm", "hosts.toml", "--nodes", "3"], 2, &words);
    cli.refused(&["slurm", "no.toml", "--nodes", "3"], 2, &["can't read plan `no.toml`"]);
}

/// A fake flux-run(1): starts the requested number of tasks, each with its rank and the
/// environment, and records its arguments.
const FLUX: &str = r#"#!/bin/sh
if [ "$1" = getattr ]; then echo 2; exit; fi
echo "$@" >"${0%/*}/../arguments"
while [ "$1" != "${1#-}" ] || [ "$2" != agent ]; do shift; done
export FLUX_JOB_SIZE=2
DFSBENCH_HOST=node0 FLUX_TASK_RANK=0 "$@" &
DFSBENCH_HOST=node1 FLUX_TASK_RANK=1 "$@" &
wait
"#;

#[test]
fn starts_flux_agent_per_node() {
    let cli = Cli::new();
    let bin = cli.folder().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("flux"), FLUX).unwrap();
    std::fs::set_permissions(bin.join("flux"), Permissions::from_mode(0o755)).unwrap();
    let words = ["run", "target", "--workload", "stream", "--file-size", "1MiB", "--trials", "1"];
    let mut command = cli.command(&[&words[..], &["--launcher", "flux", "--quiet"]].concat());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let end = End::from_output(command.env("PATH", path).output().unwrap());
    assert!([0, 4].contains(&end.code), "{end:?}");
    let arguments = std::fs::read_to_string(cli.folder().join("arguments")).unwrap();
    let start = "run --nodes=2 --tasks-per-node=1 -o exit-timeout=none /";
    assert!(arguments.starts_with(start), "{arguments}");
    assert!(!arguments.contains("TOKEN"), "{arguments}");
    // Outside an instance, `flux` reports why the size is unknown.
    std::fs::write(bin.join("flux"), "#!/bin/sh\necho 'broker: no' >&2; exit 1\n").unwrap();
    let mut command = cli.command(&["run", "target", "--launcher", "flux", "--dry-run"]);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let end = End::from_output(command.env("PATH", path).output().unwrap());
    assert_eq!(end.code, 2, "{end:?}");
    insta::assert_snapshot!(end.stderr);
}

#[test]
fn lists_scheduler_hosts_in_dry_run() {
    let cli = Cli::new();
    let nodes = cli.folder().join("nodes");
    std::fs::write(&nodes, "n7\nn7\nn8\n").unwrap();
    let run = |more: &[&str], variable: (&str, &str)| {
        let words = ["run", "/scratch", "--dry-run", "--client-hosts", "1,2"];
        let mut command = cli.command(&[&words[..], more].concat());
        for name in ["PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS"] {
            command.env_remove(name);
        }
        End::from_output(command.env(variable.0, variable.1).output().unwrap())
    };
    let pbs = ("PBS_NODEFILE", nodes.to_str().unwrap());
    let end = run(&["--launcher", "pbs"], pbs);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    for (more, variable, words) in [
        (&["--launcher", "lsf"][..], pbs, "LSB_DJOB_HOSTFILE or LSB_MCPU_HOSTS is not set"),
        (
            &["--launcher", "lsf"],
            ("LSB_MCPU_HOSTS", "a"),
            "`a` is not followed by a number of slots",
        ),
        (&["--launcher", "pbs", "--agents", "3"], pbs, "--agents 3: the job has 2 hosts"),
        (&["--launcher", "pbs", "--listen", "a"], pbs, "--listen has no effect"),
        (&["--launcher", "pbs", "--launch-with", "a"], pbs, "--launch-with has no effect"),
    ] {
        let end = run(more, variable);
        assert_eq!((end.code, end.stdout.as_str()), (2, ""), "{more:?}: {end:?}");
        assert!(end.stderr.contains(words) && end.stderr.contains("(hint: "), "{end:?}");
    }
}
