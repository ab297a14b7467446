//! Agents on hosts over real sshd: pushed, used, lost in every way, with nothing left behind.
//!
//! Two hosts are set up by plans; for ten of them together see `agent_group`, which runs at the
//! same time on its own hosts.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

mod contenders;
mod copied;
mod jobs;
mod ladder;
mod load;
mod network;
mod recipes;
mod roles;
mod seeds;
mod shared_replay;
mod site_mount;
mod still;
mod tunnel;

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use checks::check::Fixture;
use checks::hosts::{LEAVING, LONG, Lab, OURS, PATIENCE, SHORT, ip};
use checks::ours::exit;
use checks::systems::Subject;
use checks::{checks, proc};

static LAB: Fixture<Lab> = Fixture::new(|| Lab::start(3));

checks! {
    restores_two_measured_hosts: 200 s, measured(LAB.get()?);
    explains_wrong_key_and_unknown_host: 200 s, {
        refused(LAB.get()?)
    };
    continues_without_host_of_full_folder: 200 s, full(LAB.get()?);
    sends_compressed_or_uses_installed_program: 200 s, copied::once(LAB.get()?);
    #[ignore = "takes a minute: runs every night"]
    advises_host_that_cannot_run_program: 200 s, {
        copied::refused(LAB.get()?)
    };
    reaches_pbs_and_lsf_hosts: 200 s, jobs::listed(LAB.get()?);
    reports_endless_shell_once: 200 s, jobs::noisy(LAB.get()?);
    reports_killed_agent: 300 s, killed(LAB.get()?);
    reports_host_with_cut_network: 300 s, cut(LAB.get()?);
    leaves_nothing_of_killed_controller: 300 s, deserted(LAB.get()?);
    restores_after_killed_agents: 300 s, cleaned(LAB.get()?);
    names_hosts_that_lose_packets: 200 s, {
        network::large_frames_dropped(LAB.get()?)
    };
    resumes_killed_seed: 300 s, {
        seeds::resumed(LAB.get()?)
    };
    #[ignore = "takes half a minute: runs every night"]
    starts_our_server_for_ladder: 300 s, ladder::measured(LAB.get()?);
    ends_server_of_killed_agent: 300 s, ladder::cleaned(LAB.get()?);
    #[ignore = "takes a quarter of a minute: runs every night"]
    measures_recipe_with_each_setting: 200 s, {
        Subject { settings: "fsal = [\"mem\", \"vfs\"]", ..GANESHA }.measure(LAB.get()?, STREAM, 4)
    };
    mounts_existing_setup: 200 s, site_mount::measured(LAB.get()?);
    starts_servers_on_hosts_of_roles: 200 s, roles::measured(LAB.get()?);
    names_servers_that_count_less: 200 s, roles::counted(LAB.get()?);
    ends_system_servers_on_all_hosts: 300 s, roles::cleaned(LAB.get()?);
    #[ignore = "takes half a minute: runs every night"]
    compares_contenders_despite_failure: 200 s, {
        contenders::compared(LAB.get()?)
    };
    #[ignore = "takes half a minute: runs every night"]
    kills_contenders_and_reads_back: 300 s, {
        contenders::killed(LAB.get()?)
    };
    names_last_words_of_dead_server: 200 s, recipes::died(LAB.get()?);
    fails_if_host_is_not_restored: 200 s, recipes::not_restored(LAB.get()?);
    keeps_system_up_until_down: 200 s, recipes::kept_up(LAB.get()?);
    down_reports_what_is_left: 200 s, recipes::down_tries_again(LAB.get()?);
    ends_system_of_recipe: 300 s, GANESHA.kill_and_clean(LAB.get()?);
    #[ignore = "takes a quarter of a minute: runs every night"]
    loses_nothing_in_soak_of_hosts: 300 s, {
        load::soaked(LAB.get()?)
    };
    #[ignore = "takes half a minute: runs every night"]
    draws_curve_with_two_hosts: 300 s, load::curved(LAB.get()?);
    #[ignore = "takes half a minute: runs every night"]
    finds_hang_with_two_hosts: 300 s, load::ramped(LAB.get()?);
    tunnels_packets_over_ssh: 200 s, tunnel::measured(LAB.get()?);
    replays_trace_with_two_hosts: 200 s, shared_replay::replayed(LAB.get()?);
    ends_replay_with_killed_host: 200 s, {
        shared_replay::killed(LAB.get()?)
    };
    #[ignore = "takes half a minute: runs every night"]
    names_host_that_cannot_reach_server: 200 s, still::named(LAB.get()?);
}

/// The system of a recipe that needs only the packages of `cargo xtask setup`.
const GANESHA: Subject = Subject {
    system: "ganesha",
    target: "backend = \"nfs\"\nnfsvers = 4.1",
    settings: "fsal = \"mem\"",
    port: 20493,
    is_mounted: false,
};

