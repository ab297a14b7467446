//! Finds the TCP segment or UDP datagram in a captured packet, as far as it was kept.
//!
//! Supports Ethernet with VLAN tags, Linux "cooked" captures, raw IP and loopback, and IPv4 and
//! IPv6 with extension headers. [`parse`] only looks at headers. Checksums are not verified,
//! because captures on the sending host contain checksums that the network card has yet to fill in.
//! **Source:** RFC 791, RFC 8200, RFC 9293, RFC 768, IEEE 802.1Q; tcpdump.org, "Link-layer header
//! types".

use std::net::IpAddr;

// Link types. **Source:** tcpdump.org, "Link-layer header types".
const LINK_NULL: u16 = 0;
const LINK_ETHERNET: u16 = 1;
const LINK_RAW_OLD: u16 = 12;
const LINK_RAW: u16 = 101;
const LINK_LOOP: u16 = 108;
const LINK_LINUX_SLL: u16 = 113;
const LINK_IPV4: u16 = 228;
const LINK_IPV6: u16 = 229;
const LINK_LINUX_SLL2: u16 = 276;

// Frame types. **Source:** IEEE 802 numbers of IANA.
const FRAME_IPV4: u16 = 0x0800;
const FRAME_IPV6: u16 = 0x86dd;
/// Tags of 802.1Q, 802.1ad, and the one that cards used earlier.
const FRAME_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Maximum number of consecutive tags.
const TAGS_MAX: usize = 4;

// Protocols. **Source:** IANA, "Assigned Internet Protocol Numbers".
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// IPv6 extension headers with the length in the second byte: hop-by-hop, routing, destination.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const EXTENSION_FRAGMENT: u8 = 44;
/// Maximum number of consecutive extension headers.
const EXTENSIONS_MAX: usize = 8;

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    /// Address of the host.
    pub address: IpAddr,
    pub port: u16,
}

/// Flags of a TCP segment that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TcpFlags(pub u8);

impl TcpFlags {
    /// Returns true if the segment begins a connection.
    pub(crate) const fn is_syn(self) -> bool {
        self.0 & 0x02 != 0
    }

    /// Returns true if the acknowledgement number is valid.
    pub(crate) const fn has_ack(self) -> bool {
        self.0 & 0x10 != 0
    }
}

/// A TCP segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TcpSegment<'a> {
    /// Sender.
    pub from: Endpoint,
    /// Receiver.
    pub to: Endpoint,
    /// Sequence number of the first byte.
    pub sequence: u32,
    /// The next byte that the sender expects from the receiver.
    pub acknowledged: u32,
    pub flags: TcpFlags,
    /// Payload as far as it was kept.
    pub bytes: &'a [u8],
    /// Length of the payload on the wire, in bytes.
    pub wire_bytes: usize,
}

/// A UDP datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UdpDatagram<'a> {
    /// Sender.
    pub from: Endpoint,
    /// Receiver.
    pub to: Endpoint,
    /// Payload as far as it was kept.
    pub bytes: &'a [u8],
    /// Length of the payload on the wire, in bytes.
    pub wire_bytes: usize,
}

/// A fragment of an IP packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragment<'a> {
    /// The packet that it belongs to.
    pub key: FragmentKey,
    /// Offset in the packet's payload, in bytes.
    pub offset: usize,
    /// The payload ends with this fragment.
    pub is_last: bool,
    /// The fragment as far as it was kept.
    pub bytes: &'a [u8],
    /// Length of the fragment on the wire, in bytes.
    pub wire_bytes: usize,
}

/// Identifies a fragmented packet. **Source:** RFC 791 section 3.2, RFC 8200 section 4.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FragmentKey {
    /// Sender.
    pub from: IpAddr,
    /// Receiver.
    pub to: IpAddr,
    /// Identification of the packet.
    pub id: u32,
    /// Protocol of the payload.
    pub protocol: u8,
}

