//! Our server mounted by Linux, and our client with the kernel's server.
//!
//! Over v4.2 kernel 6.12 reads with READ_PLUS, 6.1 with READ. The interop list is not run over UDP
//! with kernel 6.12: it sends wrong checksums for READs of odd lengths (docs/lab-vm.md).

use anyhow::Result;
use checks::checks;
use checks::vm::peer::{self, OLD_SERVER, SERVER};

use super::{NEW, OLD, SERVERS, delegations, run_in, xattrs};

const UDP: &str = "version=3&proto=udp";

checks! {
    kernel_6_12_mounts_our_server_v3: 200 s, mounted(NEW, "3");
    kernel_6_12_mounts_our_server_v4_0: 200 s, mounted(NEW, "4.0");
    kernel_6_12_mounts_our_server_v4_1: 200 s, mounted(NEW, "4.1");
    kernel_6_12_mounts_our_server_v4_2: 200 s, mounted(NEW, "4.2");
    kernel_6_1_mounts_our_server_v4_1: 200 s, mounted(OLD, "4.1");
    kernel_6_1_mounts_our_server_v4_2: 200 s, mounted(OLD, "4.2");
    sets_xattrs_from_kernel_6_12: 200 s, {
        run_in(&SERVERS, |lab| xattrs::check(lab, NEW))
    };
    sets_xattrs_from_kernel_6_1: 200 s, {
        run_in(&SERVERS, |lab| xattrs::check(lab, OLD))
    };
    recalls_delegation_v4_1: 200 s, {
        run_in(&SERVERS, |lab| delegations::check(lab, "4.1"))
    };
    recalls_delegation_v4_2: 200 s, {
        run_in(&SERVERS, |lab| delegations::check(lab, "4.2"))
    };
    our_probe_finds_the_versions: 100 s, {
        run_in(&SERVERS, |lab| peer::check_probe(lab, &["3", "4.0", "4.1", "4.2"]))
    };
    interop_list_with_kernel_6_12_v3: 300 s, listed("version=3");
    run_of_ours_with_kernel_6_12_v3: 200 s, measured("version=3");
    #[ignore = "takes half a minute: runs every night"]
    interop_list_with_kernel_6_12_v4_0: 300 s, listed("version=4.0");
    run_of_ours_with_kernel_6_12_v4_0: 200 s, measured("version=4.0");
    #[ignore = "takes half a minute: runs every night"]
    interop_list_with_kernel_6_12_v4_1: 300 s, listed("version=4.1");
    run_of_ours_with_kernel_6_12_v4_1: 200 s, measured("version=4.1");
    interop_list_with_kernel_6_12_v4_2: 300 s, listed("version=4.2");
    run_of_ours_with_kernel_6_12_v4_2: 200 s, measured("version=4.2");
    run_of_ours_with_kernel_6_12_over_udp: 200 s, measured(UDP);
    interop_list_with_kernel_6_1_over_udp: 300 s, {
        run_in(&SERVERS, |lab| peer::check_list(lab, OLD_SERVER, UDP))
    };
    run_of_ours_with_kernel_6_1_over_udp: 200 s, {
        run_in(&SERVERS, |lab| peer::check_run(lab, OLD_SERVER, UDP))
    };
}

fn mounted(client: &str, version: &str) -> Result<()> {
    run_in(&SERVERS, |lab| peer::check_mount(lab, client, version))
}

fn listed(query: &str) -> Result<()> {
    run_in(&SERVERS, |lab| peer::check_list(lab, SERVER, query))
}

fn measured(query: &str) -> Result<()> {
    run_in(&SERVERS, |lab| peer::check_run(lab, SERVER, query))
}
