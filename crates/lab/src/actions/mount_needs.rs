//! What a mount with Kerberos, TLS or RDMA needs of its hosts besides the kernel.
//!
//! The kernel reports a program that isn't running as a wrong option, and a missing ticket as a
//! denied access. [`check_client`] and [`check_server`] look first, and [`explain`] adds a hint to
//! whatever still fails.
//!
//! **Source:** nfs(5), exports(5), rpc.gssd(8), rpc.svcgssd(8), gssproxy(8), tlshd(8).

use std::fs;
use std::path::Path;

use super::options::RequestedOption;
use crate::commands::{Runner, SOON, find, packages};
use crate::error::LabError;
use crate::host::processes::is_running;

const KEYTAB: &str = "/etc/krb5.keytab";

/// RDMA devices, also those emulated in software.
const RDMA_DEVICES: &str = "/sys/class/infiniband";
const RDMA_MODULE: &str = "rpcrdma";

/// Fails if the client lacks something that a mount with these options needs.
pub(super) fn check_client(options: &[String]) -> Result<(), LabError> {
    if is_rdma(options) {
        check_rdma("on the client")?;
    }
    if let Some(level) = tls(options) {
        require_running(&format!("xprtsec {level}"), "on the client", &["tlshd"])?;
    }
    match kerberos(options) {
        Some(sec) => require_running(&format!("sec {sec}"), "on the client", &["rpc.gssd"]),
        None => Ok(()),
    }
}

/// Fails if a program that an export with these options needs is not running on the server.
pub(super) fn check_server(options: &[String]) -> Result<(), LabError> {
    match kerberos(options) {
        Some(sec) => {
            let programs = ["rpc.svcgssd", "gssproxy"];
            require_running(&format!("sec {sec}"), "on the server", &programs)
        }
        None => Ok(()),
    }
}

/// Fails if this host cannot carry NFS over RDMA.
pub(super) fn check_rdma(place: &str) -> Result<(), LabError> {
    if !has_module(RDMA_MODULE) {
        return Err(LabError::Unable(no_rdma_module(place, &kernel())));
    }
    match no_rdma_device(place, Path::new(RDMA_DEVICES)) {
        Some(reason) => Err(LabError::Unable(reason)),
        None => Ok(()),
    }
}

fn no_rdma_module(place: &str, kernel: &str) -> String {
    format!("proto rdma is not supported by kernel {kernel} {place}, which has no {RDMA_MODULE}")
}

fn no_rdma_device(place: &str, devices: &Path) -> Option<String> {
    if fs::read_dir(devices).is_ok_and(|mut devices| devices.next().is_some()) {
        return None;
    }
    Some(format!(
        "proto rdma needs an RDMA device {place}, but {} has none (hint: for soft RoCE, `rdma \
         link add rxe0 type rxe netdev eth0` on both hosts)",
        devices.display()
    ))
}

/// Returns true if the kernel has a module, loaded or not.
fn has_module(name: &str) -> bool {
    let runner = Runner::default();
    Path::new("/sys/module").join(name).exists()
        || runner.run(&["modprobe", "--dry-run", "--quiet", name], SOON).is_ok()
}

fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Adds what the options of a failed mount need to its error.
pub(super) fn explain(error: LabError, options: &[String]) -> LabError {
    if !matches!(error, LabError::Failed { .. } | LabError::TooSlow { .. }) {
        return error;
    }
    let hint = if let Some(sec) = kerberos(options) {
        kerberos_hint(&sec, KEYTAB)
    } else if let Some(level) = tls(options) {
        format!(
            "hint: xprtsec {level} needs Linux 6.5 on both hosts, tlshd on the server, too, and \
             certificates with the names by which the hosts know each other"
        )
    } else if is_rdma(options) {
        "hint: proto rdma needs a server that listens for it (/proc/fs/nfsd/portlist), and RDMA \
         devices on the network between the hosts"
            .to_owned()
    } else {
        return error;
    };
    LabError::Unable(format!("{error} ({hint})"))
}

/// Returns the flavors of an option `sec` that contains Kerberos.
fn kerberos(options: &[String]) -> Option<String> {
    let sec = value_of(options, "sec")?;
    if sec.split(':').any(|flavor| flavor.starts_with("krb5")) { Some(sec) } else { None }
}

