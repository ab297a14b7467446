//! Targets used from several hosts: which hosts a run uses, and what a plan may request.

use crate::common::{around, plan};
use crate::round_trip::reads_back;
use model::setting::Setting;
use model::{DataPath, Host, Impossible, RunSpec, Target};
use plan::{Overrides, Plan, RawPlan, Surroundings};

const NAME: &str = "name = \"t\"\ntrials = 1\nseed = 5\n";

/// A server and clients `c1` ..., the first with two slots.
fn hosts(clients: u32) -> String {
    let host = |n| {
        let slots = if n == 1 { "slots = 2\n" } else { "" };
        format!("[[host]]\nname = \"c{n}\"\nssh = \"c{n}\"\n{slots}")
    };
    let clients: String = (1..=clients).map(host).collect();
    format!("[[host]]\nname = \"s\"\nssh = \"s\"\n{clients}")
}

fn text(clients: u32, target: &str, factors: &str) -> String {
    format!(
        "{NAME}{}[[target]]\nname = \"n\"\n{target}\n[factors]\n{factors}\n\
         [[workload]]\nkind = \"stream\"\n",
        hosts(clients)
    )
}

fn made(target: &str, factors: &str) -> Plan {
    plan(&text(3, target, factors)).unwrap()
}

fn refused(target: &str, factors: &str) -> String {
    plan(&text(3, target, factors)).unwrap_err().to_string()
}

fn names(hosts: &[Host]) -> Vec<&str> {
    hosts.iter().map(|host| host.name.as_str()).collect()
}

fn working(run: &RunSpec) -> Vec<&str> {
    names(run.client_hosts())
}

const MOUNTED: &str = "server = \"s\"\nclients = [\"c1\", \"c2\", \"c3\"]";
const SHARED: &str = "path = \"/mnt/shared\"\nhosts = [\"c3\", \"c1\"]";

#[test]
fn uses_first_agent_of_each_client() {
    let plan = made(MOUNTED, "client_hosts = [1, 3]\nworkers = 2\nneighbour = 1");
    let all: Vec<_> = plan.runs.iter().map(working).collect();
    assert_eq!(all, [vec!["c1", "c1:2"], vec!["c1", "c2", "c3", "c1:2"]]);
    // A host with two clients mounts only once.
    let mounting = |run: &RunSpec| run.lab.as_ref().unwrap().clients().count();
    assert_eq!(plan.runs.iter().map(mounting).collect::<Vec<_>>(), [1, 3]);
    // One file for each worker of each agent.
    let files: Vec<_> = plan.runs.iter().map(|run| (run.files, run.placement.neighbour)).collect();
    assert_eq!(files, [(4, 1), (8, 1)]);
    assert_eq!(plan.varying(), ["client_hosts", "files"]);
    reads_back(&plan);
    // All of them by default.
    assert_eq!(working(&made(MOUNTED, "").runs[0]).len(), 4);
}

#[test]
fn counts_agents_apart_from_hosts() {
    let plan = made(MOUNTED, "client_hosts = [1, 2]\nagents_per_host = [1, 2]");
    let all: Vec<_> = plan.runs.iter().map(working).collect();
    assert_eq!(all, [vec!["c1"], vec!["c1", "c1:2"], vec!["c1", "c2"], vec!["c1", "c2", "c1:2"]]);
    assert_eq!(plan.varying(), ["client_hosts", "agents_per_host", "files"]);
    reads_back(&plan);
    reads_back(&made(MOUNTED, "agents_per_host = 1"));
    let beyond = refused(MOUNTED, "agents_per_host = 3");
    let words = "agents_per_host: no host of `n` has more than 2, but 3 are requested (hint: \
                 raise `slots` in their [[host]])";
    assert!(beyond.ends_with(words), "{beyond}");
}

#[test]
fn places_no_client_on_server() {
    let plan = made(MOUNTED, "data_path = [\"disk\", \"network\"]\nclient_hosts = [2, 3]");
    let paths: Vec<_> = plan.runs.iter().map(|run| run.lab.as_ref().unwrap().path).collect();
    assert_eq!(paths, [DataPath::Disk, DataPath::Network, DataPath::Network]);
    assert_eq!(working(&plan.runs[0]), ["s"]);
    reads_back(&plan);
}

#[test]
fn uses_shared_directory_from_each_host() {
    let plan = made(SHARED, "client_hosts = [1, 2]\non_lost = \"30s\"");
    assert_eq!(working(&plan.runs[0]), ["c3"]);
    assert_eq!(working(&plan.runs[1]), ["c3", "c1", "c1:2"]);
    assert_eq!(plan.runs[0].target, Target::Directory { path: "/mnt/shared".into() });
    assert_eq!(plan.runs[0].placement.lost_wait_ms, Some(30_000));
    assert!(plan.runs[0].lab.is_none());
    assert_eq!(names(&plan.hosts().into_iter().cloned().collect::<Vec<_>>()), ["c3", "c1"]);
    reads_back(&plan);
    // Each host connects to the server, and the clients are distributed over the hosts.
    let nfs = made("url = \"nfs://h/e\"\nhosts = [\"c2\", \"c3\"]", "clients = [2, 40]");
    assert_eq!(nfs.runs.iter().map(RunSpec::clients).collect::<Vec<_>>(), [2, 40]);
    reads_back(&nfs);
}

