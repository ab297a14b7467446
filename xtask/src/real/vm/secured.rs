//! Mounts under TLS and under Kerberos; and our client under TLS with the kernel's server.
//!
//! Server and client of kernel 6.12; an authority and a KDC of the laboratory's own are made by
//! `lab-tls` and `lab-krb5` of `lab-image/`.

use anyhow::{Result, ensure};

use super::guest::Mount;
use super::{Checks, FRESH_EXPORT, NEW, ours};
use crate::vm::lab::Lab;

/// Runs the checks of this part.
pub fn run(checks: &mut Checks, lab: &Lab) {
    let started = checks.get("server and client set up TLS", || {
        lab.ssh("server", &format!("{FRESH_EXPORT} && lab-tls serve"))?;
        lab.ssh(NEW, "lab-tls join")
    });
    if started.is_some() {
        for option in ["xprtsec=tls", "xprtsec=mtls"] {
            checks.run(&format!("a mount with {option}"), || under_tls(lab, option));
        }
        checks.run("our client, the kernel's server, v4.2 under TLS", || ours::under_tls(lab));
    }
    let started = checks.get("server and client set up Kerberos", || {
        lab.ssh("server", &format!("{FRESH_EXPORT} && lab-krb5 serve"))?;
        lab.ssh(NEW, "lab-krb5 join")
    });
    if started.is_some() {
        for option in ["sec=krb5", "sec=krb5i", "sec=krb5p"] {
            checks.run(&format!("a mount with {option}"), || in_force(lab, option));
        }
    }
}

/// A mount under TLS; the kernel's counters of TLS show that it was.
fn under_tls(lab: &Lab, option: &str) -> Result<()> {
    let sessions = || -> Result<u64> {
        let said = lab.ssh(NEW, "awk '$1 == \"TlsTxSw\" { print $2 }' /proc/net/tls_stat")?;
        Ok(said.trim().parse()?)
    };
    let before = sessions()?;
    in_force(lab, option)?;
    let after = sessions()?;
    ensure!(after > before, "the client has made {after} sessions of TLS, as before");
    Ok(())
}

fn in_force(lab: &Lab, option: &str) -> Result<()> {
    let options = format!("vers=4.2,{option}");
    let mount = Mount { lab, client: NEW, source: "server:/export", options: &options };
    let missing = mount.check_data()?.at("fresh")?.missing(&[option]).len();
    ensure!(missing == 0, "{option} isn't in force");
    Ok(())
}
