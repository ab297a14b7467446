//! Judges a durability measurement: what was acknowledged against what was found.
//!
//! [`judge_event`] is the entry point. An op survived if each of its blocks has its generation or a
//! later one; anything else shows how it was lost. Ops in flight may have arrived, not arrived or
//! be torn; no promise covers them. The rule for a single block is the same as for soaks
//! ([`BlockState::judge`]). This module is pure: it uses no files or clocks.

use std::collections::BTreeMap;

use model::Durability;
use model::durability::{
    Access, AckedOp, CrashEvent, DurabilityRow, FoundBlock, FoundFile, MeasuredEvent, PromiseTier,
    TestFile, TestOp, Tier, WorkKind,
};
use model::soak::{BlockState, Generations};

/// What is needed to judge an event.
#[derive(Clone, Copy, Debug)]
pub struct EventFacts {
    pub event: CrashEvent,
    /// When it happened, on the clock of acknowledgements in nanoseconds.
    pub at_ns: u64,
    /// How the target is accessed.
    pub access: Access,
}

/// How an acknowledged op was lost, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Missing,
    Unreadable,
    WrongSize,
    Torn,
    Zeros,
    OldData,
}

/// The newest generations of a block: submitted and acknowledged.
#[derive(Clone, Copy, Debug, Default)]
struct NewestGenerations {
    sent: u32,
    acked: u32,
}

/// Returns true if a loss violates a promise.
///
/// **Source:** RFC 1813, 1.1 and 3.3.7: a server has the changes of a procedure on stable storage
/// before it replies, except for WRITE with UNSTABLE. fsync(2) and open(2), `O_DSYNC` and `O_SYNC`;
/// neither write(2) nor close(2) promises anything.
pub const fn is_promised(promise: Durability, kind: WorkKind, access: Access) -> bool {
    match promise {
        Durability::Sync | Durability::Dsync | Durability::Osync => true,
        Durability::None | Durability::Close => {
            matches!(access, Access::Nfs) && kind.is_name_only()
        }
    }
}

/// Counts what survived and what was lost, with a row for each promise and kind of work. If nothing
/// could be read back, only counts what was acknowledged.
pub fn judge_event(
    facts: EventFacts,
    ops: &[AckedOp],
    found: Option<&[FoundFile]>,
) -> Vec<DurabilityRow> {
    let files: BTreeMap<TestFile, &FoundFile> =
        found.unwrap_or_default().iter().map(|file| (file.file, file)).collect();
    let mut of_files: BTreeMap<TestFile, Vec<&AckedOp>> = BTreeMap::new();
    for acked in ops {
        of_files.entry(acked.op.file).or_default().push(acked);
    }
    let mut rows: Vec<DurabilityRow> = Vec::new();
    for (file, ops) in of_files {
        let is_promised = is_promised(file.promise, file.kind, facts.access);
        let row = DurabilityRow::new(facts.event, &file);
        let mut row = DurabilityRow { is_promised, ..row };
        if found.is_some() {
            judge_file(&mut row, &ops, files.get(&file).copied(), facts.at_ns);
        } else {
            for acked in ops.iter().filter(|acked| acked.acked_ns.is_some()) {
                row.acked_ops += 1;
                row.acked_bytes += acked.op.bytes;
            }
        }
        let same =
            |known: &&mut DurabilityRow| known.promise == row.promise && known.kind == row.kind;
        match rows.iter_mut().find(same) {
            Some(known) => known.add(&row),
            None => rows.push(row),
        }
    }
    rows
}

