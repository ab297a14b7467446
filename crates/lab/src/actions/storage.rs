//! Facts and checks that the actions on block devices share.

use std::path::PathBuf;

use model::Device;

use crate::error::LabError;
use crate::host::devices;
use crate::safety::{self, OverwrittenDevice};

/// The devices of an action, as they are on this host.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    /// Their nodes, in the action's order.
    pub nodes: Vec<PathBuf>,
    /// Their numbers and origins, to be looked at again right before one is overwritten.
    pub overwritten: Vec<OverwrittenDevice>,
}

impl Devices {
    /// Finds the nodes of some devices.
    ///
    /// # Errors
    /// Where one isn't there.
    pub fn find<'d>(devices: impl IntoIterator<Item = &'d Device>) -> Result<Self, LabError> {
        let mut found = Self::default();
        for device in devices {
            let node = devices::node(device)?;
            found.overwritten.push(OverwrittenDevice::of(device, &node));
            found.nodes.push(node);
        }
        Ok(found)
    }

    /// Names some devices as a dry run does.
    pub fn assume<'d>(devices: impl IntoIterator<Item = &'d Device>) -> Self {
        let nodes = devices.into_iter().map(devices::placeholder).collect();
        Self { nodes, overwritten: Vec::new() }
    }

    /// Returns the node of the first device; empty where there is none.
    pub fn first_node(&self) -> String {
        match self.nodes.first() {
            Some(node) => node.display().to_string(),
            None => String::new(),
        }
    }

    /// Refuses devices of the user's that must not lose their content, see [`safety::may_destroy`].
    ///
    /// # Errors
    /// Where one of them must be left alone.
    pub fn may_destroy(&self, devices: &[Device], allowed: &[PathBuf]) -> Result<(), LabError> {
        safety::may_destroy(devices, &self.nodes, allowed)
    }
}
