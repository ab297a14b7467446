//! Layouts of values on the wire, written down once for both directions.
//!
//! [`Wire`] reads and writes one value. The macros below make it from a list of fields, in the
//! order of the RFC, so that encoder and decoder can't differ. [`List`] is a counted array and
//! [`Chain`] a linked one; both are checked once, left where they were received, and decoded again
//! element by element, so that iterating can't fail and nothing is allocated.
//! **Source:** RFC 4506 section 4.

use std::marker::PhantomData;

use crate::error::DecodeError;
use crate::xdr::{Reader, Writer, pad_len};

/// A value with one layout on the wire.
pub trait Wire<'a>: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// [`DecodeError`] when it is not all there or not allowed.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Appends the value.
    fn encode(&self, writer: &mut Writer<'_>);
}

/// A value that begins with its length, which a message may bound: `where len <= MAX` in the
/// tables that the macros take.
pub trait BoundedWire<'a>: Wire<'a> {
    /// Reads the value.
    ///
    /// # Errors
    /// [`DecodeError`] when it is longer than `max` bytes or not all there.
    fn decode_up_to(reader: &mut Reader<'a>, max: u32) -> Result<Self, DecodeError>;
}

/// Reads one field of a table, with its limit where it has one.
macro_rules! read_field {
    ($reader:expr) => {
        $crate::wire::Wire::decode($reader)?
    };
    ($reader:expr, $max:expr) => {
        $crate::wire::BoundedWire::decode_up_to($reader, $max)?
    };
}

/// Makes a struct whose fields are read and written in order.
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

/// Makes an enum of numbers, all others being an error that names `$what`.
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
            /// [`crate::DecodeError::BadValue`] when the RFC defines no such value.
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

/// Makes a union whose discriminant is the first word of its encoding: `number => variant(fields)`.
/// All other numbers are an error that names `$what`.
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

/// Takes the special form where there is one.
macro_rules! special_or {
    ([] $usual:expr) => {
        $usual
    };
    ([$special:expr] $usual:expr) => {
        $special
    };
}

/// Makes an enum with one variant for each code of `$code`, whose fields are its body; the code
/// itself is read by the caller. What no list of fields can say is written in a module of its own
/// with `decode` and `encode`: `by module`.
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
            /// Returns what the body belongs to.
            pub const fn $code_name(&self) -> $code {
                match self {
                    $(Self::$variant { .. } => $code::$variant,)*
                }
            }

            /// Reads what follows the code, or returns `None` for a code without a variant.
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

            /// Appends what follows the code.
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

/// Makes the calls of a program with numbered procedures: `number => variant(arguments)`.
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

            /// Reads the arguments of a procedure, which must be all that is left, or returns
            /// `None` when there is no such procedure.
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

impl<'a> BoundedWire<'a> for &'a [u8] {
    #[inline]
    fn decode_up_to(reader: &mut Reader<'a>, max: u32) -> Result<Self, DecodeError> {
        reader.opaque(max)
    }
}

// XDR's optional data (`*T`) and an array of at most one element (`T<1>`) have the same encoding: a
// word that is 0 or 1, then the value. The attributes of v3, which may be absent, and the optional
// arrays of v4.1 are therefore one type here. RFC 4506 section 4.19.
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
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        // The count comes from the network and reserves nothing. Every element takes at least a
        // word, so that a count of four billion ends the loop where the message ends.
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

/// A linked list, as directory entries are sent: the word 1 before each element, 0 after the last.
/// The elements were checked and are decoded again one by one.
#[derive(Debug)]
pub struct Chain<'a, T> {
    /// All elements with the word before each; the word that ends the list is left out, so that
    /// what a [`ChainBuilder`] has written and what was received are the same bytes.
    bytes: &'a [u8],
    element: PhantomData<fn() -> T>,
}