/// The relevant part of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    Tcp(TcpSegment<'a>),
    Udp(UdpDatagram<'a>),
    /// A fragment of a packet.
    Fragment(Fragment<'a>),
    /// Anything that cannot contain NFS.
    Other,
    /// A packet that was truncated within its headers or is malformed.
    Unreadable,
}

/// An IP payload with information from its header.
struct IpPayload<'a> {
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    bytes: &'a [u8],
    wire_bytes: usize,
}

/// Finds the segment, datagram or fragment in a packet. `wire_bytes` is the packet's length.
pub(crate) fn parse(link: u16, bytes: &[u8], wire_bytes: usize) -> Content<'_> {
    let Some((frame_type, at)) = find_network_header(link, bytes) else {
        return if supports_link(link) { Content::Unreadable } else { Content::Other };
    };
    let bytes = &bytes[at..];
    let wire_bytes = wire_bytes.saturating_sub(at);
    let found = match frame_type {
        FRAME_IPV4 => parse_ipv4(bytes, wire_bytes),
        FRAME_IPV6 => parse_ipv6(bytes, wire_bytes),
        _ => return Content::Other,
    };
    found.unwrap_or(Content::Unreadable)
}

/// Returns true if packets of a link type can be parsed.
pub(crate) const fn supports_link(link: u16) -> bool {
    matches!(
        link,
        LINK_NULL
            | LINK_ETHERNET
            | LINK_RAW_OLD
            | LINK_RAW
            | LINK_LOOP
            | LINK_LINUX_SLL
            | LINK_IPV4
            | LINK_IPV6
            | LINK_LINUX_SLL2
    )
}

/// Returns the type of the network layer and the offset of its header.
fn find_network_header(link: u16, bytes: &[u8]) -> Option<(u16, usize)> {
    match link {
        LINK_ETHERNET => skip_tags(bytes, 12),
        LINK_LINUX_SLL => skip_tags(bytes, 14),
        LINK_LINUX_SLL2 => {
            // The type comes first here, and tags are at the start of the payload.
            let frame_type = be16(bytes, 0)?;
            if FRAME_TAGS.contains(&frame_type) {
                return skip_tags(bytes, 22);
            }
            (bytes.len() > 20).then_some((frame_type, 20))
        }
        LINK_NULL | LINK_LOOP => ip_by_version(bytes, 4),
        LINK_RAW | LINK_RAW_OLD | LINK_IPV4 | LINK_IPV6 => ip_by_version(bytes, 0),
        _ => None,
    }
}

/// Reads the frame type at an offset, skipping any VLAN tags.
fn skip_tags(bytes: &[u8], mut at: usize) -> Option<(u16, usize)> {
    for _ in 0..=TAGS_MAX {
        let frame_type = be16(bytes, at)?;
        at += 2;
        if !FRAME_TAGS.contains(&frame_type) {
            return (bytes.len() > at).then_some((frame_type, at));
        }
        // Priority and VLAN ID.
        at += 2;
    }
    None
}

/// Distinguishes IPv4 from IPv6 by the version in the header, because loopback captures use the
/// byte order and the numbers of the system that made them.
fn ip_by_version(bytes: &[u8], at: usize) -> Option<(u16, usize)> {
    match bytes.get(at)? >> 4 {
        4 => Some((FRAME_IPV4, at)),
        6 => Some((FRAME_IPV6, at)),
        _ => Some((0, at)),
    }
}

fn parse_ipv4(bytes: &[u8], wire_bytes: usize) -> Option<Content<'_>> {
    let head = bytes.first_chunk::<20>()?;
    let header_bytes = usize::from(head[0] & 0xf) * 4;
    if head[0] >> 4 != 4 || header_bytes < 20 {
        return None;
    }
    let total = usize::from(be16(bytes, 2)?);
    // With segmentation offload, captured packets may have a length of 0.
    let total = if total == 0 { wire_bytes } else { total.min(wire_bytes) };
    let wire_bytes = total.checked_sub(header_bytes)?;
    let flags = be16(bytes, 6)?;
    let payload = IpPayload {
        from: IpAddr::from([head[12], head[13], head[14], head[15]]),
        to: IpAddr::from([head[16], head[17], head[18], head[19]]),
        protocol: head[9],
        bytes: trim_to(bytes.get(header_bytes..)?, wire_bytes),
        wire_bytes,
    };
    let offset = usize::from(flags & 0x1fff) * 8;
    let more_follow = flags & 0x2000 != 0;
    if offset > 0 || more_follow {
        let id = u32::from(be16(bytes, 4)?);
        return Some(make_fragment(&payload, id, offset, FragmentPosition::from_more(more_follow)));
    }
    parse_transport(&payload)
}