#[test]
fn limits_external_programs_to_one_host() {
    let made = |factors: &str| {
        plan(&text(3, SHARED, factors).replace("\"stream\"", "\"app\"\nrun = [\"true\"]"))
    };
    let runs = made("client_hosts = [1, 2]").unwrap().runs;
    let found = runs.iter().map(|run| (run.agents(), run.impossible()));
    let expected = [(1, None), (3, Some(Impossible::ProgramOnManyHosts))];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    insta::assert_snapshot!(made("").unwrap_err());
}

#[test]
fn uses_hosts_of_job() {
    let text = text(0, "path = \"/scratch\"\nhosts = \"job\"", "client_hosts = [1, 2]");
    let raw = RawPlan::parse(&text, "p.toml").unwrap();
    insta::assert_snapshot!(Plan::resolve(&raw, &around()).unwrap_err());
    let job = Some(vec![Host::local("node7"), Host::local("node9")]);
    let in_job = Surroundings { job, ..around() };
    let plan = Plan::resolve(&raw, &in_job).unwrap();
    let all: Vec<_> = plan.runs.iter().map(working).collect();
    assert_eq!(all, [vec!["node7"], vec!["node7", "node9"]]);
    assert!(plan.hosts().is_empty() && plan.runs[1].placement.of_job);
    let again = RawPlan::parse(&plan.to_toml(), "again").unwrap();
    assert_eq!(Plan::resolve(&again, &in_job), Ok(plan));
}

#[test]
fn overrides_number_of_hosts() {
    let with = |target: &str, level: &str| {
        let mut raw = RawPlan::parse(&text(3, target, "client_hosts = 1"), "p.toml").unwrap();
        raw.apply(&Overrides::default().with(Setting::ClientHosts, &[level])).unwrap();
        Plan::resolve(&raw, &around())
    };
    assert_eq!(working(&with(SHARED, "2").unwrap().runs[0]), ["c3", "c1", "c1:2"]);
    insta::assert_snapshot!(with(SHARED, "4").unwrap_err());
    // With one process, no run depends on it.
    let idle = with("path = \"/mnt\"", "2").unwrap_err().to_string();
    assert!(idle.contains("no run of this plan"), "{idle}");
}

#[test]
fn divides_ranks_among_hosts() {
    let checkpoint = |used: &str, settings: &str| {
        let kind = format!("[[workload]]\nkind = \"checkpoint\"\n{settings}\n");
        let target = format!("[[target]]\nname = \"n\"\npath = \"/mnt\"\nhosts = [{used}]\n");
        plan(&format!("{NAME}{}{target}{kind}", hosts(4)))
    };
    let four = "\"c1\", \"c2\", \"c3\", \"c4\"";
    let settings = "agents_per_host = 1\nmodel = \"70b\"\nmodel_scale = 0.5";
    let run = &checkpoint(four, settings).unwrap().runs[0];
    // 456 GB in 32 ranks, as in the whole model; each host restores what the next one has saved.
    assert_eq!((run.workers, run.files, run.placement.neighbour), (8, 32, 1));
    assert_eq!(run.set_bytes(), 14_250_000_384 * 32);
    // Half a host of ranks becomes a whole one.
    let small = &checkpoint(four, "agents_per_host = 1\nmodel = \"8b\"").unwrap().runs[0];
    assert_eq!((small.workers, small.files), (2, 8));
    let refused = |used, settings| checkpoint(used, settings).unwrap_err().to_string();
    let many = "agents_per_host = 1\nmodel = \"1t\"\nmodel_scale = 1";
    let messages = [refused("\"c2\", \"c3\", \"c4\"", settings), refused(four, many)];
    insta::assert_snapshot!(messages.join("\n"));
    // Whoever sets the ranks of each host has decided.
    assert!(checkpoint(four, &format!("{many}\nworkers = 100")).is_ok());
}

#[test]
fn rejects_impossible_hosts() {
    let own = format!("{MOUNTED}\nbackend = \"nfs\"");
    let messages = [
        refused(MOUNTED, "client_hosts = 0"),
        refused(MOUNTED, "client_hosts = [2, 5]"),
        refused(MOUNTED, "neighbour = 4"),
        refused(MOUNTED, "files = 3"),
        refused(&own, "clients = 3"),
        // One of the interfaces has no name.
        refused(MOUNTED, "mtu = 9000"),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}
