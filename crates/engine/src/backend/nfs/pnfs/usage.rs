//! How much each data server was used under a layout, as LAYOUTSTATS and LAYOUTRETURN report it.
//!
//! [`Usage`] counts calls when they are sent and when they end. Its table is allocated with the
//! layout; counting changes a few numbers in it. All counts are sums since the layout was granted.
//!
//! **Source:** RFC 8435 section 9.2, RFC 7862 section 15.7.

use nfs_client::pnfs::FileLayout;
use nfs_client::proto::nfs4::{
    FlexIoLatency, FlexIoStats, FlexLayoutUpdate, IoInfo, NetAddress, Time, layout_type,
};
use nfs_client::proto::rpcbind::{NetId, UniversalAddress};

use super::super::transfers::Stage as DataStage;
use super::stages::{Call, Stage};

/// How much a server was used for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DataUse {
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) is_lost: bool,
}

impl DataUse {
    /// Returns all bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }
}

/// READs of a stripe, or WRITEs and COMMITs.
#[derive(Clone, Copy, Debug, Default)]
struct CallUse {
    requested: u64,
    requested_bytes: u64,
    completed: u64,
    completed_bytes: u64,
    undelivered_bytes: u64,
    /// Those of the completed calls that are COMMITs.
    commits: u64,
    response_ns: u64,
    busy_ns: u64,
    busy_since_ns: u64,
    in_flight: u32,
}

impl CallUse {
    fn latency(&self, now_ns: u64) -> FlexIoLatency {
        let since_ns = now_ns.saturating_sub(self.busy_since_ns);
        let busy_ns = self.busy_ns + if self.in_flight > 0 { since_ns } else { 0 };
        FlexIoLatency {
            calls_requested: self.requested,
            bytes_requested: self.requested_bytes,
            calls_completed: self.completed,
            bytes_completed: self.completed_bytes,
            bytes_not_delivered: self.undelivered_bytes,
            busy: duration(busy_ns),
            response: duration(self.response_ns),
        }
    }

    const fn add(&mut self, other: &Self) {
        self.requested += other.requested;
        self.requested_bytes += other.requested_bytes;
        self.completed += other.completed;
        self.completed_bytes += other.completed_bytes;
        self.undelivered_bytes += other.undelivered_bytes;
        self.commits += other.commits;
        self.response_ns += other.response_ns;
        self.busy_ns += other.busy_ns;
    }

    const fn info(&self) -> IoInfo {
        IoInfo { count: self.completed - self.commits, bytes: self.completed_bytes }
    }
}

/// The use of a stripe.
#[derive(Clone, Copy, Debug, Default)]
struct StripeUse {
    read: CallUse,
    write: CallUse,
    /// Completed calls when it was last reported.
    reported: u64,
}

impl StripeUse {
    const fn completed(&self) -> u64 {
        self.read.completed + self.write.completed
    }
}

/// The end of a call to a data server.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedCall {
    /// Bytes that it transferred; `None` if it failed.
    pub(super) moved: Option<u32>,
    pub(super) sent_ns: u64,
    pub(super) done_ns: u64,
}

/// The use of all data servers of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    /// By mirror, then by stripe; empty without a layout of flexible files.
    stripes: Vec<StripeUse>,
    /// Number of stripes of each mirror.
    per_mirror: usize,
    /// When the first call was sent.
    first_ns: u64,
}

impl Usage {
    /// Allocates the counts of a new layout.
    pub(super) fn new(layout: Option<&FileLayout>) -> Self {
        let Some(layout) = layout.filter(|one| one.layout_type == layout_type::FLEX_FILES) else {
            return Self::default();
        };
        let stripes = layout.mirrors.iter().map(|mirror| mirror.stripes.len());
        let per_mirror = stripes.max().unwrap_or(0);
        let stripes = vec![StripeUse::default(); per_mirror * layout.mirrors.len()];
        Self { stripes, per_mirror, first_ns: 0 }
    }

    /// Adds the use by another worker of the same layout; times in flight are added, too.
    pub(super) fn add(&mut self, other: &Self) {
        if self.stripes.is_empty() {
            self.clone_from(other);
            return;
        }
        for (own, other) in self.stripes.iter_mut().zip(&other.stripes) {
            own.read.add(&other.read);
            own.write.add(&other.write);
        }
        if other.first_ns > 0 && (self.first_ns == 0 || other.first_ns < self.first_ns) {
            self.first_ns = other.first_ns;
        }
    }

