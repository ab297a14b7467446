//! Layouts and devices as received, without references to the reply.

use std::net::SocketAddr;

use nfs_proto::DecodeError;
use nfs_proto::client::File;
use nfs_proto::nfs3::FileHandle;
use nfs_proto::nfs4::{
    DeviceId, FilesDevice, FilesLayout, FlexDevice, FlexDeviceVersion, FlexLayout, Layout,
    LayoutIoMode, List, NetAddress, Stateid, decode_body, layout_type, owner_number,
};
use nfs_proto::rpcbind::{NetId, UniversalAddress};
use nfs_proto::striping::Striping;

/// A layout, before its devices are known.
#[derive(Debug)]
pub(super) struct ParsedLayout {
    pub(super) iomode: LayoutIoMode,
    pub(super) body: ParsedBody,
}

#[derive(Debug)]
pub(super) enum ParsedBody {
    Files(ParsedFiles),
    Flex(ParsedFlex),
}

/// A files layout.
#[derive(Debug)]
pub(super) struct ParsedFiles {
    pub(super) device: DeviceId,
    util: u32,
    first_stripe_index: u32,
    pattern_offset: u64,
    handles: Vec<FileHandle>,
    /// The file at the metadata server, whose open is valid at the data servers, too.
    file: File,
}

/// A layout of flexible files.
#[derive(Debug)]
pub(super) struct ParsedFlex {
    pub(super) stripe_unit: u64,
    pub(super) flags: u32,
    pub(super) stats_interval_s: u32,
    pub(super) mirrors: Vec<Vec<ParsedStripe>>,
}

/// A data server of a mirror.
#[derive(Debug)]
pub(super) struct ParsedStripe {
    pub(super) device: DeviceId,
    pub(super) efficiency: u32,
    pub(super) stateid: Stateid,
    pub(super) handles: Vec<FileHandle>,
    /// The uid and gid for a loosely coupled server, if they are numbers.
    pub(super) user: Option<(u32, u32)>,
}

impl ParsedLayout {
    /// Decodes a layout of `file`.
    pub(super) fn decode(layout: &Layout<'_>, file: &File) -> Result<Self, DecodeError> {
        let body = match layout.layout_type {
            layout_type::FILES => {
                let files: FilesLayout<'_> = decode_body(layout.body)?;
                ParsedBody::Files(ParsedFiles {
                    device: files.device,
                    util: files.util,
                    first_stripe_index: files.first_stripe_index,
                    pattern_offset: files.pattern_offset,
                    handles: files.files.iter().collect(),
                    file: *file,
                })
            }
            layout_type::FLEX_FILES => {
                ParsedBody::Flex(ParsedFlex::new(&decode_body(layout.body)?))
            }
            value => return Err(DecodeError::BadValue { what: "the type of layout", value }),
        };
        Ok(Self { iomode: layout.iomode, body })
    }

    pub(super) const fn layout_type(&self) -> u32 {
        match self.body {
            ParsedBody::Files(_) => layout_type::FILES,
            ParsedBody::Flex(_) => layout_type::FLEX_FILES,
        }
    }

    /// Returns the devices that the layout refers to.
    pub(super) fn devices(&self) -> Vec<DeviceId> {
        match &self.body {
            ParsedBody::Files(files) => vec![files.device],
            ParsedBody::Flex(flex) => {
                flex.mirrors.iter().flatten().map(|stripe| stripe.device).collect()
            }
        }
    }
}

impl ParsedFlex {
    fn new(flex: &FlexLayout<'_>) -> Self {
        let stripe = |server: nfs_proto::nfs4::FlexDataServer<'_>| ParsedStripe {
            device: server.device,
            efficiency: server.efficiency,
            stateid: server.stateid,
            handles: server.files.iter().collect(),
            user: owner_number(server.user).zip(owner_number(server.group)),
        };
        let mirrors = flex.mirrors.iter();
        Self {
            stripe_unit: flex.stripe_unit,
            flags: flex.flags,
            stats_interval_s: flex.stats_collect_hint,
            mirrors: mirrors.map(|mirror| mirror.servers.iter().map(stripe).collect()).collect(),
        }
    }

    pub(super) const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

impl ParsedFiles {
    fn layout(&self) -> FilesLayout<'static> {
        FilesLayout {
            device: self.device,
            util: self.util,
            first_stripe_index: self.first_stripe_index,
            pattern_offset: self.pattern_offset,
            files: List::default(),
        }
    }

    pub(super) fn commits_through_mds(&self) -> bool {
        self.layout().commits_through_mds()
    }

    pub(super) fn striping(&self, stripes: usize) -> Option<Striping> {
        Striping::of_files(&self.layout(), stripes)
    }

    /// Returns the file at the data server of a stripe. The sequence number of its open's stateid
    /// is 0, which means the current one. **Source:** RFC 8881 sections 13.4.2, 13.4.3 and 13.9.1.
    pub(super) fn file_of(&self, stripe: usize, server: usize) -> Option<File> {
        let handle = match &self.handles[..] {
            [] => self.file.handle,
            [one] => *one,
            many if self.layout().is_dense() => *many.get(stripe)?,
            many => *many.get(server)?,
        };
        let stateid = Stateid { seqid: 0, ..self.file.stateid };
        Some(File { stateid, ..File::from(handle) })
    }
}

/// A device.
#[derive(Debug)]
pub(super) enum ParsedDevice {
    Files {
        /// For each stripe the index of its server.
        stripes: Vec<u32>,
        /// The addresses of each server.
        servers: Vec<Vec<SocketAddr>>,
    },
    Flex {
        addresses: Vec<SocketAddr>,
        versions: Vec<FlexDeviceVersion>,
    },
}

