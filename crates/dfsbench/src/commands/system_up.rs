//! `dfsbench systems up` and `down`: keeps a system of a recipe up, without measuring it.
//!
//! The process that set it up holds it: when it ends, the hosts are restored. So a holder that is
//! killed leaves nothing that `dfsbench clean` can't remove.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use controller::{Hosts, site};
use engine::SystemClock;
use fleet::HostPermissions;
use model::lab::MOUNT_POINT;
use model::system::{AccessWay, NfsAccess, Recipe};
use model::{Host, LabSpec, panicked};
use plan::{Plan, RawPlan};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::args::UpArgs;
use crate::calendar::token;
use crate::exit::{self, End, Failure};
use crate::files::input_file;
use crate::hosts::agents::{self, Agents};
use crate::plans::{plan_source, secrets, surroundings};
use crate::signals;
use crate::terminal::output;
use crate::terminal::progress::Visibility;

/// How often the holder checks whether it should end, and `down` whether it has ended.
const TICK: Duration = Duration::from_millis(200);
/// Time limit for a holder to restore its hosts.
const RESTORED_WITHIN: Duration = Duration::from_secs(120);
/// Name of the host without `--hosts`.
const HERE: &str = "here";

/// Sets up a system, and holds it until a signal.
///
/// # Errors
/// If it can't be set up, or the hosts can't be restored.
pub(crate) fn up(args: &UpArgs) -> Result<ExitCode, Failure> {
    let recipe = find_recipe(&args.name)?;
    let mut raw = RawPlan::parse(&plan_text(args, &recipe)?, "systems up")?;
    plan_source::read_inputs(&mut raw)?;
    let plan = Plan::resolve(&raw, &surroundings::for_campaign())?;
    let Some(lab) = plan.runs.first().and_then(|run| run.lab.as_deref()) else {
        return Err(Failure::Usage(format!("`{}` needs no setup", args.name)));
    };
    let stop = signals::stop_flag()?;
    let mut agents = Agents::new(Arc::clone(&stop), Visibility::Shown);
    let mut launch = |hosts: &[&Host]| agents.launch(hosts);
    let clock = SystemClock::new();
    let read_clocks = || agent::read(&clock);
    let campaign = controller::campaign_name(token());
    let secrets = secrets::read(&plan.runs)?;
    let opening = HostPermissions { campaign, secrets, ..HostPermissions::default() };
    let mut hosts = Hosts::new(&mut launch, &read_clocks, opening);
    // Restore the hosts even after an error or a panic.
    let held = panicked::catch(|| {
        site::set_up(&mut hosts, lab, &stop).map_err(Failure::Lab)?;
        output::text(&describe(&recipe, lab, &args.name))?;
        hold(&stop);
        Ok::<(), Failure>(())
    });
    for left in hosts.leave() {
        exit::note_not_restored();
        output::message(&format!("warning: {left}"));
    }
    agents::record_no_agents();
    held.unwrap_or_else(|panicked| Err(panicked.into()))?;
    output::message(&format!("{} is down", recipe.name));
    Ok(End::Ok.into())
}

/// Ends the process that holds a system, and waits until the hosts are restored.
pub(crate) fn down(name: &str) -> Result<ExitCode, Failure> {
    let holders = holders_of(name);
    if holders.is_empty() {
        let hint = "`dfsbench clean --host HOST` removes what a killed one left";
        let what = format!("no `dfsbench systems up {name}` is running here (hint: {hint})");
        return Err(Failure::Usage(what));
    }
    for pid in holders {
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if let Err(error) = pidfd_send_signal(&handle, Signal::TERM) {
            let what = format!("can't end process {}: {error}", pid.as_raw_nonzero());
            return Err(Failure::Lab(what));
        }
        let mut waited = Duration::ZERO;
        while holders_of(name).contains(&pid) {
            if waited >= RESTORED_WITHIN {
                let seconds = RESTORED_WITHIN.as_secs();
                let what = format!("process {} did not end", pid.as_raw_nonzero());
                return Err(Failure::Lab(format!("{what} within {seconds} s")));
            }
            thread::sleep(TICK);
            waited += TICK;
        }
    }
    output::message(&format!("{name} is down"));
    Ok(End::Ok.into())
}

fn hold(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        thread::sleep(TICK);
    }
}