fn is_rdma(options: &[String]) -> bool {
    value_of(options, "proto").is_some_and(|proto| proto.starts_with("rdma"))
}

/// Returns the level of an option `xprtsec` that requests TLS.
fn tls(options: &[String]) -> Option<String> {
    value_of(options, "xprtsec").filter(|level| level != "none")
}

/// Returns the value of an option. If it is given more than once, the last one counts.
fn value_of(options: &[String], name: &str) -> Option<String> {
    let options = RequestedOption::nfs(options);
    options.into_iter().rev().find(|option| option.name == name)?.value
}

/// Fails if none of these programs is running. The first one is what to install and start.
fn require_running(feature: &str, place: &str, programs: &[&str]) -> Result<(), LabError> {
    if programs.iter().any(|program| is_running(program)) {
        return Ok(());
    }
    let program = programs[0];
    if !programs.iter().any(|program| find(program).is_some()) {
        return Err(packages::missing(program));
    }
    Err(LabError::Unable(not_running(feature, place, programs)))
}

fn not_running(feature: &str, place: &str, programs: &[&str]) -> String {
    let unit = programs[0].replace("rpc.", "rpc-");
    format!(
        "{feature} needs {} {place}, which is not running (hint: `systemctl start {unit}`)",
        programs.join(" or ")
    )
}

fn kerberos_hint(sec: &str, keytab: &str) -> String {
    if Path::new(keytab).exists() {
        format!(
            "hint: sec {sec} needs a KDC that answers, a key for nfs/SERVER in the server's \
             keytab, and an export with sec={sec}"
        )
    } else {
        format!("hint: sec {sec} needs the client's key, but {keytab} does not exist")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(options: &str) -> Vec<String> {
        options.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn finds_kerberos_in_options() {
        assert_eq!(kerberos(&words("vers=4.2 sec=krb5p")), Some("krb5p".to_owned()));
        assert_eq!(kerberos(&words("rw sec=sys:krb5")), Some("sys:krb5".to_owned()));
        assert_eq!(kerberos(&words("sec=krb5 sec=sys")), None);
        assert_eq!(kerberos(&words("rw")), None);
        check_client(&words("vers=4.2 sec=sys")).unwrap();
        check_server(&words("rw")).unwrap();
    }

    #[test]
    fn names_program_to_start() {
        let text = not_running("sec krb5", "on the server", &["rpc.svcgssd", "gssproxy"]);
        assert!(text.contains("rpc.svcgssd or gssproxy on the server, which is not running"));
        assert!(text.contains("systemctl start rpc-svcgssd"), "{text}");
    }

    #[test]
    fn names_missing_rdma_parts() {
        let folder = tempfile::tempdir().unwrap();
        let reason = || no_rdma_device("on the client", folder.path());
        assert!(reason().unwrap().contains("an RDMA device on the client, but "));
        fs::create_dir(folder.path().join("rxe0")).unwrap();
        assert_eq!(reason(), None);
        let missing = folder.path().join("none");
        assert!(no_rdma_device("on the server", &missing).is_some());
        let text = no_rdma_module("on the server", "6.1.0-9");
        assert!(text.contains("not supported by kernel 6.1.0-9 on the server"), "{text}");
        assert!(!has_module("dfsbench_no_such_module"));
    }

    #[test]
    fn explains_failed_mounts() {
        let failed = || LabError::Failed {
            command: "mount".to_owned(),
            status: "exit status: 32".to_owned(),
            message: "mount.nfs: access denied by server".to_owned(),
        };
        let text = explain(failed(), &words("sec=krb5i")).to_string();
        assert!(text.contains("access denied by server (hint: sec krb5i needs "), "{text}");
        assert!(kerberos_hint("krb5", "/proc/none").contains("/proc/none does not exist"));
        assert!(kerberos_hint("krb5", "/proc/self").contains("a KDC that answers"));
        let text = explain(failed(), &words("sec=sys xprtsec=mtls")).to_string();
        assert!(text.contains("(hint: xprtsec mtls needs Linux 6.5"), "{text}");
        let text = explain(failed(), &words("vers=4.2 rdma")).to_string();
        assert!(text.contains("(hint: proto rdma needs a server that listens"), "{text}");
        assert_eq!(explain(failed(), &words("xprtsec=none")).to_string(), failed().to_string());
        assert_eq!(explain(failed(), &words("sec=sys")).to_string(), failed().to_string());
    }
}
