//! The layers of a ladder: the same work on ever more of what lies between a program and its data.
//!
//! [`Layer`] names them and says what each contains; [`Ladder`] says which layers a campaign has,
//! and which it could not have and why. What a layer costs more than what it contains is what it
//! adds.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// One layer, from the least that there can be to the whole way.
    Layer {
        /// The tool alone: nothing is done.
        Null = "null",
        /// Data is copied within memory.
        Memory = "memory",
        /// A directory of this host that the way does not lead to: for comparison only.
        Local = "local",
        /// The disk that the data is on, directly.
        Disk = "disk",
        /// The same bytes over TCP, without RPC.
        Tcp = "tcp",
        /// Our server, without faults, under our client.
        Own = "own",
        /// The server in question, under our client.
        Server = "server",
        /// The server mounts its own export.
        Loopback = "loopback",
        /// The kernel's client mounts it over the network.
        Network = "network",
        /// The same through a tunnel.
        Tunnel = "tunnel",
        /// The way in question, but for the transfer size, which is left to the server.
        Whole = "whole",
    }
}

impl Layer {
    /// The layers that are parts of it: whatever it does, it does all that they do. Of one that a
    /// ladder has not, its parts stand in.
    ///
    /// A mount on the server itself is no part of one over the network: client and server share
    /// processors there.
    pub const fn parts(self) -> &'static [Self] {
        match self {
            // Of the last, those of the way that it varies.
            Self::Null | Self::Whole => &[],
            Self::Memory => &[Self::Null],
            Self::Local | Self::Disk | Self::Tcp => &[Self::Memory],
            Self::Own => &[Self::Tcp],
            Self::Server => &[Self::Own, Self::Disk],
            Self::Loopback => &[Self::Disk],
            Self::Network => &[Self::Server],
            Self::Tunnel => &[Self::Network],
        }
    }
}

/// A layer that a campaign has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The layer of the data path.
    pub layer: Layer,
    /// The target of the plan that it is measured on.
    pub target: String,
}

/// A layer that a campaign can't have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The layer of the data path.
    pub layer: Layer,
    /// Why, and which question is left open; a sentence.
    pub why: String,
}

/// The layers that a bottleneck analysis compares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ladder {
    /// Its layers, the lowest first; the last is the way in question.
    pub layers: Vec<Placed>,
    /// The layers that could not be had.
    pub missing: Vec<Missing>,
    /// The server in question is on another host than the peer of the layers below it: what lies
    /// between the two belongs to the server's layer.
    pub network_unknown: bool,
}
