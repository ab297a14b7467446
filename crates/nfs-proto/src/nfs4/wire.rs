//! How the values of NFS v4 are laid out on the wire, written down once for both directions.
//!
//! [`Wire`] reads and writes one value. The macros below make it from a list of fields, in the
//! order of the RFC, so that encoder and decoder can't differ. [`List`] is a counted array that
//! was checked once and is left where it was received.
//! **Source:** RFC 4506, RFC 7531, RFC 5662, RFC 7863.

use std::marker::PhantomData;

use super::types::Time;
use crate::error::DecodeError;
use crate::limits::FILE_HANDLE_BYTES_MAX;
use crate::nfs3::{Device, FileHandle, FileType, StableHow, Verifier};
use crate::status::Status;
use crate::xdr::{Reader, Writer};

/// A value that is read and written in one way.
pub trait Wire<'a>: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// [`DecodeError`] when it is not all there or not allowed.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Appends the value.
    fn encode(&self, writer: &mut Writer<'_>);
}

/// Makes a struct whose fields are read and written in order.
macro_rules! wire_struct {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)? {
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl<'a> crate::nfs4::wire::Wire<'a> for wire_struct!(@type 'a $name $(<$life>)?) {
            #[inline]
            fn decode(
                reader: &mut crate::xdr::Reader<'a>,
            ) -> Result<Self, crate::error::DecodeError> {
                Ok(Self { $($field: crate::nfs4::wire::Wire::decode(reader)?,)* })
            }

            #[inline]
            fn encode(&self, writer: &mut crate::xdr::Writer<'_>) {
                $(crate::nfs4::wire::Wire::encode(&self.$field, writer);)*
            }
        }
    };
    (@type $given:lifetime $name:ident) => { $name };
    (@type $given:lifetime $name:ident <$life:lifetime>) => { $name<$given> };
}

/// Makes an enum of numbers, all others being an error that names `$what`.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident($what:literal) {
            $($(#[$variant_meta:meta])* $variant:ident = $number:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $number,)*
        }

        impl crate::nfs4::wire::Wire<'_> for $name {
            fn decode(
                reader: &mut crate::xdr::Reader<'_>,
            ) -> Result<Self, crate::error::DecodeError> {
                match reader.u32()? {
                    $($number => Ok(Self::$variant),)*
                    value => Err(crate::error::DecodeError::BadValue { what: $what, value }),
                }
            }

            fn encode(&self, writer: &mut crate::xdr::Writer<'_>) {
                writer.u32(*self as u32);
            }
        }
    };
}

/// Makes an enum with one variant for each operation code, whose fields are its body.
macro_rules! by_code {
    (
        $(#[$meta:meta])*
        pub enum $name:ident<'a>: $code:ident {
            $($(#[$variant_meta:meta])* $variant:ident $({ $($field:ident: $type:ty),+ $(,)? })?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the fields are named as in the RFC")]
        pub enum $name<'a> {
            $($(#[$variant_meta])* $variant $({ $($field: $type),+ })?,)*
        }

        impl<'a> $name<'a> {
            /// Returns the code of the operation.
            pub const fn code(&self) -> $code {
                match self {
                    $(Self::$variant { .. } => $code::$variant,)*
                }
            }

            /// Reads what follows the code, or returns `None` for a code without a variant.
            pub(super) fn decode_body(
                code: $code,
                reader: &mut crate::xdr::Reader<'a>,
            ) -> Result<Option<Self>, crate::error::DecodeError> {
                Ok(Some(match code {
                    $($code::$variant => Self::$variant $({
                        $($field: crate::nfs4::wire::Wire::decode(reader)?),+
                    })?,)*
                    #[allow(unreachable_patterns, reason = "a table may have all codes")]
                    _ => return Ok(None),
                }))
            }

            /// Appends what follows the code.
            pub(super) fn encode_body(&self, writer: &mut crate::xdr::Writer<'_>) {
                match self {
                    $(Self::$variant $({ $($field),+ })? => {
                        $($(crate::nfs4::wire::Wire::encode($field, writer);)+)?
                    })*
                }
            }
        }
    };
}

pub(crate) use {by_code, wire_enum, wire_struct};

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

/// A counted opaque, bounded by the message that it stands in.
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

impl Wire<'_> for FileHandle {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        FileHandle::decode_up_to(reader, FILE_HANDLE_BYTES_MAX)
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.as_slice());
    }
}

impl Wire<'_> for Verifier {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Verifier::decode(reader)
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.raw(&self.0);
    }
}

impl Wire<'_> for StableHow {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        StableHow::decode(reader)
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.number());
    }
}

impl Wire<'_> for Status {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.u32().map(Status::from_number)
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.number());
    }
}

/// Named attributes and their directory (8 and 9) are not among the types understood here.
impl Wire<'_> for FileType {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        FileType::from_number(reader.u32()?)
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.number());
    }
}

impl Wire<'_> for Device {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { major: reader.u32()?, minor: reader.u32()? })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.major);
        writer.u32(self.minor);
    }
}

impl Wire<'_> for Time {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { seconds: reader.u64()?.cast_signed(), nanos: reader.u32()? })
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.seconds.cast_unsigned());
        writer.u32(self.nanos);
    }
}

/// An array of at most one element.
impl<'a, T: Wire<'a>> Wire<'a> for Option<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.u32()? {
            0 => Ok(None),
            1 => T::decode(reader).map(Some),
            len => Err(DecodeError::TooLong { len, max: 1 }),
        }
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.bool(self.is_some());
        if let Some(value) = self {
            value.encode(writer);
        }
    }
}

/// A counted array whose elements were checked and are decoded again one by one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct List<'a, T> {
    count: u32,
    bytes: &'a [u8],
    element: PhantomData<fn() -> T>,
}

impl<'a, T: Wire<'a>> List<'a, T> {
    /// Writes elements to `scratch`, which is cleared, and returns the list of them.
    pub fn build(scratch: &'a mut Vec<u8>, elements: impl IntoIterator<Item = T>) -> Self {
        scratch.clear();
        let mut count = 0;
        for element in elements {
            element.encode(&mut Writer::new(scratch));
            count += 1;
        }
        Self { count, bytes: scratch, element: PhantomData }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Tells whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the elements.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| T::decode(&mut reader).ok())
    }
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self { count: 0, bytes: &[], element: PhantomData }
    }
}

impl<T> std::fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "List({} elements, {} bytes)", self.count, self.bytes.len())
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for List<'a, T> {
    /// Every element takes at least a word, so the loop ends with the message.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = reader.u32()?;
        let whole = reader.rest();
        for _ in 0..count {
            T::decode(reader)?;
        }
        let bytes = &whole[..whole.len() - reader.remaining()];
        Ok(Self { count, bytes, element: PhantomData })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.count);
        writer.raw(self.bytes);
    }
}
