//! Names, addresses, paths and sysctls that become arguments of programs running as root.
//!
//! **Source:** proc_sys(5); ssh(1); exports(5), "Machine Name Formats"; Linux, `dev_valid_name`.

use std::path::Path;

use super::{OptionError, begins_with, consists_of, is_word, shorten};

/// Maximum length of an interface name in bytes. **Source:** Linux, `IFNAMSIZ` without the NUL.
const INTERFACE_LENGTH_MAX: usize = 15;
/// Maximum length of a path in bytes. **Source:** Linux, `PATH_MAX` without the NUL.
const PATH_LENGTH_MAX: usize = 4_095;

/// Prefixes of sysctls that a plan may set: memory, network, RPC, files and scheduling.
const SYSCTLS: &[&str] = &[
    "vm.",
    "net.",
    "sunrpc.",
    "fs.nfs.",
    "fs.lockd",
    "fs.xfs.",
    "fs.quota.",
    "fs.aio-",
    "fs.file-max",
    "fs.nr_open",
    "fs.pipe-",
    "fs.lease",
    "fs.inotify.",
    "fs.epoll.",
    "dev.raid.",
    "kernel.sched",
    "kernel.numa_balancing",
    "kernel.timer_migration",
    "kernel.watchdog",
    "kernel.nmi_watchdog",
    "kernel.perf_cpu_time_max_percent",
    "kernel.perf_event_max_sample_rate",
    "kernel.io_uring_disabled",
];

/// Sysctls among them that can stop the host.
const SYSCTLS_REFUSED: &[&str] =
    &["vm.panic_on_oom", "fs.xfs.panic_mask", "kernel.watchdog_thresh"];

/// Checks the name and the value of a sysctl.
///
/// The list excludes sysctls that run programs (`kernel.core_pattern`, `kernel.modprobe`) or stop
/// the host (`kernel.panic`, `kernel.sysrq`).
///
/// # Errors
/// If the name is not in the list, or either contains invalid characters.
pub fn check_sysctl(name: &str, value: &str) -> Result<(), OptionError> {
    // An empty part, as in `..`, could escape /proc/sys.
    let whole = name.split(['.', '/']).all(|part| !part.is_empty());
    if !consists_of(name, "._-/") || !whole {
        let what = format!("`{}` is not the name of a sysctl", shorten(name));
        return Err(OptionError::new(what, "name=value, such as `vm.dirty_ratio=5`"));
    }
    let known = SYSCTLS.iter().any(|start| name.starts_with(start));
    // In a name, slashes can replace dots and vice versa.
    let bare = name.replace('/', ".");
    if !known || SYSCTLS_REFUSED.contains(&bare.as_str()) {
        let what = format!("`{}` is not a sysctl that a plan may set", shorten(name));
        let hint = "those of memory, network, RPC, files and scheduling, such as `vm.`, `net.`, \
                    `sunrpc.`, `fs.nfs.`, `kernel.sched`";
        return Err(OptionError::new(what, hint));
    }
    if value.trim().is_empty() || value.len() > 256 || !consists_of(value, " _.,:-\t") {
        let what = format!("`{}` can't be the value of {name}", shorten(value));
        return Err(OptionError::new(what, "numbers or words separated by spaces"));
    }
    Ok(())
}

/// Checks a path. It must be absolute, without `.`, `..` and double slashes, and not the root.
pub fn check_path(path: &Path) -> Result<(), OptionError> {
    let text = path.to_str().unwrap_or_default();
    // A relative path leaves an empty rest, which has an empty part, so it is refused, too.
    let rest = text.strip_prefix('/').unwrap_or_default();
    let whole = rest.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !whole || text.contains(char::is_control) || text.len() > PATH_LENGTH_MAX {
        let what = format!("`{}` is not an absolute path", shorten(&path.to_string_lossy()));
        let hint = "begin with `/`, without `.`, `..` or a trailing `/`; not the root itself";
        return Err(OptionError::new(what, hint));
    }
    Ok(())
}

/// Checks a path that is written in quotes to the configuration of a server.
///
/// # Errors
/// If it could end the quotes or is not a valid path.
pub fn check_quotable_path(path: &Path) -> Result<(), OptionError> {
    check_path(path)?;
    if path.to_string_lossy().contains(['"', '\\', '\'', '$', '#', '%']) {
        let what = format!("`{}` can't be quoted", shorten(&path.to_string_lossy()));
        return Err(OptionError::new(
            what,
            "a directory without `\"`, `'`, `\\`, `$`, `#` and `%`",
        ));
    }
    Ok(())
}

