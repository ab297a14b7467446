//! Every operation and every result has the bytes of the RFCs, whole and cut.

use std::collections::BTreeSet;

use nfs_proto::DecodeError;
use nfs_proto::nfs4::{Op, OpCode, OpResult};
use nfs_proto::xdr::{Reader, Writer};

use super::ops::ops;
use super::results::results;

fn encoded(encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut Writer::new(&mut out));
    out
}

fn decode_op(bytes: &[u8]) -> Result<Op<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let code = OpCode::from_number(reader.u32()?).expect("the samples have known numbers");
    let op = Op::decode(code, &mut reader)?.expect("the samples are understood");
    reader.finish()?;
    Ok(op)
}

fn decode_result(bytes: &[u8]) -> Result<OpResult<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let result = OpResult::decode(&mut reader)?;
    reader.finish()?;
    Ok(result)
}

#[test]
fn encodes_operations_like_rfc() {
    for (op, golden) in ops() {
        assert_eq!(encoded(|writer| op.encode(writer)), golden, "encoding {op:?}");
        assert_eq!(decode_op(&golden), Ok(op));
    }
}

#[test]
fn encodes_results_like_rfc() {
    for (result, golden) in results() {
        assert_eq!(encoded(|writer| result.encode(writer)), golden, "encoding {result:?}");
        assert_eq!(decode_result(&golden), Ok(result));
    }
}

#[test]
fn no_operation_is_without_a_sample() {
    let understood = |code: &OpCode| {
        let bytes = [0; 256];
        !matches!(Op::decode(*code, &mut Reader::new(&bytes)), Ok(None))
    };
    let understood: BTreeSet<_> = OpCode::ALL.iter().copied().filter(understood).collect();
    let sampled: BTreeSet<_> = ops().iter().map(|(op, _)| op.code()).collect();
    assert_eq!(sampled, understood);
    let succeeded = results().into_iter().filter_map(|(result, _)| result.ok().ok());
    let sampled: BTreeSet<_> = succeeded.map(|ok| ok.code()).collect();
    assert_eq!(sampled, understood);
}

#[test]
fn rejects_truncation_anywhere() {
    for (op, golden) in ops() {
        for len in 4..golden.len() {
            let cut = decode_op(&golden[..len]);
            assert!(cut.is_err(), "{op:?} cut to {len} bytes gives {cut:?}");
        }
    }
    for (result, golden) in results() {
        for len in 0..golden.len() {
            let cut = decode_result(&golden[..len]);
            assert!(cut.is_err(), "{result:?} cut to {len} bytes gives {cut:?}");
        }
    }
}

#[test]
fn survives_any_field_length() {
    for (_, golden) in ops() {
        each_word_replaced(&golden, |bytes| decode_op(bytes).is_ok());
    }
    for (_, golden) in results() {
        each_word_replaced(&golden, |bytes| decode_result(bytes).is_ok());
    }
}

/// Replaces each word after the number by false lengths.
fn each_word_replaced(golden: &[u8], decode: impl Fn(&[u8]) -> bool) {
    for at in (4..golden.len()).step_by(4) {
        for lie in [0_u32, 1, 5, 0xffff, 0x7fff_ffff, 0xffff_fffd, u32::MAX] {
            let mut bytes = golden.to_vec();
            bytes[at..at + 4].copy_from_slice(&lie.to_be_bytes());
            // Either result is fine, as long as there is one.
            let _ = decode(&bytes);
        }
    }
}
