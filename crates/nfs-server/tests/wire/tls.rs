//! RPC over TLS: the probe, the handshake, and calls that are refused without TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use nfs_proto::nfs3::Call;
use nfs_proto::record::Inbox;
use nfs_proto::rpc::{AUTH_TLS, Credential};
use nfs_proto::{RpcError, program};
use nfs_server::{Certificate, Portmap, Server, ServerConfig, ServerError, TlsConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{CallResults, Client, encode_call, encode_call_as, parse_reply, start, until};
use crate::udp::Peer;

const NULL: program::Call<'static> = program::Call::Nfs3(Call::Null);
/// Reply to the probe: accepted, with a verifier of AUTH_NONE that contains STARTTLS, success.
/// **Source:** RFC 9289 section 4.1.
const GO_AHEAD: &[u8; 28] = b"\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x08STARTTLS\0\0\0\0";

fn secured(required: bool) -> Server {
    let tls = Some(TlsConfig { required, ..TlsConfig::default() });
    start(ServerConfig { tls, portmap: Portmap::SamePort, ..ServerConfig::default() })
}

fn probe(server: &Server) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let call = encode_call_as(7, Credential::Other { flavor: AUTH_TLS }, &NULL);
    stream.write_all(&call).unwrap();
    let mut reply = vec![0; 36];
    stream.read_exact(&mut reply).unwrap();
    (stream, reply)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn handshake(server: &Server, identity: Option<Identity>) -> std::io::Result<TlsClient> {
    let (stream, reply) = probe(server);
    assert_eq!(reply[..8], [0x80, 0, 0, 32, 0, 0, 0, 7]);
    assert_eq!(reply[8..], GO_AHEAD[..]);
    let mut roots = RootCertStore::empty();
    let pem = server.certificate_pem().unwrap().as_bytes();
    roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
    };
    config.alpn_protocols = vec![b"sunrpc".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(session, stream);
    stream.conn.complete_io(&mut stream.sock)?;
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"sunrpc"[..]));
    Ok(TlsClient { stream, inbox: Inbox::default(), xid: 0 })
}

struct TlsClient {
    stream: StreamOwned<ClientConnection, TcpStream>,
    inbox: Inbox,
    xid: u32,
}

impl TlsClient {
    fn send(&mut self, call: &program::Call<'_>) {
        self.xid += 1;
        self.stream.write_all(&encode_call(self.xid, call)).unwrap();
    }

    fn receive(&mut self, procedure: u32) -> std::io::Result<CallResults> {
        loop {
            if let Some(record) = self.inbox.next_record().unwrap() {
                return Ok(parse_reply(record, procedure));
            }
            match self.stream.read(self.inbox.free_space(1 << 16))? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                count => self.inbox.mark_filled(count),
            }
        }
    }

    #[allow(clippy::large_types_passed_by_value, reason = "tests define items next to their calls")]
    fn call(&mut self, call: Call<'_>) -> CallResults {
        self.send(&program::Call::Nfs3(call));
        self.receive(call.procedure().number()).unwrap()
    }
}

fn root(server: &Server) -> nfs_proto::nfs3::FileHandle {
    let (id, _) = server.file_system().find_path("/export").unwrap();
    nfs_proto::nfs3::FileHandle::from_slice(&server.file_system().handle(id)).unwrap()
}

#[test]
fn passes_large_calls_under_tls() {
    use nfs_proto::nfs3::{CreateHow, Reply, Sattr, StableHow};
    let server = secured(true);
    let mut client = handshake(&server, None).unwrap();
    let how = CreateHow::Guarded(Sattr::default());
    let answer = client.call(Call::Create { dir: &root(&server), name: b"f", how });
    let Reply::Create { result, .. } = answer.nfs3() else { unreachable!() };
    let file = result.unwrap().file.unwrap();
    let data: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let stable = StableHow::FileSync;
    client.call(Call::Write { file: &file, offset: 0, stable, data: &data });
    assert!(server.read_file("/export/f").unwrap() == data);
    for _ in 0..8 {
        client.send(&program::Call::Nfs3(Call::Read { file: &file, offset: 0, count: 1 << 20 }));
    }
    for _ in 0..8 {
        let answer = client.receive(6).unwrap();
        let Reply::Read { result, .. } = answer.nfs3() else { unreachable!() };
        assert!(result.unwrap().data == data);
    }
    // Many small calls at once: no decrypted input may be left unread.
    (0..2000).for_each(|_| client.send(&program::Call::Nfs3(Call::Getattr { file: &file })));
    (0..2000).for_each(|_| assert_eq!(client.receive(1).unwrap().rpc, Ok(())));
    assert_eq!(server.counters().tls_handshakes, 1);
}