/// Judges the ops on one file, which must be in the order in which they were sent.
fn judge_file(row: &mut DurabilityRow, ops: &[&AckedOp], found: Option<&FoundFile>, event_ns: u64) {
    let newest = newest_generations(ops);
    let mut has_lost = false;
    for acked in ops {
        let Some(acked_ns) = acked.acked_ns else {
            row.torn_in_flight += u64::from(is_torn_in_flight(&acked.op, found, &newest));
            continue;
        };
        row.acked_ops += 1;
        row.acked_bytes += acked.op.bytes;
        let Some((loss, share)) = find_loss(&acked.op, found, &newest) else {
            row.reordered += u64::from(has_lost);
            continue;
        };
        has_lost = true;
        row.lost_ops += 1;
        row.lost_bytes += share.apply(acked.op.bytes);
        // The acknowledgement may have been recorded while the event was in progress.
        row.window_ns = row.window_ns.max(event_ns.saturating_sub(acked_ns));
        match loss {
            Loss::Missing => row.missing += 1,
            Loss::Unreadable => row.unreadable += 1,
            Loss::WrongSize => row.wrong_size += 1,
            Loss::Torn => row.torn += 1,
            Loss::Zeros => row.zeros += 1,
            Loss::OldData => row.old_data += 1,
        }
    }
}

/// The lost blocks of an op, and how many it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LostShare {
    lost: u32,
    all: u32,
}

impl LostShare {
    const WHOLE: Self = Self { lost: 1, all: 1 };

    const fn apply(self, bytes: u64) -> u64 {
        bytes * self.lost as u64 / self.all as u64
    }
}

fn newest_generations(ops: &[&AckedOp]) -> BTreeMap<u32, NewestGenerations> {
    let mut newest: BTreeMap<u32, NewestGenerations> = BTreeMap::new();
    for acked in ops {
        for block in acked.op.range() {
            let known = newest.entry(block).or_default();
            known.sent = known.sent.max(acked.op.generation);
            if acked.acked_ns.is_some() {
                known.acked = known.acked.max(acked.op.generation);
            }
        }
    }
    newest
}

/// Returns how an acknowledged op was lost and how much of it, or `None` if all of it survived.
fn find_loss(
    op: &TestOp,
    found: Option<&FoundFile>,
    newest: &BTreeMap<u32, NewestGenerations>,
) -> Option<(Loss, LostShare)> {
    let blocks = match found {
        Some(FoundFile { size_bytes: Some(_), blocks, .. }) => blocks,
        Some(FoundFile { is_unreadable: true, .. }) => {
            return Some((Loss::Unreadable, LostShare::WHOLE));
        }
        _ => return Some((Loss::Missing, LostShare::WHOLE)),
    };
    let mut lost = 0;
    let mut kept = 0;
    let mut beyond = 0;
    let mut zeros = 0;
    let mut other = 0;
    for block in op.range() {
        let known = newest.get(&block).copied().unwrap_or_default();
        // The promise covers everything acknowledged, so treat it as durable. The limit is the
        // generation of this op; the loss of a later one is counted separately.
        let known =
            Generations { safe: op.generation, acknowledged: known.acked, newest: known.sent };
        let generation = match blocks.get(block as usize) {
            Some(FoundBlock::Generation(generation)) => Some(*generation),
            _ => None,
        };
        match BlockState::judge(known, generation) {
            Some(BlockState::Lost) => lost += 1,
            None | Some(BlockState::RolledBack | BlockState::Torn) => {
                kept += 1;
                continue;
            }
        }
        match blocks.get(block as usize) {
            None => beyond += 1,
            Some(FoundBlock::Zeros) => zeros += 1,
            Some(FoundBlock::Other) => other += 1,
            Some(FoundBlock::Generation(_)) => {}
        }
    }
    if lost == 0 {
        return None;
    }
    let share = LostShare { lost, all: op.blocks };
    // A file being replaced keeps its old content until the rename, so in this case the rename is
    // missing.
    let is_old = beyond + zeros + other == 0;
    let loss = if beyond == lost {
        Loss::WrongSize
    } else if kept > 0 || other > 0 {
        Loss::Torn
    } else if is_old && op.file.kind == WorkKind::Rename {
        Loss::Missing
    } else if zeros == lost {
        Loss::Zeros
    } else if is_old {
        Loss::OldData
    } else {
        Loss::Torn
    };
    Some((loss, share))
}