    /// Returns the counts that a call belongs to.
    fn counts_of(&mut self, stage: Stage, call: &Call) -> Option<&mut CallUse> {
        let at = call.mirror as usize * self.per_mirror + call.stripe as usize;
        let stripe = self.stripes.get_mut(at)?;
        Some(if stage == Stage::Data(DataStage::Read) {
            &mut stripe.read
        } else {
            &mut stripe.write
        })
    }

    /// Counts a call that is sent.
    pub(super) fn begin(&mut self, stage: Stage, call: &Call, bytes: u32, now_ns: u64) {
        let Some(counts) = self.counts_of(stage, call) else { return };
        counts.requested += 1;
        counts.requested_bytes += u64::from(bytes);
        if counts.in_flight == 0 {
            counts.busy_since_ns = now_ns;
        }
        counts.in_flight += 1;
        if self.first_ns == 0 {
            self.first_ns = now_ns;
        }
    }

    /// Counts the end of a call that was sent.
    pub(super) fn end(&mut self, stage: Stage, call: &Call, ended: EndedCall) {
        let Some(counts) = self.counts_of(stage, call) else { return };
        counts.in_flight -= 1;
        if counts.in_flight == 0 {
            counts.busy_ns += ended.done_ns.saturating_sub(counts.busy_since_ns);
        }
        let Some(moved) = ended.moved else {
            counts.undelivered_bytes += u64::from(call.len);
            return;
        };
        counts.completed += 1;
        counts.completed_bytes += u64::from(moved);
        counts.commits += u64::from(stage == Stage::Commit);
        counts.response_ns += ended.done_ns.saturating_sub(ended.sent_ns);
    }

    /// Returns true if there is something new to report.
    pub(super) fn has_news(&self) -> bool {
        self.find_news(0).is_some()
    }

    /// Returns the first stripe from number `from` on with something to report.
    pub(super) fn find_news(&self, from: usize) -> Option<usize> {
        let is_new = |stripe: &StripeUse| stripe.completed() > stripe.reported;
        Some(from + self.stripes.get(from..)?.iter().position(is_new)?)
    }

    /// The same, and takes note that it is reported.
    pub(super) fn take_news(&mut self, from: usize) -> Option<usize> {
        let at = self.find_news(from)?;
        self.stripes[at].reported = self.stripes[at].completed();
        Some(at)
    }

    /// Returns the numbers of all stripes that were used.
    pub(super) fn used(&self) -> impl Iterator<Item = usize> {
        let was_used = |stripe: &StripeUse| stripe.read.requested + stripe.write.requested > 0;
        (0..self.stripes.len()).filter(move |at| was_used(&self.stripes[*at]))
    }

    /// Describes the use of the stripe with this number.
    pub(super) fn describe<'a>(
        &self,
        at: usize,
        layout: &FileLayout,
        address: &'a ServerAddress,
        now_ns: u64,
    ) -> FlexIoStats<'a> {
        let StripeUse { read, write, .. } = &self.stripes[at];
        let stripe = &layout.mirrors[at / self.per_mirror].stripes[at % self.per_mirror];
        let update = FlexLayoutUpdate {
            address: NetAddress { netid: address.netid.name().as_bytes(), address: address.text() },
            file: stripe.file.handle,
            read: read.latency(now_ns),
            write: write.latency(now_ns),
            duration: duration(now_ns.saturating_sub(self.first_ns)),
            local: false,
        };
        FlexIoStats {
            offset: 0,
            length: u64::MAX,
            stateid: layout.stateid,
            read: read.info(),
            write: write.info(),
            device: stripe.device,
            update,
        }
    }

    /// Returns the server of the stripe with this number.
    pub(super) fn server_of(&self, at: usize, layout: &FileLayout) -> usize {
        layout.mirrors[at / self.per_mirror].stripes[at % self.per_mirror].server as usize
    }
}

/// The address of a server as reports contain it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerAddress {
    netid: NetId,
    text: UniversalAddress,
}

impl ServerAddress {
    pub(super) fn new(address: std::net::SocketAddr) -> Self {
        let netid = NetId::from_address(false, address.ip());
        Self { netid, text: UniversalAddress::new(address) }
    }

