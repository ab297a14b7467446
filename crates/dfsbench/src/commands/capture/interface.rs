//! Reads packets of a network interface from the kernel's ring (AF_PACKET, TPACKET_V3).
//!
//! [`Interface`] owns the socket and the ring, which the kernel fills block by block. A packet is a
//! view into the ring; its block is returned to the kernel when the next block is taken. Packets
//! that the kernel had no room for are counted. **Source:** packet(7),
//! Documentation/networking/packet_mmap.rst and uapi/linux/if_packet.h of Linux.
#![allow(unsafe_code, reason = "the ring is memory that the kernel shares")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use trace::Packet;

/// Size of a block, which the kernel hands over as a whole.
const BLOCK_BYTES: usize = 1 << 20;
/// Blocks in the ring: 64 MiB buffer half a second at 1 Gbit/s.
const BLOCKS: usize = 64;
/// The kernel hands over a block after this many milliseconds even if it isn't full.
const BLOCK_TIMEOUT_MS: u32 = 50;
/// Size of a frame. It only matters for the kernel's validation of the ring's dimensions.
const FRAME_BYTES: usize = 2048;

/// Ethernet, which loopback interfaces use, too. **Source:** uapi/linux/if_arp.h.
const HARDWARE_ETHERNET: u16 = 1;
const HARDWARE_LOOPBACK: u16 = 772;
/// Interfaces without a link layer, such as tunnels.
const HARDWARE_NONE: u16 = 65534;
/// Link types used in traces. **Source:** draft-ietf-opsawg-pcaplinktype.
const LINK_ETHERNET: u16 = 1;
const LINK_RAW_IP: u16 = 101;

/// Reason why an interface can't be captured.
#[derive(Debug, thiserror::Error)]
pub(super) enum InterfaceError {
    /// There is no interface with this name.
    #[error("--interface: there is no interface `{0}` (hint: `ip link` lists them)")]
    Unknown(String),
    /// The user has no permission to capture packets.
    #[error(
        "--interface: capturing packets requires CAP_NET_RAW (hint: run as root, or grant the \
         capability: setcap cap_net_raw+ep FILE)"
    )]
    NotPermitted,
    /// The interface has an unsupported link layer.
    #[error(
        "--interface: `{name}` has the unsupported link layer type {hardware} (hint: tcpdump -w - \
         | dfsbench capture -)"
    )]
    Foreign {
        name: String,
        /// Hardware type, an `ARPHRD_` constant.
        hardware: u16,
    },
    /// A system call failed for some other reason.
    #[error("--interface: can't {what}: {error}")]
    Refused {
        /// What the call was meant to do.
        what: &'static str,
        error: io::Error,
    },
}

/// An interface that is being captured.
pub(super) struct Interface {
    socket: OwnedFd,
    ring: *mut u8,
    /// Index of the next block.
    block: usize,
    /// Next packet in the current block.
    next: Option<NextPacket>,
    link: u16,
    is_loopback: bool,
    dropped: u64,
}

#[derive(Clone, Copy)]
struct NextPacket {
    offset: usize,
    left: u32,
}

fn refused(what: &'static str) -> InterfaceError {
    InterfaceError::Refused { what, error: io::Error::last_os_error() }
}