/// Checks an ssh destination: a name or an address, optionally with a user before an `@`.
///
/// # Errors
/// If it is anything else, or ssh could take it for an option.
pub fn check_ssh_destination(text: &str) -> Result<(), OptionError> {
    let parts: Vec<&str> = text.split('@').collect();
    if parts.len() > 2 || !parts.iter().all(|part| is_host(part)) {
        let what = format!("`{}` is not a host for ssh", shorten(text));
        let hint = "a name or an address, optionally with `user@` before it";
        return Err(OptionError::new(what, hint));
    }
    Ok(())
}

/// Checks which hosts may mount an export: names or addresses separated by spaces.
pub fn check_clients(text: &str) -> Result<(), OptionError> {
    for client in text.split(' ') {
        // exports(5) writes IPv6 addresses in brackets.
        let inner = client.strip_prefix('[').unwrap_or_default().strip_suffix(']');
        if !is_host(inner.unwrap_or(client)) {
            return Err(OptionError::new(
                format!("`{}` is not a client of an export", shorten(client)),
                "names or addresses separated by spaces",
            ));
        }
    }
    Ok(())
}

/// Checks the name or the address of a host.
pub fn check_address(text: &str) -> Result<(), OptionError> {
    if is_host(text) {
        return Ok(());
    }
    let what = format!("`{}` is not a host name or address", shorten(text));
    Err(OptionError::new(what, "for example 10.0.0.1, fe80::1 or server.example"))
}

fn is_host(text: &str) -> bool {
    // `::1` begins with a colon, and `%` introduces the interface of a link-local address.
    begins_with(text, "_:") && text.len() <= 255 && consists_of(text, ".-_:%")
}

/// Checks the name of a network interface.
///
/// # Errors
/// If it contains characters that plans don't allow in interfaces.
pub fn check_interface(name: &str) -> Result<(), OptionError> {
    let is_short = name.len() <= INTERFACE_LENGTH_MAX;
    if !begins_with(name, "_") || !is_short || !consists_of(name, "._-+") {
        let what = format!("`{}` is not the name of an interface", shorten(name));
        return Err(OptionError::new(what, "its name in `ip link`, such as `eth0`"));
    }
    Ok(())
}

/// Checks the name of an array or mapping created by dfsbench, which must begin with `dfsbench`.
pub fn check_object_name(name: &str) -> Result<(), OptionError> {
    if !name.starts_with("dfsbench") || name.len() > 32 || !consists_of(name, "_-") {
        let what = format!(
            "`{}` is not the name of an array or mapping created by dfsbench",
            shorten(name)
        );
        return Err(OptionError::new(what, "a name that begins with `dfsbench`"));
    }
    Ok(())
}

pub fn check_tunnel_cipher(name: &str) -> Result<(), OptionError> {
    if !begins_with(name, "") || name.len() > 64 || !consists_of(name, "@._-") {
        let what = format!("`{}` is not the name of a cipher", shorten(name));
        return Err(OptionError::new(what, "one that `ssh -Q cipher` lists"));
    }
    Ok(())
}

/// Checks the cipher of a mapping in dm-crypt notation: cipher, mode and initialization vector.
///
/// # Errors
/// If cryptsetup could take it for something else.
pub fn check_crypt_cipher(name: &str) -> Result<(), OptionError> {
    if !begins_with(name, "") || name.len() > 64 || !consists_of(name, "_-:") {
        let what = format!("`{}` is not the name of a cipher", shorten(name));
        return Err(OptionError::new(what, "for example `aes-xts-plain64`, see cryptsetup(8)"));
    }
    Ok(())
}

/// Checks the name of a congestion control algorithm.
///
/// # Errors
/// If it is not a word.
pub fn check_congestion(name: &str) -> Result<(), OptionError> {
    if is_word(name) {
        return Ok(());
    }
    let what = format!("`{}` is not the name of a congestion control", shorten(name));
    Err(OptionError::new(what, "one of /proc/sys/net/ipv4/tcp_available_congestion_control"))
}
