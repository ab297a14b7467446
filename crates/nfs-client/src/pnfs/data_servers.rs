//! The data servers of a mount: one entry for each address and version.
//!
//! A data server of v4.1 has a client and a session of its own, shared by all connections to it, as
//! at the metadata server. Devices are queried once. **Source:** RFC 8881 sections 12.2.10 and
//! 13.1, RFC 8435 sections 2 and 4.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use nfs_proto::client::{File, Operation, ProtocolVersion};
use nfs_proto::nfs4::{
    Bitmap, DeviceId, FlexDeviceVersion, Op, OpCode, OpOk, Stateid, flex_flags, layout_type,
};
use nfs_proto::striping::Striping;

use super::parse::{ParsedBody, ParsedDevice, ParsedFiles, ParsedFlex, ParsedLayout};
use super::{FileLayout, Mirror, NoLayout, RESULT_BYTES_MAX, StripeFile, unexpected};
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
    devices: HashMap<(u32, DeviceId), ParsedDevice>,
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
    /// Returns the data servers so far; a [`StripeFile`] has an index into them.
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

    /// Gets the devices of a layout, and connects to data servers that are new.
    pub(super) fn resolve(
        &mut self,
        mount: &mut Mount,
        parsed: ParsedLayout,
        stateid: Stateid,
    ) -> Result<FileLayout, NoLayout> {
        let mut layout = FileLayout {
            stateid,
            layout_type: layout_type::FILES,
            iomode: parsed.iomode,
            mirrors: Vec::new(),
            commits_through_mds: false,
            needs_layoutcommit: true,
            allows_reads: true,
            written_mirrors: 1,
            stats_interval_s: 0,
        };
        match parsed.body {
            ParsedBody::Files(files) => {
                layout.commits_through_mds = files.commits_through_mds();
                layout.mirrors.push(self.resolve_files(mount, &files)?);
            }
            ParsedBody::Flex(flex) => {
                layout.layout_type = layout_type::FLEX_FILES;
                layout.needs_layoutcommit = !flex.has(flex_flags::NO_LAYOUTCOMMIT);
                layout.allows_reads = !flex.has(flex_flags::NO_READ_IO);
                layout.mirrors = self.resolve_flex(mount, &flex)?;
                layout.stats_interval_s = flex.stats_interval_s;
                if !flex.has(flex_flags::WRITE_ONE_MIRROR) {
                    layout.written_mirrors = layout.mirrors.len();
                }
            }
        }
        Ok(layout)
    }

    fn resolve_files(
        &mut self,
        mount: &mut Mount,
        files: &ParsedFiles,
    ) -> Result<Mirror, NoLayout> {
        let device = self.device(mount, layout_type::FILES, files.device)?;
        let ParsedDevice::Files { stripes: indices, servers } = device else {
            return Err(NoLayout::Unusable("it is a device of another type"));
        };
        let striping = files.striping(indices.len());
        let striping = striping.ok_or(NoLayout::Unusable("stripe unit or first stripe"))?;
        let mut stripes = Vec::with_capacity(indices.len());
        for (stripe, index) in indices.iter().enumerate() {
            let index = *index as usize;
            let missing = NoLayout::Unusable("a stripe without server or file handle");
            let (Some(addresses), Some(file)) = (servers.get(index), files.file_of(stripe, index))
            else {
                return Err(missing);
            };
            let version = mount.version();
            let server = self.connect(mount, addresses, version, (u32::MAX, u32::MAX))?;
            stripes.push(StripeFile { server, file, device: files.device, user: None });
        }
        Ok(Mirror { striping, stripes })
    }

    fn resolve_flex(
        &mut self,
        mount: &mut Mount,
        flex: &ParsedFlex,
    ) -> Result<Vec<Mirror>, NoLayout> {
        let mut mirrors = Vec::with_capacity(flex.mirrors.len());
        for servers in &flex.mirrors {
            let striping = Striping::of_flex_files(flex.stripe_unit, servers.len());
            let striping = striping.ok_or(NoLayout::Unusable("stripe unit"))?;
            let mut stripes = Vec::with_capacity(servers.len());
            for parsed in servers {
                let device = self.device(mount, layout_type::FLEX_FILES, parsed.device)?;
                let ParsedDevice::Flex { addresses, versions } = device else {
                    return Err(NoLayout::Unusable("it is a device of another type"));
                };
                let (at, version, offered) = usable_version(&versions)
                    .ok_or(NoLayout::Unusable("no data server of version 3, 4.1 or 4.2"))?;
                let handle = parsed.handles.get(at).or_else(|| match &parsed.handles[..] {
                    [one] => Some(one),
                    _ => None,
                });
                let handle = *handle.ok_or(NoLayout::Unusable("no handle for the version"))?;
                // A loosely coupled server knows the user only by the ids of the layout.
                let has_user = !offered.tightly_coupled && mount.options().sec == Sec::Sys;
                let user = parsed.user.filter(|_| has_user);
                let limits = (offered.read_bytes_max, offered.write_bytes_max);
                let server = self.connect(mount, &addresses, version, limits)?;
                let file = File { stateid: parsed.stateid, ..File::from(handle) };
                stripes.push(StripeFile { server, file, device: parsed.device, user });
            }
            mirrors.push((
                servers.iter().map(|server| server.efficiency).min(),
                Mirror { striping, stripes },
            ));
        }
        // The most efficient one is read; RFC 8435 section 5.1.
        mirrors.sort_by_key(|(efficiency, _)| std::cmp::Reverse(*efficiency));
        if mirrors.is_empty() {
            return Err(NoLayout::Unusable("no mirror"));
        }
        Ok(mirrors.into_iter().map(|(_, mirror)| mirror).collect())
    }

    /// Returns a device; it is queried once.
    fn device(
        &mut self,
        mount: &mut Mount,
        layout_type: u32,
        device: DeviceId,
    ) -> Result<ParsedDevice, NoLayout> {
        if let Some(known) = self.devices.get(&(layout_type, device)) {
            return Ok(known.clone());
        }
        let notify = Bitmap::EMPTY;
        let maxcount = RESULT_BYTES_MAX;
        let get = Op::Getdeviceinfo { device, layout_type, maxcount, notify };
        let got = mount.control.compound(&[get], |event| {
            match event.result_of(OpCode::Getdeviceinfo)? {
                OpOk::Getdeviceinfo { layout_type, body, .. } => {
                    Ok(ParsedDevice::decode(layout_type, body)?)
                }
                _ => Err(unexpected()),
            }
        });
        let parsed = got.map_err(NoLayout::Device)?;
        self.devices.insert((layout_type, device), parsed.clone());
        Ok(parsed)
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