/// Returns true if an op in flight left a block that is neither old nor new.
fn is_torn_in_flight(
    op: &TestOp,
    found: Option<&FoundFile>,
    newest: &BTreeMap<u32, NewestGenerations>,
) -> bool {
    let Some(found) = found else { return false };
    for block in op.range() {
        let acknowledged = newest.get(&block).copied().unwrap_or_default().acked;
        let known = Generations {
            safe: acknowledged,
            acknowledged,
            newest: op.generation.max(acknowledged),
        };
        if found.blocks.get(block as usize) == Some(&FoundBlock::Other)
            && BlockState::judge(known, None) == Some(BlockState::Torn)
        {
            return true;
        }
    }
    false
}

/// Returns the promise of the last acknowledged write. Returns `None` if an op was in flight, whose
/// reply may have been lost, or if the last op wrote no data.
pub fn last_writer(ops: &[AckedOp]) -> Option<Durability> {
    let mut last: Option<(u64, &TestOp)> = None;
    for acked in ops {
        let acked_ns = acked.acked_ns?;
        if last.is_none_or(|(known_ns, _)| acked_ns >= known_ns) {
            last = Some((acked_ns, &acked.op));
        }
    }
    let (_, op) = last?;
    if op.bytes > 0 { Some(op.file.promise) } else { None }
}

/// Determines the tier of each promise that was measured from what survived its events.
///
/// Promises form a ladder: a system that keeps a stronger promise also keeps the weaker ones. So no
/// promise is rated above a stronger one that the same events tested. If a stronger promise lost
/// data and a weaker one did not, the weaker one may have been lucky and is undecided.
pub fn tiers(promises: &[Durability], events: &[MeasuredEvent]) -> Vec<PromiseTier> {
    promises
        .iter()
        .map(|promise| PromiseTier { promise: *promise, tier: tier_of(*promise, events) })
        .collect()
}

/// Returns the strongest promise that lost data in an event in which a weaker promise lost nothing.
pub fn stronger_loser(promise: Durability, events: &[MeasuredEvent]) -> Option<Durability> {
    for stronger in Durability::ALL.iter().rev().take_while(|stronger| **stronger > promise) {
        let spares = |event: &&MeasuredEvent| {
            let [own, other] = [promise, *stronger].map(|promise| weigh_event(promise, event));
            own.is_kept() && other == PromiseEvidence::Lost
        };
        if events.iter().any(|event| spares(&event)) {
            return Some(*stronger);
        }
    }
    None
}

/// Evidence from an event about a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PromiseEvidence {
    /// None: it could not be verified, nothing was acknowledged, or nothing was at risk.
    Nothing,
    /// Acknowledged data was lost.
    Lost,
    /// Everything survived, but a stronger promise lost data.
    StrongerLost,
    /// Everything survived, but there were too few crashes to tell.
    TooFewCrashes,
    /// Everything survived.
    Kept,
}

impl PromiseEvidence {
    const fn is_kept(self) -> bool {
        matches!(self, Self::TooFewCrashes | Self::Kept)
    }
}

/// Returns the tier of one promise: the strongest event that it survived, if it survived the weaker
/// ones, too.
fn tier_of(promise: Durability, events: &[MeasuredEvent]) -> Tier {
    let mut tier = Tier::Unknown;
    let mut is_undecided = false;
    // From the weakest event to the strongest: an event that loses data limits the tier, regardless
    // of stronger ones. Losing data without a server crash means that there is no tier at all.
    for (event, survived) in [
        (CrashEvent::KillClient, Tier::Unknown),
        (CrashEvent::CutNetwork, Tier::Unknown),
        (CrashEvent::KillServer, Tier::ServerCrash),
        (CrashEvent::PowerCut, Tier::PowerLoss),
        (CrashEvent::LoseServer, Tier::ServerLoss),
    ] {
        for measured in events.iter().filter(|measured| measured.event == event) {
            match show_on_ladder(promise, measured) {
                PromiseEvidence::Nothing => {}
                PromiseEvidence::Kept => tier = survived,
                PromiseEvidence::TooFewCrashes => is_undecided = true,
                PromiseEvidence::Lost if tier == Tier::Unknown => return Tier::None,
                PromiseEvidence::StrongerLost if tier == Tier::Unknown => return Tier::Undecided,
                PromiseEvidence::Lost | PromiseEvidence::StrongerLost => return tier,
            }
        }
    }
    if tier == Tier::Unknown && is_undecided { Tier::Undecided } else { tier }
}

