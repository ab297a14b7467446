//! `dfsbench systems up` and `down`: keeps a system of a recipe up, without measuring it.
//!
//! The process that set it up holds it: when it ends, the hosts are restored. Its record names the
//! hosts until then, so `down` also restores what a killed or failed holder has left.

use std::fmt::Write as _;
use std::net::{ToSocketAddrs as _, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use controller::leftovers::{HeldRecord, HeldRecords, HeldSystem};
use controller::{Hosts, site};
use engine::SystemClock;
use fleet::HostPermissions;
use model::lab::{MOUNT_POINT, NFS_PORT};
use model::options::check_address;
use model::system::{AccessWay, NfsAccess, Recipe};
use model::{Host, LabSpec, panicked};
use plan::{Plan, PlanError, PlanPosition, RawPlan};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::args::UpArgs;
use crate::calendar::token;
use crate::commands::clean::Restoration;
use crate::exit::{End, Failure};
use crate::files::user_dirs;
use crate::hosts::agents::{self, Agents};
use crate::plans::{plan_source, secrets, surroundings};
use crate::signals;
use crate::terminal::output;
use crate::terminal::progress::Visibility;

/// How often the holder checks whether it should end, and `down` whether it has ended.
const TICK: Duration = Duration::from_millis(200);
/// Time limit for a holder to restore its hosts.
const RESTORED_WITHIN: Duration = Duration::from_secs(120);
/// Name of the plan that is made from the flags.
const PLAN_NAME: &str = "systems up";
/// Name of the host without `--hosts`.
const HERE: &str = "localhost";

/// Sets up a system, and holds it until a signal.
///
/// # Errors
/// If it can't be set up, or the hosts can't be restored.
pub(crate) fn up(args: &UpArgs) -> Result<ExitCode, Failure> {
    let recipe = find_recipe(&args.name)?;
    let mut raw = RawPlan::parse(&plan_text(args, &recipe)?, PLAN_NAME).map_err(hide_place)?;
    plan_source::read_inputs(&mut raw)?;
    let plan = Plan::resolve(&raw, &surroundings::for_campaign()).map_err(hide_place)?;
    let Some(lab) = plan.runs.first().and_then(|run| run.lab.as_deref()) else {
        return Err(Failure::Usage(format!("`{}` needs no setup", args.name)));
    };
    let lab = admit(lab, &args.allow)?;
    let stop = signals::stop_flag()?;
    let mut agents = Agents::new(Arc::clone(&stop), Visibility::Shown);
    let mut launch = |hosts: &[&Host]| agents.launch(hosts);
    let clock = SystemClock::new();
    let read_clocks = || agent::read(&clock);
    let campaign = controller::campaign_name(token());
    let secrets = secrets::read(&plan.runs)?;
    let system = HeldSystem {
        source: args.name.clone(),
        name: recipe.name.clone(),
        pid: std::process::id(),
        hosts: lab.hosts().cloned().collect(),
    };
    let record = HeldRecord::begin(system, &campaign, &user_dirs::records_dir())?;
    let opening = HostPermissions { campaign, secrets, ..HostPermissions::default() };
    let mut hosts = Hosts::new(&mut launch, &read_clocks, opening);
    // Restore the hosts even after an error or a panic.
    let held = panicked::catch(|| {
        site::set_up(&mut hosts, &lab, &stop).map_err(Failure::Lab)?;
        output::text(&describe(&recipe, &lab, &args.name)?)?;
        hold(&stop);
        Ok::<(), Failure>(())
    });
    let left = hosts.leave();
    agents::record_no_agents();
    let held = held.unwrap_or_else(|panicked| Err(panicked.into()));
    if left.is_empty() {
        record.remove();
        held?;
        output::message(&format!("{} is down", recipe.name));
        return Ok(End::Ok.into());
    }
    for left in left {
        output::message(&format!("warning: {left}"));
    }
    if let Err(failure) = held {
        output::message(&format!("error: {failure}"));
    }
    Err(Failure::NotRestored(format!("dfsbench systems down {}", args.name)))
}

/// Ends the processes that hold a system, and restores the hosts that they or earlier ones left
/// changed.
///
/// # Errors
/// If there is none, or a host can't be restored.
pub(crate) fn down(name: &str) -> Result<ExitCode, Failure> {
    let stop = signals::stop_flag()?;
    let records = records_of(name);
    if records.is_empty() {
        let what = format!("no `dfsbench systems up {name}` of this user runs or ran here");
        let hint = "`dfsbench clean --host HOST` restores a host in any case";
        return Err(Failure::Usage(format!("{what} (hint: {hint})")));
    }
    let mut restoration = Restoration::new(&stop, false);
    for record in records {
        if let Err(why) = end_holder(&record, &stop) {
            restoration.refused.push(why);
        }
    }
    // A holder that restored its hosts has removed its record.
    for record in records_of(name).into_iter().filter(|record| !record.is_held()) {
        let mut is_restored = true;
        for host in &record.system.hosts {
            is_restored &= restoration.restore(host)?;
        }
        if is_restored {
            record.remove();
        }
    }
    let code = restoration.finish()?;
    output::message(&format!("{name} is down"));
    Ok(code)
}

/// Returns the records of a system, by the name of its recipe or as given to `systems up`.
fn records_of(name: &str) -> Vec<HeldRecord> {
    let mut records = HeldRecords::read(&user_dirs::records_dir()).records;
    records.retain(|record| record.system.source == name || record.system.name == name);
    records
}

/// Ends the process that holds a system, and waits until it has restored the hosts.
///
/// # Errors
/// If it can't be ended, or `stop` is set; the error is a sentence.
fn end_holder(record: &HeldRecord, stop: &AtomicBool) -> Result<(), String> {
    let number = record.system.pid;
    let failed = |what: &str| format!("`dfsbench systems up` (process {number}) {what}");
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let handle = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    // Its number belongs to no other process as long as it has its record locked.
    if !record.is_held() {
        return Ok(());
    }
    let Some(handle) = handle else { return Err(failed("runs in another container")) };
    pidfd_send_signal(&handle, Signal::TERM)
        .map_err(|error| failed(&format!("can't be ended: {error}")))?;
    let mut waited = Duration::ZERO;
    while record.is_held() {
        if waited >= RESTORED_WITHIN {
            return Err(failed(&format!("did not end within {} s", RESTORED_WITHIN.as_secs())));
        }
        if stop.load(Relaxed) {
            return Err(failed("is still restoring the hosts"));
        }
        thread::sleep(TICK);
        waited += TICK;
    }
    Ok(())
}

/// Removes the line of a plan that the user has not written from an error.
fn hide_place(mut error: PlanError) -> PlanError {
    if error.source_name == PLAN_NAME {
        error.place = PlanPosition::Whole;
    }
    error
}

fn hold(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        thread::sleep(TICK);
    }
}

