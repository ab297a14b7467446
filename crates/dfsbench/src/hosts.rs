//! The agents of a campaign, and whether this host is idle enough to begin one.

pub(crate) mod agents;
pub(crate) mod busy;
pub(crate) mod writeback;
