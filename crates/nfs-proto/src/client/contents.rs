//! Parts of an event that are decoded on demand: listings, link targets, data and holes.
//!
//! These are large or rare, so an [`Event`] contains the bytes of its reply and not the values.
//! They were checked when the reply was received and are decoded again here.

use super::dialect;
use super::event::Event;
use super::listing::Listing;
use crate::error::DecodeError;
use crate::nfs4::Segment;

#[cfg(doc)]
use super::event::Outcome;

impl<'a> Event<'a> {
    /// Decodes the page of an [`Outcome::Listing`].
    ///
    /// # Errors
    /// [`DecodeError`] if this is the event of another operation.
    pub fn listing(&self) -> Result<Listing<'a>, DecodeError> {
        dialect::decode_listing(self.version, self.kind, self.body)
    }

    /// Decodes the target of an [`Outcome::Target`].
    ///
    /// # Errors
    /// [`DecodeError`] if this is the event of another operation.
    pub fn target(&self) -> Result<&'a [u8], DecodeError> {
        dialect::decode_target(self.version, self.kind, self.body)
    }

    /// Decodes the data and holes of an [`Outcome::Segments`], in order.
    ///
    /// # Errors
    /// [`DecodeError`] if this is the event of another operation.
    pub fn segments(&self) -> Result<impl Iterator<Item = Segment<'a>> + use<'a>, DecodeError> {
        dialect::decode_segments(self.kind, self.body).map(|all| all.iter())
    }
}
