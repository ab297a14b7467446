//! `cargo xtask api`: writes down what others can use of the crates that are published for them.
//!
//! The listing of a crate is its sources without bodies, private items and documentation, in
//! `xtask/api/NAME.txt`. `cargo xtask tidy` makes it again and compares, so that no change of an
//! interface goes unseen. It is read from the sources and needs no compiler: macros are listed as
//! they are called, and `pub` items of private modules, too. So a listing may change though the
//! interface does not. What only a compiler knows, such as whether a type is `Send`, isn't seen.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use syn::Item;

use crate::repo;

mod items;
mod modules;
mod strangers;

/// A crate whose interface is kept.
pub struct Library {
    /// Name of its folder below `crates/`.
    pub name: &'static str,
    /// Modules of other crates of ours that it hands on by `pub use`, as files below `crates/`.
    handed_on: &'static [&'static str],
}

/// The crates that are worth having without the program.
pub const LIBRARIES: [Library; 3] = [
    Library { name: "nfs-proto", handed_on: &[] },
    Library { name: "nfs-client", handed_on: &[] },
    Library { name: "nfs-server", handed_on: &["model/src/server_fault.rs"] },
];

/// First lines of each listing.
const HEADER: &str = "\
// What others can use of this crate, without bodies: `cargo xtask api` writes it,
// and `cargo xtask tidy` compares it. No compiler reads this file.

";

impl Library {
    /// Returns the path of the listing from the root of the repository.
    pub fn listing_path(&self) -> String {
        format!("xtask/api/{}.txt", self.name)
    }

    /// Reads the interface from the sources.
    ///
    /// # Errors
    /// Where a file can't be read, or isn't Rust.
    pub fn read(&self) -> Result<Interface> {
        let crates = repo::root().join("crates");
        let items = items::keep_public(modules::read(&crates.join(self.name).join("src/lib.rs"))?);
        let mut handed_on = Vec::new();
        for path in self.handed_on {
            handed_on.push((*path, items::keep_public(modules::read(&crates.join(path))?)));
        }
        Ok(Interface { items, handed_on })
    }
}

/// The items that others can use of a crate.
pub struct Interface {
    items: Vec<Item>,
    handed_on: Vec<(&'static str, Vec<Item>)>,
}

impl Interface {
    /// Lists it as Rust.
    pub fn list(&self) -> String {
        let mut text = format!("{HEADER}{}", print(&self.items));
        for (path, items) in &self.handed_on {
            // Writing to a string never fails.
            let _ = write!(text, "\n// {path}\n\n{}", print(items));
        }
        text
    }

    /// Finds types that it names of crates that users needn't know; `crates` are their libraries.
    pub fn strangers(&self, crates: &[String]) -> BTreeSet<String> {
        let mut found = strangers::find(&self.items, crates);
        for (_, items) in &self.handed_on {
            found.extend(strangers::find(items, crates));
        }
        found
    }
}

fn print(items: &[Item]) -> String {
    prettyplease::unparse(&syn::File { shebang: None, attrs: Vec::new(), items: items.to_vec() })
}

/// Writes all listings and prints their paths.
///
/// # Errors
/// Where a file can't be read or written.
pub fn write() -> Result<bool> {
    for library in LIBRARIES {
        let path = library.listing_path();
        fs::create_dir_all(repo::root().join("xtask/api"))?;
        fs::write(repo::root().join(&path), library.read()?.list())
            .with_context(|| format!("cannot write {path}"))?;
        println!("{path}");
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = r"
        //! A crate.
        mod inner;
        pub use inner::Shown;
        pub const PORT: u16 = 2049;
        fn hidden() {}
        #[cfg(test)]
        mod tests;
    ";

    const INNER: &str = r"
        use model::{Proto, Unused};
        use std::fmt;
        /// A type.
        #[derive(Clone)]
        #[must_use]
        pub struct Shown { /// How.
            pub proto: Proto, kept: u32 }
        impl Shown {
            /// Makes one.
            pub fn new(port: u16) -> Self { hidden(port) }
            fn helper(&self) {}
        }
        impl fmt::Display for Shown { fn fmt(&self) { body() } }
        struct Private;
        impl Private { pub fn unseen() {} }
        words! { /// A word.
            One => 1 }
    ";

    fn interface(lib: &str, inner: &str) -> Interface {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("lib.rs", lib);
        write("inner.rs", inner);
        let items = items::keep_public(modules::read(&folder.path().join("lib.rs")).unwrap());
        Interface { items, handed_on: Vec::new() }
    }

    #[test]
    fn a_listing_has_what_users_see_and_nothing_else() {
        let text = interface(LIB, INNER).list();
        let want = "\
mod inner {
    use model::Proto;
    use std::fmt;
    #[derive(Clone)]
    pub struct Shown {
        pub proto: Proto,
        private: _,
    }
    impl Shown {
        pub fn new(port: u16) -> Self {}
    }
    impl fmt::Display for Shown {}
    words! {
        One => 1
    }
}
pub use inner::Shown;
pub const PORT: u16 = 2049;
";
        assert_eq!(text.strip_prefix(HEADER), Some(want));
    }

    #[test]
    fn every_change_that_users_notice_is_seen() {
        let before = interface(LIB, INNER).list();
        for (old, new) in [
            ("pub fn new(port: u16)", "pub fn new(port: u32)"),
            ("pub proto: Proto,", "pub proto: Proto, pub more: u8,"),
            (", kept: u32", ""),
            ("#[derive(Clone)]", ""),
            ("use model::{Proto", "use crate::{Other as Proto"),
            ("impl fmt::Display for Shown", "impl fmt::Debug for Shown"),
            ("One => 1", "One => 1, Two => 2"),
        ] {
            assert!(INNER.contains(old), "{old}");
            assert_ne!(before, interface(LIB, &INNER.replace(old, new)).list(), "{old}");
        }
        for (old, new) in [("/// A type.", "/// The type."), ("hidden(port)", "other(port)")] {
            assert_eq!(before, interface(LIB, &INNER.replace(old, new)).list(), "{old}");
        }
    }

    #[test]
    fn a_type_of_another_crate_is_found_unless_it_is_handed_on() {
        let crates = ["model".to_owned()];
        let find = |lib: &str, inner: &str| {
            interface(lib, inner).strangers(&crates).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(find(LIB, INNER), ["model::Proto"]);
        let inline = INNER.replace("proto: Proto", "proto: Option<model::nfs::Sec>");
        assert_eq!(find(LIB, &inline), ["model::nfs::Sec"]);
        for handed_on in ["pub use model::Proto;", "pub use model as words;"] {
            assert!(find(&format!("{LIB}{handed_on}"), INNER).is_empty(), "{handed_on}");
        }
    }

    #[test]
    fn a_module_without_a_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("lib.rs"), "mod gone;").unwrap();
        let error = modules::read(&folder.path().join("lib.rs")).err().unwrap();
        assert!(error.to_string().contains("the module `gone`"), "{error}");
    }
}
