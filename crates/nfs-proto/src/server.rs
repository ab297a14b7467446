//! The server's side of a connection: from stream bytes to requests, from replies to bytes.
//!
//! [`Session`] assembles records and decodes [`Request`]s in place. It answers requests itself that
//! no program needs to see (an unknown program, version or procedure, garbage, a bad credential).
//! Free functions append replies to the caller's vector, since one reply may overtake another; the
//! payload of a READ can be sent from where it is. **Source:** RFC 5531 sections 9 and 11.

mod write_payload;

use crate::error::{DecodeError, StreamError};
use crate::limits::RECORD_BYTES_MAX;
use crate::nfs2;
use crate::nfs3::{self, Fattr};
use crate::program::{Call, OfferedPrograms, Reply};
use crate::record::{self, Inbox};
use crate::rpc::ProcedureId;
use crate::rpc::{
    AUTH_BAD_CREDENTIAL, AUTH_NONE, CallHeader, Credential, MESSAGE_REPLY, RPC_VERSION,
    ReplyHeader, RpcError, STARTTLS, is_reply,
};
use crate::xdr::{Reader, Writer, pad_len};

use write_payload::PayloadPosition;
pub use write_payload::WritePayload;

/// A request with views into the session's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The transaction id to reply with.
    pub xid: u32,
    /// The caller, as claimed; none if the request was refused because of its credential.
    pub credential: Credential<'a>,
    /// The call, or why the session refused it; a refusal has already been answered.
    pub body: Result<Call<'a>, RpcError>,
    /// The whole call as received, without fragment marks.
    pub record: &'a [u8],
}