/// Returns the recipe of a name or file.
fn find_recipe(name: &str) -> Result<Recipe, Failure> {
    Ok(plan::parse_recipe(&plan_source::read_recipe(name)?, name)?)
}

/// Lets the given addresses and this host mount a system, besides its clients.
///
/// # Errors
/// If one of them is not an address, or anybody may mount the system.
fn admit(lab: &LabSpec, allowed: &[String]) -> Result<LabSpec, Failure> {
    for address in allowed {
        check_client_address(address)?;
    }
    if !limits_clients(lab)? {
        return match allowed {
            [] => Ok(lab.clone()),
            _ => Err(Failure::Usage(
                "--allow: this recipe doesn't limit who may mount the system (hint: omit it; \
                 recipes do so with `{clients}`)"
                    .to_owned(),
            )),
        };
    }
    let known = lab::clients_of_system(lab).map_err(Failure::lab)?;
    let mut admits = Vec::new();
    for address in allowed.iter().cloned().chain(own_address(&lab.server)) {
        if !known.contains(&address) && !admits.contains(&address) {
            admits.push(address);
        }
    }
    Ok(with_admitted(lab, admits))
}

/// Returns true if a recipe lists the hosts that may mount its system.
fn limits_clients(lab: &LabSpec) -> Result<bool, Failure> {
    let compose = |lab: &LabSpec| lab::compose(lab).map_err(Failure::lab);
    // An address for documentation. **Source:** RFC 5737.
    Ok(compose(&with_admitted(lab, vec!["192.0.2.1".to_owned()]))? != compose(lab)?)
}

fn with_admitted(lab: &LabSpec, admits: Vec<String>) -> LabSpec {
    let mut lab = lab.clone();
    if let Some(system) = &mut lab.system {
        system.admits = admits;
    }
    lab
}

