//! Network interfaces: their MTU and their tc rules.
//!
//! Our rules are recognized by their handles. **Source:** ip-link(8), tc(8).

use std::path::Path;

use serde_json::Value;

use crate::commands::{Runner, SOON};
use crate::error::LabError;

/// Handle of our rule at the root of an interface.
pub(crate) const HANDLE: &str = "df5:";
/// Handle of the rate limit below a delay.
pub(crate) const INNER: &str = "df6:";

/// Restores the MTU of an interface. Does nothing if the interface is gone.
///
/// # Errors
/// If the kernel rejects it.
pub(crate) fn restore_mtu(runner: &Runner, interface: &str, bytes: u32) -> Result<(), LabError> {
    if let Ok(now) = mtu(interface)
        && now != bytes
    {
        let bytes = bytes.to_string();
        runner.run(&["ip", "link", "set", "dev", interface, "mtu", bytes.as_str()], SOON)?;
    }
    Ok(())
}

/// Removes our rules from an interface. Does nothing if the interface is gone or has no such rules.
///
/// # Errors
/// If the kernel rejects it.
pub(crate) fn remove_rules(runner: &Runner, interface: &str) -> Result<(), LabError> {
    if mtu(interface).is_err() {
        return Ok(());
    }
    if rules(runner, interface)?.iter().any(|rule| rule["handle"].as_str() == Some(HANDLE)) {
        runner.run(&["tc", "qdisc", "del", "dev", interface, "root"], SOON)?;
    }
    Ok(())
}

/// Reads the rules of an interface.
///
/// # Errors
/// If tc fails.
pub(crate) fn rules(runner: &Runner, interface: &str) -> Result<Vec<Value>, LabError> {
    let argv = ["tc", "-json", "qdisc", "show", "dev", interface];
    json(&argv, &runner.run(&argv, SOON)?)
}

/// Reads the MTU of an interface, in bytes.
///
/// # Errors
/// If there is no such interface.
pub(crate) fn mtu(interface: &str) -> Result<u32, LabError> {
    let argv = ["ip", "-json", "link", "show", "dev", interface];
    let links = json(&argv, &Runner::default().run(&argv, SOON)?)?;
    if let Some(link) = links.first()
        && let Some(bytes) = link["mtu"].as_u64()
        && let Ok(bytes) = u32::try_from(bytes)
    {
        return Ok(bytes);
    }
    Err(LabError::Unable(format!("interface {interface} has no MTU")))
}

fn json(argv: &[&str], text: &str) -> Result<Vec<Value>, LabError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text).map_err(|error| {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string());
        LabError::file("understand", Path::new(&crate::commands::show(argv)), error)
    })
}