impl ParsedDevice {
    pub(super) fn decode(layout_type: u32, body: &[u8]) -> Result<Self, DecodeError> {
        if layout_type == layout_type::FILES {
            let device: FilesDevice<'_> = decode_body(body)?;
            return Ok(Self::Files {
                stripes: device.stripes.iter().collect(),
                servers: device.servers.iter().map(|list| tcp_addresses(&list)).collect(),
            });
        }
        let device: FlexDevice<'_> = decode_body(body)?;
        Ok(Self::Flex {
            addresses: tcp_addresses(&device.addresses),
            versions: device.versions.iter().collect(),
        })
    }
}

/// Returns the addresses that can be reached over TCP.
fn tcp_addresses(addresses: &List<'_, NetAddress<'_>>) -> Vec<SocketAddr> {
    let tcp = |address: NetAddress<'_>| {
        let netid = NetId::from_name(address.netid)?;
        UniversalAddress::parse(address.address).filter(|_| !netid.is_udp())
    };
    addresses.iter().filter_map(tcp).collect()
}

#[cfg(test)]
mod tests {
    use nfs_proto::nfs4::{FlexDataServer, FlexMirror, Wire, flex_flags};
    use nfs_proto::xdr::Writer;

    use super::*;

    const DEVICE: DeviceId = DeviceId([7; 16]);

    fn handle(number: u8) -> FileHandle {
        FileHandle::from_slice(&[number; 8]).unwrap()
    }

    fn opened() -> File {
        let stateid = Stateid { seqid: 3, other: [1; 12] };
        File { stateid, ..File::from(handle(9)) }
    }

    fn encoded<'a, T: Wire<'a>>(value: &T) -> Vec<u8> {
        let mut out = Vec::new();
        value.encode(&mut Writer::new(&mut out));
        out
    }

    fn parse(layout_type: u32, body: &[u8]) -> Result<ParsedBody, DecodeError> {
        let iomode = LayoutIoMode::Read;
        let layout = Layout { offset: 0, length: u64::MAX, iomode, layout_type, body };
        ParsedLayout::decode(&layout, &opened()).map(|parsed| parsed.body)
    }

    /// The number of the handle at the data server of each of three stripes on two servers.
    fn handles_of(dense: bool, count: u8) -> [Option<FileHandle>; 3] {
        let mut scratch = Vec::new();
        let layout = FilesLayout {
            device: DEVICE,
            util: FilesLayout::new_util(64, dense, true),
            first_stripe_index: 0,
            pattern_offset: 0,
            files: List::build(&mut scratch, (0..count).map(handle)),
        };
        let Ok(ParsedBody::Files(files)) = parse(layout_type::FILES, &encoded(&layout)) else {
            panic!("a files layout");
        };
        assert!(files.commits_through_mds() && files.striping(3).is_some());
        [(0, 0), (1, 1), (2, 0)].map(|(stripe, server)| {
            let file = files.file_of(stripe, server)?;
            assert_eq!(file.stateid, Stateid { seqid: 0, other: [1; 12] });
            Some(file.handle)
        })
    }

    #[test]
    fn finds_handle_of_each_stripe() {
        assert_eq!(handles_of(false, 0), [Some(handle(9)); 3]);
        assert_eq!(handles_of(false, 1), [Some(handle(0)); 3]);
        assert_eq!(handles_of(false, 2), [0, 1, 0].map(|number| Some(handle(number))));
        assert_eq!(handles_of(true, 3), [0, 1, 2].map(|number| Some(handle(number))));
        assert_eq!(handles_of(true, 2)[2], None, "a stripe without handle");
    }

    #[test]
    fn reads_flexible_files() {
        let mut files = Vec::new();
        let mut servers = Vec::new();
        let mut mirrors = Vec::new();
        let server = FlexDataServer {
            device: DEVICE,
            efficiency: 4,
            stateid: Stateid::ANONYMOUS,
            files: List::build(&mut files, [handle(1)]),
            user: b"1000",
            group: b"staff",
        };
        let stripes = [server, FlexDataServer { group: b"20", ..server }];
        let mirror = FlexMirror { servers: List::build(&mut servers, stripes) };
        let layout = FlexLayout {
            stripe_unit: 4096,
            mirrors: List::build(&mut mirrors, [mirror]),
            flags: flex_flags::NO_LAYOUTCOMMIT,
            stats_collect_hint: 0,
        };
        let body = encoded(&layout);
        let Ok(ParsedBody::Flex(flex)) = parse(layout_type::FLEX_FILES, &body) else {
            panic!("flexible files");
        };
        assert!(flex.has(flex_flags::NO_LAYOUTCOMMIT) && !flex.has(flex_flags::NO_READ_IO));
        let users: Vec<_> = flex.mirrors[0].iter().map(|stripe| stripe.user).collect();
        assert_eq!(users, [None, Some((1000, 20))], "names are not translated");
        assert!(parse(layout_type::FLEX_FILES, &body[..40]).is_err());
        assert!(parse(layout_type::BLOCKS, &body).is_err());
    }

    #[test]
    fn ignores_addresses_other_than_tcp() {
        let mut scratch = Vec::new();
        let address = |netid, address| NetAddress { netid, address };
        let addresses = [
            address(&b"udp"[..], &b"10.0.0.1.8.1"[..]),
            address(b"tcp", b"10.0.0.1.8.1"),
            address(b"tcp6", b"fe80::1.8.2"),
            address(b"tcp", b"somewhere"),
            address(b"rdma", b"10.0.0.1.8.1"),
        ];
        let found = tcp_addresses(&List::build(&mut scratch, addresses));
        let expected = ["10.0.0.1:2049", "[fe80::1]:2050"];
        assert_eq!(found, expected.map(|text| text.parse().unwrap()));
    }
}