/// Checks an address or a network such as 10.0.0.0/8.
fn check_client_address(text: &str) -> Result<(), Failure> {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    let bits_max = if address.contains(':') { 128 } else { 32 };
    let what = match (check_address(address), bits.parse::<u8>()) {
        (Ok(()), Ok(bits)) if bits <= bits_max => return Ok(()),
        (Ok(()), _) => format!("`{bits}` is not the length of a network's prefix"),
        (Err(why), _) => why.to_string(),
    };
    Err(Failure::Usage(format!("--allow `{}`: {what}", text.escape_debug())))
}

/// Returns the address of this host as a server on another host sees it, unless it is translated
/// on the way.
fn own_address(server: &Host) -> Option<String> {
    let address = server.ssh.as_ref().and_then(|_| server.reachable_address())?;
    let server = (address, NFS_PORT).to_socket_addrs().ok()?.next()?;
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    // Nothing is sent: the kernel only chooses a route.
    socket.connect(server).ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
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
///
/// # Errors
/// If the recipe can't be filled in.
fn describe(recipe: &Recipe, lab: &LabSpec, name: &str) -> Result<String, Failure> {
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
    if limits_clients(lab)? {
        let clients = lab::clients_of_system(lab).map_err(Failure::lab)?.join(", ");
        let _ = writeln!(text, "may be mounted by {clients} (--allow ADDRESS adds others)");
    }
    let _ = writeln!(text, "logs and configuration: {}", recipe.dir());
    let _ = writeln!(text, "`dfsbench systems down {name}` or ctrl-C removes it");
    Ok(text)
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
            allow: Vec::new(),
            ssh_config: None,
        }
    }

    fn lab(args: &UpArgs) -> Result<LabSpec, Failure> {
        let text = plan_text(args, &find_recipe(&args.name)?)?;
        let raw = RawPlan::parse(&text, PLAN_NAME)?;
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
        let shown = describe(&recipe, &ganesha, "ganesha").unwrap();
        assert!(shown.contains("mounted on /run/dfsbench/mount of c\n"), "{shown}");
        let go_nfs = lab(&args("go-nfs", &["s=10.0.0.1"], &[])).unwrap();
        let shown = describe(&find_recipe("go-nfs").unwrap(), &go_nfs, "go-nfs").unwrap();
        let lines: Vec<_> = shown.lines().skip(1).take(2).collect();
        let url = "nfs://10.0.0.1:20496/?version=3&mountport=20496";
        let options = "port=20496,nfsvers=3,mountport=20496";
        assert_eq!(lines[0], format!("NFS for dfsbench: {url}"));
        assert_eq!(lines[1], format!("NFS for others: mount -t nfs -o {options} 10.0.0.1:/ DIR"));
    }

    #[test]
    fn lets_this_host_and_listed_addresses_mount() {
        let admitted = |name: &str, hosts: &[&str], allowed: &[&str]| {
            let allowed: Vec<_> = allowed.iter().map(|&address| address.to_owned()).collect();
            admit(&lab(&args(name, hosts, &[])).unwrap(), &allowed)
        };
        let clients = |lab: &LabSpec| lab::clients_of_system(lab).unwrap().join(" ");
        // The route to 127.0.0.2 begins at 127.0.0.1.
        let two = admitted("unfs3", &["root@127.0.0.2", "10.0.0.2"], &[]).unwrap();
        assert_eq!(clients(&two), "10.0.0.2 127.0.0.1");
        let more = ["10.1.0.0/16", "127.0.0.1", "10.1.0.0/16"];
        let one = admitted("dfsbench", &["127.0.0.2"], &more).unwrap();
        assert_eq!(clients(&one), "127.0.0.1 10.1.0.0/16");
        let steps = format!("{:?}", lab::compose(&one).unwrap());
        assert!(steps.contains(r#""--allow", "127.0.0.1", "10.1.0.0/16""#), "{steps}");
        let shown = describe(&find_recipe("dfsbench").unwrap(), &one, "dfsbench").unwrap();
        assert!(shown.contains("may be mounted by 127.0.0.1, 10.1.0.0/16 ("), "{shown}");
        // Anybody may mount this one.
        let open = admitted("go-nfs", &["127.0.0.2"], &[]).unwrap();
        assert_eq!(open.system.unwrap().admits, [""; 0]);
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
