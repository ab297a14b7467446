//! Settings with a fixed set of names.
//!
//! [`words`] generates an enum whose variants have one name each, the same in plans, flags, tables,
//! exports and results files, so that the spelling is always consistent.

/// Generates an enum whose variants have one name each, for plans, flags, tables and results.
macro_rules! words {
    ($(#[$outer:meta])* $type:ident { $($(#[$inner:meta])* $word:ident = $name:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $type {
            $($(#[$inner])* #[serde(rename = $name)] $word,)+
        }

        impl $type {
            /// All variants, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$word,)+];

            /// The names of all variants, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// Returns the name used in plans, flags and tables.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$word => $name,)+ }
            }

            /// Finds a variant by name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.name() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use words;