/// Returns the evidence from an event about a promise, taking stronger promises into account.
fn show_on_ladder(promise: Durability, measured: &MeasuredEvent) -> PromiseEvidence {
    let mut shown = weigh_event(promise, measured);
    if !shown.is_kept() {
        return shown;
    }
    for stronger in Durability::ALL.iter().filter(|stronger| **stronger > promise) {
        match weigh_event(*stronger, measured) {
            PromiseEvidence::Lost => return PromiseEvidence::StrongerLost,
            PromiseEvidence::TooFewCrashes => shown = PromiseEvidence::TooFewCrashes,
            _ => {}
        }
    }
    shown
}

/// Returns the evidence from an event about a promise by itself.
fn weigh_event(promise: Durability, measured: &MeasuredEvent) -> PromiseEvidence {
    if measured.unverified.is_some() {
        return PromiseEvidence::Nothing;
    }
    if measured.has_lost(promise) {
        return PromiseEvidence::Lost;
    }
    let mut rows = measured.rows.iter().filter(|row| row.promise == promise);
    if measured.nothing_at_risk.is_some() || !rows.any(|row| row.acked_ops > 0) {
        return PromiseEvidence::Nothing;
    }
    // Only repeatable crashes are repeated until each promise had the last write.
    let is_repeated = matches!(measured.event, CrashEvent::KillServer | CrashEvent::PowerCut);
    if is_repeated && !measured.has_enough_crashes(promise) {
        return PromiseEvidence::TooFewCrashes;
    }
    PromiseEvidence::Kept
}

#[cfg(test)]
mod tests {
    use model::durability::LastWrites;

    use super::*;

    const FACTS: EventFacts =
        EventFacts { event: CrashEvent::KillServer, at_ns: 1_000, access: Access::Nfs };

    fn file(kind: WorkKind) -> TestFile {
        TestFile { promise: Durability::Sync, kind, number: 0 }
    }

    /// Returns ops with one block each, acknowledged every 100 ns from 100 ns on.
    fn acked(kind: WorkKind, places: &[(u32, u32)]) -> Vec<AckedOp> {
        let mut ops = Vec::new();
        for (number, (first_block, generation)) in places.iter().enumerate() {
            let op = TestOp {
                file: file(kind),
                first_block: *first_block,
                blocks: 1,
                generation: *generation,
                bytes: 4096,
            };
            ops.push(AckedOp { op, acked_ns: Some((number as u64 + 1) * 100) });
        }
        ops
    }

    fn found(kind: WorkKind, blocks: &[FoundBlock]) -> FoundFile {
        let size_bytes = Some(blocks.len() as u64 * 4096);
        FoundFile { size_bytes, blocks: blocks.to_vec(), ..FoundFile::missing(file(kind)) }
    }

    fn judged(ops: &[AckedOp], found: &FoundFile) -> DurabilityRow {
        let rows = judge_event(FACTS, ops, Some(std::slice::from_ref(found)));
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows[0]
    }

    const NEW: FoundBlock = FoundBlock::Generation(1);
    const OLD: FoundBlock = FoundBlock::Generation(0);

    #[test]
    fn what_is_there_was_kept() {
        let ops = acked(WorkKind::Overwrite, &[(0, 1), (1, 1)]);
        let row = judged(&ops, &found(WorkKind::Overwrite, &[NEW, NEW]));
        assert_eq!((row.acked_ops, row.acked_bytes, row.lost_ops), (2, 8192, 0));
        assert!(row.is_promised && !row.breaks_promise());
        // A later generation was in flight or acknowledged, so the older one must have survived.
        let ops = acked(WorkKind::Overwrite, &[(0, 1), (0, 2)]);
        let row = judged(&ops, &found(WorkKind::Overwrite, &[FoundBlock::Generation(2)]));
        assert_eq!((row.acked_ops, row.lost_ops), (2, 0));
    }

