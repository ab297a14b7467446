//! Names that come and go: CREATE makes what REMOVE takes, and ops on the same name stay in order.
//!
//! Slots are used in turn. Each block of requests has the same number of ops of a kind, so the n-th
//! make and take can be computed without counting. Half of the slots are filled beforehand, and a
//! pool has room for four blocks. So there is at least one whole block between a slot's make and
//! its take, regardless of the order of ops in a block. All ops of a slot go to the same worker.

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
    /// Creates a pool for the given makes and takes per block, with at least `slots_min` slots.
    pub(super) fn new(first: u32, makes: u32, takes: u32, slots_min: u32) -> Self {
        let slots = if makes.min(takes) == 0 { 0 } else { slots_min.max(4 * makes.min(takes)) };
        Self { first, slots: slots.next_multiple_of(2), makes, takes }
    }

    /// Returns the number of slots filled beforehand, starting with the first.
    pub(super) const fn filled(&self) -> u32 {
        self.slots / 2
    }

    /// Returns the number after the last slot. Files that are never removed are numbered from here.
    const fn end(&self) -> u32 {
        self.first + self.slots
    }

    /// Returns what make number `rank` of a block makes, and its slot if it has one.
    pub(super) const fn made_by(&self, block: u64, rank: u32) -> (u32, Option<u32>) {
        let removed_again = if self.takes < self.makes { self.takes } else { self.makes };
        // Makes begin after the slots filled beforehand and takes at the first slot, so the two go
        // around the pool at a distance of half a pool.
        if rank < removed_again {
            let slot = (self.filled() as u64 + block * removed_again as u64 + rank as u64)
                % self.slots as u64;
            return (self.first + slot as u32, Some(slot as u32));
        }
        let extra = block * (self.makes - removed_again) as u64 + (rank - removed_again) as u64;
        (self.end().saturating_add(extra as u32), None)
    }

    /// Returns the slot that take number `rank` of a block takes.
    pub(super) const fn taken_by(&self, block: u64, rank: u32) -> (u32, Option<u32>) {
        let slot = (block * self.takes as u64 + rank as u64) % self.slots as u64;
        (self.first + slot as u32, Some(slot as u32))
    }
}

/// Files that are renamed and renamed back, in turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RenamedFiles {
    first: u32,
    slots: u32,
    renames: u32,
}

impl RenamedFiles {
    /// Creates files for the given number of renames per block: twice as many, so that the two
    /// renames of a file are in different blocks.
    pub(super) const fn new(first: u32, renames: u32) -> Self {
        Self { first, slots: 2 * renames, renames }
    }

    pub(super) const fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the file of rename number `rank` of a block, its slot, and the direction: 0 there, 1
    /// back.
    pub(super) const fn renamed_by(&self, block: u64, rank: u32) -> (u32, u32, u64) {
        let number = block * self.renames as u64 + rank as u64;
        let slot = (number % self.slots as u64) as u32;
        (self.first + slot, slot, number / self.slots as u64 % 2)
    }
}