fn parse_ipv6(bytes: &[u8], wire_bytes: usize) -> Option<Content<'_>> {
    let head = bytes.first_chunk::<40>()?;
    if head[0] >> 4 != 6 {
        return None;
    }
    let mut from = [0; 16];
    let mut to = [0; 16];
    from.copy_from_slice(&head[8..24]);
    to.copy_from_slice(&head[24..40]);
    let stated = usize::from(be16(bytes, 4)?);
    let there = wire_bytes.checked_sub(40)?;
    let mut wire_bytes = if stated == 0 { there } else { stated.min(there) };
    let mut bytes = trim_to(&bytes[40..], wire_bytes);
    let mut protocol = head[6];
    for _ in 0..EXTENSIONS_MAX {
        let len = if EXTENSIONS.contains(&protocol) {
            8 + usize::from(*bytes.get(1)?) * 8
        } else if protocol == EXTENSION_FRAGMENT {
            8
        } else {
            break;
        };
        let next = *bytes.first()?;
        let (extension, rest) = bytes.split_at_checked(len)?;
        wire_bytes = wire_bytes.checked_sub(len)?;
        if protocol == EXTENSION_FRAGMENT {
            let place = be16(extension, 2)?;
            let id = be32(extension, 4)?;
            let offset = usize::from(place & 0xfff8);
            let more_follow = place & 1 != 0;
            // An unfragmented packet also has the header if a translator added it.
            if offset > 0 || more_follow {
                let payload = IpPayload {
                    from: from.into(),
                    to: to.into(),
                    protocol: next,
                    bytes: rest,
                    wire_bytes,
                };
                return Some(make_fragment(
                    &payload,
                    id,
                    offset,
                    FragmentPosition::from_more(more_follow),
                ));
            }
        }
        protocol = next;
        bytes = rest;
    }
    parse_transport(&IpPayload { from: from.into(), to: to.into(), protocol, bytes, wire_bytes })
}

/// Whether a fragment is the last of its packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FragmentPosition {
    Last,
    Other,
}

impl FragmentPosition {
    const fn from_more(more_follow: bool) -> Self {
        if more_follow { Self::Other } else { Self::Last }
    }
}

fn make_fragment<'a>(
    payload: &IpPayload<'a>,
    id: u32,
    offset: usize,
    part: FragmentPosition,
) -> Content<'a> {
    let IpPayload { from, to, protocol, bytes, wire_bytes } = *payload;
    if protocol != PROTOCOL_UDP && protocol != PROTOCOL_TCP {
        return Content::Other;
    }
    let key = FragmentKey { from, to, id, protocol };
    Content::Fragment(Fragment {
        key,
        offset,
        is_last: part == FragmentPosition::Last,
        bytes,
        wire_bytes,
    })
}

fn parse_transport<'a>(payload: &IpPayload<'a>) -> Option<Content<'a>> {
    match payload.protocol {
        PROTOCOL_TCP => parse_tcp(payload),
        PROTOCOL_UDP => parse_udp(payload),
        _ => Some(Content::Other),
    }
}

/// Parses the payload of a reassembled IP packet.
pub(crate) fn parse_payload<'a>(
    key: &FragmentKey,
    bytes: &'a [u8],
    wire_bytes: usize,
) -> Content<'a> {
    let FragmentKey { from, to, protocol, .. } = *key;
    let payload = IpPayload { from, to, protocol, bytes, wire_bytes };
    parse_transport(&payload).unwrap_or(Content::Unreadable)
}

