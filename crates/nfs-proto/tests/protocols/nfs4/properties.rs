//! Properties: attributes survive a round trip whatever is queried, and no input makes a decoder
//! panic.

use nfs_proto::DecodeError;
use nfs_proto::nfs4::{
    Attributes, Bitmap, CallbackCompound, Compound, CompoundReply, Device, Fattr, FileHandle,
    FileType, Fsid, OpOk, OpResult, SetTime, Time, Wire, attribute, decode_callback_reply,
    read_prefix,
};
use nfs_proto::status::Status;
use nfs_proto::xdr::{Reader, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

use super::ops::ops;
use super::results::results;

/// Attributes of a file system, each with a value that depends on its number.
fn file_system_attributes(seed: u64) -> Attributes<'static> {
    let word = |number: u32| Some(number ^ seed as u32);
    let long = |number: u32| Some(u64::from(number) << 32 ^ seed);
    let time_delta = Some(Time { seconds: seed.cast_signed() >> 1, nanos: 51 });
    Attributes {
        available_files: long(21),
        free_files: long(22),
        total_files: long(23),
        file_bytes_max: long(27),
        links_max: word(28),
        name_bytes_max: word(29),
        read_bytes_max: long(30),
        write_bytes_max: long(31),
        available_bytes: long(42),
        free_bytes: long(43),
        total_bytes: long(44),
        time_delta,
        ..Attributes::default()
    }
}

/// Attributes, each with a value that depends on its number.
fn all_attributes(seed: u64) -> Attributes<'static> {
    let word = |number: u32| Some(number ^ seed as u32);
    let long = |number: u32| Some(u64::from(number) << 32 ^ seed);
    let time = |number: u32| Some(Time { seconds: seed.cast_signed() >> 1, nanos: number });
    let flag = |number: u32| Some(seed >> (number % 64) & 1 == 1);
    Attributes {
        supported: Some(Attributes::UNDERSTOOD),
        file_type: FileType::from_number((seed % 7) as u32 + 1).ok(),
        handle_expiry: word(2),
        change: long(3),
        size: long(4),
        link_support: flag(5),
        symlink_support: flag(6),
        named_attributes: flag(7),
        fsid: Some(Fsid { major: seed, minor: 8 }),
        unique_handles: flag(9),
        lease_seconds: word(10),
        read_error: Some(Status::Stale),
        acl_support: word(13),
        archive: flag(14),
        can_set_time: flag(15),
        case_insensitive: flag(16),
        case_preserving: flag(17),
        chown_restricted: flag(18),
        file: FileHandle::from_slice(&[7; 128][..(seed % 129) as usize]),
        fileid: long(20),
        hidden: flag(25),
        homogeneous: flag(26),
        mime_type: Some(&b"text/plain"[..(seed % 11) as usize]),
        mode: word(33),
        no_truncation: flag(34),
        nlink: word(35),
        owner: Some(&b"1000@example.org"[..(seed % 17) as usize]),
        owner_group: Some(b"0"),
        quota_hard_bytes: long(38),
        quota_soft_bytes: long(39),
        quota_used_bytes: long(40),
        device: Some(Device { major: 41, minor: seed as u32 }),
        used: long(45),
        system: flag(46),
        atime: time(47),
        set_atime: Some(SetTime::Server),
        backup_time: time(49),
        create_time: time(50),
        ctime: time(52),
        mtime: time(53),
        set_mtime: Some(SetTime::Client(Time { seconds: -1, nanos: 54 })),
        mounted_on_fileid: long(55),
        directory_notice_delay: time(56),
        entry_notice_delay: time(57),
        layout_types: Some(super::ops::view("00000002 00000001 00000004")),
        layout_block_bytes: word(65),
        layout_alignment_bytes: word(66),
        supported_exclusive: Some(Bitmap::from_numbers(&[4, 75, 127])),
        charset_capabilities: word(76),
        clone_block_bytes: word(77),
        freed_bytes: long(78),
        change_type: word(79),
        xattr_support: flag(82),
        ..file_system_attributes(seed)
    }
}

#[test]
fn names_unknown_attribute() {
    let acl = crate::common::hex("00000001 00001000 00000004 00000000");
    let fattr = Fattr::decode(&mut Reader::new(&acl)).unwrap();
    let error = fattr.decode_values().unwrap_err();
    let expected = DecodeError::BadValue { what: "the number of an attribute", value: 12 };
    assert_eq!(error, expected);
}

