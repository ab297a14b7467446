//! NFS over TLS: transfers, trust, and the message of each failure.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nfs_client::proto::client::{Event, ProtocolVersion};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::{
    Connection, ConnectionOptions, Mount, MountError, MountOptions, Scratch, Tls, TlsOptions,
};
use nfs_server::{
    CallServiceTime, Certificate, FaultPlan, FaultedCalls, Server, ServerConfig, ServiceTime,
    TlsConfig,
};

fn server(tls: Option<TlsConfig>) -> Server {
    Server::start(ServerConfig { tls, ..ServerConfig::default() }).unwrap()
}

/// Writes the certificate that a client must trust.
fn certificate(server: &Server, directory: &Path) -> PathBuf {
    let path = directory.join("ca.pem");
    std::fs::write(&path, server.certificate_pem().unwrap()).unwrap();
    path
}

fn options(server: &Server, version: ProtocolVersion, trusted: Option<PathBuf>) -> MountOptions {
    let port = Some(server.address().port());
    MountOptions {
        port,
        mount_port: port,
        version,
        tls: Some(Tls::with_authorities(trusted)),
        ..MountOptions::new("localhost", "/export")
    }
}

#[test]
fn transfers_data_over_required_tls() {
    let server = server(Some(TlsConfig { required: true, ..TlsConfig::default() }));
    let directory = tempfile::tempdir().unwrap();
    let trusted = certificate(&server, directory.path());
    let data: Vec<u8> = (0..3_000_001_u32).map(|index| (index % 251) as u8).collect();
    for version in ProtocolVersion::ALL {
        let requested = options(&server, version, Some(trusted.clone()));
        let mut mount = Mount::connect(&requested).unwrap();
        let root = mount.root();
        let file = mount.create(root, "file").unwrap();
        mount.write(file, 0, &data, StableHow::FileSync).unwrap();
        assert!(mount.read(file, 0, data.len()).unwrap() == data, "version {version}");
        mount.close(file).unwrap();
        mount.remove(root, "file").unwrap();
        let bare = MountOptions { tls: None, ..requested };
        assert!(Mount::connect(&bare).is_err(), "version {version} without TLS");
    }
}

#[test]
fn rejects_unknown_authority() {
    let server = server(Some(TlsConfig::default()));
    let error = Mount::connect(&options(&server, ProtocolVersion::V3, None)).unwrap_err();
    assert!(matches!(error, MountError::Untrusted { .. }), "{error}");
    assert!(error.to_string().contains("--tls-ca"), "{error}");
}