    #[test]
    fn counts_returned_old_data_as_loss() {
        let ops = acked(WorkKind::Overwrite, &[(0, 1), (0, 2), (0, 3)]);
        let row = judged(&ops, &found(WorkKind::Overwrite, &[NEW]));
        assert_eq!((row.lost_ops, row.lost_bytes, row.old_data), (2, 8192, 2));
        // The first lost write was acknowledged at 200 ns, and the event was at 1000 ns.
        assert_eq!(row.window_ns, 800);
        assert!(row.breaks_promise());
    }

    #[test]
    fn detects_reordered_write() {
        let ops = acked(WorkKind::Overwrite, &[(0, 1), (1, 1), (2, 1)]);
        let row = judged(&ops, &found(WorkKind::Overwrite, &[NEW, OLD, NEW]));
        assert_eq!((row.lost_ops, row.old_data, row.reordered), (1, 1, 1));
        let row = judged(&ops, &found(WorkKind::Overwrite, &[NEW, OLD, OLD]));
        assert_eq!(
            (row.lost_ops, row.reordered),
            (2, 0),
            "losing the last writes is no reordering"
        );
    }

    #[test]
    fn detects_truncated_file() {
        let ops = acked(WorkKind::LargeFile, &[(0, 1), (1, 1), (2, 1)]);
        let row = judged(&ops, &found(WorkKind::LargeFile, &[NEW]));
        assert_eq!((row.lost_ops, row.wrong_size, row.lost_bytes), (2, 2, 8192));
        let row = judged(&ops, &found(WorkKind::LargeFile, &[NEW, FoundBlock::Zeros, NEW]));
        assert_eq!((row.lost_ops, row.zeros, row.reordered), (1, 1, 1));
    }

    #[test]
    fn detects_torn_op() {
        let mut ops = acked(WorkKind::Overwrite, &[(0, 1)]);
        ops[0].op.blocks = 4;
        ops[0].op.bytes = 16_384;
        let row = judged(&ops, &found(WorkKind::Overwrite, &[NEW, OLD, NEW, NEW]));
        assert_eq!((row.lost_ops, row.torn, row.lost_bytes), (1, 1, 4096));
        let row = judged(&ops, &found(WorkKind::Overwrite, &[FoundBlock::Other; 4]));
        assert_eq!((row.lost_ops, row.torn, row.lost_bytes), (1, 1, 16_384));
    }

    #[test]
    fn detects_missing_name_and_lost_rename() {
        let mut create = acked(WorkKind::Create, &[(0, 1)]);
        create[0].op.blocks = 0;
        let gone = FoundFile::missing(file(WorkKind::Create));
        assert_eq!(judged(&create, &gone).missing, 1);
        let empty = FoundFile { size_bytes: Some(0), ..gone };
        assert_eq!(judged(&create, &empty).lost_ops, 0);
        let rename = acked(WorkKind::Rename, &[(0, 1)]);
        assert_eq!(judged(&rename, &found(WorkKind::Rename, &[OLD])).missing, 1);
        assert_eq!(judged(&rename, &found(WorkKind::Rename, &[NEW])).lost_ops, 0);
        assert_eq!(judged(&rename, &found(WorkKind::Rename, &[])).wrong_size, 1);
    }

    #[test]
    fn ignores_write_in_flight() {
        let mut ops = acked(WorkKind::Overwrite, &[(0, 1), (0, 2)]);
        ops[1].acked_ns = None;
        for (block, torn) in [(NEW, 0), (FoundBlock::Generation(2), 0), (FoundBlock::Other, 1)] {
            let row = judged(&ops, &found(WorkKind::Overwrite, &[block]));
            assert_eq!((row.acked_ops, row.lost_ops, row.torn_in_flight), (1, 0, torn));
        }
        // Anything acknowledged before must be there, or else the newer write.
        let row = judged(&ops, &found(WorkKind::Overwrite, &[OLD]));
        assert_eq!((row.lost_ops, row.old_data), (1, 1));
    }

    #[test]
    fn counts_unreadable_data_without_judging() {
        let ops = acked(WorkKind::Overwrite, &[(0, 1)]);
        let rows = judge_event(FACTS, &ops, None);
        assert_eq!((rows[0].acked_ops, rows[0].lost_ops), (1, 0));
        let missing = judge_event(FACTS, &ops, Some(&[]));
        assert_eq!((missing[0].lost_ops, missing[0].missing), (1, 1));
    }

