//! Names of objects during a replay on a directory.
//!
//! A trace identifies files by handles, a directory by paths. [`Places`] tracks what steps create,
//! move and remove, and writes the path of an object below the top. All tables are allocated before
//! the start. At most two names per object are tracked, each of them in both tables.

use std::collections::HashMap;
use std::ffi::CStr;

use crate::tree::DirectoryEntry;

/// Maximum length of a path with its terminator. **Source:** PATH_MAX of linux/limits.h.
const PATH_BYTES: usize = 4096;

/// A path below the top of a tree.
#[derive(Debug)]
pub(crate) struct PathText {
    bytes: Box<[u8; PATH_BYTES]>,
    /// The path goes from here to the end, because it is written backwards, last name first.
    from: usize,
}

impl PathText {
    /// Creates an empty path.
    pub(crate) fn new() -> Self {
        Self { bytes: Box::new([0; PATH_BYTES]), from: PATH_BYTES - 1 }
    }

    /// Returns the path for system calls.
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes[self.from..]).unwrap_or(c".")
    }

    fn clear(&mut self) {
        self.from = PATH_BYTES - 1;
    }

    /// Prepends a name. Returns `None` if there is no space left.
    fn prepend(&mut self, name: &str) -> Option<()> {
        let is_last = self.from == PATH_BYTES - 1;
        let from = self.from.checked_sub(name.len() + usize::from(!is_last))?;
        self.bytes[from..from + name.len()].copy_from_slice(name.as_bytes());
        if !is_last {
            self.bytes[from + name.len()] = b'/';
        }
        self.from = from;
        Some(())
    }
}

/// Maps objects to names and names to objects.
#[derive(Debug)]
pub(crate) struct Places {
    by_place: HashMap<DirectoryEntry, u32>,
    by_object: Vec<[Option<DirectoryEntry>; 2]>,
    /// Objects whose last name was removed.
    is_gone: Vec<bool>,
    /// The object that represents the top itself.
    top: u32,
}

impl Places {
    /// Creates the tables for `objects` objects. The top has the number after the last one.
    pub(crate) fn new(objects: u32) -> Self {
        let count = objects as usize + 1;
        Self {
            by_place: HashMap::with_capacity(2 * count),
            by_object: vec![[None; 2]; count],
            is_gone: vec![false; count],
            top: objects,
        }
    }

    /// Records that a name refers to an object.
    pub(crate) fn bind(&mut self, place: DirectoryEntry, object: u32) {
        if object as usize >= self.by_object.len() {
            return;
        }
        if self.by_place.get(&place) == Some(&object) {
            return;
        }
        self.unbind(place);
        let known = &mut self.by_object[object as usize];
        let at = usize::from(known[0].is_some());
        if let Some(forgotten) = known[at].replace(place) {
            self.by_place.remove(&forgotten);
        }
        self.by_place.insert(place, object);
        self.is_gone[object as usize] = false;
    }

    /// Records that a name is gone. Returns its object if this was its last name.
    pub(crate) fn unbind(&mut self, place: DirectoryEntry) -> Option<u32> {
        let object = self.by_place.remove(&place)?;
        let known = &mut self.by_object[object as usize];
        if known[0] == Some(place) {
            known[0] = known[1];
        }
        known[1] = None;
        self.is_gone[object as usize] = known[0].is_none();
        if known[0].is_none() { Some(object) } else { None }
    }

    /// Records a rename. Returns the object that was replaced.
    pub(crate) fn rename(&mut self, from: DirectoryEntry, to: DirectoryEntry) -> Option<u32> {
        let object = self.by_place.get(&from).copied();
        let replaced = self.unbind(to);
        self.unbind(from);
        if let Some(object) = object {
            self.bind(to, object);
        }
        replaced
    }

    /// Returns true if the last name of an object was removed.
    pub(crate) fn is_gone(&self, object: u32) -> bool {
        self.is_gone.get(object as usize).copied().unwrap_or(false)
    }

    /// Returns true if an object has a known name.
    pub(crate) fn is_named(&self, object: u32) -> bool {
        object == self.top
            || self.by_object.get(object as usize).is_some_and(|known| known[0].is_some())
    }

    /// Writes the path of an object, or of a name in it. Returns `None` if it has no known name.
    pub(crate) fn write_path(
        &self,
        path: &mut PathText,
        object: u32,
        name: Option<&str>,
        names: &[String],
    ) -> Option<()> {
        path.clear();
        if let Some(name) = name {
            path.prepend(name)?;
        }
        let mut at = object;
        while at != self.top {
            let place = (*self.by_object.get(at as usize)?)[0]?;
            path.prepend(names.get(place.name as usize)?)?;
            at = place.dir;
        }
        Some(())
    }
}

/// Returns true if a name stays within its directory, since names in a trace may contain any bytes.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u32 = 4;

    fn place(dir: u32, name: u32) -> DirectoryEntry {
        DirectoryEntry { dir, name }
    }

    /// Returns a tree `a/b/c` of objects 0, 1 and 2.
    fn tree() -> Places {
        let mut places = Places::new(TOP);
        places.bind(place(TOP, 0), 0);
        places.bind(place(0, 1), 1);
        places.bind(place(1, 2), 2);
        places
    }

    fn path(places: &Places, object: u32, name: Option<&str>) -> Option<String> {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let mut path = PathText::new();
        places.write_path(&mut path, object, name, &names)?;
        Some(path.as_c_str().to_str().unwrap().to_owned())
    }

    #[test]
    fn follows_renamed_directories() {
        let mut places = tree();
        assert_eq!(path(&places, 2, None).unwrap(), "a/b/c");
        assert_eq!(path(&places, 2, Some("x")).unwrap(), "a/b/c/x");
        assert_eq!(path(&places, TOP, Some("x")).unwrap(), "x");
        assert_eq!(path(&places, TOP, None).unwrap(), "");
        places.rename(place(0, 1), place(TOP, 3));
        assert_eq!(path(&places, 2, None).unwrap(), "d/c");
        assert_eq!(path(&places, 3, None), None);
    }

    #[test]
    fn removes_file_with_last_name() {
        let mut places = tree();
        places.bind(place(TOP, 3), 2);
        assert_eq!(places.unbind(place(1, 2)), None);
        assert_eq!(path(&places, 2, None).unwrap(), "d");
        assert_eq!(places.unbind(place(TOP, 3)), Some(2));
        assert_eq!(path(&places, 2, None), None);
        // A rename replaces the object that had the name.
        places.bind(place(1, 2), 2);
        places.bind(place(1, 3), 3);
        assert_eq!(places.rename(place(1, 2), place(1, 3)), Some(3));
        assert_eq!((path(&places, 3, None), places.is_named(2)), (None, true));
    }

    #[test]
    fn rejects_long_or_escaping_paths() {
        let mut places = Places::new(1);
        places.bind(place(1, 0), 0);
        let names = ["x".repeat(4000)];
        let mut path = PathText::new();
        assert!(places.write_path(&mut path, 0, Some(&"y".repeat(90)), &names).is_some());
        assert!(places.write_path(&mut path, 0, Some(&"y".repeat(100)), &names).is_none());
        for name in ["", ".", "..", "a/b", "/", "a\0b"] {
            assert!(!is_plain(name), "{name:?}");
        }
        assert!(is_plain("...") && is_plain("a.b"));
    }
}
