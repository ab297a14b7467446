//! The data servers of a mount: one entry for each address and version.
//!
//! A data server of v4.1 has a client and a session of its own, shared by all connections to it, as
//! at the metadata server. Devices are queried once. **Source:** RFC 8881 sections 12.2.10 and
//! 13.1, RFC 8435 sections 2 and 4.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use nfs_proto::client::{Operation, ProtocolVersion};
use nfs_proto::nfs4::{Bitmap, DeviceId, FlexDeviceVersion, Op, OpCode, OpOk, Stateid};

use super::devices::{KnownDevice, KnownDevices};
use super::parse::{ParsedDevice, ParsedLayout};
use super::{FileLayout, NoLayout, RESULT_BYTES_MAX, unexpected};
use crate::connection::{
    Client4, Connection, ConnectionOptions, Control, GrantedLimits, SessionSize, Target, target_of,
};
use crate::error::{CallFailure, MountError};
use crate::mount::Mount;
use crate::opening::join_and_open;
use crate::options::{MountOptions, PnfsRole, Sec};
use crate::service::{NFS, explain};

/// Maximum number of data servers of a mount.
const DATA_SERVERS_MAX: usize = 256;

/// The data servers of a mount.
#[derive(Debug, Default)]
pub struct DataServers {
    servers: Vec<Arc<DataServer>>,
    devices: KnownDevices,
    /// The types of layouts that the file system offers, once they are known.
    types: Option<Vec<u32>>,
}

/// A server that has data of files.
#[derive(Debug)]
pub struct DataServer {
    target: Arc<Target>,
    /// The client of v4.1, with the connection that created its session.
    client: Option<(Arc<Client4>, Mutex<Control>)>,
    rsize: u32,
    wsize: u32,
}

impl DataServers {
    /// Returns the data servers so far; a [`StripeFile`](super::StripeFile) has an index into them.
    pub fn servers(&self) -> &[Arc<DataServer>] {
        &self.servers
    }

    pub(super) fn types(&self) -> Option<&[u32]> {
        self.types.as_deref()
    }

    pub(super) fn set_types(&mut self, types: Vec<u32>) -> Vec<u32> {
        self.types.insert(types).clone()
    }

    /// Destroys the clients at all data servers. Connections must have been closed.
    pub fn leave(&self) {
        for server in &self.servers {
            if let Some((client, control)) = &server.client {
                let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
                // A server that does not answer drops the client when its lease expires.
                let _ = client.leave(&mut control);
            }
        }
    }

    /// Returns the devices whose data servers are connected.
    pub const fn devices(&self) -> &KnownDevices {
        &self.devices
    }

    /// Gets the devices of a layout, and connects to data servers that are new.
    pub(super) fn resolve(
        &mut self,
        mount: &mut Mount,
        parsed: &ParsedLayout,
        stateid: Stateid,
    ) -> Result<FileLayout, NoLayout> {
        for device in parsed.devices() {
            self.learn(mount, parsed.layout_type(), device)?;
        }
        self.devices.build_layout(parsed, stateid)
    }

    /// Queries a device and connects to its data servers, once.
    fn learn(
        &mut self,
        mount: &mut Mount,
        layout_type: u32,
        device: DeviceId,
    ) -> Result<(), NoLayout> {
        if self.devices.get(layout_type, device).is_some() {
            return Ok(());
        }
        let known = match query_device(mount, layout_type, device)? {
            ParsedDevice::Files { stripes, servers } => {
                let missing = NoLayout::Unusable("a stripe without server");
                let mut connected = Vec::with_capacity(stripes.len());
                for index in stripes {
                    let Some(addresses) = servers.get(index as usize) else { return Err(missing) };
                    let version = mount.version();
                    let server = self.connect(mount, addresses, version, (u32::MAX, u32::MAX))?;
                    connected.push((index, server));
                }
                KnownDevice::Files { stripes: connected }
            }
            ParsedDevice::Flex { addresses, versions } => {
                let (version_index, version, offered) = usable_version(&versions)
                    .ok_or(NoLayout::Unusable("no data server of version 3, 4.1 or 4.2"))?;
                let limits = (offered.read_bytes_max, offered.write_bytes_max);
                let server = self.connect(mount, &addresses, version, limits)?;
                // Without that role, a server is loosely coupled: RFC 8435 section 2.3.
                let has_role = self.servers[server as usize].is_data_server();
                let is_tight = offered.tightly_coupled && has_role;
                // A loosely coupled server knows the user only by the ids of the layout.
                let gives_user = !is_tight && mount.options().sec == Sec::Sys;
                KnownDevice::Flex { server, version_index, is_tight, gives_user }
            }
        };
        self.devices.insert(layout_type, device, known);
        Ok(())
    }