    #[test]
    fn takes_promise_from_source() {
        assert!(is_promised(Durability::Sync, WorkKind::Rename, Access::FileSystem));
        assert!(!is_promised(Durability::None, WorkKind::SmallFile, Access::Nfs));
        // An NFS server has a new name on storage before it replies; a file system need not.
        assert!(is_promised(Durability::None, WorkKind::Create, Access::Nfs));
        assert!(!is_promised(Durability::Close, WorkKind::Create, Access::FileSystem));
    }

    /// Crash with five ops for each promise. Each tuple contains the promise, how many ops were
    /// lost, and how many crashes had the last write.
    fn crash(event: CrashEvent, promises: &[(Durability, u64, u32)]) -> MeasuredEvent {
        let mut measured =
            MeasuredEvent { last_writes_wanted: 2, ..MeasuredEvent::new(event, String::new()) };
        for (promise, lost_ops, last_writes) in promises {
            let file = TestFile { promise: *promise, ..file(WorkKind::SmallFile) };
            let row = DurabilityRow::new(event, &file);
            measured.rows.push(DurabilityRow { acked_ops: 5, lost_ops: *lost_ops, ..row });
            measured.count_last_writes(*promise, *last_writes);
        }
        measured
    }

    fn tier(promise: Durability, events: &[MeasuredEvent]) -> Tier {
        tiers(&[promise], events)[0].tier
    }

    #[test]
    fn tier_is_undecided_before_enough_crashes() {
        let once = crash(CrashEvent::KillServer, &[(Durability::Sync, 0, 1)]);
        let mut measured = once.clone();
        assert_eq!(tier(Durability::Sync, std::slice::from_ref(&measured)), Tier::Undecided);
        measured.add(&once);
        assert_eq!(measured.crashes, 2);
        assert_eq!(tier(Durability::Sync, std::slice::from_ref(&measured)), Tier::ServerCrash);
        assert_eq!(measured.last_writes_of(Durability::Sync).missed_permille, 250);
        assert_eq!(LastWrites::new(Durability::Sync, 3).missed_permille, 125);
        // A loss needs no further crashes.
        measured.rows[0].lost_ops = 1;
        measured.last_writes.clear();
        assert_eq!(tier(Durability::Sync, &[measured]), Tier::None);
    }

    #[test]
    fn a_crash_without_risk_shows_nothing() {
        let mut measured = crash(CrashEvent::KillServer, &[(Durability::Sync, 0, 2)]);
        assert_eq!(tier(Durability::Sync, std::slice::from_ref(&measured)), Tier::ServerCrash);
        measured.nothing_at_risk = Some("memory outlasts a restart".to_owned());
        assert_eq!(tier(Durability::Sync, std::slice::from_ref(&measured)), Tier::Unknown);
        assert_eq!(measured.harmless(), Some("memory outlasts a restart"));
        // A loss counts even if the crash was supposed to be harmless.
        measured.rows[0].lost_ops = 1;
        assert_eq!(measured.harmless(), None);
        assert_eq!(tier(Durability::Sync, &[measured]), Tier::None);
    }

    #[test]
    fn leaves_weaker_promise_undecided() {
        let kill = CrashEvent::KillServer;
        let cut = CrashEvent::PowerCut;
        let spared = crash(kill, &[(Durability::Sync, 0, 2), (Durability::Osync, 1, 0)]);
        let events = [spared, crash(cut, &[(Durability::Sync, 0, 2)])];
        assert_eq!(tier(Durability::Osync, &events), Tier::None);
        assert_eq!(tier(Durability::Sync, &events), Tier::Undecided);
        assert_eq!(stronger_loser(Durability::Sync, &events), Some(Durability::Osync));
        assert_eq!(stronger_loser(Durability::Osync, &events), None);
        // A loss of a weaker promise is no evidence against a stronger one.
        let usual = [crash(kill, &[(Durability::None, 5, 0), (Durability::Osync, 0, 2)])];
        assert_eq!(tier(Durability::None, &usual), Tier::None);
        assert_eq!(tier(Durability::Osync, &usual), Tier::ServerCrash);
        assert_eq!(stronger_loser(Durability::None, &usual), None);
    }

