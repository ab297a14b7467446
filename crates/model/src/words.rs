//! Settings that are one of a few words.
//!
//! [`words`] makes an enum whose variants have one name each, the same in plans, flags, tables,
//! exports and results files, so that no two places can spell it differently.

/// Makes an enum of words, each with the one name it has in plans, flags, tables and results.
macro_rules! words {
    ($(#[$outer:meta])* $type:ident { $($(#[$inner:meta])* $word:ident = $name:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $type {
            $($(#[$inner])* #[serde(rename = $name)] $word,)+
        }

        impl $type {
            /// All of them, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$word,)+];

            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// Names it as plans, flags and tables do.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$word => $name,)+ }
            }

            /// Finds one by its name.
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
