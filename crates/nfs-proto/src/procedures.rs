//! The procedures of NFS v2 and v3, which are numbered consecutively.
//!
//! One macro makes both enums, so that number, name and order of a procedure are on one line.

/// Makes `Procedure` from a doc comment and lines of number, name and `ONCE_ONLY` if it applies;
/// the numbers must be consecutive, starting with 0.
macro_rules! procedures {
    ($what:literal: $($(#[$doc:meta])* $name:ident = $number:literal,
        $shown:literal $(, $once_only:ident)?;)+) => {
        #[doc = $what]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Procedure {
            $($(#[$doc])* $name = $number,)+
        }

        impl Procedure {
            /// All procedures, in the order of their numbers.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$name,)+];

            /// Returns the procedure of this number, if there is one.
            pub fn from_number(number: u32) -> Option<Self> {
                Self::ALL.get(number as usize).copied()
            }

            /// Returns the number on the wire, from 0 without gaps.
            pub const fn number(self) -> u32 {
                self as u32
            }

            /// Returns the name in capitals, as nfsstat prints it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $shown,)+
                }
            }

            /// Returns true if a server has to keep the reply for a retransmission, since the call
            /// must not be executed twice. WRITE may be: writing the same data at the same offset
            /// changes nothing. **Source:** RFC 1813 section 4.4.
            pub const fn is_once_only(self) -> bool {
                // The word in the table becomes this constant: `false || ONCE_ONLY`.
                const ONCE_ONLY: bool = true;
                match self {
                    $(Self::$name => false $(|| $once_only)?,)+
                }
            }
        }

        impl std::fmt::Display for Procedure {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use procedures;