#[test]
fn reports_missing_tls_or_certificates() {
    let plain = server(None);
    let directory = tempfile::tempdir().unwrap();
    let error = Mount::connect(&options(&plain, ProtocolVersion::V4_1, None)).unwrap_err();
    assert!(matches!(error, MountError::NoTls { .. }), "{error}");
    for (name, content) in [("missing.pem", None), ("empty.pem", Some("")), ("text.pem", Some("x"))]
    {
        let path = directory.path().join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let error = Mount::connect(&options(&plain, ProtocolVersion::V3, Some(path))).unwrap_err();
        assert!(matches!(error, MountError::Trust { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// Writes a certificate for a name and its key, and returns both paths.
fn identity(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let paths = ["pem", "key"].map(|kind| directory.join(format!("{name}.{kind}")));
    std::fs::write(&paths[0], made.cert.pem()).unwrap();
    std::fs::write(&paths[1], made.signing_key.serialize_pem()).unwrap();
    let [cert, key] = paths;
    (cert, key)
}

#[test]
fn sends_requested_client_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let (cert, key) = identity(directory.path(), "known");
    let client_authorities = Some(std::fs::read_to_string(&cert).unwrap());
    let server = server(Some(TlsConfig { client_authorities, ..TlsConfig::default() }));
    let ca = Some(certificate(&server, directory.path()));
    let connect = |version, tls: TlsOptions| {
        let tls = Some(Tls::new(TlsOptions { ca: ca.clone(), ..tls }));
        Mount::connect(&MountOptions { tls, ..options(&server, version, None) })
    };
    let (strange_cert, strange_key) = identity(directory.path(), "strange");
    let shown = |cert: &Path, key: &Path| TlsOptions {
        cert: Some(cert.to_owned()),
        key: Some(key.to_owned()),
        ..TlsOptions::default()
    };
    for version in [ProtocolVersion::V3, ProtocolVersion::V4_1] {
        let mut mount = connect(version, shown(&cert, &key)).unwrap();
        let root = mount.root();
        let file = mount.create(root, "file").unwrap();
        mount.write(file, 0, b"seen", StableHow::FileSync).unwrap();
        assert_eq!(mount.read(file, 0, 9).unwrap(), b"seen");
        for refused in [TlsOptions::default(), shown(&strange_cert, &strange_key)] {
            let error = connect(version, refused).unwrap_err();
            assert!(matches!(error, MountError::ClientCertificate { .. }), "{version}: {error}");
            assert!(error.to_string().contains("tls_cert"), "{error}");
        }
    }
    // A key that doesn't match the certificate is detected before anything is sent.
    let error = connect(ProtocolVersion::V3, shown(&cert, &strange_key)).unwrap_err();
    assert!(matches!(error, MountError::Trust { .. }), "{error}");
    assert!(error.to_string().contains("strange.key"), "{error}");
}

#[test]
fn requires_certificate_for_name() {
    let directory = tempfile::tempdir().unwrap();
    let (cert, key) = identity(directory.path(), "files.example");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let own = Certificate::Pem { chain: read(&cert), key: read(&key) };
    let server = server(Some(TlsConfig { certificate: own, ..TlsConfig::default() }));
    let connect = |server_name: Option<&str>| {
        let server_name = server_name.map(str::to_owned);
        let tls = TlsOptions { ca: Some(cert.clone()), server_name, ..TlsOptions::default() };
        let requested = options(&server, ProtocolVersion::V3, None);
        Mount::connect(&MountOptions { tls: Some(Tls::new(tls)), ..requested })
    };
    assert!(matches!(connect(None), Err(MountError::Untrusted { .. })));
    assert!(connect(Some("files.example")).is_ok());
    let error = connect(Some("other.example")).unwrap_err();
    assert!(matches!(error, MountError::Untrusted { .. }), "{error}");
    let error = connect(Some("no name")).unwrap_err();
    assert!(error.to_string().contains("server name `no name`"), "{error}");
}

#[test]
fn rejects_expired_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let chain = params.self_signed(&key).unwrap().pem();
    let path = directory.path().join("old.pem");
    std::fs::write(&path, &chain).unwrap();
    let certificate = Certificate::Pem { chain, key: key.serialize_pem() };
    let server = server(Some(TlsConfig { certificate, ..TlsConfig::default() }));
    let error = Mount::connect(&options(&server, ProtocolVersion::V3, Some(path))).unwrap_err();
    assert!(matches!(error, MountError::Untrusted { .. }), "{error}");
    assert!(error.to_string().contains("expired"), "{error}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests read the clock themselves")]
fn hides_lost_renewal_from_caller() {
    // The number of RENEW. **Source:** RFC 7530 section 16.28.
    let number = 30_u32;
    let never = ServiceTime::Fixed { time_ns: 3_600_000_000_000 };
    let held = CallServiceTime { calls: FaultedCalls::V4(number), time: never };
    let faults = FaultPlan { service_times: vec![held], ..FaultPlan::default() };
    let tls = Some(TlsConfig::default());
    let server = Server::start(ServerConfig { faults, tls, ..ServerConfig::default() }).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let trusted = certificate(&server, directory.path());
    let mount = Mount::connect(&options(&server, ProtocolVersion::V4_0, Some(trusted))).unwrap();
    let mut connection = Connection::open(&mount, &ConnectionOptions::default()).unwrap();
    // The lease was renewed long ago, so it must be renewed immediately.
    let begun = Instant::now();
    let mut scratch = Scratch::new();
    let clock = || (begun.elapsed() + Duration::from_secs(1_000)).as_nanos() as u64;
    let mut events = 0;
    let mut wait = |connection: &mut Connection| {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", connection.counters());
        let patience = Duration::from_millis(5);
        let mut count = |_: &Event<'_>| events += 1;
        assert_eq!(connection.wait(&mut scratch, &clock, patience, &mut count).unwrap(), 0);
    };
    while server.counters().nfs4_operations[number as usize] == 0 {
        wait(&mut connection);
    }
    server.restart_now();
    // With TLS, reconnecting is a single step, so the call is lost while receiving.
    while connection.counters().lost_calls == 0 {
        wait(&mut connection);
    }
    wait(&mut connection);
    assert_eq!((events, connection.free_slots()), (0, 1));
}