const STREAM: &str = r#"
[[workload]]
kind = "stream"
file_size = "1MiB"
"#;

fn measured(lab: &Lab) -> Result<()> {
    let output = lab.finish_campaign("config", SHORT)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.code() == Some(0), "{output:?}");
    let csv = OURS.report(&lab.folder.path().join("results.db"), "csv")?;
    let rows = String::from_utf8(csv)?.lines().count();
    // Two targets on two kinds of storage, a write and a read pass of each, and the header.
    ensure!(rows == 9, "{rows} rows: {text}");
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

fn refused(lab: &Lab) -> Result<()> {
    let check = |config: &str, words: &[&str]| -> Result<()> {
        let output = lab.finish_campaign(config, SHORT)?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(exit::LAB), "{config}: {output:?}");
        ensure!(words.iter().all(|word| text.contains(word)), "{config}: {text}");
        ensure!(text.matches("error: ").count() == 1, "{config}: {text}");
        Ok(())
    };
    check("wrong-key", &["host one: login refused: ", "Permission denied"])?;
    check("unknown", &["host one: unknown host key: ", "Host key verification failed"])?;
    let config = lab.folder.path().join("config");
    let text = fs::read_to_string(&config)?.replace("10.79.0.1\n", "10.79.0.99\n");
    fs::write(lab.folder.path().join("absent"), text.replace("10.79.0.2\n", "10.79.0.98\n"))?;
    // No route, or no answer in time, depending on the kernel.
    check("absent", &["host one: cannot be reached: ssh: connect to host 10.79.0.99 port 22: "])
}

fn full(lab: &Lab) -> Result<()> {
    lab.run_on(1, &["mount", "-o", "remount,size=1m", "/tmp"])?;
    let output = lab.finish_campaign("config", SHORT);
    lab.run_on(1, &["mount", "-o", "remount,size=400m", "/tmp"])?;
    let output = output?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.code() == Some(exit::INVALID), "{output:?}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = ["host two: cannot store the agent", "No space left on device"];
    ensure!(words.iter().all(|word| flat.contains(word)), "{text}");
    ensure!(text.contains("a       stream write"), "{text}");
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

fn killed(lab: &Lab) -> Result<()> {
    let mut campaign = lab.start_long_campaign(LONG)?;
    ensure!(lab.kill_agents(&[0])? > 0, "no agent of host one");
    ensure!(campaign.await_end(PATIENCE)? == Some(exit::INVALID), "{}", lab.output_text()?);
    ensure!(lab.output_text()?.contains("host one: the agent is gone"), "{}", lab.output_text()?);
    // A killed agent can't remove what it measured; its program is still removed.
    let work = lab.run_on(0, &["find", "/srv/data", "-mindepth", "1", "-delete"]);
    work.and_then(|_| lab.await_nothing(0, LEAVING))
}

fn cut(lab: &Lab) -> Result<()> {
    let mut campaign = lab.start_long_campaign(LONG)?;
    ip(&["-n", &lab.bridge, "link", "set", "v1", "down"])?;
    let begun = Instant::now();
    let cleaned = lab.await_nothing(0, LEAVING);
    let ended = campaign.await_end(PATIENCE);
    ip(&["-n", &lab.bridge, "link", "set", "v1", "up"])?;
    cleaned.with_context(|| format!("{:?} after the cut", begun.elapsed()))?;
    ensure!(ended? == Some(exit::INVALID), "{}", lab.output_text()?);
    let text = lab.output_text()?;
    ensure!(text.contains("host one: the agent has been silent for 3 s"), "{text}");
    Ok(())
}

fn deserted(lab: &Lab) -> Result<()> {
    let mut campaign = lab.start_long_campaign(LONG)?;
    campaign.kill();
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

/// No agent and no controller is left to restore anything: `clean` gets the plan, or the host.
fn cleaned(lab: &Lab) -> Result<()> {
    let mut campaign =
        lab.start_long_campaign(&format!("file_system = [\"tmpfs\", \"existing\"]\n{LONG}"))?;
    // Before their controller: an agent whose controller is gone restores its host.
    ensure!(lab.kill_agents(&[0, 1])? > 0, "no agent");
    campaign.kill();
    let mounts = lab.run_on(0, &["cat", "/proc/self/mounts"])?;
    ensure!(mounts.contains(" /run/dfsbench/storage "), "nothing was left to restore: {mounts}");
    let at = |name: &str| lab.folder.path().join(name).display().to_string();
    let plan = at("plan.toml");
    let config = at("config");
    let clean = |words: &[&str]| -> Result<String> {
        proc::capture_text(lab.ours().arg("clean").args(words))
    };
    let text = clean(&[&plan])?;
    ensure!(text.contains("one: restored: mount -t tmpfs"), "{text}");
    let text = clean(&["--host", "h1", "--ssh-config", &config])?;
    ensure!(text.contains("h1: nothing to restore"), "{text}");
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}
