//! Layouts of values on the wire, written down once for both directions.
//!
//! [`Wire`] decodes and encodes one value. The macros below implement it from a list of fields, in
//! the order of the RFC, so that encoder and decoder can't differ. Lists are in [`crate::lists`].
//! **Source:** RFC 4506 section 4.

use crate::error::DecodeError;
use crate::xdr::{Reader, Writer};

/// A value with one layout on the wire.
pub trait Wire<'a>: Sized {
    /// Decodes the value.
    ///
    /// # Errors
    /// [`DecodeError`] if it is incomplete or not valid.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Appends the value.
    fn encode(&self, writer: &mut Writer<'_>);
}

/// A value that starts with its length, which a message may limit: `where len <= MAX` in the tables
/// passed to the macros.
pub trait BoundedWire<'a>: Wire<'a> {
    /// Decodes the value.
    ///
    /// # Errors
    /// [`DecodeError`] if it is longer than `max` bytes or elements, or incomplete.
    fn decode_up_to(reader: &mut Reader<'a>, max: u32) -> Result<Self, DecodeError>;
}

/// Decodes one field of a table, with its limit if it has one.
macro_rules! read_field {
    ($reader:expr) => {
        $crate::wire::Wire::decode($reader)?
    };
    ($reader:expr, $max:expr) => {
        $crate::wire::BoundedWire::decode_up_to($reader, $max)?
    };
}

/// Creates a struct whose fields are decoded and encoded in order.
macro_rules! wire_struct {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)? {
            $($(#[$field_meta:meta])* $field:ident: $type:ty $(where len <= $max:expr)?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl<'a> $crate::wire::Wire<'a> for wire_struct!(@type 'a $name $(<$life>)?) {
            #[inline]
            fn decode(
                reader: &mut $crate::xdr::Reader<'a>,
            ) -> Result<Self, $crate::error::DecodeError> {
                Ok(Self { $($field: $crate::wire::read_field!(reader $(, $max)?),)* })
            }

            #[inline]
            fn encode(&self, writer: &mut $crate::xdr::Writer<'_>) {
                $($crate::wire::Wire::encode(&self.$field, writer);)*
            }
        }
    };
    (@type $given:lifetime $name:ident) => { $name };
    (@type $given:lifetime $name:ident <$life:lifetime>) => { $name<$given> };
}

/// Creates an enum of numbers; all others are an error that mentions `$what`.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident($what:literal) {
            $($(#[$variant_meta:meta])* $variant:ident = $number:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $number,)*
        }

        impl $name {
            /// Returns the value of this number.
            ///
            /// # Errors
            /// [`crate::DecodeError::BadValue`] if the RFC defines no such value.
            pub const fn from_number(number: u32) -> Result<Self, $crate::error::DecodeError> {
                Ok(match number {
                    $($number => Self::$variant,)*
                    value => {
                        return Err($crate::error::DecodeError::BadValue { what: $what, value });
                    }
                })
            }

            /// Returns the number on the wire.
            pub const fn number(self) -> u32 {
                self as u32
            }
        }

        impl $crate::wire::Wire<'_> for $name {
            #[inline]
            fn decode(
                reader: &mut $crate::xdr::Reader<'_>,
            ) -> Result<Self, $crate::error::DecodeError> {
                Self::from_number(reader.u32()?)
            }

            #[inline]
            fn encode(&self, writer: &mut $crate::xdr::Writer<'_>) {
                writer.u32(self.number());
            }
        }
    };
}