/// Returns the processes of this user that hold a system. **Source:** proc_pid_cmdline(5).
fn holders_of(name: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own_program = fs::read_link("/proc/self/exe").ok();
    let holds = |entry: &fs::DirEntry| {
        // Others' programs can't be read.
        let program = fs::read_link(entry.path().join("exe")).ok()?;
        let is_ours = Some(&program) == own_program.as_ref();
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let is_up = words.windows(2).any(|pair| pair == [b"systems".as_slice(), b"up"]);
        (is_ours && is_up && words.contains(&name.as_bytes())).then_some(())?;
        Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)
    };
    entries.flatten().filter_map(|entry| holds(&entry)).collect()
}

/// Returns the recipe of a name or file.
fn find_recipe(name: &str) -> Result<Recipe, Failure> {
    if !name.contains('/') && Path::new(name).extension().is_none_or(|end| end != "toml") {
        return Ok(plan::parse_recipe(plan::built_in_recipe(name)?, name)?);
    }
    let text = input_file::read_text(Path::new(name))
        .map_err(|why| Failure::Usage(format!("can't read recipe `{name}`: {why}")))?;
    Ok(plan::parse_recipe(&text, name)?)
}

/// Returns a plan that sets up the system: the first host is its server, the others mount it.
fn plan_text(args: &UpArgs, recipe: &Recipe) -> Result<String, Failure> {
    let given = args.hosts.iter().chain(&args.settings).chain([&args.name]);
    for text in given {
        if text.contains(['"', '\\']) || text.contains(char::is_control) {
            return Err(Failure::Usage(format!("`{}` is not possible here", text.escape_debug())));
        }
    }
    let mut text = String::from("name = \"systems-up\"\n");
    let mut names = Vec::new();
    // Writing to a `String` never fails.
    for host in &args.hosts {
        let (ssh, address) = host.split_once('=').unwrap_or((host, ""));
        let name = ssh.rsplit_once('@').map_or(ssh, |(_, host)| host);
        let _ = writeln!(text, "[[host]]\nname = \"{name}\"\nssh = \"{ssh}\"");
        if !address.is_empty() {
            let _ = writeln!(text, "address = \"{address}\"");
        }
        if let Some(config) = &args.ssh_config {
            let _ = writeln!(text, "ssh_config = {:?}", config.display().to_string());
        }
        names.push(name);
    }
    if names.is_empty() {
        let _ = writeln!(text, "[[host]]\nname = \"{HERE}\"");
        names.push(HERE);
    }
    let _ = writeln!(text, "[[target]]\nname = \"up\"\nserver = \"{}\"", names[0]);
    if names.len() > 1 {
        let _ = writeln!(text, "clients = {:?}", &names[1..]);
    }
    let _ = writeln!(text, "system = \"{}\"", args.name);
    if let Some(way) = args.access {
        let _ = writeln!(text, "access = \"{way}\"");
    }
    if args.access.map_or(recipe.ways() == [AccessWay::Nfs], |way| way == AccessWay::Nfs) {
        // Without clients, nothing is mounted: whoever looks at it does that.
        if names.len() == 1 {
            text.push_str("backend = \"nfs\"\n");
        }
        let versions = recipe.access.nfs.as_ref().map(|nfs| nfs.versions.as_slice());
        if let Some([version, ..]) = versions {
            let _ = writeln!(text, "nfsvers = {version}");
        }
    }
    if !args.settings.is_empty() {
        text.push_str("[target.settings]\n");
    }
    for setting in &args.settings {
        let Some((key, value)) = setting.split_once('=') else {
            let what = format!("--settings: `{setting}` is not NAME=VALUE");
            return Err(Failure::Usage(what));
        };
        let _ = writeln!(text, "{key} = \"{value}\"");
    }
    text.push_str("[[workload]]\nkind = \"stream\"\n");
    Ok(text)
}

