//! An encrypted and authenticated socket.
//!
//! [`Sealer`] writes and [`Opener`] reads, each on its own thread; they share a [`Link`]. Data is
//! sent in records: two bytes of length followed by that much ciphertext. Records are numbered per
//! direction, so a record that was modified, dropped, repeated or reordered fails to open. A record
//! has at most [`RECORD_BYTES_MAX`] bytes, and nothing in it is used before it has been opened.
//!
//! **Source:** the Noise Protocol Framework, revision 34, sections 3 and 11.4.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use snow::StatelessTransportState as Keys;

/// Maximum plaintext of a record, in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Bytes that encryption adds to the plaintext: the tag.
const TAG_BYTES: usize = 16;

/// Size of a read, in bytes. Most records are smaller.
const READ_BYTES: usize = 4 << 10;

/// Maximum size of a record without its length, in bytes.
pub(super) const RECORD_BYTES_MAX: usize = TEXT_BYTES_MAX + TAG_BYTES;

/// A socket and the keys that both sides agreed on.
pub(crate) struct Link {
    socket: TcpStream,
    keys: Keys,
}

impl Link {
    pub(super) fn new(socket: TcpStream, keys: Keys) -> Arc<Self> {
        Arc::new(Self { socket, keys })
    }

    /// Returns the socket, so that its options can be set.
    pub(super) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Shuts down both directions immediately. Blocked reads and writes return.
    pub(crate) fn cut(&self) {
        // It may already be closed.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Encrypts at most [`TEXT_BYTES_MAX`] of plaintext into the record with this number, preceded by
/// its length.
pub(super) fn seal_record(
    keys: &Keys,
    number: u64,
    text: &[u8],
    record: &mut Vec<u8>,
) -> io::Result<()> {
    record.resize(2 + text.len() + TAG_BYTES, 0);
    let len =
        keys.write_message(number, text, &mut record[2..]).map_err(|error| seal_error(&error))?;
    let head = u16::try_from(len).map_err(|_| ErrorKind::InvalidInput)?;
    record[..2].copy_from_slice(&head.to_be_bytes());
    Ok(())
}

/// Decrypts the record with this number, given without its length, into `text`.
pub(super) fn open_record(
    keys: &Keys,
    number: u64,
    record: &[u8],
    text: &mut Vec<u8>,
) -> io::Result<()> {
    text.resize(record.len(), 0);
    let len = keys.read_message(number, record, text).map_err(|error| seal_error(&error))?;
    text.truncate(len);
    Ok(())
}

fn seal_error(error: &snow::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("received a damaged or forged record ({error})"))
}

/// The writing half. Shuts down its direction when dropped.
pub(crate) struct Sealer {
    link: Arc<Link>,
    number: u64,
    text: Vec<u8>,
    record: Vec<u8>,
}

impl Sealer {
    /// Continues with the record of this number.
    pub(super) const fn new(link: Arc<Link>, number: u64) -> Self {
        Self { link, number, text: Vec::new(), record: Vec::new() }
    }
}

impl Write for Sealer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Collect bytes until a flush, so that a message becomes one record and one packet.
        if self.text.len() == TEXT_BYTES_MAX {
            self.flush()?;
        }
        let len = bytes.len().min(TEXT_BYTES_MAX - self.text.len());
        self.text.extend(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        seal_record(&self.link.keys, self.number, &self.text, &mut self.record)?;
        self.number += 1;
        self.text.clear();
        (&self.link.socket).write_all(&self.record)
    }
}

impl AsFd for Sealer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.socket.as_fd()
    }
}

impl Drop for Sealer {
    fn drop(&mut self) {
        // The other side may already be gone.
        let _ = self.link.socket.shutdown(Shutdown::Write);
    }
}

/// The socket's raw bytes.
struct Raw(Arc<Link>);

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0.socket).read(buffer)
    }
}

/// The reading half.
pub(crate) struct Opener {
    input: BufReader<Raw>,
    number: u64,
    record: Vec<u8>,
    text: Vec<u8>,
    /// Bytes of the text that have been read.
    taken: usize,
}

impl Opener {
    /// Continues with the record of this number.
    pub(super) fn new(link: Arc<Link>, number: u64) -> Self {
        let input = BufReader::with_capacity(READ_BYTES, Raw(link));
        Self { input, number, record: Vec::new(), text: Vec::new(), taken: 0 }
    }

    /// Reads one record. Returns `false` if the stream ended before it.
    fn next(&mut self) -> io::Result<bool> {
        let mut head = [0; 2];
        if self.input.read(&mut head[..1])? == 0 {
            return Ok(false);
        }
        self.input.read_exact(&mut head[1..])?;
        let len = usize::from(u16::from_be_bytes(head));
        if len > RECORD_BYTES_MAX {
            let why = format!("received a record of {len} bytes; the limit is {RECORD_BYTES_MAX}");
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        self.record.resize(len, 0);
        self.input.read_exact(&mut self.record)?;
        // The number is the nonce, so a repeated or reordered record fails to open.
        open_record(&self.input.get_ref().0.keys, self.number, &self.record, &mut self.text)?;
        self.number += 1;
        self.taken = 0;
        Ok(true)
    }
}

impl Read for Opener {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.text.len() {
            if !self.next()? {
                return Ok(0);
            }
        }
        let rest = &self.text[self.taken..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.taken += len;
        Ok(len)
    }
}
