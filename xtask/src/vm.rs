//! `cargo xtask vm`: a laboratory of virtual machines with the Linux kernel's NFS server and
//! clients, on emulated hardware.
//!
//! The machines themselves are those of [`checks::vm`]. A laboratory is identified by its
//! directory: `cargo xtask vm down` ends exactly that. For its use see `docs/lab-vm.md`.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use checks::proc::Background;
use checks::vm::lab::{Lab, NewLab};
use checks::vm::machine::Suite;
use checks::vm::{image, lab_folder, prepare};
use clap::{Args, Subcommand};

/// Options of `cargo xtask vm`.
#[derive(Args)]
pub struct Options {
    /// Folder of the laboratory; its name tells laboratories apart. [default: target/vm/run]
    #[arg(long, global = true)]
    run: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Boots a server and its clients; ends with the path of an ssh_config for them.
    Up(UpOptions),
    /// Ends the machines and removes their network.
    Down,
    /// Freezes the machines with their disks, and ends them.
    Save,
    /// Resumes the saved machines; can be repeated.
    Restore,
    /// Runs a command of this machine inside the laboratory's network, as 10.77.0.254.
    Exec {
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
    /// Builds the images of these suites that don't exist yet. [default: trixie and bookworm]
    Image {
        /// forky, trixie, bookworm, bullseye, trixie-systems or trixie-localio.
        suites: Vec<Suite>,
    },
}

#[derive(Args)]
struct UpOptions {
    /// How many clients, 1 to 16.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    clients: u8,
    /// Debian's suite, which decides on the kernel: trixie 6.12, bookworm 6.1, bullseye 5.10;
    /// trixie-systems is trixie with other file systems, trixie-localio has LOCALIO.
    #[arg(long, value_enum, default_value = "trixie")]
    suite: Suite,
    /// Suites of the clients in turn, such as trixie,bookworm. [default: that of the server]
    #[arg(long, value_enum, value_delimiter = ',')]
    client_suite: Vec<Suite>,
    /// Largest packet of the network, in bytes.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(1280..=9000))]
    mtu: u16,
    /// Size of a disk that all machines share, in MiB, for layouts of pNFS.
    #[arg(long)]
    shared_mib: Option<u32>,
}

impl UpOptions {
    fn to_wanted(&self) -> NewLab {
        let one = [self.suite];
        let suites = if self.client_suite.is_empty() { &one } else { &self.client_suite[..] };
        let clients = suites.iter().copied().cycle().take(self.clients.into()).collect();
        NewLab { server: self.suite, clients, mtu: self.mtu, shared_mib: self.shared_mib }
    }
}

/// Executes the options.
///
/// # Errors
/// If a package or a permission is missing, or a machine doesn't come up.
pub fn run(options: &Options) -> Result<bool> {
    prepare()?;
    let folder = options.run.clone().unwrap_or_else(|| lab_folder("run"));
    match &options.action {
        Action::Up(wanted) => print_access(&Lab::boot(&folder, &wanted.to_wanted())?),
        Action::Restore => print_access(&Lab::restore(&folder)?),
        Action::Save => Lab::open(&folder)?.save()?,
        Action::Down => Lab::shut_down(&folder)?,
        Action::Exec { command } => {
            let mut inside = Lab::open(&folder)?.inside(&command[0]);
            return Ok(inside.args(&command[1..]).status().context(command[0].clone())?.success());
        }
        Action::Image { suites } => {
            let suites = if suites.is_empty() { &Suite::ALL[..] } else { suites };
            for suite in suites {
                println!("{}", image::find_or_make(*suite)?.folder.display());
            }
        }
    }
    Ok(true)
}

/// Starts to make missing images, in a process that yields to all others.
///
/// Making them takes minutes, in which at most one CPU is busy and often waits for the archive; so
/// they are made while the sources are checked and built.
pub fn start_making_images() -> Result<Background> {
    let ours = env::current_exe().context("the path of this program")?;
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(ours).args(["vm", "image"]).stdin(Stdio::null());
    Background::start(command.stdout(Stdio::null()))
}

fn print_access(lab: &Lab) {
    eprintln!("up: {}; `ssh -F {} server`", lab.names().join(", "), lab.ssh_config().display());
    println!("{}", lab.ssh_config().display());
}
