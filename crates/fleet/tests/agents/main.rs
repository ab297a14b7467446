//! Agents and their controller: connections, messages, and how few of them are sent.

mod quiet;
mod rendezvous;
mod wire;
