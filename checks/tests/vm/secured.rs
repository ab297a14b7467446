//! Mounts with TLS and with Kerberos; and our client with TLS on the kernel's server.
//!
//! Server and client with kernel 6.12; `lab-tls` and `lab-krb5` of `lab-image/` create an authority
//! and a KDC for the laboratory.

use anyhow::{Result, ensure};

use checks::checks;
use checks::vm::guest::Mount;
use checks::vm::lab::Lab;
use checks::vm::peer;

use super::{KERBEROS, NEW, TLS, run_in};

checks! {
    a_mount_with_tls: 200 s, run_in(&TLS, |lab| under_tls(lab, "xprtsec=tls"));
    #[ignore = "takes half a minute: runs every night"]
    a_mount_with_mutual_tls: 200 s, run_in(&TLS, |lab| under_tls(lab, "xprtsec=mtls"));
    connects_to_kernel_server_under_tls: 200 s, {
        run_in(&TLS, peer::check_run_under_tls)
    };
    #[ignore = "takes half a minute: runs every night"]
    a_mount_with_krb5: 200 s, run_in(&KERBEROS, |lab| effective(lab, "sec=krb5"));
    #[ignore = "takes half a minute: runs every night"]
    a_mount_with_krb5i: 200 s, run_in(&KERBEROS, |lab| effective(lab, "sec=krb5i"));
    a_mount_with_krb5p: 200 s, run_in(&KERBEROS, |lab| effective(lab, "sec=krb5p"));
}

/// A mount with TLS; the kernel's TLS counters prove it.
fn under_tls(lab: &Lab, option: &str) -> Result<()> {
    let before = count_sessions(lab)?;
    effective(lab, option)?;
    let after = count_sessions(lab)?;
    ensure!(after > before, "the client has made {after} sessions of TLS, as before");
    Ok(())
}

fn effective(lab: &Lab, option: &str) -> Result<()> {
    let options = format!("vers=4.2,{option}");
    let mount = Mount { lab, client: NEW, source: "server:/export", options: &options };
    let missing = mount.check_data()?.at("fresh")?.missing_options(&[option]).len();
    ensure!(missing == 0, "{option} isn't effective");
    Ok(())
}

/// Returns the number of TLS sessions made by the client.
fn count_sessions(lab: &Lab) -> Result<u64> {
    let text = lab.ssh(NEW, "awk '$1 == \"TlsTxSw\" { print $2 }' /proc/net/tls_stat")?;
    Ok(text.trim().parse()?)
}
