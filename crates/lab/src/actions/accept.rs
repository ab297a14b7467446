//! Whether an agent accepts an action: every free text in it is parsed before anything is done.
//!
//! The plan was checked by the same parsers when it was read, but an agent that runs as root
//! doesn't trust the text that its controller sends. Nothing here looks at the host; what the host
//! says against an action is [`crate::safety`]'s.

use std::path::Path;

use model::options::{
    self, OptionError, check_clients, check_interface, check_object_name, check_path,
    check_quotable_path,
};
use model::{Action, Device};

use crate::RUN;
use crate::error::LabError;

/// Parses every text of an action that ends in an argument or a file of root's.
///
/// # Errors
/// Where one of them isn't what it may be.
pub fn check(action: &Action) -> Result<(), LabError> {
    match action {
        Action::LoopFile { file, .. } => accept("file of a loop device", check_path(file)),
        Action::Raid { name, devices, .. } => {
            accept("array", check_object_name(name))?;
            devices.iter().try_for_each(check_device)
        }
        Action::Crypt { name, device } => {
            accept("mapping", check_object_name(name))?;
            check_device(device)
        }
        Action::Format { device, file_system, options } => {
            check_device(device)?;
            let parsed = options::parse_mkfs_options(*file_system, options);
            accept("format_options", parsed.map(drop))
        }
        Action::Mount { device, file_system, point, options } => {
            device.iter().try_for_each(check_device)?;
            check_point(point)?;
            accept("fs_mount_options", options::check_mount_options(*file_system, options))
        }
        Action::NfsMount { source, point, options } => {
            check_point(point)?;
            accept("export", check_source(source))?;
            accept("mount_options", options::check_nfs_options(options))
        }
        Action::Export { directory, clients, options } => {
            accept("directory", check_path(directory))?;
            accept("clients", check_clients(clients))?;
            accept("export_options", options::check_export_options(options))
        }
        Action::Ganesha { directory, .. } => accept("directory", check_quotable_path(directory)),
        Action::Unfs3 { directory, clients } => {
            accept("directory", check_quotable_path(directory))?;
            accept("clients", check_clients(clients))
        }
        Action::OwnServer { clients, .. } => accept("clients", check_clients(clients)),
        Action::Tunnel { ssh, ssh_config, address, cipher, .. } => {
            accept("address", options::check_address(address))?;
            accept("ssh", options::check_ssh_destination(ssh))?;
            if let Some(config) = ssh_config {
                accept("ssh_config", check_config_name(config))?;
            }
            let cipher = cipher.as_deref().map_or(Ok(()), options::check_tunnel_cipher);
            accept("tunnel_cipher", cipher)
        }
        Action::Sysctl { name, value } => accept("sysctl", options::check_sysctl(name, value)),
        Action::Mtu { interface, .. }
        | Action::Shape { interface, .. }
        | Action::Cut { interface, .. } => accept("interface", check_interface(interface)),
        Action::ReadAhead { point, .. } | Action::Fill { point } => check_point(point),
        Action::Nfsd { .. }
        | Action::CpuFrequency { .. }
        | Action::Cores { .. }
        | Action::NfsdStop
        // Addresses of peers go to sockets, and to no program.
        | Action::TryPaths { .. }
        | Action::ClockStep { .. } => Ok(()),
    }
}

fn accept(what: &str, checked: Result<(), OptionError>) -> Result<(), LabError> {
    checked.map_err(|error| LabError::Refused(format!("{what}: {error}")))
}

fn check_device(device: &Device) -> Result<(), LabError> {
    match device {
        Device::Node(path) | Device::Loop(path) => accept("devices", check_path(path)),
        Device::Array(name) | Device::Mapped(name) => accept("devices", check_object_name(name)),
    }
}

/// Mounts of ours lie below /run/dfsbench and nowhere else.
fn check_point(point: &Path) -> Result<(), LabError> {
    let why = match check_path(point) {
        Err(error) => error.to_string(),
        Ok(()) if point == Path::new(RUN) || !point.starts_with(RUN) => {
            format!("it doesn't lie below {RUN}")
        }
        Ok(()) => return Ok(()),
    };
    Err(LabError::Refused(format!("nothing is mounted on {}: {why}", point.display())))
}

/// A host, a colon and a path; an address of IPv6 stands in brackets. **Source:** nfs(5).
fn check_source(source: &str) -> Result<(), OptionError> {
    let bracketed = source.strip_prefix('[').and_then(|rest| rest.split_once("]:"));
    let Some((host, path)) = bracketed.or_else(|| source.split_once(':')) else {
        return check_clients("");
    };
    check_clients(host)?;
    check_path(Path::new(path))
}

