//! Actions on a host, one file per family.
//!
//! For each action there are four functions: what is [`known`](Known) before, which [`steps`] are
//! taken, how they are [undone](undo), and what is in force afterwards ([`check`]). Steps follow
//! from the action and what is known alone, so that a dry run shows what would be done.

use std::path::{Path, PathBuf};

use model::{Action, Device, EffectiveSettings};

use crate::commands::Runner;
use crate::error::LabError;
use crate::safety::{self, OverwrittenDevice};
use crate::step::Step;
use crate::undo::Undo;
use tunnel::Wanted;

pub mod accept;
pub mod clock;
pub mod cpu;
pub mod export;
pub mod ganesha;
pub mod grace;
pub mod mount;
pub mod nfsd;
pub mod nfsmount;
pub mod outage;
pub mod own;
pub mod path;
pub mod shape;
pub mod storage;
pub mod tuning;
pub mod tunnel;
pub mod unfs3;

/// Facts about the host that the steps of an action need.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Nodes of the action's devices, in its order.
    pub nodes: Vec<PathBuf>,
    /// The same devices with what they are, to be looked at again before one is overwritten.
    pub overwritten: Vec<OverwrittenDevice>,
    /// UUID of a file system that is made.
    pub uuid: String,
    /// The kernel's NFS server.
    pub nfsd: nfsd::Host,
    /// The program that starts that server can't be told to offer a transport.
    pub only_leaves_out: bool,
    /// Processors that are online, by number.
    pub online: Vec<u32>,
    /// This program, and the clients of its server.
    pub own: own::Host,
    /// Port of the MOUNT service at the other end of a tunnel; `None` where nobody requested.
    pub mount_port: Option<u16>,
    /// Something answers to rpcbind's port.
    pub rpcbind: bool,
    /// How far the calendar is ahead of the time since boot, in nanoseconds.
    pub calendar_ns: i64,
}

impl Known {
    /// Looks at the host.
    ///
    /// # Errors
    /// Where a device isn't there, or a client has no address.
    pub fn of(action: &Action) -> Result<Self, LabError> {
        let devices = devices(action);
        let nodes = devices.iter().copied().map(storage::node);
        let nodes: Vec<PathBuf> = nodes.collect::<Result<_, _>>()?;
        let both = devices.into_iter().zip(&nodes);
        Ok(Self {
            overwritten: both.map(|(device, node)| OverwrittenDevice::of(device, node)).collect(),
            nodes,
            uuid: storage::new_uuid(),
            nfsd: nfsd::Host::now(),
            only_leaves_out: matches!(action, Action::Nfsd { .. })
                && nfsd::only_leaves_out(&Runner::default()),
            online: cpu::online(),
            own: match action {
                Action::OwnServer { clients, .. } => own::Host::now(clients)?,
                _ => own::Host::default(),
            },
            mount_port: match action {
                Action::Tunnel { ssh, ssh_config, address, remote_port, .. } => {
                    let config = ssh_config.as_deref();
                    let destination = tunnel::Destination { host: ssh, config };
                    tunnel::mount_port(&destination, address, *remote_port)?
                }
                _ => None,
            },
            rpcbind: nfsd::rpcbind_runs(),
            calendar_ns: clock::offset_ns(),
        })
    }

    /// Returns the facts that a dry run assumes: those of a host on which nothing runs.
    pub fn nothing(action: &Action) -> Self {
        let nodes = devices(action).into_iter().map(storage::placeholder).collect();
        let own = match action {
            Action::OwnServer { clients, .. } => own::Host::unknown(clients),
            _ => own::Host::default(),
        };
        Self { nodes, uuid: "UUID".to_owned(), own, ..Self::default() }
    }
}

/// The devices that an action uses.
pub fn devices(action: &Action) -> Vec<&Device> {
    match action {
        Action::Raid { devices, .. } => devices.iter().collect(),
        Action::Crypt { device, .. } | Action::Format { device, .. } => vec![device],
        Action::Mount { device, .. } => device.iter().collect(),
        _ => Vec::new(),
    }
}

/// The directory that an action serves to other hosts.
pub fn served(action: &Action) -> Option<&Path> {
    match action {
        Action::Export { directory, .. }
        | Action::Ganesha { directory, .. }
        | Action::Unfs3 { directory, .. } => Some(directory),
        _ => None,
    }
}

