//! Detects a server on the same host as the client.
//!
//! The server is that of an NFS target, or of the kernel NFS mount that contains a directory. Its
//! address may be loopback, an address of this host, or one in another network namespace of this
//! host, such as a container's. If the client is in the container, only LOCALIO shows it.

use std::net::{SocketAddr, ToSocketAddrs as _};

use lab::facts::localio;
use lab::facts::namespaces::{self, NamespaceServer};
use lab::mounts::Mount;
use model::Target;

use crate::own_address::{NFS_PORT, is_own};

/// Describes the server of a target with its address, if it is on this host.
pub fn find_server(target: &Target, mount: Option<&Mount>) -> Option<String> {
    let (server, addresses) = match (target.nfs(), mount) {
        (Some(nfs), _) if nfs.is_loopback() => return Some(format!("the server is {}", nfs.host)),
        (Some(nfs), _) => {
            let port = nfs.port.unwrap_or(NFS_PORT);
            let addresses = (nfs.host.as_str(), port).to_socket_addrs().ok()?.collect();
            (format!("the server is {}", nfs.host), addresses)
        }
        (None, Some(mount)) if mount.is_nfs() => {
            let server = server_of(mount)?;
            (format!("the server of {} is {}", mount.mount_point, server.ip()), vec![server])
        }
        _ => return None,
    };
    if addresses.iter().any(|address| is_own(address.ip())) {
        return Some(server);
    }
    if let Some(NamespaceServer { namespace, process }) =
        addresses.into_iter().find_map(namespaces::find_server)
    {
        return Some(format!(
            "{server}, in another network namespace of this host ({namespace}, /proc/{process}/net)"
        ));
    }
    // In a container, the processes of its host are hidden, but the kernel may know its own server.
    mount.filter(|mount| localio::is_used_by(mount))?;
    Some(format!("{server}, which the kernel finds on this host (/sys/fs/nfs, localio)"))
}

/// Returns the server address from the mount options of the kernel's client. The options contain
/// the port only if it is not the default. **Source:** fs/nfs/super.c (`nfs_show_mount_options`).
fn server_of(mount: &Mount) -> Option<SocketAddr> {
    // A link-local address is followed by its interface.
    let address = mount.option("addr")?.split('%').next()?.parse().ok()?;
    let port = mount.option("port").and_then(|port| port.parse().ok()).filter(|port| *port != 0);
    let port = port.unwrap_or(NFS_PORT);
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use model::NfsTarget;

    use super::*;

    fn nfs(host: &str) -> Target {
        Target::Nfs(NfsTarget::new(host, "/e"))
    }

    fn mounted(options: &str) -> Mount {
        Mount {
            file_system: "nfs4".to_owned(),
            source: "server:/export".to_owned(),
            mount_point: "/mnt".to_owned(),
            compression: None,
            options: options.to_owned(),
            device: "0:1".into(),
            id: 1,
        }
    }

    #[test]
    fn finds_server_of_kernel_mount() {
        let directory = Target::Directory { path: "/mnt/x".into() };
        let server = |options: &str| find_server(&directory, Some(&mounted(options)));
        let here = |address: &str| Some(format!("the server of /mnt is {address}"));
        assert_eq!(server("rw,proto=tcp,addr=127.0.0.1"), here("127.0.0.1"));
        assert_eq!(server("rw,proto=tcp6,addr=::1"), here("::1"));
        assert_eq!(server("rw,proto=tcp,addr=192.0.2.1"), None);
        assert_eq!(server("rw"), None);
        let local = Mount { file_system: "ext4".to_owned(), ..mounted("rw,addr=127.0.0.1") };
        assert_eq!(
            (find_server(&directory, Some(&local)), find_server(&directory, None)),
            (None, None)
        );
    }

    #[test]
    fn finds_any_address_of_this_host() {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        // If there is a default route, its source address is not loopback.
        let own = match socket.connect(("192.0.2.1", NFS_PORT)).and_then(|()| socket.local_addr()) {
            Ok(own) => own.ip(),
            Err(_) => Ipv4Addr::new(127, 9, 9, 9).into(),
        };
        for host in [own.to_string(), "localhost".to_owned(), "::1".to_owned()] {
            assert_eq!(find_server(&nfs(&host), None), Some(format!("the server is {host}")));
        }
        assert_eq!(find_server(&nfs("192.0.2.1"), None), None);
        assert_eq!(find_server(&nfs("2001:db8::1"), None), None);
    }

    #[test]
    fn reads_server_from_mount_options() {
        let server_of = |options: &str| server_of(&mounted(options));
        let v3 = "rw,vers=3,rsize=1048576,proto=tcp,mountaddr=127.0.0.1,mountport=33,addr=10.0.0.9";
        assert_eq!(server_of(v3), Some("10.0.0.9:2049".parse().unwrap()));
        let v4 = "rw,vers=4.2,proto=tcp6,port=20490,clientaddr=fe80::2%eth0,addr=fe80::1%eth0";
        assert_eq!(server_of(v4), Some("[fe80::1]:20490".parse().unwrap()));
        assert_eq!(server_of("rw,relatime"), None);
        assert_eq!(server_of("rw,addr=server"), None);
    }
}
