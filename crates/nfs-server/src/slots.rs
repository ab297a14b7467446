//! A loop's connections, by token.
//!
//! A token is a slot and its generation, so an event or a held-back reply for a connection that is
//! gone finds nothing, and a lookup costs an index.

/// Connections in slots; `T` is the connection type.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    first_token: u64,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    content: Option<Box<T>>,
}

const GENERATION_SHIFT: u32 = 32;

impl<T> Slots<T> {
    /// Creates an empty set whose tokens start at `first_token`.
    pub(crate) fn new(first_token: u64) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), first_token }
    }

    /// Number of connections.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The token of the next connection.
    pub(crate) fn next_token(&self) -> u64 {
        let (index, generation) = match self.free.last() {
            Some(index) => (*index, self.slots[*index as usize].generation),
            None => (self.slots.len() as u32, 0),
        };
        self.first_token + ((u64::from(generation) << GENERATION_SHIFT) | u64::from(index))
    }

    /// Adds a connection under [`Slots::next_token`].
    pub(crate) fn insert(&mut self, content: T) {
        let content = Some(Box::new(content));
        match self.free.pop() {
            Some(index) => self.slots[index as usize].content = content,
            None => self.slots.push(Slot { generation: 0, content }),
        }
    }

    /// Finds a connection.
    pub(crate) fn get_mut(&mut self, token: u64) -> Option<&mut T> {
        let number = token.checked_sub(self.first_token)?;
        let slot = self.slots.get_mut((number as u32) as usize)?;
        if u64::from(slot.generation) != number >> GENERATION_SHIFT {
            return None;
        }
        slot.content.as_deref_mut()
    }

    /// Drops a connection by its token.
    pub(crate) fn remove(&mut self, token: u64) {
        if self.get_mut(token).is_some() {
            let index = (token - self.first_token) as u32;
            self.slots[index as usize].vacate();
            self.free.push(index);
        }
    }

    /// Drops the connections for which `keep` returns false, and returns their number.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) -> usize {
        let before = self.free.len();
        for (index, slot) in (0..).zip(&mut self.slots) {
            if let Some(content) = &mut slot.content
                && !keep(content)
            {
                slot.vacate();
                self.free.push(index);
            }
        }
        self.free.len() - before
    }
}

impl<T> Slot<T> {
    fn vacate(&mut self) {
        self.content = None;
        // One bit less than there is room for, so that adding the first token can't overflow.
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<T: Copy>(slots: &mut Slots<T>, token: u64) -> Option<T> {
        slots.get_mut(token).copied()
    }

    #[test]
    fn rejects_tokens_of_reused_slots() {
        let mut slots = Slots::new(16);
        let insert = |slots: &mut Slots<char>, name| {
            let token = slots.next_token();
            slots.insert(name);
            token
        };
        let first = insert(&mut slots, 'a');
        let second = insert(&mut slots, 'b');
        assert_eq!((first, second, slots.len()), (16, 17, 2));
        slots.remove(first);
        slots.remove(first);
        assert_eq!((find(&mut slots, first), slots.len()), (None, 1));
        let third = insert(&mut slots, 'c');
        assert_eq!((third as u32, find(&mut slots, third)), (16, Some('c')));
        assert_eq!((find(&mut slots, first), find(&mut slots, second)), (None, Some('b')));
        assert!(find(&mut slots, 3).is_none() && find(&mut slots, 99).is_none());
    }

    #[test]
    fn retaining_drops_the_others() {
        let mut slots = Slots::new(0);
        (0..10).for_each(|number| slots.insert(number));
        assert_eq!((slots.retain(|number| *number % 3 == 0), slots.len()), (6, 4));
        assert_eq!((find(&mut slots, 3), find(&mut slots, 4)), (Some(3), None));
        assert_eq!((slots.retain(|_| false), slots.len()), (4, 0));
    }
}
