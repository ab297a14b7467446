//! Layers of a ladder: the same work on more and more of the data path.
//!
//! [`Layer`] names them and defines what each contains. [`Ladder`] lists the layers of a campaign,
//! and those that are missing with the reason. The cost of a layer beyond the layers it contains is
//! its own contribution.

use serde::{Deserialize, Serialize};

use crate::text::words::words;

words! {
    /// A layer, from the minimum to the full data path.
    Layer {
        /// Only the tool: ops do nothing.
        Null = "null",
        /// Data is copied within memory.
        Memory = "memory",
        /// A directory on this host that is not part of the data path, for comparison.
        Local = "local",
        /// Direct access to the disk that contains the data.
        Disk = "disk",
        /// The same bytes over TCP, without RPC.
        Tcp = "tcp",
        /// Our client and our server without faults.
        Own = "own",
        /// Our client and the server under test.
        Server = "server",
        /// The server mounts its own export.
        Loopback = "loopback",
        /// The kernel's client mounts the export over the network.
        Network = "network",
        /// The same through a tunnel.
        Tunnel = "tunnel",
        /// The data path under test, except that the server chooses the transfer size.
        Whole = "whole",
        /// The pNFS cluster under test, but with one data server, for comparison.
        OneDataServer = "one-data-server",
    }
}

impl Layer {
    /// Returns the layers contained in this one, whose work it does as well. If a ladder lacks one
    /// of them, the parts of that layer take its place.
    ///
    /// A mount on the server itself is not part of a mount over the network, because client and
    /// server share CPUs there.
    pub const fn parts(self) -> &'static [Self] {
        match self {
            // `Whole` has the parts of the layer that it is a variant of.
            Self::Null | Self::Whole => &[],
            Self::Memory => &[Self::Null],
            Self::Local | Self::Disk | Self::Tcp | Self::OneDataServer => &[Self::Memory],
            Self::Own => &[Self::Tcp],
            Self::Server => &[Self::Own, Self::Disk],
            Self::Loopback => &[Self::Disk],
            Self::Network => &[Self::Server],
            Self::Tunnel => &[Self::Network],
        }
    }
}

/// A layer of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedLayer {
    pub layer: Layer,
    /// The target in the plan on which it is measured.
    pub target: String,
}

/// A layer that a campaign cannot measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub layer: Layer,
    /// Why not, and which question this leaves open, as a sentence.
    pub why: String,
}

/// The layers compared by a bottleneck analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ladder {
    /// Layers from the bottom up; the last one is the data path under test.
    pub layers: Vec<PlacedLayer>,
    /// Layers that could not be measured.
    pub missing: Vec<Missing>,
    /// The server under test is on a different host than the peer of the layers below, so
    /// everything between the two counts toward the server's layer.
    pub network_unknown: bool,
}