    #[test]
    fn never_rates_promise_above_stronger_one() {
        // Lost, survived too few crashes, survived: for three promises in each of two events.
        const STATES: [(u64, u32); 3] = [(1, 2), (0, 1), (0, 2)];
        const PROMISES: [Durability; 3] = [Durability::None, Durability::Sync, Durability::Osync];
        for case in 0..3_usize.pow(6) {
            let mut digits = (0..6).map(|place| STATES[case / 3_usize.pow(place) % 3]);
            let mut events = Vec::new();
            for event in [CrashEvent::KillServer, CrashEvent::PowerCut] {
                let mut states = Vec::new();
                for promise in PROMISES {
                    let (lost_ops, last_writes) = digits.next().unwrap();
                    states.push((promise, lost_ops, last_writes));
                }
                events.push(crash(event, &states));
            }
            let tiers = PROMISES.map(|promise| tier(promise, &events));
            for (weaker, stronger) in [(0, 1), (0, 2), (1, 2)] {
                let weaker = tiers[weaker];
                let stronger = tiers[stronger];
                let is_in_order = weaker.is_open() || weaker.strength() <= stronger.strength();
                assert!(is_in_order || weaker == Tier::None, "{tiers:?}: {events:?}");
            }
        }
    }

    #[test]
    fn knows_last_writer_only_when_idle() {
        let mut ops = acked(WorkKind::Overwrite, &[(0, 1), (1, 1)]);
        ops[1].op.file.promise = Durability::Osync;
        assert_eq!(last_writer(&ops), Some(Durability::Osync));
        ops[0].acked_ns = Some(900);
        assert_eq!(last_writer(&ops), Some(Durability::Sync));
        // Creating a name is not a write.
        ops[0].op.bytes = 0;
        assert_eq!(last_writer(&ops), None);
        ops[0].op.bytes = 4096;
        ops[1].acked_ns = None;
        assert_eq!((last_writer(&ops), last_writer(&[])), (None, None));
    }

    #[test]
    fn takes_tier_of_strongest_survived_event() {
        let measured = |event, lost_ops, unverified: bool| MeasuredEvent {
            unverified: unverified.then(|| "gone".to_owned()),
            ..crash(event, &[(Durability::Sync, lost_ops, 2)])
        };
        let tier = |events: &[MeasuredEvent]| tier(Durability::Sync, events);
        let kill = CrashEvent::KillServer;
        let cut = CrashEvent::PowerCut;
        assert_eq!(tier(&[]), Tier::Unknown);
        assert_eq!(tier(&[measured(kill, 0, false)]), Tier::ServerCrash);
        assert_eq!(tier(&[measured(kill, 1, false)]), Tier::None);
        assert_eq!(tier(&[measured(kill, 0, false), measured(cut, 0, false)]), Tier::PowerLoss);
        assert_eq!(tier(&[measured(kill, 0, false), measured(cut, 1, false)]), Tier::ServerCrash);
        assert_eq!(tier(&[measured(kill, 1, false), measured(cut, 0, false)]), Tier::None);
        assert_eq!(tier(&[measured(cut, 0, false)]), Tier::PowerLoss);
        assert_eq!(tier(&[measured(kill, 0, true)]), Tier::Unknown);
        let lose = CrashEvent::LoseServer;
        // This event happens only once, while ops are in flight.
        let once = crash(lose, &[(Durability::Sync, 0, 0)]);
        assert_eq!(tier(&[once]), Tier::ServerLoss);
        assert_eq!(tier(&[measured(lose, 1, false)]), Tier::None);
        assert_eq!(tier(&[measured(cut, 0, false), measured(lose, 1, false)]), Tier::PowerLoss);
        assert_eq!(tier(&[measured(cut, 1, false), measured(lose, 0, false)]), Tier::None);
        let client = CrashEvent::KillClient;
        assert_eq!(tier(&[measured(client, 1, false), measured(kill, 0, false)]), Tier::None);
        assert_eq!(tier(&[measured(client, 0, false)]), Tier::Unknown);
    }
}