impl Interface {
    /// Starts capturing: everything that arrives from now on goes into the ring.
    ///
    /// # Errors
    /// See [`InterfaceError`].
    pub(super) fn open(name: &str) -> Result<Self, InterfaceError> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => InterfaceError::NotPermitted,
                _ => InterfaceError::Refused { what: "open a packet socket", error },
            });
        }
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let index = rustix::net::netdevice::name_to_index(&socket, name)
            .map_err(|_| InterfaceError::Unknown(name.to_owned()))?;
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        set_option(&socket, libc::PACKET_VERSION, &version, "set the ring version")?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (BLOCK_BYTES / FRAME_BYTES * BLOCKS) as u32,
            tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(&socket, libc::PACKET_RX_RING, &request, "create a ring of 64 MiB")?;
        // SAFETY: this creates a new mapping of the ring's length; the result is checked below.
        let ring = unsafe {
            libc::mmap(
                ptr::null_mut(),
                BLOCK_BYTES * BLOCKS,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(refused("map the ring"));
        }
        let mut interface = Self {
            socket,
            ring: ring.cast(),
            block: 0,
            next: None,
            link: LINK_ETHERNET,
            is_loopback: false,
            dropped: 0,
        };
        let hardware = interface.bind(index)?;
        interface.is_loopback = hardware == HARDWARE_LOOPBACK;
        interface.link = match hardware {
            HARDWARE_ETHERNET | HARDWARE_LOOPBACK => LINK_ETHERNET,
            HARDWARE_NONE => LINK_RAW_IP,
            _ => return Err(InterfaceError::Foreign { name: name.to_owned(), hardware }),
        };
        Ok(interface)
    }

    /// Binds the socket, which starts the capture, and returns the hardware type of the interface.
    fn bind(&self, index: u32) -> Result<u16, InterfaceError> {
        // SAFETY: all-zero bytes are a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index.cast_signed();
        let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let fd = self.socket.as_raw_fd();
        // SAFETY: the address is valid and has the stated length.
        let bound = unsafe { libc::bind(fd, (&raw const address).cast(), len) };
        if bound != 0 {
            return Err(refused("capture it"));
        }
        // SAFETY: the kernel writes at most `len` bytes.
        let named = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) };
        if named != 0 {
            return Err(refused("query its type"));
        }
        Ok(address.sll_hatype)
    }

    /// Returns the next packet, or `None` if no block arrived within `wait_ms`.
    pub(super) fn next_packet(
        &mut self,
        wait_ms: u32,
    ) -> Result<Option<Packet<'_>>, InterfaceError> {
        loop {
            let Some(NextPacket { offset, left }) = self.next else {
                if !self.take_block(wait_ms)? {
                    return Ok(None);
                }
                continue;
            };
            if left == 0 {
                self.release_block();
                continue;
            }
            // SAFETY: the kernel has written this header and doesn't touch it again until the block
            // is released.
            let header: libc::tpacket3_hdr =
                unsafe { ptr::read_unaligned(self.ring.add(offset).cast()) };
            self.next = Some(NextPacket {
                offset: offset + header.tp_next_offset as usize,
                left: left - 1,
            });
            // On loopback each packet is captured twice, when it leaves and when it arrives.
            if self.is_loopback && self.is_outgoing(offset) {
                continue;
            }
            let begin = offset + usize::from(header.tp_mac);
            let len = header.tp_snaplen as usize;
            if begin + len > BLOCK_BYTES * BLOCKS {
                continue;
            }
            // SAFETY: these bytes are inside the ring, and the borrow of `self` keeps the block.
            let bytes = unsafe { std::slice::from_raw_parts(self.ring.add(begin), len) };
            let time_ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
            let wire_bytes = header.tp_len;
            return Ok(Some(Packet { time_ns, link: self.link, wire_bytes, bytes }));
        }
    }

    /// Returns true if this host sent the packet, according to the address after its header.
    fn is_outgoing(&self, offset: usize) -> bool {
        let at = offset + size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
        // SAFETY: the kernel has written an address after each header.
        let address: libc::sockaddr_ll = unsafe { ptr::read_unaligned(self.ring.add(at).cast()) };
        address.sll_pkttype == libc::PACKET_OUTGOING
    }

    fn status(&self) -> &AtomicU32 {
        // `block_status` follows `version` and `offset_to_priv`.
        // SAFETY: it is aligned, inside the ring, and this process only accesses it atomically.
        unsafe { AtomicU32::from_ptr(self.ring.add(self.block * BLOCK_BYTES + 8).cast()) }
    }

    /// Waits for the next block, and returns whether there is one.
    fn take_block(&mut self, wait_ms: u32) -> Result<bool, InterfaceError> {
        let is_ours = |status: u32| status & libc::TP_STATUS_USER != 0;
        if !is_ours(self.status().load(Ordering::Acquire)) {
            let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait_ms) * 1_000_000 };
            let mut sockets = [PollFd::new(&self.socket, PollFlags::IN | PollFlags::ERR)];
            match poll(&mut sockets, Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    let error = error.into();
                    return Err(InterfaceError::Refused { what: "wait for packets", error });
                }
            }
            if !is_ours(self.status().load(Ordering::Acquire)) {
                return Ok(false);
            }
        }
        let base = self.block * BLOCK_BYTES;
        // The status is followed by the number of packets and the offset of the first one.
        // SAFETY: the kernel has handed over this block.
        let [count, first] =
            unsafe { ptr::read_unaligned(self.ring.add(base + 12).cast::<[u32; 2]>()) };
        self.next = Some(NextPacket { offset: base + first as usize, left: count });
        Ok(true)
    }

    fn release_block(&mut self) {
        self.next = None;
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block = (self.block + 1) % BLOCKS;
    }

    /// Returns the number of packets that the kernel had no room for.
    pub(super) fn dropped(&mut self) -> u64 {
        // Packets, drops and ring overflows. Reading resets them to 0.
        let mut counts = [0_u32; 3];
        let mut len = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes.
        let read = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut len,
            )
        };
        if read == 0 {
            self.dropped += u64::from(counts[1]);
        }
        self.dropped
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        // SAFETY: the mapping has this length, and nothing points into it any more.
        unsafe { libc::munmap(self.ring.cast(), BLOCK_BYTES * BLOCKS) };
    }
}

fn set_option<T>(
    socket: &impl AsFd,
    option: i32,
    value: &T,
    what: &'static str,
) -> Result<(), InterfaceError> {
    let fd = socket.as_fd().as_raw_fd();
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is valid and has the stated length.
    let set =
        unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, ptr::from_ref(value).cast(), len) };
    if set == 0 { Ok(()) } else { Err(refused(what)) }
}