/// The name of a configuration file is one argument, after `-F`.
fn check_config_name(path: &Path) -> Result<(), OptionError> {
    let text = path.to_string_lossy();
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        return check_path(Path::new(""));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::{FileSystem, Raid, RemotePort};

    use super::*;
    use crate::actions::{Known, steps};
    use crate::step::Step;

    /// What has another meaning to a shell, to getopt, to a list of options or to the kernel.
    const HOSTILE: [&str; 15] = [
        "-f /dev/loop4",
        "/dev/loop4",
        "x y",
        "'x'",
        "\"x\"",
        "a\nb",
        "-x",
        "--",
        "$(id)",
        "`id`",
        "x,remount",
        "..",
        "/a/../b",
        "a;b",
        "-oProxyCommand=x",
    ];

    /// An action for every free text, with `text` in its place.
    fn with_text(text: &str) -> Vec<Action> {
        let node = || Device::Node("/dev/vdb".into());
        let (point, host) = (Path::new(RUN).join("storage"), || "10.0.0.1".to_owned());
        let options = || vec![text.to_owned()];
        let sysctl = |name: &str, value: &str| Action::Sysctl {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let file_system = FileSystem::Btrfs;
        let tunnel = |ssh: &str, cipher: Option<String>| Action::Tunnel {
            ssh: ssh.to_owned(),
            ssh_config: None,
            local_port: 1,
            address: "10.0.0.1".into(),
            remote_port: RemotePort::Number(2),
            compression: false,
            cipher,
        };
        let towards = |address: &str| Action::Tunnel {
            ssh: host(),
            ssh_config: None,
            local_port: 1,
            address: address.to_owned(),
            remote_port: RemotePort::Number(2),
            compression: false,
            cipher: None,
        };
        vec![
            towards(text),
            Action::LoopFile { file: text.into(), bytes: 1 },
            Action::Raid { name: text.into(), level: Raid::Raid0, devices: vec![node()] },
            Action::Crypt { name: text.into(), device: node() },
            Action::Format { device: node(), file_system, options: options() },
            Action::Format { device: Device::Array(text.into()), file_system, options: vec![] },
            Action::Mount { device: None, file_system, point: point.clone(), options: options() },
            Action::Mount { device: None, file_system, point: text.into(), options: vec![] },
            Action::NfsMount {
                source: format!("{text}:/a"),
                point: point.clone(),
                options: vec![],
            },
            Action::NfsMount { source: "h:/a".into(), point: point.clone(), options: options() },
            Action::NfsMount { source: "h:/a".into(), point: text.into(), options: vec![] },
            Action::Export { directory: "/a".into(), clients: host(), options: options() },
            Action::Export { directory: "/a".into(), clients: text.into(), options: vec![] },
            Action::Ganesha {
                directory: format!("/a\"{text}").into(),
                threads: 0,
                versions: vec![],
            },
            Action::Unfs3 { directory: format!("/a\"{text}").into(), clients: host() },
            Action::OwnServer { clients: text.into(), memory_bytes: 0, udp: false },
            tunnel(text, None),
            tunnel("h", Some(text.to_owned())),
            sysctl(text, "1"),
            sysctl("vm.dirty_ratio", &format!("|{text}")),
            Action::Mtu { interface: text.into(), bytes: 1 },
            Action::Shape { interface: text.into(), rate_bits_per_s: None, delay_us: None },
            Action::Cut { interface: text.into(), port: 1 },
            Action::ReadAhead { point: text.into(), kib: 1 },
            Action::Fill { point: text.into() },
        ]
    }

    #[test]
    fn hostile_texts_are_refused_wherever_they_stand() {
        for text in HOSTILE {
            for action in with_text(text) {
                // Words with a space between them are clients, and a path may be a file's.
                let is_fine = match &action {
                    Action::LoopFile { .. } => text == "/dev/loop4",
                    Action::Export { clients, .. } | Action::OwnServer { clients, .. } => {
                        clients == "x y"
                    }
                    _ => text == "x y" && matches!(&action, Action::NfsMount { .. }),
                };
                assert!(is_fine || check(&action).is_err(), "{text:?}: {action:?}");
            }
        }
    }

    #[test]
    fn mkfs_gets_no_argument_that_was_not_parsed() {
        let known = Known { nodes: vec!["/dev/vdb".into()], uuid: "u".into(), ..Known::default() };
        let of = |file_system, text: &str| {
            let options = vec![text.to_owned()];
            let device = Device::Node("/dev/vdb".into());
            steps(&Action::Format { device, file_system, options }, &known).remove(0)
        };
        let shown = of(FileSystem::Btrfs, "-d single --nodesize=16k").to_string();
        assert_eq!(shown, "mkfs.btrfs -q -U u -d single --nodesize 16k -- /dev/vdb");
        // Of two `-E` mkfs.ext4 would use the last alone.
        let shown = of(FileSystem::Ext4, "-E stride=16 -b 4096").to_string();
        let expected = "mkfs.ext4 -q -U u -E lazy_itable_init=0,lazy_journal_init=0,stride=16 -b \
                        4096 -- /dev/vdb";
        assert_eq!(shown, expected);
        assert!(of(FileSystem::Xfs, "-d su=64k,sw=4").to_string().ends_with(" -- /dev/vdb"));
        // A text that wasn't checked before becomes no argument either.
        let refused = of(FileSystem::Btrfs, "-f /dev/loop4");
        assert!(matches!(refused, Step::Refuse(_)), "{refused}");
    }

    #[test]
    fn the_configuration_of_ssh_is_one_argument() {
        let action = Action::Tunnel {
            ssh: "root@h".into(),
            ssh_config: Some("c -o ProxyCommand=x".into()),
            local_port: 1,
            address: "10.0.0.1".into(),
            remote_port: RemotePort::Number(2),
            compression: false,
            cipher: None,
        };
        check(&action).unwrap();
        let shown = steps(&action, &Known::default()).pop().unwrap().to_string();
        assert!(shown.ends_with("-F 'c -o ProxyCommand=x' -- root@h &"), "{shown}");
    }
}