/// Returns the commands of an action, as a dry run prints them.
///
/// What depends on the host is shown as it is where nothing runs yet.
pub fn commands(action: &Action) -> Vec<String> {
    steps(action, &Known::nothing(action)).iter().map(ToString::to_string).collect()
}

/// Returns the steps of an action.
pub fn steps(action: &Action, known: &Known) -> Vec<Step> {
    match action {
        Action::LoopFile { file, bytes } => storage::loop_steps(file, *bytes),
        Action::Raid { name, level, .. } => storage::raid_steps(name, *level, known),
        Action::Crypt { name, .. } => storage::crypt_steps(name, known),
        Action::Format { file_system, options, .. } => {
            storage::format_steps(*file_system, options, known)
        }
        Action::Mount { file_system, point, options, .. } => {
            mount::steps(*file_system, point, options, known)
        }
        Action::Export { directory, clients, options } => {
            export::steps(directory, clients, options)
        }
        Action::Nfsd { threads, versions, udp, transfer_max_bytes } => {
            let wanted = nfsd::Wanted::new(*threads, versions, *udp, *transfer_max_bytes);
            nfsd::steps(&wanted, known)
        }
        Action::Ganesha { directory, threads, versions } => {
            ganesha::steps(directory, *threads, versions, known)
        }
        Action::Unfs3 { directory, clients } => unfs3::steps(directory, clients, known),
        Action::OwnServer { memory_bytes, udp, .. } => own::steps(*memory_bytes, *udp, known),
        Action::Tunnel {
            ssh,
            ssh_config,
            local_port,
            address,
            remote_port,
            compression,
            cipher,
        } => {
            let destination = tunnel::Destination { host: ssh, config: ssh_config.as_deref() };
            let (local_port, remote_port) = (*local_port, *remote_port);
            let wanted = Wanted { destination, local_port, address, remote_port };
            tunnel::steps(&wanted, known.mount_port, *compression, cipher.as_deref())
        }
        Action::NfsMount { source, point, options } => nfsmount::steps(source, point, options),
        Action::ReadAhead { point, kib } => tuning::read_ahead_steps(point, *kib),
        Action::Sysctl { name, value } => tuning::sysctl_steps(name, value),
        Action::Mtu { interface, bytes } => shape::mtu_steps(interface, *bytes),
        Action::TryPaths { peers, bytes } => path::steps(peers, *bytes),
        Action::Shape { interface, rate_bits_per_s, delay_us } => {
            shape::steps(interface, *rate_bits_per_s, *delay_us)
        }
        Action::CpuFrequency { khz } => cpu::frequency_steps(*khz, known),
        Action::Cores { online } => cpu::core_steps(*online, known),
        Action::NfsdStop => outage::stop_steps(),
        Action::Cut { interface, port } => outage::cut_steps(interface, *port),
        Action::Fill { point } => outage::fill_steps(point),
        Action::ClockStep { by_ms, .. } => clock::steps(*by_ms, known),
    }
}

/// How an action is undone, the last first; looks at what it would change.
///
/// # Errors
/// Where the host can't do it, or it would harm what isn't ours.
pub fn undo(action: &Action, known: &Known, allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
    match action {
        Action::LoopFile { file, .. } => storage::loop_undo(file),
        Action::Raid { name, devices, .. } => {
            safety::may_destroy(devices, &known.nodes, allowed)?;
            storage::raid_undo(name, known)
        }
        Action::Crypt { name, device } => {
            safety::may_destroy(std::slice::from_ref(device), &known.nodes, allowed)?;
            storage::crypt_undo(name)
        }
        Action::Format { device, .. } => {
            safety::may_destroy(std::slice::from_ref(device), &known.nodes, allowed)?;
            Ok(storage::format_undo(known))
        }
        Action::Mount { file_system, point, .. } => mount::undo(*file_system, point),
        Action::Export { directory, clients, .. } => export::undo(directory, clients),
        Action::Nfsd { .. } => nfsd::undo(known),
        Action::Ganesha { directory, .. } => ganesha::undo(directory, known),
        Action::Unfs3 { directory, .. } => unfs3::undo(directory, known),
        Action::OwnServer { .. } => own::undo(),
        Action::Tunnel { local_port, .. } => tunnel::undo(*local_port),
        Action::NfsMount { point, .. } => nfsmount::undo(point),
        Action::ReadAhead { point, .. } => tuning::read_ahead_undo(point),
        Action::Sysctl { name, .. } => tuning::sysctl_undo(name),
        Action::Mtu { interface, .. } => shape::mtu_undo(interface),
        Action::TryPaths { .. } => Ok(Vec::new()),
        Action::Shape { interface, .. } | Action::Cut { interface, .. } => shape::undo(interface),
        Action::CpuFrequency { .. } => cpu::frequency_undo(known),
        Action::Cores { online } => cpu::core_undo(known, *online),
        Action::NfsdStop => outage::stop_undo(known),
        Action::Fill { point } => outage::fill_undo(point),
        Action::ClockStep { not_boot, .. } => clock::undo(not_boot, known),
    }
}