impl<'a, T: Wire<'a>> Chain<'a, T> {
    /// Iterates over the elements.
    pub fn iter(&self) -> ChainIter<'a, T> {
        ChainIter { reader: Reader::new(self.bytes), element: PhantomData }
    }
}

impl<T> Clone for Chain<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Chain<'_, T> {}

impl<T> PartialEq for Chain<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for Chain<'_, T> {}

impl<T> Default for Chain<'_, T> {
    fn default() -> Self {
        Self { bytes: &[], element: PhantomData }
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Chain<'a, T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let whole = reader.rest();
        loop {
            let len = whole.len() - reader.remaining();
            if !reader.bool("entry_follows")? {
                return Ok(Self { bytes: &whole[..len], element: PhantomData });
            }
            T::decode(reader)?;
        }
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.raw(self.bytes);
        writer.bool(false);
    }
}

impl<'a, T: Wire<'a>> IntoIterator for &Chain<'a, T> {
    type Item = T;
    type IntoIter = ChainIter<'a, T>;

    fn into_iter(self) -> ChainIter<'a, T> {
        self.iter()
    }
}

/// Iterates over the elements of a [`Chain`].
#[derive(Debug, Clone)]
pub struct ChainIter<'a, T> {
    reader: Reader<'a>,
    element: PhantomData<fn() -> T>,
}

impl<'a, T: Wire<'a>> Iterator for ChainIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.reader.u32().ok()?;
        T::decode(&mut self.reader).ok()
    }
}

/// An entry of a directory that can be appended to a page.
pub trait PageEntry {
    /// Returns the bytes of id, name and cookie, which `dircount` bounds.
    fn name_bytes(&self) -> usize;

    /// Appends the entry.
    fn append_to(&self, writer: &mut Writer<'_>);
}

/// Returns the bytes of a counted opaque of `len` bytes.
pub(crate) const fn opaque_bytes(len: usize) -> usize {
    4 + len + pad_len(len)
}

/// Builds a page of a directory within the sizes that its caller has requested.
///
/// READDIR bounds the whole reply (`count`, `maxcount`), READDIRPLUS and v4 also the part of it
/// that is names (`dircount`). A page that is too small for even one entry is an error of its own
/// (TOOSMALL), which the caller answers when nothing was appended and entries are left. **Source:**
/// RFC 1813 sections 3.3.16 and 3.3.17, RFC 7530 section 16.24.
#[derive(Debug)]
pub struct ChainBuilder<'b> {
    out: &'b mut Vec<u8>,
    budget: usize,
    names_budget: usize,
}

impl<'b> ChainBuilder<'b> {
    /// Starts an empty page in `scratch`, which is cleared: at most `budget` bytes of entries, and
    /// `names_budget` bytes of names.
    pub(crate) fn with_budget(scratch: &'b mut Vec<u8>, budget: u32, names_budget: usize) -> Self {
        scratch.clear();
        Self { out: scratch, budget: budget as usize, names_budget }
    }

    /// Appends an entry, or returns false and changes nothing when it does not fit.
    pub fn push(&mut self, entry: &impl PageEntry) -> bool {
        let start = self.out.len();
        let names = entry.name_bytes();
        // `dircount` is a hint, and clients send tiny ones: it never refuses the first entry, or
        // such a client would be answered TOOSMALL for ever.
        if start > 0 && names > self.names_budget {
            return false;
        }
        // How long an entry is with its attributes is known once it is written; one that is too
        // long is cut off again. That costs one entry a page.
        let mut writer = Writer::new(self.out);
        writer.bool(true);
        entry.append_to(&mut writer);
        if self.out.len() > self.budget {
            self.out.truncate(start);
            return false;
        }
        self.names_budget = self.names_budget.saturating_sub(names);
        true
    }

    /// Tells whether nothing was appended; with entries left, the status is TOOSMALL.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the entries.
    pub fn finish<T>(self) -> Chain<'b, T> {
        Chain { bytes: self.out, element: PhantomData }
    }
}
