//! What a server offers: programs, versions, transports, ports, exports, limits, round trips.
//!
//! [`Probe`] is the outcome as plain data, [`ProbeOptions`] what is asked for. A part that failed
//! is data of its own ([`NoAnswer`]) and never the end of a probe.

mod data;
mod options;

pub use data::{
    Answer, Export, Flavor, Limits, Mounted, NoAnswer, Probe, Registration, RoundTrip, Service,
    Transport, V4Root,
};
pub use options::ProbeOptions;