#[test]
fn requires_tls_except_for_portmapper() {
    let server = secured(true);
    let refused = Err(RpcError::Authentication(5));
    let mut client = Client::connect(&server);
    assert_eq!(client.nfs(Call::Null).rpc, refused);
    let mount = nfs_proto::mount3::Call::Mnt(b"/export");
    assert_eq!(client.call(&program::Call::Mount3(mount)).rpc, refused);
    let mut peer = Peer::connect(&server);
    assert_eq!(peer.nfs(Call::Null).rpc, refused);
    let null = program::Call::Portmap(nfs_proto::portmap::Call::Null);
    assert_eq!(client.call(&null).rpc, Ok(()));
    assert_eq!(handshake(&server, None).unwrap().call(Call::Null).rpc, Ok(()));
}

#[test]
fn serves_plain_and_tls() {
    let server = secured(false);
    Client::connect(&server).mount("/export");
    assert_eq!(handshake(&server, None).unwrap().call(Call::Null).rpc, Ok(()));
}

#[test]
fn refuses_starttls_if_disabled() {
    let server = start(ServerConfig::default());
    assert_eq!(server.certificate_pem(), None);
    let mut client = Client::connect(&server);
    let call = client.encode_as(Credential::Other { flavor: AUTH_TLS }, &NULL);
    client.send(&call);
    assert_eq!(client.receive(0).rpc, Err(RpcError::Authentication(5)));
    // The connection continues without it.
    client.mount("/export");
}

#[test]
fn closes_without_handshake() {
    let server = secured(false);
    let (mut stream, _) = probe(&server);
    stream.write_all(&encode_call(8, &NULL)).unwrap();
    // An RPC call is not a TLS record: an alert may come, then the end.
    stream.read_to_end(&mut Vec::new()).ok();
    until(&server, |server| server.counters().connections_open == 0);
    assert_eq!(server.counters().tls_failures, 1);
    // Bytes sent before the answer are not part of a handshake, either.
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let mut both = encode_call_as(1, Credential::Other { flavor: AUTH_TLS }, &NULL);
    both.extend(encode_call(2, &NULL));
    stream.write_all(&both).unwrap();
    until(&server, |server| server.counters().tls_failures == 2);
    Client::connect(&server).mount("/export");
}

#[test]
fn requires_client_certificate() {
    let made = rcgen::generate_simple_self_signed(vec!["client".to_owned()]).unwrap();
    let authorities = Some(made.cert.pem());
    let tls = TlsConfig { client_authorities: authorities, ..TlsConfig::default() };
    let server = start(ServerConfig { tls: Some(tls), ..ServerConfig::default() });
    let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).unwrap();
    let identity = (vec![made.cert.der().clone()], key);
    assert_eq!(handshake(&server, Some(identity)).unwrap().call(Call::Null).rpc, Ok(()));
    if let Ok(mut nameless) = handshake(&server, None) {
        // In TLS 1.3 the client only notices with the first answer.
        nameless.send(&NULL);
        assert!(nameless.receive(0).is_err());
    }
    until(&server, |server| server.counters().tls_failures == 1);
}

#[test]
fn rejects_unusable_certificates() {
    let pem =
        |chain: &str, key: &str| Certificate::Pem { chain: chain.to_owned(), key: key.to_owned() };
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let chain = made.cert.pem();
    let key = made.signing_key.serialize_pem();
    let attempt = |certificate| {
        let tls = Some(TlsConfig { certificate, ..TlsConfig::default() });
        Server::start(ServerConfig { tls, ..ServerConfig::default() })
    };
    let strange = other.signing_key.serialize_pem();
    for wrong in [pem("", &key), pem(&chain, ""), pem(&chain, "text"), pem(&chain, &strange)] {
        assert!(matches!(attempt(wrong), Err(ServerError::Tls(_))));
    }
    let server = attempt(pem(&chain, &key)).unwrap();
    assert_eq!(server.certificate_pem(), Some(chain.as_str()));
    assert_eq!(handshake(&server, None).unwrap().call(Call::Null).rpc, Ok(()));
}
