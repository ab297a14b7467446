//! Validation of an action's texts before anything is done, shared by all `accept` methods.
//!
//! Checks that depend on the host are in [`crate::host::safety`].

use std::path::Path;

use model::Device;
use model::options::{OptionError, check_object_name, check_path};

use crate::RUN;
use crate::error::LabError;

/// Turns a failed check into an error that names the setting.
///
/// # Errors
/// If the check failed.
pub(crate) fn accept(what: &str, checked: Result<(), OptionError>) -> Result<(), LabError> {
    checked.map_err(|error| LabError::Refused(format!("{what}: {error}")))
}

/// Checks the name of a device.
///
/// # Errors
/// If it is invalid.
pub(crate) fn check_device(device: &Device) -> Result<(), LabError> {
    match device {
        Device::Node(path) | Device::Loop(path) => accept("devices", check_path(path)),
        Device::Array(name) | Device::Mapped(name) => accept("devices", check_object_name(name)),
    }
}

/// Checks a mount point. We only mount below /run/dfsbench.
///
/// # Errors
/// If it is somewhere else.
pub(crate) fn check_point(point: &Path) -> Result<(), LabError> {
    let why = match check_path(point) {
        Err(error) => error.to_string(),
        Ok(()) if point == Path::new(RUN) || !point.starts_with(RUN) => {
            format!("it is not below {RUN}")
        }
        Ok(()) => return Ok(()),
    };
    Err(LabError::Refused(format!("refusing to mount on {}: {why}", point.display())))
}

#[cfg(test)]
mod tests {
    use model::{Action, FileSystem, Raid, RemotePort, action};

    use super::*;
    use crate::actions::accept_any;

    /// Texts with a special meaning to a shell, getopt, an option list or the kernel.
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

    /// Returns one action per free-form text, with `text` inserted.
    fn with_text(text: &str) -> Vec<Action> {
        [storage_with(text), exports_with(text), others_with(text)].concat()
    }

    fn storage_with(text: &str) -> Vec<Action> {
        let node = Device::Node("/dev/vdb".into());
        let point = Path::new(RUN).join("storage");
        let options = vec![text.to_owned()];
        let file_system = FileSystem::Btrfs;
        vec![
            Action::LoopFile(action::LoopFile { file: text.into(), bytes: 1 }),
            Action::Raid(action::Raid {
                name: text.into(),
                level: Raid::Raid0,
                chunk_bytes: None,
                devices: vec![node.clone()],
            }),
            Action::Crypt(action::Crypt {
                name: text.into(),
                device: node.clone(),
                cipher: None,
                key_bits: None,
            }),
            Action::Crypt(action::Crypt {
                name: "dfsbench".into(),
                device: node.clone(),
                cipher: Some(text.into()),
                key_bits: None,
            }),
            Action::Format(action::Format {
                device: node.clone(),
                file_system,
                options: options.clone(),
            }),
            Action::Format(action::Format {
                device: Device::Array(text.into()),
                file_system,
                options: vec![],
            }),
            Action::Mount(action::Mount {
                device: None,
                file_system,
                point: point.clone(),
                options: options.clone(),
            }),
            Action::Mount(action::Mount {
                device: None,
                file_system,
                point: text.into(),
                options: vec![],
            }),
        ]
    }

    fn exports_with(text: &str) -> Vec<Action> {
        let point = Path::new(RUN).join("storage");
        let options = vec![text.to_owned()];
        let host = "10.0.0.1".to_owned();
        vec![
            Action::NfsMount(action::NfsMount {
                trunk_connections: None,
                source: format!("{text}:/a"),
                point: point.clone(),
                options: vec![],
            }),
            Action::NfsMount(action::NfsMount {
                trunk_connections: None,
                source: "h:/a".into(),
                point: point.clone(),
                options: options.clone(),
            }),
            Action::NfsMount(action::NfsMount {
                trunk_connections: None,
                source: "h:/a".into(),
                point: text.into(),
                options: vec![],
            }),
            Action::Export(action::Export {
                directory: "/a".into(),
                clients: host.clone(),
                options: options.clone(),
            }),
            Action::Export(action::Export {
                directory: "/a".into(),
                clients: text.into(),
                options: vec![],
            }),
        ]
    }

    fn others_with(text: &str) -> Vec<Action> {
        vec![
            Action::Ganesha(action::Ganesha {
                directory: format!("/a\"{text}").into(),
                threads: 0,
                versions: vec![],
            }),
            Action::Unfs3(action::Unfs3 {
                directory: format!("/a\"{text}").into(),
                clients: "10.0.0.1".into(),
            }),
            Action::OwnServer(action::OwnServer {
                clients: text.into(),
                memory_bytes: 0,
                udp: false,
            }),
            tunnel("10.0.0.1", text, None),
            tunnel(text, "10.0.0.1", None),
            tunnel("h", "10.0.0.1", Some(text)),
            sysctl(text, "1"),
            sysctl("vm.dirty_ratio", &format!("|{text}")),
            Action::Mtu(action::Mtu { interface: text.into(), bytes: 1 }),
            Action::Shape(action::Shape {
                interface: text.into(),
                rate_bits_per_s: None,
                delay_us: None,
            }),
            Action::Cut(action::Cut { interface: text.into(), port: 1 }),
            Action::ReadAhead(action::ReadAhead { point: text.into(), kib: 1 }),
            Action::Fill(action::Fill { point: text.into() }),
        ]
    }

    fn tunnel(ssh: &str, address: &str, cipher: Option<&str>) -> Action {
        Action::Tunnel(action::Tunnel {
            ssh: ssh.to_owned(),
            ssh_config: None,
            local_port: 1,
            address: address.to_owned(),
            remote_port: RemotePort::Number(2),
            compression: false,
            cipher: cipher.map(str::to_owned),
        })
    }

    fn sysctl(name: &str, value: &str) -> Action {
        Action::Sysctl(action::Sysctl { name: name.to_owned(), value: value.to_owned() })
    }

    #[test]
    fn rejects_hostile_texts_everywhere() {
        for text in HOSTILE {
            for action in with_text(text) {
                // These are valid: clients are separated by spaces, and a loop file may have any
                // absolute path.
                let is_fine = match &action {
                    Action::LoopFile(_) => text == "/dev/loop4",
                    Action::Export(action::Export { clients, .. })
                    | Action::OwnServer(action::OwnServer { clients, .. }) => clients == "x y",
                    _ => text == "x y" && matches!(&action, Action::NfsMount(_)),
                };
                assert!(is_fine || accept_any(&action).is_err(), "{text:?}: {action:?}");
            }
        }
    }
}
