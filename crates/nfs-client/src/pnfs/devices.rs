//! Devices whose data servers are connected, and the layouts that refer to them.
//!
//! [`KnownDevices`] turns a reply to LAYOUTGET into a [`FileLayout`] without any call, so that a
//! backend can also get layouts while it measures. **Source:** RFC 8881 section 13, RFC 8435
//! section 5.1.

use std::collections::HashMap;

use nfs_proto::CallError;
use nfs_proto::client::{Event, File};
use nfs_proto::nfs4::{
    DeviceId, Layout, LayoutIoMode, OpCode, OpOk, Stateid, flex_flags, layout_type,
};
use nfs_proto::striping::Striping;

use super::parse::{ParsedBody, ParsedFiles, ParsedFlex, ParsedLayout};
use super::{FileLayout, Mirror, NoLayout, StripeFile, unexpected};

/// The devices of a mount that were queried, and whose data servers are connected.
#[derive(Debug, Clone, Default)]
pub struct KnownDevices(HashMap<(u32, DeviceId), KnownDevice>);

/// A device. Servers are indices into [`super::DataServers`].
#[derive(Debug, Clone)]
pub(super) enum KnownDevice {
    Files {
        /// For each stripe its server: the index within the device, and our own.
        stripes: Vec<(u32, u32)>,
    },
    Flex {
        server: u32,
        /// Index of the version in use among those of the device.
        version_index: usize,
        /// The data server shares the state of the metadata server.
        is_tight: bool,
        /// Calls have the uid and gid of the layout.
        gives_user: bool,
    },
}

impl KnownDevices {
    pub(super) fn get(&self, layout_type: u32, device: DeviceId) -> Option<&KnownDevice> {
        self.0.get(&(layout_type, device))
    }

    pub(super) fn insert(&mut self, layout_type: u32, device: DeviceId, known: KnownDevice) {
        self.0.insert((layout_type, device), known);
    }

    /// Returns the layout of a whole file from the reply to [`super::layoutget_ops`]. One that
    /// can't be used, such as one of unknown devices, has no mirrors, and has to be returned.
    ///
    /// # Errors
    /// [`CallError`] if there is no layout.
    pub fn read_layout(&self, event: &Event<'_>, file: &File) -> Result<FileLayout, CallError> {
        let granted = GrantedLayout::decode(event, file)?;
        let stateid = granted.stateid;
        let built = granted.layout.and_then(|parsed| self.build_layout(&parsed, stateid));
        Ok(built.unwrap_or_else(|_| new_layout(stateid, granted.layout_type, granted.iomode)))
    }

    /// Makes a layout refer to data servers.
    pub(super) fn build_layout(
        &self,
        parsed: &ParsedLayout,
        stateid: Stateid,
    ) -> Result<FileLayout, NoLayout> {
        let mut layout = new_layout(stateid, parsed.layout_type(), parsed.iomode);
        match &parsed.body {
            ParsedBody::Files(files) => {
                layout.commits_through_mds = files.commits_through_mds();
                layout.mirrors.push(self.build_files_mirror(files)?);
            }
            ParsedBody::Flex(flex) => {
                layout.needs_layoutcommit = !flex.has(flex_flags::NO_LAYOUTCOMMIT);
                layout.allows_reads = !flex.has(flex_flags::NO_READ_IO);
                layout.mirrors = self.build_flex_mirrors(flex)?;
                layout.stats_interval_s = flex.stats_interval_s;
                if !flex.has(flex_flags::WRITE_ONE_MIRROR) {
                    layout.written_mirrors = layout.mirrors.len();
                }
            }
        }
        Ok(layout)
    }

    fn build_files_mirror(&self, files: &ParsedFiles) -> Result<Mirror, NoLayout> {
        let device = files.device;
        let Some(KnownDevice::Files { stripes }) = self.get(layout_type::FILES, device) else {
            return Err(NoLayout::Unusable("an unknown device"));
        };
        let striping = files.striping(stripes.len());
        let striping = striping.ok_or(NoLayout::Unusable("stripe unit or first stripe"))?;
        let to_file = |(stripe, (index, server)): (usize, &(u32, u32))| {
            let file = files.file_of(stripe, *index as usize);
            let file = file.ok_or(NoLayout::Unusable("a stripe without file handle"))?;
            Ok(StripeFile { server: *server, file, device, user: None })
        };
        let stripes = stripes.iter().enumerate().map(to_file).collect::<Result<_, NoLayout>>()?;
        Ok(Mirror { striping, stripes })
    }