/// Describes where a system can be reached.
fn describe(recipe: &Recipe, lab: &LabSpec, name: &str) -> String {
    let server = &lab.server;
    let mut text = format!("{} is up on {}\n", recipe.name, server.name);
    // Writing to a `String` never fails.
    if let Some(nfs) = lab.system_nfs() {
        let address = server.reachable_address().unwrap_or("127.0.0.1");
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        let export = lab.export().display().to_string();
        let (query, options) = describe_nfs(nfs);
        let _ = writeln!(text, "NFS for dfsbench: nfs://{host}:{}{export}{query}", nfs.port);
        let _ = writeln!(text, "NFS for others: mount -t nfs -o {options} {host}:{export} DIR");
    }
    if !lab.own_client {
        let hosts: Vec<&str> = lab.clients().map(|host| host.name.as_str()).collect();
        let _ = writeln!(text, "mounted on {MOUNT_POINT} of {}", hosts.join(", "));
    }
    let _ = writeln!(text, "logs and configuration: {}", recipe.dir());
    let _ = writeln!(text, "`dfsbench systems down {name}` or ctrl-C removes it");
    text
}

/// Returns the query of a URL and the options of mount(8) for the first version of a server.
fn describe_nfs(nfs: &NfsAccess) -> (String, String) {
    let mut query = String::new();
    let mut options = format!("port={}", nfs.port);
    let Some(version) = nfs.versions.first() else { return (query, options) };
    // Writing to a `String` never fails.
    let _ = write!(query, "?version={version}");
    let _ = write!(options, ",nfsvers={version}");
    if !version.starts_with('4') {
        let port = if nfs.mount_port == 0 { nfs.port } else { nfs.mount_port };
        let _ = write!(query, "&mountport={port}");
        let _ = write!(options, ",mountport={port}");
    }
    (query, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(name: &str, hosts: &[&str], settings: &[&str]) -> UpArgs {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        UpArgs {
            name: name.to_owned(),
            hosts: list(hosts),
            settings: list(settings),
            access: None,
            ssh_config: None,
        }
    }

    fn lab(args: &UpArgs) -> Result<LabSpec, Failure> {
        let text = plan_text(args, &find_recipe(&args.name)?)?;
        let raw = RawPlan::parse(&text, "systems up")?;
        let plan = Plan::resolve(&raw, &surroundings::for_process(1))?;
        Ok(plan.runs[0].lab.as_deref().unwrap().clone())
    }

    #[test]
    fn sets_up_every_recipe() {
        for (name, _) in plan::RECIPES.into_iter().filter(|(name, _)| *name != "gfs2") {
            for hosts in [&["root@10.0.0.1", "c1=10.0.0.2", "10.0.0.3"][..], &[]] {
                let lab =
                    lab(&args(name, hosts, &[])).unwrap_or_else(|why| panic!("{name}: {why}"));
                assert_eq!(lab.system.as_ref().unwrap().recipe.name, name);
                lab::compose(&lab).unwrap_or_else(|why| panic!("{name}: {why}"));
            }
        }
        let ganesha = lab(&args("ganesha", &["s=10.0.0.1", "c=10.0.0.2"], &["fsal=mem"])).unwrap();
        assert_eq!(ganesha.system_settings, [("fsal".to_owned(), "mem".to_owned())]);
        let recipe = find_recipe("ganesha").unwrap();
        let shown = describe(&recipe, &ganesha, "ganesha");
        assert!(shown.contains("mounted on /run/dfsbench/mount of c\n"), "{shown}");
        let go_nfs = lab(&args("go-nfs", &["s=10.0.0.1"], &[])).unwrap();
        let shown = describe(&find_recipe("go-nfs").unwrap(), &go_nfs, "go-nfs");
        let lines: Vec<_> = shown.lines().skip(1).take(2).collect();
        let url = "nfs://10.0.0.1:20496/?version=3&mountport=20496";
        let options = "port=20496,nfsvers=3,mountport=20496";
        assert_eq!(lines[0], format!("NFS for dfsbench: {url}"));
        assert_eq!(lines[1], format!("NFS for others: mount -t nfs -o {options} 10.0.0.1:/ DIR"));
    }

    #[test]
    fn refuses_what_no_plan_can_say() {
        for (name, settings) in [
            ("ganesha", "fsal"),
            ("ganesha", "fsal=no"),
            ("ganesha", "fsal=\"x"),
            ("nosuch", "a=b"),
            ("none.toml", "a=b"),
        ] {
            let refused = lab(&args(name, &[], &[settings])).unwrap_err();
            assert_eq!(refused.code(), 2, "{refused}");
        }
        assert_eq!(down("no-such-system").unwrap_err().code(), 2);
    }
}
