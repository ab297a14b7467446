//! Writes the results of every NFS v3 procedure. **Source:** RFC 1813 sections 3.3.0 to 3.3.21.
//!
//! The mirror of the decoder beside it. [`encode_read_header`] stops before the payload.

use super::{
    Created, Fattr, Listing, ListingPlus, Object, ReadOk, Reply, Status, WccData, WriteOk,
};
use crate::xdr::Writer;

/// Appends the results of a successful READ up to its payload; the caller sends the `len` payload
/// bytes and [`crate::xdr::pad_len`] zero bytes after them.
pub fn encode_read_header(
    writer: &mut Writer<'_>,
    attributes: Option<&Fattr>,
    eof: bool,
    len: u32,
) {
    writer.u32(Status::Ok.number());
    Fattr::encode_optional(attributes, writer);
    writer.u32(len);
    writer.bool(eof);
    writer.u32(len);
}

impl Reply<'_> {
    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null => {}
            Self::Getattr { result } => {
                if let Some(attributes) = status(writer, result) {
                    attributes.encode(writer);
                }
            }
            Self::Setattr { wcc: change, result }
            | Self::Remove { dir: change, result }
            | Self::Rmdir { dir: change, result } => drop(after_change(writer, change, result)),
            Self::Lookup { dir, result } => encode_found(writer, dir.as_ref(), result),
            Self::Access { attributes, result } => {
                if let Some(granted) = after_attributes(writer, attributes.as_ref(), result) {
                    writer.u32(*granted);
                }
            }
            Self::Readlink { attributes, result } => {
                if let Some(target) = after_attributes(writer, attributes.as_ref(), result) {
                    writer.opaque(target);
                }
            }
            Self::Read { attributes, result } => encode_read(writer, attributes.as_ref(), result),
            Self::Write { wcc, result } => encode_written(writer, wcc, result),
            Self::Create { dir, result }
            | Self::Mkdir { dir, result }
            | Self::Symlink { dir, result }
            | Self::Mknod { dir, result } => encode_made(writer, dir, result),
            Self::Rename { from_dir, to_dir, result } => {
                after_change(writer, from_dir, result);
                to_dir.encode(writer);
            }
            Self::Link { attributes, dir, result } => {
                after_attributes(writer, attributes.as_ref(), result);
                dir.encode(writer);
            }
            Self::Readdir { dir, result } => {
                if let Some(page) = after_attributes(writer, dir.as_ref(), result) {
                    page.encode(writer);
                }
            }
            Self::Readdirplus { dir, result } => {
                if let Some(page) = after_attributes(writer, dir.as_ref(), result) {
                    page.encode(writer);
                }
            }
            Self::Fsstat { attributes, result } => {
                if let Some(stat) = after_attributes(writer, attributes.as_ref(), result) {
                    stat.encode(writer);
                }
            }
            Self::Fsinfo { attributes, result } => {
                if let Some(info) = after_attributes(writer, attributes.as_ref(), result) {
                    info.encode(writer);
                }
            }
            Self::Pathconf { attributes, result } => {
                if let Some(conf) = after_attributes(writer, attributes.as_ref(), result) {
                    conf.encode(writer);
                }
            }
            Self::Commit { wcc, result } => {
                if let Some(verifier) = after_change(writer, wcc, result) {
                    verifier.encode(writer);
                }
            }
        }
    }
}

impl Listing<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        self.verifier.encode(writer);
        self.entries.encode(writer);
        writer.bool(self.eof);
    }
}

impl ListingPlus<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        self.verifier.encode(writer);
        self.entries.encode(writer);
        writer.bool(self.eof);
    }
}

/// Appends what LOOKUP found; unlike elsewhere the directory's attributes come last.
fn encode_found(writer: &mut Writer<'_>, dir: Option<&Fattr>, result: &Result<Object, Status>) {
    if let Some(object) = status(writer, result) {
        object.file.encode(writer);
        Fattr::encode_optional(object.attributes.as_ref(), writer);
    }
    Fattr::encode_optional(dir, writer);
}

fn encode_read(
    writer: &mut Writer<'_>,
    attributes: Option<&Fattr>,
    result: &Result<ReadOk<'_>, Status>,
) {
    match result {
        Ok(ok) => {
            encode_read_header(writer, attributes, ok.eof, ok.data.len() as u32);
            writer.fixed(ok.data);
        }
        Err(_) => drop(after_attributes(writer, attributes, result)),
    }
}

fn encode_written(writer: &mut Writer<'_>, wcc: &WccData, result: &Result<WriteOk, Status>) {
    if let Some(ok) = after_change(writer, wcc, result) {
        writer.u32(ok.count);
        writer.u32(ok.committed.number());
        ok.verifier.encode(writer);
    }
}

/// Appends the status and returns what follows it on success.
fn status<'r, T>(writer: &mut Writer<'_>, result: &'r Result<T, Status>) -> Option<&'r T> {
    match result {
        Ok(ok) => {
            writer.u32(Status::Ok.number());
            Some(ok)
        }
        Err(status) => {
            debug_assert_ne!(*status, Status::Ok, "a failed reply needs a failure's status");
            writer.u32(status.number());
            None
        }
    }
}

fn after_attributes<'r, T>(
    writer: &mut Writer<'_>,
    attributes: Option<&Fattr>,
    result: &'r Result<T, Status>,
) -> Option<&'r T> {
    let ok = status(writer, result);
    Fattr::encode_optional(attributes, writer);
    ok
}

fn after_change<'r, T>(
    writer: &mut Writer<'_>,
    change: &WccData,
    result: &'r Result<T, Status>,
) -> Option<&'r T> {
    let ok = status(writer, result);
    change.encode(writer);
    ok
}

fn encode_made(writer: &mut Writer<'_>, dir: &WccData, result: &Result<Created, Status>) {
    if let Some(created) = status(writer, result) {
        writer.bool(created.file.is_some());
        if let Some(file) = &created.file {
            file.encode(writer);
        }
        Fattr::encode_optional(created.attributes.as_ref(), writer);
    }
    dir.encode(writer);
}