    fn build_flex_mirrors(&self, flex: &ParsedFlex) -> Result<Vec<Mirror>, NoLayout> {
        let mut mirrors = Vec::with_capacity(flex.mirrors.len());
        for servers in &flex.mirrors {
            let striping = Striping::of_flex_files(flex.stripe_unit, servers.len());
            let striping = striping.ok_or(NoLayout::Unusable("stripe unit"))?;
            let mut stripes = Vec::with_capacity(servers.len());
            for parsed in servers {
                let device = parsed.device;
                let Some(KnownDevice::Flex { server, version_index, is_tight, gives_user }) =
                    self.get(layout_type::FLEX_FILES, device)
                else {
                    return Err(NoLayout::Unusable("an unknown device"));
                };
                let handle = parsed.handles.get(*version_index).or(match &parsed.handles[..] {
                    [one] => Some(one),
                    _ => None,
                });
                let handle = *handle.ok_or(NoLayout::Unusable("no handle for the version"))?;
                let stateid = if *is_tight { parsed.stateid } else { Stateid::ANONYMOUS };
                let file = File { stateid, ..File::from(handle) };
                let user = parsed.user.filter(|_| *gives_user);
                stripes.push(StripeFile { server: *server, file, device, user });
            }
            let efficiency = servers.iter().map(|server| server.efficiency).min();
            mirrors.push((efficiency, Mirror { striping, stripes }));
        }
        // The most efficient one is read; RFC 8435 section 5.1.
        mirrors.sort_by_key(|(efficiency, _)| std::cmp::Reverse(*efficiency));
        if mirrors.is_empty() {
            return Err(NoLayout::Unusable("no mirror"));
        }
        Ok(mirrors.into_iter().map(|(_, mirror)| mirror).collect())
    }
}

/// The reply to LAYOUTGET.
#[derive(Debug)]
pub(super) struct GrantedLayout {
    pub(super) stateid: Stateid,
    layout_type: u32,
    iomode: LayoutIoMode,
    /// The layout, if it is usable.
    pub(super) layout: Result<ParsedLayout, NoLayout>,
}

impl GrantedLayout {
    pub(super) fn decode(event: &Event<'_>, file: &File) -> Result<Self, CallError> {
        let OpOk::Layoutget { stateid, layouts, .. } = event.result_of(OpCode::Layoutget)? else {
            return Err(unexpected());
        };
        let first = layouts.iter().next().ok_or_else(unexpected)?;
        let is_whole = |layout: &Layout<'_>| {
            layouts.len() == 1 && layout.offset == 0 && layout.length == u64::MAX
        };
        let layout = if is_whole(&first) {
            ParsedLayout::decode(&first, file).map_err(NoLayout::Malformed)
        } else {
            Err(NoLayout::Partial)
        };
        let Layout { layout_type, iomode, .. } = first;
        Ok(Self { stateid, layout_type, iomode, layout })
    }
}

/// Returns a layout without mirrors.
const fn new_layout(stateid: Stateid, layout_type: u32, iomode: LayoutIoMode) -> FileLayout {
    FileLayout {
        stateid,
        layout_type,
        iomode,
        mirrors: Vec::new(),
        commits_through_mds: false,
        needs_layoutcommit: true,
        allows_reads: true,
        written_mirrors: 1,
        stats_interval_s: 0,
    }
}

#[cfg(test)]
mod tests {
    use nfs_proto::nfs3::FileHandle;

    use super::super::parse::ParsedStripe;
    use super::*;

    const DEVICE: DeviceId = DeviceId([7; 16]);
    const GIVEN: Stateid = Stateid { seqid: 1, other: [5; 12] };

    /// A layout of one data server, which has a handle for each of two versions.
    fn parsed(device: DeviceId) -> ParsedLayout {
        let handle = |number: u8| FileHandle::from_slice(&[number; 4]).unwrap();
        let stripe = ParsedStripe {
            device,
            efficiency: 1,
            stateid: GIVEN,
            handles: vec![handle(1), handle(2)],
            user: Some((10, 20)),
        };
        let mirrors = vec![vec![stripe]];
        let flex = ParsedFlex { stripe_unit: 0, flags: 0, stats_interval_s: 9, mirrors };
        ParsedLayout { iomode: LayoutIoMode::Read, body: ParsedBody::Flex(flex) }
    }

    #[test]
    fn coupling_decides_stateid_and_user() {
        let cases = [(true, false, GIVEN, None), (false, true, Stateid::ANONYMOUS, Some((10, 20)))];
        for (is_tight, gives_user, stateid, user) in cases {
            let mut devices = KnownDevices::default();
            let known = KnownDevice::Flex { server: 3, version_index: 1, is_tight, gives_user };
            devices.insert(layout_type::FLEX_FILES, DEVICE, known);
            let layout = devices.build_layout(&parsed(DEVICE), GIVEN).unwrap();
            let stripe = layout.mirrors[0].stripes[0];
            assert_eq!((stripe.server, stripe.file.stateid, stripe.user), (3, stateid, user));
            assert_eq!(stripe.file.handle.as_slice(), [2; 4], "of the second version");
            assert_eq!(layout.stats_interval_s, 9);
        }
    }

    #[test]
    fn refuses_unknown_devices() {
        let unknown = KnownDevices::default().build_layout(&parsed(DEVICE), GIVEN);
        assert!(matches!(unknown, Err(NoLayout::Unusable("an unknown device"))));
    }
}