/// Reads back what is in force after an action.
///
/// # Errors
/// Where it can't be read.
pub fn check(action: &Action, known: &Known) -> Result<EffectiveSettings, LabError> {
    match action {
        Action::LoopFile { file, bytes } => storage::check_loop(file, *bytes),
        Action::Raid { name, level, devices } => storage::check_raid(name, *level, devices.len()),
        Action::Crypt { name, .. } => storage::check_crypt(name),
        Action::Format { file_system, .. } => storage::check_format(*file_system, known),
        Action::Mount { file_system, point, options, .. } => {
            mount::check(*file_system, point, options)
        }
        Action::Export { directory, clients, options } => {
            export::check(directory, clients, options)
        }
        Action::Nfsd { threads, versions, udp, transfer_max_bytes } => {
            Ok(nfsd::check(&nfsd::Wanted::new(*threads, versions, *udp, *transfer_max_bytes)))
        }
        Action::Ganesha { directory, threads, versions } => {
            ganesha::check(directory, *threads, versions)
        }
        Action::Unfs3 { directory, .. } => unfs3::check(directory),
        Action::OwnServer { .. } => own::check(),
        Action::Tunnel { local_port, compression, cipher, .. } => {
            tunnel::check(*local_port, *compression, cipher.as_deref())
        }
        Action::NfsMount { source, point, options } => nfsmount::check(source, point, options),
        Action::ReadAhead { point, kib } => tuning::check_read_ahead(point, *kib),
        Action::Sysctl { name, value } => tuning::check_sysctl(name, value),
        Action::Mtu { interface, bytes } => shape::check_mtu(interface, *bytes),
        Action::TryPaths { peers, bytes } => path::check(peers, *bytes),
        Action::Shape { interface, rate_bits_per_s, delay_us } => {
            shape::check(interface, *rate_bits_per_s, *delay_us)
        }
        Action::CpuFrequency { khz } => cpu::check_frequency(*khz),
        Action::Cores { online } => Ok(cpu::check_cores(*online)),
        Action::NfsdStop => Ok(outage::check_stop()),
        Action::Cut { .. } => Ok(EffectiveSettings::default()),
        Action::Fill { point } => Ok(outage::check_fill(point)),
        Action::ClockStep { by_ms, .. } => Ok(clock::check(*by_ms, known)),
    }
}

/// Describes an action for people and the undo log.
pub fn name(action: &Action) -> String {
    let steps = steps(action, &Known::nothing(action));
    // What is waited for, or fine to fail, isn't what was done.
    let is_done =
        |step: &&Step| !matches!(step, Step::Offer { .. } | Step::Await(_) | Step::AwaitGrace);
    let last = steps.iter().rfind(is_done);
    last.map_or_else(|| "nothing".to_owned(), ToString::to_string)
}

/// Removes a folder that has to be made, and those above it that have to be made for it.
pub fn folder_undo(path: &Path) -> Vec<Undo> {
    let missing = path.ancestors().take_while(|folder| !folder.exists());
    let mut undo: Vec<Undo> =
        missing.map(|folder| Undo::Folder { path: folder.to_owned() }).collect();
    undo.reverse();
    undo
}

/// Ends a program of ours and removes its folder below /run/dfsbench.
pub fn program_undo(folder: &Path, program: &str) -> Vec<Undo> {
    let mut undo = folder.parent().map(folder_undo).unwrap_or_default();
    undo.push(Undo::Tree { path: folder.to_owned() });
    undo.push(Undo::End { program: folder.join(program) });
    undo
}
