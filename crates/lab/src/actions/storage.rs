//! Facts and checks shared by the actions on block devices.

use std::path::PathBuf;

use model::Device;

use crate::error::LabError;
use crate::host::devices;
use crate::host::safety::{self, OverwrittenDevice};

/// An action's devices, as found on this host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Devices {
    /// Device nodes, in the order given by the action.
    pub nodes: Vec<PathBuf>,
    /// Device numbers and origins, which are checked again right before a device is overwritten.
    pub overwritten: Vec<OverwrittenDevice>,
}

impl Devices {
    /// Finds the nodes of the given devices.
    ///
    /// # Errors
    /// If a device doesn't exist.
    pub(crate) fn find<'d>(
        devices: impl IntoIterator<Item = &'d Device>,
    ) -> Result<Self, LabError> {
        let mut found = Self::default();
        for device in devices {
            let node = devices::node(device)?;
            found.overwritten.push(OverwrittenDevice::new(device, &node));
            found.nodes.push(node);
        }
        Ok(found)
    }

    /// Names the devices as a dry run does.
    pub(crate) fn assume<'d>(devices: impl IntoIterator<Item = &'d Device>) -> Self {
        let nodes = devices.into_iter().map(devices::placeholder).collect();
        Self { nodes, overwritten: Vec::new() }
    }

    /// Returns the node of the first device, or an empty string if there is none.
    pub(crate) fn first_node(&self) -> String {
        self.nodes.first().map_or_else(String::new, |node| node.display().to_string())
    }

    /// Checks that the user's devices may be overwritten, see [`safety::may_destroy`].
    ///
    /// # Errors
    /// If one of them must be left alone.
    pub(crate) fn may_destroy(
        &self,
        devices: &[Device],
        allowed: &[PathBuf],
    ) -> Result<(), LabError> {
        safety::may_destroy(devices, &self.nodes, allowed)
    }
}
