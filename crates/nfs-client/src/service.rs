//! Names of a server's services, and what a failed call to one means for mounting.
//!
//! [`explain`] turns the failure of a call into the most specific [`MountError`]. **Source:** RFC
//! 5531 section 9 (PROG_UNAVAIL, PROG_MISMATCH), RFC 8881 section 2.7 (minor versions).

use std::io::ErrorKind;

use nfs_proto::client::ProtocolVersion;
use nfs_proto::{CallError, RpcError, Status, StreamError, mount1, mount3, nfs3, portmap};

pub(crate) use crate::error::MOUNT;
use crate::error::{CallFailure, MissingAnswer, MountError};
use crate::options::MountOptions;
use crate::transport::refuses_certificate;

pub(crate) const NFS: &str = "NFS";
pub(crate) const PORTMAPPER: &str = "the portmapper";

/// Returns the program and version of a service.
pub(crate) fn program_of(service: &'static str, options: &MountOptions) -> (u32, u32) {
    match (service, options.version) {
        (NFS, version) => (nfs3::PROGRAM, version.program_version()),
        // MOUNT 1 returns handles of NFS 2, and MOUNT 3 those of NFS 3.
        (MOUNT, ProtocolVersion::V2) => (mount1::PROGRAM, mount1::VERSION),
        (MOUNT, _) => (mount3::PROGRAM, mount3::VERSION),
        _ => (portmap::PROGRAM, portmap::VERSION),
    }
}

/// Converts the failure of a call to the most specific mount error.
pub(crate) fn explain(
    service: &'static str,
    options: &MountOptions,
    failure: CallFailure,
) -> MountError {
    match failure {
        CallFailure::TimedOut { server, timeout, silence: MissingAnswer::Nothing, .. } => {
            MountError::NoAnswer { service, server, timeout }
        }
        CallFailure::Interrupted { server, why, .. } => {
            MountError::Interrupted { service, server, why }
        }
        // With TLS 1.3 a server refuses a certificate after the handshake: the connection works at
        // first and is lost with the first call.
        CallFailure::Lost { server, reason, .. } if refuses_certificate(&reason) => {
            MountError::ClientCertificate { server, reason: reason.to_string() }
        }
        // Over UDP a closed port shows up as an error of the first call, not of connecting.
        CallFailure::Lost { server, reason, .. }
            if reason.kind() == ErrorKind::ConnectionRefused =>
        {
            MountError::Connect { service, server, reason }
        }
        CallFailure::Answered {
            server,
            error: CallError::Rpc(RpcError::ProgramMismatch { low, high }),
            ..
        } => {
            let (_, requested) = program_of(service, options);
            MountError::Version { service, server, requested, low, high }
        }
        CallFailure::Answered {
            server,
            error: CallError::Rpc(RpcError::ProgramUnavailable),
            ..
        } => MountError::NotOffered { service, server },
        CallFailure::Garbage {
            server, error: StreamError::RecordTooLong { bytes, .. }, ..
        } if text_of_mark(bytes).is_some() => {
            let begin = text_of_mark(bytes).unwrap_or_default();
            MountError::NotRpc { service, server, begin }
        }
        // All of version 4 is one RPC version: a missing minor version is reported in the
        // compound's status.
        CallFailure::Answered { server, error, .. }
            if error.status() == Some(Status::MinorVersMismatch) =>
        {
            MountError::MinorVersion { server, requested: options.version }
        }
        failure => MountError::Call { service, failure: Box::new(failure) },
    }
}

/// Returns the text that was mistaken for a record mark of this length: servers of other protocols
/// answer in text, such as `HTTP/1.1 400` or `SSH-2.0`.
fn text_of_mark(bytes: usize) -> Option<String> {
    let begin = u32::try_from(bytes).ok()?.to_be_bytes();
    let is_text = begin.iter().all(u8::is_ascii_graphic);
    is_text.then(|| String::from_utf8_lossy(&begin).into_owned())
}