/// Creates a union whose discriminant is the first word of its encoding: `number =>
/// variant(fields)`. All other numbers are an error that mentions `$what`.
macro_rules! wire_choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident $(<$life:lifetime>)? ($what:literal) {
            $($(#[$variant_meta:meta])* $number:literal => $variant:ident
                $(($($item:ident: $item_type:ty),+))?
                $({ $($(#[$field_meta:meta])* $field:ident: $field_type:ty),+ $(,)? })?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name $(<$life>)? {
            $($(#[$variant_meta])* $variant
                $(($($item_type),+))? $({ $($(#[$field_meta])* $field: $field_type),+ })?,)*
        }

        impl<'a> $crate::wire::Wire<'a> for wire_choice!(@type 'a $name $(<$life>)?) {
            fn decode(
                reader: &mut $crate::xdr::Reader<'a>,
            ) -> Result<Self, $crate::error::DecodeError> {
                Ok(match reader.u32()? {
                    $($number => Self::$variant
                        $(($(<$item_type as $crate::wire::Wire<'_>>::decode(reader)?),+))?
                        $({ $($field: $crate::wire::Wire::decode(reader)?),+ })?,)*
                    value => {
                        return Err($crate::error::DecodeError::BadValue { what: $what, value });
                    }
                })
            }

            fn encode(&self, writer: &mut $crate::xdr::Writer<'_>) {
                match self {
                    $(Self::$variant $(($($item),+))? $({ $($field),+ })? => {
                        writer.u32($number);
                        $($($crate::wire::Wire::encode($item, writer);)+)?
                        $($($crate::wire::Wire::encode($field, writer);)+)?
                    })*
                }
            }
        }
    };
    (@type $given:lifetime $name:ident) => { $name };
    (@type $given:lifetime $name:ident <$life:lifetime>) => { $name<$given> };
}

/// Uses the special form if there is one.
macro_rules! special_or {
    ([] $usual:expr) => {
        $usual
    };
    ([$special:expr] $usual:expr) => {
        $special
    };
}

/// Creates an enum with one variant per code of `$code`, whose fields are its body; the code itself
/// is decoded by the caller. Bodies that are not a plain list of fields are written in a module of
/// their own with `decode` and `encode`: `by module`.
macro_rules! by_code {
    (
        $(#[$meta:meta])*
        pub enum $name:ident<'a>: $code:ident, $code_name:ident {
            $($(#[$variant_meta:meta])* $variant:ident
                $(($item:ident: $item_type:ty $(where len <= $item_max:expr)?))?
                $({ $($field:ident: $field_type:ty $(where len <= $field_max:expr)?),+ $(,)? })?
                $(by $module:ident)?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the fields are named as in the RFC")]
        pub enum $name<'a> {
            $($(#[$variant_meta])* $variant
                $(($item_type))? $({ $($field: $field_type),+ })?,)*
        }

        impl<'a> $name<'a> {
            /// Returns the code of the body.
            pub const fn $code_name(&self) -> $code {
                match self {
                    $(Self::$variant { .. } => $code::$variant,)*
                }
            }

            /// Decodes everything after the code, or returns `None` for a code without a variant.
            #[inline]
            pub(crate) fn decode_body(
                code: $code,
                reader: &mut $crate::xdr::Reader<'a>,
            ) -> Result<Option<Self>, $crate::error::DecodeError> {
                Ok(Some(match code {
                    $($code::$variant => $crate::wire::special_or!(
                        [$($module::decode(reader)?)?]
                        Self::$variant
                            $(($crate::wire::read_field!(reader $(, $item_max)?)))?
                            $({ $($field: $crate::wire::read_field!(reader $(, $field_max)?)),+ })?
                    ),)*
                    // Codes without a variant are operations that are known by number only: a
                    // server answers them NOTSUPP, a client counts their results as malformed.
                    #[allow(unreachable_patterns, reason = "a table may have all codes")]
                    _ => return Ok(None),
                }))
            }

            /// Appends everything after the code.
            #[allow(unused_variables, reason = "a special form takes the whole variant")]
            pub(crate) fn encode_body(&self, writer: &mut $crate::xdr::Writer<'_>) {
                match self {
                    $(Self::$variant $(($item))? $({ $($field),+ })? => $crate::wire::special_or!(
                        [$($module::encode(self, writer))?]
                        {
                            $($crate::wire::Wire::encode($item, writer);)?
                            $($($crate::wire::Wire::encode($field, writer);)+)?
                        }
                    ),)*
                }
            }
        }
    };
}

/// Creates the calls of a program with numbered procedures: `number => variant(arguments)`.
macro_rules! numbered_calls {
    (
        $(#[$meta:meta])*
        pub enum $name:ident<'a> {
            $($(#[$variant_meta:meta])* $number:literal => $variant:ident
                $(($item:ident: $type:ty $(where len <= $max:expr)?))?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name<'a> {
            $($(#[$variant_meta])* $variant $(($type))?,)*
        }

        impl<'a> $name<'a> {
            /// Returns the procedure number.
            pub const fn procedure(&self) -> u32 {
                match self {
                    $(Self::$variant { .. } => $number,)*
                }
            }

            /// Decodes the arguments of a procedure, which must be all that is left, or returns
            /// `None` if there is no such procedure.
            ///
            /// # Errors
            /// [`crate::DecodeError`]; the server answers GARBAGE_ARGS.
            pub fn decode(
                procedure: u32,
                mut reader: $crate::xdr::Reader<'a>,
            ) -> Result<Option<Self>, $crate::error::DecodeError> {
                let call = match procedure {
                    $($number => Self::$variant
                        $(($crate::wire::read_field!(&mut reader $(, $max)?)))?,)*
                    _ => return Ok(None),
                };
                reader.finish()?;
                Ok(Some(call))
            }

            /// Appends the arguments.
            pub fn encode(&self, writer: &mut $crate::xdr::Writer<'_>) {
                // Not every program has a call with arguments.
                let _ = &writer;
                match self {
                    $(Self::$variant $(($item))? => {
                        $($crate::wire::Wire::encode($item, writer);)?
                    })*
                }
            }
        }
    };
}

pub(crate) use {
    by_code, numbered_calls, read_field, special_or, wire_choice, wire_enum, wire_struct,
};

impl Wire<'_> for () {
    #[inline]
    fn decode(_: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }

    #[inline]
    fn encode(&self, _: &mut Writer<'_>) {}
}

impl Wire<'_> for u32 {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.u32()
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(*self);
    }
}

impl Wire<'_> for u64 {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.u64()
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(*self);
    }
}

impl Wire<'_> for bool {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.bool("a boolean")
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.bool(*self);
    }
}

/// Bytes of a fixed length, a multiple of four: verifiers and ids.
impl<const N: usize> Wire<'_> for [u8; N] {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.array::<N>().copied()
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.raw(self);
    }
}

/// A counted opaque, limited by the message that contains it.
impl<'a> Wire<'a> for &'a [u8] {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.opaque(u32::MAX)
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self);
    }
}

impl<'a> BoundedWire<'a> for &'a [u8] {
    #[inline]
    fn decode_up_to(reader: &mut Reader<'a>, max: u32) -> Result<Self, DecodeError> {
        reader.opaque(max)
    }
}

// XDR's optional data (`*T`) and an array of at most one element (`T<1>`) have the same encoding: a
// word that is 0 or 1, then the value. So the optional attributes of v3 and the optional arrays of
// v4.1 are the same type here. RFC 4506 section 4.19.
impl<'a, T: Wire<'a>> Wire<'a> for Option<T> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if reader.bool("an optional value")? { T::decode(reader).map(Some) } else { Ok(None) }
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.bool(self.is_some());
        if let Some(value) = self {
            value.encode(writer);
        }
    }
}

impl<'a, T: BoundedWire<'a>> BoundedWire<'a> for Option<T> {
    #[inline]
    fn decode_up_to(reader: &mut Reader<'a>, max: u32) -> Result<Self, DecodeError> {
        if reader.bool("an optional value")? {
            T::decode_up_to(reader, max).map(Some)
        } else {
            Ok(None)
        }
    }
}
