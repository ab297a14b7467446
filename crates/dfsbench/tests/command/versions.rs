//! Versions, transports and identities of NFS: whole runs, and servers with different ones.

use crate::cli::{Cli, ServedProcess};

const SMALL: [&str; 9] = [
    "--trials",
    "1",
    "--file-size",
    "1MiB",
    "--small-files",
    "40",
    "--duration=100ms",
    "--verify=true",
    "--quiet",
];

#[test]
fn speaks_every_version_and_transport() {
    let cli = Cli::new();
    let factors = ["--nfsvers=2,3,4.0,4.1,4.2", "--proto=tcp,udp"];
    let end = cli.run(&[&["run", "embedded"][..], &factors, &SMALL].concat());
    // Every op is accounted for, and the lack of v4 over UDP does not cause a failure.
    assert_eq!(end.code, 0, "{end:?}");
    let whole = cli.run(&["report", "--all"]).stdout;
    assert!(!whole.contains("x invalid"), "{whole}");
    for version in ["4.0", "4.1", "4.2"] {
        let why = format!("not possible: v{version} runs over TCP only");
        // Six passes in three workloads.
        assert_eq!(whole.matches(&why).count(), 6, "{whole}");
    }
    let csv = cli.run(&["report", "--format", "csv"]).stdout;
    assert_eq!(csv.lines().count(), 1 + 5 * 2 * 6, "{csv}");
}

#[test]
fn rejects_untrusted_certificate() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--tls", "--tls-ca-out", "ca.pem"]);
    assert!(served.url.contains("xprtsec=tls&tls_ca=ca.pem"), "{}", served.url);
    let stream = ["--workload", "stream", "--file-size", "1MiB", "--trials", "1", "--quiet"];
    for version in ["3", "4.1"] {
        let url = served.url.replace("version=3", &format!("version={version}"));
        let end = cli.run(&[&["run", &url], &stream[..]].concat());
        assert_eq!(end.code, 0, "{end:?}");
        let bare = url.replace("&tls_ca=ca.pem", "");
        cli.refused(&["run", &bare], 3, &["certificate", "hint", "--tls-ca"]);
        let end = cli.run(&[&["run", &bare, "--tls-ca", "ca.pem"], &stream[..]].concat());
        assert_eq!(end.code, 0, "{end:?}");
    }
    let end = cli.run(&["run", &served.url.replace("&tls_ca=ca.pem", "&tls_ca=no.pem")]);
    assert!(end.code == 3 && end.stderr.contains("no.pem"), "{end:?}");
    // A server without TLS is not used instead.
    let plain = ServedProcess::start(&cli, &[]);
    let url = format!("{}&xprtsec=tls&tls_ca=ca.pem", plain.url);
    cli.refused(&["run", &url], 3, &["TLS", "hint"]);
}

#[test]
fn reports_unsupported_version() {
    let cli = Cli::new();
    let three = ServedProcess::start(&cli, &["--nfsvers", "3"]);
    let with_version =
        |url: &str, version: &str| url.replace("version=3", &format!("version={version}"));
    for version in ["4.0", "4.1", "2"] {
        let words = ["offers version", "3", "hint"];
        cli.refused(&["run", &with_version(&three.url, version)], 3, &words);
    }
    let four = ServedProcess::start(&cli, &["--nfsvers", "4.1"]);
    for version in ["4.0", "4.2", "3"] {
        let url = four.url.replace("version=4.1", &format!("version={version}"));
        cli.refused(&["run", &url], 3, &["NFS", "4", "hint"]);
    }
    // Next to a supported version it is a row, and the campaign continues.
    let factors = ["--nfsvers", "3,4.1", "--workload", "stream", "--file-size", "1MiB"];
    let end = cli.run(&[&["run", &three.url, "--trials", "1", "--quiet"], &factors[..]].concat());
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("failed: ") && end.stdout.contains("offers"), "{}", end.stdout);
    assert!(end.stdout.contains("MB/s"), "{}", end.stdout);
}

#[test]
fn reports_missing_export_in_each_version() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &[]);
    for version in ["2", "3", "4.0", "4.1", "4.2"] {
        let url = served.url.replace("version=3", &format!("version={version}"));
        cli.refused(&["run", &url.replace("/export", "/exprot")], 3, &["exprot", "hint"]);
    }
}

#[test]
fn a_user_that_is_squashed() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--fault", "error MKDIR ACCES 100%"]);
    let url = format!("{}&uid=0&gid=7", served.url);
    cli.refused(&["run", &url], 3, &["uid 0 and gid 7", "ACCES", "hint", "root_squash", "?uid="]);
}

#[test]
fn reports_missing_address_family() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &[]);
    let url = format!("{}&family=ipv6", served.url);
    cli.refused(&["run", &url], 3, &["IPv6", "127.0.0.1", "hint"]);
}