    fn text(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

const fn duration(ns: u64) -> Time {
    Time { seconds: (ns / 1_000_000_000).cast_signed(), nanos: (ns % 1_000_000_000) as u32 }
}

#[cfg(test)]
mod tests {
    use nfs_client::pnfs::{Mirror, StripeFile};
    use nfs_client::proto::client::File;
    use nfs_client::proto::nfs3::FileHandle;
    use nfs_client::proto::nfs4::{DeviceId, LayoutIoMode, Stateid};
    use nfs_client::proto::striping::Striping;

    use super::*;

    const READ: Stage = Stage::Data(DataStage::Read);
    const WRITE: Stage = Stage::Data(DataStage::Write);

    /// Two mirrors of two stripes.
    fn layout(layout_type: u32) -> FileLayout {
        let striping = Striping::of_flex_files(4096, 2).unwrap();
        let stripe = |number: u8| {
            let file = File::from(FileHandle::from_slice(&[number; 4]).unwrap());
            let device = DeviceId([number; 16]);
            StripeFile { server: u32::from(number), file, device, user: None }
        };
        let mirror =
            |first: u8| Mirror { striping, stripes: vec![stripe(first), stripe(first + 1)] };
        FileLayout {
            stateid: Stateid::default(),
            layout_type,
            iomode: LayoutIoMode::ReadWrite,
            mirrors: vec![mirror(1), mirror(3)],
            commits_through_mds: false,
            needs_layoutcommit: true,
            allows_reads: true,
            written_mirrors: 2,
            stats_interval_s: 0,
        }
    }

    fn ended(moved: u32, sent_ns: u64, done_ns: u64) -> EndedCall {
        EndedCall { moved: Some(moved), sent_ns, done_ns }
    }

    #[test]
    fn sums_up_calls_and_times() {
        let layout = layout(layout_type::FLEX_FILES);
        let mut usage = Usage::new(Some(&layout));
        let call = Call { mirror: 1, stripe: 1, len: 100, ..Call::default() };
        // Two WRITEs overlap, then a COMMIT, then one that fails, and a READ that has not ended.
        usage.begin(WRITE, &call, 100, 1_000);
        usage.begin(WRITE, &call, 100, 1_100);
        usage.end(WRITE, &call, ended(100, 1_000, 1_300));
        usage.end(WRITE, &call, ended(60, 1_100, 1_500));
        let commit = Call { len: 0, ..call };
        usage.begin(Stage::Commit, &commit, 0, 2_000);
        usage.end(Stage::Commit, &commit, ended(0, 2_000, 2_050));
        usage.begin(WRITE, &call, 100, 3_000);
        usage.end(WRITE, &call, EndedCall { moved: None, sent_ns: 3_000, done_ns: 3_010 });
        usage.begin(READ, &call, 100, 3_900);
        assert_eq!(usage.used().collect::<Vec<_>>(), [3]);
        assert_eq!(usage.server_of(3, &layout), 4);
        let address = ServerAddress::new("10.0.0.4:2049".parse().unwrap());
        let stats = usage.describe(3, &layout, &address, 4_000);
        assert_eq!(stats.device, DeviceId([4; 16]));
        assert_eq!(stats.write, IoInfo { count: 2, bytes: 160 });
        assert_eq!(stats.read, IoInfo::default());
        let expected = FlexIoLatency {
            calls_requested: 4,
            bytes_requested: 300,
            calls_completed: 3,
            bytes_completed: 160,
            bytes_not_delivered: 100,
            busy: duration(500 + 50 + 10),
            response: duration(300 + 400 + 50),
        };
        assert_eq!(stats.update.write, expected);
        let read = FlexIoLatency {
            calls_requested: 1,
            bytes_requested: 100,
            busy: duration(100),
            ..FlexIoLatency::default()
        };
        assert_eq!(stats.update.read, read);
        assert_eq!(stats.update.duration, duration(3_000));
        assert_eq!(stats.update.address.address, b"10.0.0.4.8.1");
        assert_eq!(stats.update.file, FileHandle::from_slice(&[4; 4]).unwrap());
    }

    #[test]
    fn reports_each_change_once() {
        let mut usage = Usage::new(Some(&layout(layout_type::FLEX_FILES)));
        assert!(!usage.has_news());
        for (mirror, stripe) in [(0, 1), (1, 0)] {
            let call = Call { mirror, stripe, len: 10, ..Call::default() };
            usage.begin(READ, &call, 10, 1);
            usage.end(READ, &call, ended(10, 1, 2));
        }
        assert!(usage.has_news());
        assert_eq!(
            (usage.take_news(0), usage.take_news(2), usage.take_news(3)),
            (Some(1), Some(2), None)
        );
        assert!(!usage.has_news());
        let call = Call { len: 10, ..Call::default() };
        usage.begin(READ, &call, 10, 3);
        assert!(!usage.has_news(), "it has not ended");
        usage.end(READ, &call, ended(10, 3, 4));
        assert_eq!(usage.take_news(0), Some(0));
    }

    #[test]
    fn counts_only_flexible_files() {
        let mut usage = Usage::new(Some(&layout(layout_type::FILES)));
        usage.begin(READ, &Call::default(), 10, 1);
        assert!(!usage.has_news() && usage.used().next().is_none());
    }
}
