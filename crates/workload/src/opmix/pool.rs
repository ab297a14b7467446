//! Names that come and go: what CREATE makes REMOVE takes, and a name's ops never get mixed up.
//!
//! Slots are used in turn. In each block of requests a kind has the same number of ops, so the
//! n-th make and the n-th take need no counting. Half of the slots are filled beforehand, and a
//! pool has room for four blocks: between a slot's make and its take lies at least one whole
//! block, in whatever order the ops of a block come. All ops of a slot go to one worker.

/// Slots, numbered from `first` on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pool {
    first: u32,
    slots: u32,
    /// Makes and takes in each block of requests.
    makes: u32,
    takes: u32,
}

impl Pool {
    /// A pool for so many makes and takes in each block, with `slots_min` slots at least.
    pub(super) fn new(first: u32, makes: u32, takes: u32, slots_min: u32) -> Self {
        let slots = if makes.min(takes) == 0 { 0 } else { slots_min.max(4 * makes.min(takes)) };
        Self { first, slots: slots.next_multiple_of(2), makes, takes }
    }

    /// Slots that are filled beforehand: the first ones.
    pub(super) const fn filled(&self) -> u32 {
        self.slots / 2
    }

    /// The number behind the last slot; files that are never removed are numbered from here.
    const fn end(&self) -> u32 {
        self.first + self.slots
    }

    /// Returns what make number `rank` of a block makes, and the slot of it if it has one.
    pub(super) const fn made_by(&self, block: u64, rank: u32) -> (u32, Option<u32>) {
        let removed_again = if self.takes < self.makes { self.takes } else { self.makes };
        // Makes begin behind the slots that are filled beforehand, takes at the first slot: the two
        // go round the pool half a pool apart.
        if rank < removed_again {
            let slot = (self.filled() as u64 + block * removed_again as u64 + rank as u64)
                % self.slots as u64;
            return (self.first + slot as u32, Some(slot as u32));
        }
        let extra = block * (self.makes - removed_again) as u64 + (rank - removed_again) as u64;
        (self.end().saturating_add(extra as u32), None)
    }

    /// Returns what take number `rank` of a block takes: a slot.
    pub(super) const fn taken_by(&self, block: u64, rank: u32) -> (u32, Option<u32>) {
        let slot = (block * self.takes as u64 + rank as u64) % self.slots as u64;
        (self.first + slot as u32, Some(slot as u32))
    }
}

/// Files that are given another name and back, in turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Renamed {
    first: u32,
    slots: u32,
    renames: u32,
}

impl Renamed {
    /// Files for so many renames in each block: twice as many, so that the two ways of one file
    /// are in different blocks.
    pub(super) const fn new(first: u32, renames: u32) -> Self {
        Self { first, slots: 2 * renames, renames }
    }

    pub(super) const fn slots(&self) -> u32 {
        self.slots
    }

    /// The file of rename number `rank` of a block, its slot, and the way: 0 there, 1 back.
    pub(super) const fn renamed_by(&self, block: u64, rank: u32) -> (u32, u32, u64) {
        let number = block * self.renames as u64 + rank as u64;
        let slot = (number % self.slots as u64) as u32;
        (self.first + slot, slot, number / self.slots as u64 % 2)
    }
}
