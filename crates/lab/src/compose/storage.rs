//! Actions for a run's storage: loop devices, arrays, encryption, file systems and their mounts.

use model::{Action, Device, FileSystem, LabSpec, Raid, action};

use super::ComposeError;

/// Name of our array and of our mapping.
const NAME: &str = "dfsbench";

/// Adds the actions that set up block devices and create the file systems. Returns the device of
/// each file system, if it has one.
///
/// Each layer builds on the one below: loop devices on files, an array on devices, a mapping on the
/// array. Since they are undone in reverse, no layer is removed while another uses it.
pub(super) fn prepare_devices(
    spec: &LabSpec,
    actions: &mut Vec<Action>,
) -> Result<Vec<Device>, ComposeError> {
    let storage = &spec.storage;
    let file_system = storage.file_system;
    if !storage.is_formatted() || !spec.has_storage() {
        return Ok(Vec::new());
    }
    let mut devices = Vec::new();
    for path in storage.used() {
        if storage.loop_bytes == 0 {
            devices.push(Device::Node(path.clone()));
        } else {
            actions.push(Action::LoopFile(action::LoopFile {
                file: path.clone(),
                bytes: storage.loop_bytes,
            }));
            devices.push(Device::Loop(path.clone()));
        }
    }
    if storage.raid != Raid::None {
        check_device_count(storage.raid, devices.len())?;
        let name = NAME.to_owned();
        let raid = action::Raid {
            name: name.clone(),
            level: storage.raid,
            chunk_bytes: storage.chunk_bytes,
            devices,
        };
        actions.push(Action::Raid(raid));
        devices = vec![Device::Array(name)];
    }
    if devices.is_empty() {
        return Err(ComposeError::NoDevice(file_system));
    }
    if storage.crypt {
        for (index, device) in devices.iter_mut().enumerate() {
            let name = if index == 0 { NAME.to_owned() } else { format!("{NAME}-{}", index + 1) };
            let below = std::mem::replace(device, Device::Mapped(name.clone()));
            actions.push(Action::Crypt(action::Crypt {
                name,
                device: below,
                cipher: storage.cipher.clone(),
                key_bits: storage.key_bits,
            }));
        }
    }
    for device in &devices {
        actions.push(Action::Format(action::Format {
            device: device.clone(),
            file_system,
            options: storage.format_options.clone(),
        }));
    }
    Ok(devices)
}

/// Checks that there are enough devices for an array. **Source:** md(4).
const fn check_device_count(level: Raid, given: usize) -> Result<(), ComposeError> {
    let needed = match level {
        Raid::None => 1,
        Raid::Raid0 | Raid::Raid1 | Raid::Raid10 => 2,
        Raid::Raid5 => 3,
        Raid::Raid6 => 4,
    };
    if given < needed {
        return Err(ComposeError::FewDevices { level, needed, given });
    }
    Ok(())
}

/// Returns the actions that mount each file system, or tmpfs, at its own mount point.
pub(super) fn mount_all(spec: &LabSpec, devices: Vec<Device>) -> Vec<Action> {
    let storage = &spec.storage;
    let file_system = storage.file_system;
    if !spec.has_storage() || file_system == FileSystem::Existing {
        return Vec::new();
    }
    let mut options = storage.mount_options.clone();
    if file_system == FileSystem::Tmpfs && storage.size_bytes != 0 {
        options.push(format!("size={}", storage.size_bytes));
    }
    let mut devices = devices.into_iter();
    let mut mounts = Vec::new();
    for point in storage.places() {
        // `None` for tmpfs.
        let device = devices.next();
        mounts.push(Action::Mount(action::Mount {
            device,
            file_system,
            point,
            options: options.clone(),
        }));
    }
    mounts
}
