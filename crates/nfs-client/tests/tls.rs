//! NFS under TLS: what moves, who is trusted, and what is said when it can't be.

use std::path::{Path, PathBuf};

use nfs_client::proto::client::Version;
use nfs_client::proto::nfs3::StableHow;
use nfs_client::{Mount, MountError, MountOptions, Tls};
use nfs_server::{Server, ServerConfig, TlsConfig};

fn server(tls: Option<TlsConfig>) -> Server {
    Server::start(ServerConfig { tls, ..ServerConfig::default() }).unwrap()
}

/// Writes the certificate that a client must trust.
fn certificate(server: &Server, directory: &Path) -> PathBuf {
    let path = directory.join("ca.pem");
    std::fs::write(&path, server.certificate_pem().unwrap()).unwrap();
    path
}

fn options(server: &Server, version: Version, trusted: Option<PathBuf>) -> MountOptions {
    let port = Some(server.address().port());
    MountOptions {
        port,
        mount_port: port,
        version,
        tls: Some(Tls::trusting(trusted)),
        ..MountOptions::new("localhost", "/export")
    }
}

#[test]
fn data_goes_there_and_back_in_every_version_over_a_server_that_requires_tls() {
    let server = server(Some(TlsConfig { required: true, ..TlsConfig::default() }));
    let directory = tempfile::tempdir().unwrap();
    let trusted = certificate(&server, directory.path());
    let data: Vec<u8> = (0..3_000_001_u32).map(|index| (index % 251) as u8).collect();
    for version in Version::ALL {
        let asked = options(&server, version, Some(trusted.clone()));
        let mut mount = Mount::connect(&asked).unwrap();
        let root = mount.root();
        let file = mount.create(root, "file").unwrap();
        mount.write(file, 0, &data, StableHow::FileSync).unwrap();
        assert!(mount.read(file, 0, data.len()).unwrap() == data, "version {version}");
        mount.close(file).unwrap();
        mount.remove(root, "file").unwrap();
        let bare = MountOptions { tls: None, ..asked };
        assert!(Mount::connect(&bare).is_err(), "version {version} without TLS");
    }
}

#[test]
fn a_certificate_that_nobody_signed_is_not_trusted() {
    let server = server(Some(TlsConfig::default()));
    let error = Mount::connect(&options(&server, Version::V3, None)).unwrap_err();
    assert!(matches!(error, MountError::Untrusted { .. }), "{error}");
    assert!(error.to_string().contains("--tls-ca"), "{error}");
}

#[test]
fn a_server_without_tls_and_files_without_certificates_are_said_plainly() {
    let plain = server(None);
    let directory = tempfile::tempdir().unwrap();
    let error = Mount::connect(&options(&plain, Version::V4_1, None)).unwrap_err();
    assert!(matches!(error, MountError::NoTls { .. }), "{error}");
    for (name, content) in [("missing.pem", None), ("empty.pem", Some("")), ("text.pem", Some("x"))]
    {
        let path = directory.path().join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let error = Mount::connect(&options(&plain, Version::V3, Some(path))).unwrap_err();
        assert!(matches!(error, MountError::Trust { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}