#[test]
fn encodes_attributes_like_rfc() {
    let attributes = Attributes {
        file_type: Some(FileType::Directory),
        fsid: Some(Fsid { major: 1, minor: 2 }),
        owner: Some(b"1000"),
        mtime: Some(Time { seconds: 3, nanos: 4 }),
        set_mtime: Some(SetTime::Client(Time { seconds: -1, nanos: 6 })),
        ..Attributes::default()
    };
    let golden = "00000002 00000102 00600010 00000038
        00000002  00000000 00000001 00000000 00000002  00000004 31303030
        00000000 00000003 00000004  00000001 ffffffff ffffffff 00000006";
    let mut out = Vec::new();
    attributes.encode(Attributes::UNDERSTOOD, &mut Writer::new(&mut out));
    assert_eq!(out, crate::common::hex(golden));
    assert_eq!(Fattr::decode(&mut Reader::new(&out)).unwrap().decode_values(), Ok(attributes));
    assert!(attributes.mask().contains(attribute::TIME_MODIFY_SET));
}

/// Feeds bytes to every decoder, and iterates over everything that they return.
fn decode_all(bytes: &[u8]) {
    for minor in 0..3 {
        let mut with_minor = vec![0, 0, 0, 0, 0, 0, 0, minor];
        with_minor.extend(bytes);
        if let Ok(compound) = Compound::decode(Reader::new(&with_minor)) {
            compound.ops().for_each(drop);
        }
        if let Ok(call) = CallbackCompound::decode(Reader::new(&with_minor)) {
            call.ops().for_each(drop);
        }
    }
    if let Ok(reply) = CompoundReply::decode(Reader::new(bytes)) {
        let mut results = reply.results();
        while let Ok(Some(result)) = results.next_result() {
            walk(&result);
        }
    }
    let _ = read_prefix(&mut Reader::new(bytes));
    let _ = decode_callback_reply(&mut Reader::new(bytes));
    if let Ok(fattr) = Fattr::decode(&mut Reader::new(bytes)) {
        let _ = fattr.decode_values();
    }
}

fn walk(result: &OpResult<'_>) {
    match result {
        OpResult::Ok(OpOk::Readdir { entries, .. }) => {
            for entry in entries {
                let _ = entry.attributes.decode_values();
            }
        }
        OpResult::Ok(OpOk::ReadPlus { segments, .. }) => {
            assert_eq!(segments.iter().count(), segments.len());
        }
        OpResult::Ok(OpOk::Listxattrs { names, .. }) => {
            assert_eq!(names.iter().count(), names.len());
        }
        OpResult::Ok(OpOk::Getattr { attributes }) => {
            let _ = attributes.decode_values();
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn attributes_come_back(seed: u64, requested in vec(0..128_u32, 0..60)) {
        let requested = Bitmap::from_numbers(&requested);
        let attributes = all_attributes(seed);
        prop_assert_eq!(attributes.mask(), Attributes::UNDERSTOOD);
        let mut out = Vec::new();
        attributes.encode(requested, &mut Writer::new(&mut out));
        let mut reader = Reader::new(&out);
        let fattr = Fattr::decode(&mut reader).unwrap();
        prop_assert_eq!(reader.finish(), Ok(()));
        prop_assert_eq!(fattr.mask(), requested.intersection(Attributes::UNDERSTOOD));
        let decoded = fattr.decode_values().unwrap();
        prop_assert_eq!(decoded.mask(), fattr.mask());
        let mut scratch = vec![9; 3];
        prop_assert_eq!(attributes.to_fattr(requested, &mut scratch), fattr);
        let mut again = Vec::new();
        decoded.encode(Attributes::UNDERSTOOD, &mut Writer::new(&mut again));
        prop_assert_eq!(again, out);
    }

    #[test]
    fn all_attributes_come_back(seed: u64) {
        let attributes = all_attributes(seed);
        let mut scratch = Vec::new();
        let fattr = attributes.to_fattr(Attributes::UNDERSTOOD, &mut scratch);
        prop_assert_eq!(fattr.decode_values(), Ok(attributes));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..300)) {
        decode_all(&bytes);
    }

    #[test]
    fn survives_damaged_compounds(
        choice in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte: u8,
    ) {
        let samples = ops();
        let mut bytes = vec![0, 0, 0, 2];
        bytes.extend(&choice.get(&samples).1);
        bytes.extend(&samples[0].1);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        decode_all(&bytes);
    }

    #[test]
    fn survives_damaged_replies(
        choice in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte: u8,
    ) {
        let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        bytes.extend(&choice.get(&results()).1);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        decode_all(&bytes);
    }
}
