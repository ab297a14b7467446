//! The byte stream of a connection, plain or over TLS.
//!
//! A [`Channel`] receives into a buffer, sends vectors and never blocks. With TLS it may have input
//! although its socket has none, and output that its owner has already handed over; it reports
//! both. A stream that TLS cannot continue is an error, and is counted.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nfs_proto::limits::MARK_BYTES;
use nfs_proto::record::Mark;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use rustls::ServerConnection;

use crate::counters::ThreadCounters;
use crate::limits::{BULK_BYTES, LOW_WATER_BYTES};
use crate::tls::TlsServer;

/// See the module.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TcpStream,
    tls: Option<Box<Tls>>,
    /// Bytes that the socket must have to be ready for reading.
    low_water_bytes: usize,
}

#[derive(Debug)]
struct Tls {
    session: ServerConnection,
    /// Decrypted bytes that have not been read yet.
    input_bytes: usize,
    greeted: bool,
}

impl Channel {
    /// Creates a plain channel.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, tls: None, low_water_bytes: 1 }
    }

    /// Starts TLS; the next bytes from the peer are its handshake.
    ///
    /// # Errors
    /// If the configuration cannot serve, which startup has already checked.
    pub(crate) fn begin_tls(&mut self, tls: &TlsServer) -> Result<(), rustls::Error> {
        let session = ServerConnection::new(tls.shared_config())?;
        self.tls = Some(Box::new(Tls { session, input_bytes: 0, greeted: false }));
        Ok(())
    }

    /// Whether there is input that does not make the socket ready.
    pub(crate) fn has_input(&self) -> bool {
        matches!(&self.tls, Some(tls) if tls.input_bytes > 0)
    }

    /// Whether there is output left to send that the owner has already handed over.
    pub(crate) fn has_output(&self) -> bool {
        matches!(&self.tls, Some(tls) if tls.session.wants_write())
    }

    /// Whether TLS has started and its handshake is not complete.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(&self.tls, Some(tls) if tls.session.is_handshaking())
    }

    /// Returns the next record mark in the socket without consuming it. With TLS it is not visible.
    pub(crate) fn peek_mark(&self) -> Option<Mark> {
        let mut mark = [0; MARK_BYTES];
        if self.tls.is_some() {
            return None;
        }
        let (_, count) = recv(&self.stream, &mut mark[..], RecvFlags::PEEK).ok()?;
        (count == MARK_BYTES).then(|| Mark::from_bytes(mark))
    }

    /// Receives bytes; 0 means end of stream.
    ///
    /// # Errors
    /// `AGAIN` if there are none now; any other error ends the connection.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        counters: &ThreadCounters,
    ) -> Result<usize, Errno> {
        let Some(tls) = &mut self.tls else {
            let count = rustix::io::read(&self.stream, buffer)?;
            counters.wire_in_bytes.add(count as u64);
            return Ok(count);
        };
        // Decrypted bytes first: the socket may have nothing more, and then nothing would wake this
        // connection for them. Only if there are none do we read the socket, once per turn of the
        // loop, until a whole TLS record has arrived or the socket is empty.
        loop {
            match tls.session.reader().read(buffer) {
                Ok(count) => {
                    tls.input_bytes = tls.input_bytes.saturating_sub(count);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => tls.input_bytes = 0,
                Err(_) => return Err(Errno::CONNRESET),
            }
            let count = tls.session.read_tls(&mut self.stream).map_err(|error| errno_of(&error))?;
            counters.wire_in_bytes.add(count as u64);
            let Ok(state) = tls.session.process_new_packets() else {
                counters.tls_failures.add(1);
                // rustls has queued an alert with the reason: send as much as the socket takes.
                let _ = tls.session.write_tls(&mut self.stream);
                return Err(Errno::PROTO);
            };
            tls.input_bytes = state.plaintext_bytes_to_read();
            if count == 0 && tls.input_bytes == 0 {
                return Ok(0);
            }
            if !tls.greeted && !tls.session.is_handshaking() {
                tls.greeted = true;
                counters.tls_handshakes.add(1);
            }
        }
    }

    /// Whether bytes come from the socket as they are.
    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Receives bytes of a plain channel into several buffers; 0 means end of stream.
    ///
    /// # Errors
    /// `AGAIN` if there are none now; any other error ends the connection.
    pub(crate) fn receive_scattered(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        counters: &ThreadCounters,
    ) -> Result<usize, Errno> {
        debug_assert!(self.is_plain(), "with TLS, bytes have to be decrypted");
        let count = rustix::io::readv(&self.stream, buffers)?;
        counters.wire_in_bytes.add(count as u64);
        Ok(count)
    }

    /// Drops up to as many bytes of a plain channel as `space` has, without copying them; 0 means
    /// end of stream.
    ///
    /// # Errors
    /// `AGAIN` if there are none now; any other error ends the connection.
    pub(crate) fn drop_bytes(
        &mut self,
        space: &mut [u8],
        counters: &ThreadCounters,
    ) -> Result<usize, Errno> {
        debug_assert!(self.is_plain(), "with TLS, bytes have to be decrypted");
        // For TCP, MSG_TRUNC leaves the buffer alone (tcp(7)).
        let (_, count) = recv(&self.stream, space, RecvFlags::TRUNC)?;
        counters.wire_in_bytes.add(count as u64);
        Ok(count)
    }

    /// After `count` bytes were dropped at once, of a payload of which `missing` are still to come,
    /// chooses how many of these have to arrive before the channel is ready again.
    pub(crate) fn await_bulk(&mut self, count: usize, missing: usize) {
        // Dropping is faster than sending. Waking up for every segment would cost both ends CPU
        // time, since the sender does the waking up. A peer that sends little by little is slow, or
        // the network is; then each byte counts as progress.
        let is_bulk = count >= BULK_BYTES && missing >= BULK_BYTES;
        self.set_low_water(if is_bulk { missing.min(LOW_WATER_BYTES) } else { 1 });
    }

    /// Makes a plain channel ready for reading only when it has this many bytes, or has ended.
    ///
    /// **Source:** socket(7), SO_RCVLOWAT.
    #[expect(unsafe_code, reason = "rustix has no SO_RCVLOWAT")]
    fn set_low_water(&mut self, bytes: usize) {
        if bytes == self.low_water_bytes {
            return;
        }
        let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        // SAFETY: the kernel reads the `size_of_val(&value)` bytes of `value`, which outlives the
        // call.
        let result = unsafe {
            libc::setsockopt(
                self.stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVLOWAT,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        if result == 0 {
            self.low_water_bytes = bytes;
        }
    }

    /// Makes the channel ready for any byte; returns false if it already was.
    pub(crate) fn reset_low_water(&mut self) -> bool {
        let was_higher = self.low_water_bytes > 1;
        self.set_low_water(1);
        was_higher
    }

    /// Hands bytes over and returns how many were taken.
    ///
    /// # Errors
    /// `AGAIN` if the socket takes none now; any other error ends the connection.
    pub(crate) fn send(
        &mut self,
        vectors: &[IoSlice<'_>],
        counters: &ThreadCounters,
    ) -> Result<usize, Errno> {
        let Some(tls) = &mut self.tls else {
            let mut control = SendAncillaryBuffer::default();
            let sent = sendmsg(&self.stream, vectors, &mut control, SendFlags::NOSIGNAL)?;
            counters.wire_out_bytes.add(sent as u64);
            return Ok(sent);
        };
        // rustls takes plaintext up to its own buffer limit and encrypts it at once. To the owner,
        // whatever it took has been sent and must not be handed over again, even if the socket is
        // full. `has_output` then keeps the connection waiting for the socket.
        let taken =
            tls.session.writer().write_vectored(vectors).map_err(|error| errno_of(&error))?;
        while tls.session.wants_write() {
            match tls.session.write_tls(&mut self.stream).map_err(|error| errno_of(&error)) {
                Ok(count) => counters.wire_out_bytes.add(count as u64),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