fn parse_tcp<'a>(payload: &IpPayload<'a>) -> Option<Content<'a>> {
    let bytes = payload.bytes;
    let head = bytes.first_chunk::<20>()?;
    let header_bytes = usize::from(head[12] >> 4) * 4;
    let wire_bytes = payload.wire_bytes.checked_sub(header_bytes)?;
    if header_bytes < 20 {
        return None;
    }
    Some(Content::Tcp(TcpSegment {
        from: Endpoint { address: payload.from, port: be16(bytes, 0)? },
        to: Endpoint { address: payload.to, port: be16(bytes, 2)? },
        sequence: be32(bytes, 4)?,
        acknowledged: be32(bytes, 8)?,
        flags: TcpFlags(head[13]),
        // Options may be truncated, but the start of the payload is still known.
        bytes: bytes.get(header_bytes..).unwrap_or_default(),
        wire_bytes,
    }))
}

fn parse_udp<'a>(payload: &IpPayload<'a>) -> Option<Content<'a>> {
    const HEADER: usize = 8;
    let bytes = payload.bytes;
    bytes.first_chunk::<HEADER>()?;
    let stated = usize::from(be16(bytes, 4)?);
    let there = payload.wire_bytes.checked_sub(HEADER)?;
    let wire_bytes = if stated < HEADER { there } else { there.min(stated - HEADER) };
    Some(Content::Udp(UdpDatagram {
        from: Endpoint { address: payload.from, port: be16(bytes, 0)? },
        to: Endpoint { address: payload.to, port: be16(bytes, 2)? },
        bytes: trim_to(&bytes[HEADER..], wire_bytes),
        wire_bytes,
    }))
}

/// Removes what a link layer appended, such as the padding of short Ethernet frames.
fn trim_to(bytes: &[u8], len: usize) -> &[u8] {
    &bytes[..bytes.len().min(len)]
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_be_bytes(*chunk))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP datagram with two bytes of payload in an IPv4 packet.
    const PACKET: [u8; 30] = [
        0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 2, 188, 8, 1, 0, 10, 0,
        0, 5, 6,
    ];

    fn payload(link: u16, before: &[u8]) -> Option<Vec<u8>> {
        // A link layer may append bytes, such as the padding of short Ethernet frames.
        let bytes = [before, &PACKET, &[0; 6]].concat();
        match parse(link, &bytes, bytes.len()) {
            Content::Udp(datagram) => Some(datagram.bytes.to_vec()),
            _ => None,
        }
    }

    #[test]
    fn parses_packets_of_all_link_layers() {
        let ethernet = [&[2; 12][..], &[8, 0]].concat();
        let cooked = [&[0; 14][..], &[8, 0]].concat();
        let cooked2 = [&[8, 0][..], &[0; 18]].concat();
        let want = Some(vec![5, 6]);
        for (link, before) in [
            (LINK_ETHERNET, &ethernet[..]),
            (LINK_LINUX_SLL, &cooked),
            (LINK_LINUX_SLL2, &cooked2),
            (LINK_RAW, &[]),
            (LINK_IPV4, &[]),
            (LINK_NULL, &[2, 0, 0, 0]),
            (LINK_LOOP, &[0, 0, 0, 2]),
        ] {
            assert_eq!(payload(link, before), want, "link type {link}");
        }
        let tagged = [&[2; 12][..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0]].concat();
        assert_eq!(payload(LINK_ETHERNET, &tagged), want);
    }

    #[test]
    fn skips_unknown_and_reports_cut_packets() {
        assert!(matches!(parse(147, &PACKET, 30), Content::Other));
        let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
        assert!(matches!(parse(LINK_ETHERNET, &arp, arp.len()), Content::Other));
        for len in 0..28 {
            assert!(matches!(parse(LINK_RAW, &PACKET[..len], 30), Content::Unreadable), "{len}");
        }
        // The length of a truncated payload is known.
        let Content::Udp(datagram) = parse(LINK_RAW, &PACKET[..28], 30) else { panic!() };
        assert_eq!((datagram.bytes.len(), datagram.wire_bytes), (0, 2));
    }
}