/// A message from the peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A request to answer.
    Request(Request<'a>),
    /// The reply to a call that the server made over this connection, undecoded.
    Reply(&'a [u8]),
}

/// The receiving half of one connection.
///
/// To feed it: get [`Session::free_space`], receive into it, call [`Session::mark_filled`], then
/// [`Session::next_request`] until it returns `None`.
///
/// # Examples
///
/// A call as a client encodes it, and how a server answers:
/// ```
/// use nfs_proto::program::{Call, OfferedPrograms};
/// use nfs_proto::rpc::{CallHeader, Credential, RPC_VERSION};
/// use nfs_proto::server::{Session, encode_nfs3_reply};
/// use nfs_proto::xdr::Writer;
/// use nfs_proto::{nfs3, record};
///
/// let mut sent = Vec::new();
/// let mark = record::begin(&mut sent);
/// let header = CallHeader {
///     xid: 7,
///     rpc_version: RPC_VERSION,
///     program: nfs3::PROGRAM,
///     version: nfs3::VERSION,
///     procedure: nfs3::Procedure::Null.number(),
///     credential: Ok(Credential::None),
/// };
/// header.encode(&mut Writer::new(&mut sent));
/// record::end(&mut sent, mark, 0);
///
/// let mut session = Session::new(OfferedPrograms::ALL);
/// session.handle_input(&sent);
/// let mut answer = Vec::new();
/// let request = session.next_request(&mut answer)?.expect("the call is complete");
/// assert_eq!(request.body, Ok(Call::Nfs3(nfs3::Call::Null)));
/// encode_nfs3_reply(&mut answer, request.xid, &nfs3::Reply::Null);
/// assert_eq!(answer[4..8], 7_u32.to_be_bytes());
/// # Ok::<(), nfs_proto::StreamError>(())
/// ```
#[derive(Debug)]
pub struct Session {
    inbox: Inbox,
    offered: OfferedPrograms,
}

impl Session {
    /// Creates a session that offers these programs.
    pub fn new(offered: OfferedPrograms) -> Self {
        Self::with_record_limit(offered, RECORD_BYTES_MAX)
    }

    /// Creates a session that closes the connection on records above `record_bytes_max` bytes.
    pub fn with_record_limit(offered: OfferedPrograms, record_bytes_max: usize) -> Self {
        Self { inbox: Inbox::without_buffer(record_bytes_max), offered }
    }

    /// Returns the length of the current buffer.
    pub fn capacity(&self) -> usize {
        self.inbox.capacity()
    }

    /// Returns the buffer size needed for the current record; see [`Inbox::bytes_needed`].
    pub fn bytes_needed(&self) -> usize {
        self.inbox.bytes_needed()
    }

    /// Takes over a longer buffer to receive into; see [`Inbox::adopt_buffer`].
    pub fn adopt_buffer(&mut self, buffer: &mut Vec<u8>) {
        self.inbox.adopt_buffer(buffer);
    }

    /// Gives the buffer away if little is in it; see [`Inbox::release_buffer`].
    pub fn release_buffer(&mut self, keep_bytes_max: usize) -> Option<Vec<u8>> {
        self.inbox.release_buffer(keep_bytes_max)
    }

    /// Returns free space of at least `min` bytes to receive into.
    pub fn free_space(&mut self, min: usize) -> &mut [u8] {
        self.inbox.free_space(min)
    }

    /// Reports that `len` bytes of [`Session::free_space`] were received.
    pub fn mark_filled(&mut self, len: usize) {
        self.inbox.mark_filled(len);
    }

    /// Copies bytes that were received elsewhere.
    pub fn handle_input(&mut self, bytes: &[u8]) {
        self.inbox.push(bytes);
    }

    /// Takes the payload of a WRITE out of the call that is arriving, if `accept` returns something
    /// for it and for the bytes of it that have arrived; returns that.
    ///
    /// The caller receives the missing bytes of the payload from the stream, and must not ask for
    /// a request before that. The next one is then this WRITE, with all of its operations but
    /// without data, as if its length were 0. With several WRITEs in a compound, it is the first.
    /// Returns `None` for all other calls, and if no byte of the payload is missing.
    pub fn detach_payload<T>(
        &mut self,
        accept: impl FnOnce(WritePayload, &[u8]) -> Option<T>,
    ) -> Option<T> {
        let (record_len, start) = self.inbox.arriving_record()?;
        let position = write_payload::find(start, record_len, self.offered)?;
        let PayloadPosition { payload, at, lengths } = position;
        let arrived = &start[at..];
        if arrived.len() >= payload.len {
            return None;
        }
        let accepted = accept(payload, arrived)?;
        self.inbox.cut_out(at, payload.len, lengths);
        Some(accepted)
    }

    /// Returns the next request, or `None` if more bytes are needed. The answer to a refused
    /// request is appended to `out`.
    ///
    /// # Errors
    /// [`StreamError`]: close the connection.
    #[inline]
    pub fn next_request(&mut self, out: &mut Vec<u8>) -> Result<Option<Request<'_>>, StreamError> {
        match self.next_message(out)? {
            Some(Message::Request(request)) => Ok(Some(request)),
            Some(Message::Reply(_)) => Err(StreamError::NotRpc(DecodeError::BadValue {
                what: "RPC message type",
                value: MESSAGE_REPLY,
            })),
            None => Ok(None),
        }
    }

    /// Returns the next message, or `None` if more bytes are needed: a request as in
    /// [`Session::next_request`], or a reply to a call of the server.
    ///
    /// # Errors
    /// [`StreamError`]: close the connection.
    #[inline]
    pub fn next_message(&mut self, out: &mut Vec<u8>) -> Result<Option<Message<'_>>, StreamError> {
        let offered = self.offered;
        let Some(record) = self.inbox.next_record()? else { return Ok(None) };
        let request = match decode_request(record, offered) {
            Ok(request) => request,
            // Only a record that is not a call is looked at again: on a v4.1 connection both
            // directions may carry calls, and the second word distinguishes them from replies (RFC
            // 8881 section 2.10.3.1).
            Err(_) if is_reply(record) => return Ok(Some(Message::Reply(record))),
            Err(error) => return Err(StreamError::NotRpc(error)),
        };
        if let Err(refusal) = request.body {
            encode_refusal(out, request.xid, refusal);
        }
        Ok(Some(Message::Request(request)))
    }

    /// Returns the number of fragments received.
    pub fn fragments(&self) -> u64 {
        self.inbox.fragments()
    }

    /// Returns true if the connection is in the middle of a record.
    pub fn is_partial(&self) -> bool {
        self.inbox.is_partial()
    }
}