    /// Returns the index of a data server, after connecting to it if it is new.
    fn connect(
        &mut self,
        mount: &Mount,
        addresses: &[SocketAddr],
        version: ProtocolVersion,
        (read_max, write_max): (u32, u32),
    ) -> Result<u32, NoLayout> {
        let known = self.servers.iter().position(|server| {
            addresses.contains(&server.address()) && server.version() == version
        });
        if let Some(index) = known {
            return Ok(index as u32);
        }
        if self.servers.len() >= DATA_SERVERS_MAX {
            return Err(NoLayout::Unusable("too many data servers"));
        }
        let mut failure = NoLayout::Unusable("a data server without a TCP address");
        for address in addresses {
            let server = DataServer::connect(mount, *address, version);
            match server {
                Ok(mut server) => {
                    server.rsize = server.rsize.min(mount.rsize()).min(read_max.max(1));
                    server.wsize = server.wsize.min(mount.wsize()).min(write_max.max(1));
                    self.servers.push(Arc::new(server));
                    return Ok(self.servers.len() as u32 - 1);
                }
                Err(error) => {
                    let reason = error.to_string().replace("\n  hint: ", "; ");
                    failure = NoLayout::Server { name: address.to_string(), reason };
                }
            }
        }
        Err(failure)
    }
}

fn query_device(
    mount: &mut Mount,
    layout_type: u32,
    device: DeviceId,
) -> Result<ParsedDevice, NoLayout> {
    let maxcount = RESULT_BYTES_MAX;
    let get = Op::Getdeviceinfo { device, layout_type, maxcount, notify: Bitmap::EMPTY };
    let got =
        mount.control.compound(&[get], |event| match event.result_of(OpCode::Getdeviceinfo)? {
            OpOk::Getdeviceinfo { layout_type, body, .. } => {
                Ok(ParsedDevice::decode(layout_type, body)?)
            }
            _ => Err(unexpected()),
        });
    got.map_err(NoLayout::Device)
}

/// Returns the first version that this client speaks, with its index.
fn usable_version(
    versions: &[FlexDeviceVersion],
) -> Option<(usize, ProtocolVersion, FlexDeviceVersion)> {
    versions.iter().enumerate().find_map(|(at, offered)| {
        let version = match (offered.version, offered.minor) {
            (3, _) => ProtocolVersion::V3,
            (4, 1) => ProtocolVersion::V4_1,
            (4, 2) => ProtocolVersion::V4_2,
            _ => return None,
        };
        Some((at, version, *offered))
    })
}

impl DataServer {
    /// Connects to a data server, and joins it as a client if it has sessions.
    fn connect(
        mount: &Mount,
        address: SocketAddr,
        version: ProtocolVersion,
    ) -> Result<Self, MountError> {
        let of_mount = mount.options();
        let options = MountOptions {
            host: address.ip().to_string(),
            port: Some(address.port()),
            version,
            pnfs: PnfsRole::DataClient,
            delegations: false,
            ..of_mount.clone()
        };
        let mut control = Control::connect(NFS, address, &options)?;
        let join = |control: &mut Control| -> Result<(Client4, GrantedLimits), CallFailure> {
            let size = SessionSize::for_mount(options.session);
            let name = &options.identity.machine_name;
            let client = Client4::introduce(control, name, size, Arc::default())?;
            let granted = client.join(control)?;
            Ok((client, granted))
        };
        let target = Arc::new(target_of(NFS, address, &options));
        let mut server = Self { target, client: None, rsize: u32::MAX, wsize: u32::MAX };
        if version.is_stateful() {
            let (client, granted) =
                join(&mut control).map_err(|failure| explain(NFS, &options, failure))?;
            server.rsize = granted.read_bytes;
            server.wsize = granted.write_bytes;
            server.client = Some((Arc::new(client), Mutex::new(control)));
        } else {
            // A port that accepts a connection may still belong to something else.
            control
                .operate(&Operation::Null, |_| Ok(()))
                .map_err(|failure| explain(NFS, &options, failure))?;
        }
        Ok(server)
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.target.server
    }

    /// Returns the version in use.
    pub fn version(&self) -> ProtocolVersion {
        self.target.options.version
    }

    /// Returns true if the server says that it is a pNFS data server, which those of v3 can't.
    fn is_data_server(&self) -> bool {
        self.client.as_ref().is_some_and(|(client, _)| client.is_at_data_server())
    }

    /// Returns the effective READ size, in bytes.
    pub const fn rsize(&self) -> u32 {
        self.rsize
    }

    /// Returns the effective WRITE size, in bytes.
    pub const fn wsize(&self) -> u32 {
        self.wsize
    }
}

impl Connection {
    /// Opens a connection to a data server and allocates all buffers it will use.
    ///
    /// # Errors
    /// [`MountError`], as for mounting.
    pub fn open_data(server: &DataServer, options: &ConnectionOptions) -> Result<Self, MountError> {
        match &server.client {
            None => Self::connect_to(&server.target, server.version(), options),
            Some((client, _)) => {
                join_and_open(client, &server.target.options, options, |options| {
                    Self::connect_to(&server.target, server.version(), options)
                })
            }
        }
    }
}
