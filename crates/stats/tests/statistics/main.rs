//! Statistics compared with published results, and with simulated trials of known properties.

mod correlated;
mod documented;
mod published;
mod simulated;