/// Decodes one record, or one datagram, as a request; a refusal is in its body.
///
/// # Errors
/// [`DecodeError`] if it is not a call, so that there is nothing to answer.
#[inline]
pub fn decode_request(record: &[u8], offered: OfferedPrograms) -> Result<Request<'_>, DecodeError> {
    let mut reader = Reader::new(record);
    let header = CallHeader::decode(&mut reader)?;
    let xid = header.xid;
    let refuse = |error| {
        let credential = Credential::None;
        Ok(Request { xid, credential, body: Err(error), record })
    };
    // Refusals are checked from the outside in, in the order of RFC 5531 section 9: the version of
    // RPC, the credential, then program, version and procedure. Bytes that are not a call have no
    // xid to answer to, and end the connection.
    if header.rpc_version != RPC_VERSION {
        return refuse(RpcError::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION });
    }
    let Ok(credential) = header.credential else {
        return refuse(RpcError::Authentication(AUTH_BAD_CREDENTIAL));
    };
    let id = ProcedureId::new(header.program, header.version, header.procedure);
    Ok(Request { xid, credential, body: Call::decode(offered, id, reader), record })
}

/// Appends a framed reply to `out`.
pub fn encode_reply(out: &mut Vec<u8>, xid: u32, reply: &Reply<'_>) {
    let mark = record::begin(out);
    let mut writer = Writer::new(out);
    ReplyHeader { xid, result: Ok(()) }.encode(&mut writer);
    reply.encode(&mut writer);
    record::end(out, mark, 0);
}

/// Starts a framed reply in `out`, up to its results: the caller appends them, then calls
/// [`end_reply`] with the returned mark. That allows writing a compound's results in place.
pub fn begin_reply(out: &mut Vec<u8>, xid: u32) -> usize {
    let mark = record::begin(out);
    ReplyHeader { xid, result: Ok(()) }.encode(&mut Writer::new(out));
    mark
}

/// Ends a framed reply of which `external_bytes`, including padding, are sent separately.
pub fn end_reply(out: &mut [u8], mark: usize, external_bytes: usize) {
    record::end(out, mark, external_bytes);
}

/// Appends a framed NFS v3 reply to `out`.
pub fn encode_nfs3_reply(out: &mut Vec<u8>, xid: u32, reply: &nfs3::Reply<'_>) {
    let mark = begin_reply(out, xid);
    reply.encode(&mut Writer::new(out));
    end_reply(out, mark, 0);
}

/// Appends the framed answer to an AUTH_TLS probe: everything after it is TLS. **Source:** RFC 9289
/// section 4.1.
pub fn encode_starttls_reply(out: &mut Vec<u8>, xid: u32) {
    let mark = record::begin(out);
    let mut writer = Writer::new(out);
    // A client recognizes TLS only by the verifier's body, which is why this reply is not written
    // by `ReplyHeader`. Reply, accepted, a verifier of AUTH_NONE with the token, success.
    for word in [xid, 1, 0, AUTH_NONE] {
        writer.u32(word);
    }
    writer.opaque(STARTTLS);
    writer.u32(0);
    record::end(out, mark, 0);
}

/// Appends a framed refusal to `out`; also for planned faults, such as SYSTEM_ERR.
pub fn encode_refusal(out: &mut Vec<u8>, xid: u32, refusal: RpcError) {
    let mark = record::begin(out);
    ReplyHeader { xid, result: Err(refusal) }.encode(&mut Writer::new(out));
    record::end(out, mark, 0);
}

/// Appends a framed reply to a READ of `len` bytes without its payload, and returns how many zero
/// bytes the caller has to send after the payload.
pub fn encode_read_reply_header(
    out: &mut Vec<u8>,
    xid: u32,
    attributes: Option<&Fattr>,
    eof: bool,
    len: u32,
) -> usize {
    let pad = pad_len(len as usize);
    let mark = record::begin(out);
    let mut writer = Writer::new(out);
    ReplyHeader { xid, result: Ok(()) }.encode(&mut writer);
    nfs3::encode_read_header(&mut writer, attributes, eof, len);
    record::end(out, mark, len as usize + pad);
    pad
}

/// Appends a framed reply to a READ of NFS v2 of `len` bytes without its payload, and returns how
/// many zero bytes the caller has to send after the payload.
pub fn encode_nfs2_read_reply_header(
    out: &mut Vec<u8>,
    xid: u32,
    attributes: &nfs2::Fattr,
    len: u32,
) -> usize {
    let pad = pad_len(len as usize);
    let mark = record::begin(out);
    let mut writer = Writer::new(out);
    ReplyHeader { xid, result: Ok(()) }.encode(&mut writer);
    nfs2::encode_read_header(&mut writer, attributes, len);
    record::end(out, mark, len as usize + pad);
    pad
}
