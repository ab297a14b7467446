//! A real NFS server for the duration of a check: nfs-ganesha, on loopback.
//!
//! Main type: [`Ganesha`]. `/vfs` is a directory that the checks can access directly, `/mem` is in
//! the server's memory; alternatively `/proxy` re-exports another server. NFS and MOUNT use their
//! own ports and no rpcbind is needed, thanks to `xtask/peers/rpcb_shim.c`. Ends when the value is
//! dropped.
//!
//! **Source:** ganesha-core-config(8), ganesha-export-config(8).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::guard::{self, Ticket};
use crate::libnfs::Export;
use crate::proc::{self, Background};
use crate::{native, setup};

/// Largest file that the `/mem` export stores; beyond that, ganesha returns made-up bytes.
pub const MEM_FILE_MAX_BYTES: u64 = 1 << 20;

const PATIENCE: Duration = Duration::from_secs(120);

/// A running nfs-ganesha.
pub struct Ganesha {
    // The process is dropped first: it must be gone before its directory is removed.
    process: Background,
    command: Command,
    folder: TempDir,
    _ticket: Ticket,
    nfs_port: u16,
    mount_port: u16,
}

impl Ganesha {
    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// If it isn't installed or doesn't come up; the message contains the end of its log.
    pub fn start() -> Result<Self> {
        Self::with(OWN, &|command| command)
    }

    /// Starts it as an NFSv4.0 client of the server on this port, whose `/export` it serves as
    /// `/proxy`.
    pub fn before(port: u16) -> Result<Self> {
        Self::with(&PROXY.replace("BEHIND", &port.to_string()), &|command| command)
    }

    /// Starts it through the caller's command, with the caller's directory as `/vfs`.
    pub fn serving(folder: &Path, around: &dyn Fn(Command) -> Command) -> Result<Self> {
        Self::with(&OWN.replace("FOLDER/vfs", &folder.display().to_string()), around)
    }

    fn with(exports: &str, around: &dyn Fn(Command) -> Command) -> Result<Self> {
        let folder = TempDir::with_prefix("dfsbench-ganesha-")?;
        let ticket = guard::remove_folder(folder.path());
        for name in ["vfs", "recovery"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let nfs_port = proc::free_port()?;
        let mount_port = proc::free_port()?;
        let config = folder.path().join("ganesha.conf");
        fs::write(&config, write_configuration(folder.path(), [nfs_port, mount_port], exports)?)?;
        let log = folder.path().join("ganesha.log");
        let mut command = Command::new("ganesha.nfsd");
        command.env("LD_PRELOAD", native::rpcb_shim()?).args(["-F", "-N", "NIV_EVENT"]);
        command.arg("-f").arg(&config).arg("-L").arg(&log);
        command.arg("-p").arg(folder.path().join("ganesha.pid"));
        let mut command = around(command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Background::start(&mut command)?;
        for port in [nfs_port, mount_port] {
            process.await_port(port, PATIENCE).with_context(|| read_log_end(&log))?;
        }
        Ok(Self { process, command, folder, _ticket: ticket, nfs_port, mount_port })
    }

    /// Kills it (SIGKILL) and starts it again, with the same directories and ports.
    pub fn crash(&mut self) -> Result<()> {
        self.process.kill();
        self.process = Background::start(&mut self.command)?;
        let log = self.folder.path().join("ganesha.log");
        for port in [self.nfs_port, self.mount_port] {
            self.process.await_port(port, PATIENCE).with_context(|| read_log_end(&log))?;
        }
        Ok(())
    }

    /// Returns the directory exported as `/vfs`.
    pub fn vfs_folder(&self) -> PathBuf {
        self.folder.path().join("vfs")
    }

    /// Returns one of its exports for clients.
    pub fn export(&self, name: &str) -> Export {
        Export { port: self.nfs_port, mount_port: self.mount_port, path: name.to_owned() }
    }
}

/// Exports of a directory, and of memory.
const OWN: &str = r#"
EXPORT {
  Export_Id = 1; Path = "FOLDER/vfs"; Pseudo = "/vfs"; Filesystem_id = 10.1;
  FSAL { Name = VFS; }
}
EXPORT { Export_Id = 2; Path = "/mem"; Pseudo = "/mem"; FSAL { Name = MEM; } }
MEM { Inode_Size = INODE_SIZE; }
"#;

/// Re-export of another server. **Source:** ganesha-proxy-v4-config(8); it does not accept an
/// address in quotes.
const PROXY: &str = r#"
EXPORT {
  Export_Id = 3; Path = "/export"; Pseudo = "/proxy"; Filesystem_id = 10.3;
  FSAL {
    Name = PROXY_V4; Srv_Addr = 127.0.0.1; NFS_Port = BEHIND; Use_Privileged_Client_Port = false;
  }
}
"#;

fn write_configuration(folder: &Path, [nfs, mount]: [u16; 2], exports: &str) -> Result<String> {
    let plugin =
        setup::find_library("ganesha/libfsalvfs.so").context("nfs-ganesha-vfs is missing")?;
    let plugins = plugin.parent().expect("a file lies in a folder").display();
    let folder = folder.display().to_string();
    let exports =
        exports.replace("FOLDER", &folder).replace("INODE_SIZE", &MEM_FILE_MAX_BYTES.to_string());
    Ok(format!(
        r#"NFS_CORE_PARAM {{
  NFS_Port = {nfs}; MNT_Port = {mount}; Bind_addr = 127.0.0.1;
  NFS_Protocols = 3, 4; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = true;
  mount_path_pseudo = true; Plugins_Dir = "{plugins}";
}}
NFSV4 {{
  Graceless = true; RecoveryBackend = "fs"; RecoveryRoot = "{folder}/recovery";
  Only_Numeric_Owners = true;
}}
EXPORT_DEFAULTS {{
  Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 3, 4; Transports = TCP, UDP;
}}
{exports}"#
    ))
}

fn read_log_end(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(12)..].join("\n");
    format!("nfs-ganesha did not start; the end of its log:\n{tail}")
}
