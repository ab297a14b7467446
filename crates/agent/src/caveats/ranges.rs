//! What a pass of operations on ranges of files found out about its target: operations that it does
//! not have, and holes that it does not keep.

use std::time::Duration;

use engine::backend::{COPY_QUERY_NS, CopyCounts, RangeCounts};
use model::{Caveat, CaveatCode, Fact, OpError, Pass, PassResult};

/// Errors with which file systems and servers refuse an operation that they don't have.
///
/// **Source:** ioctl_ficlonerange(2), fallocate(2); RFC 7862, 11 (NFS4ERR_NOTSUPP).
const UNSUPPORTED: [OpError; 3] = [OpError(25), OpError(95), OpError(10_004)];

/// Returns true if a pass of operations on ranges did nothing, because the target has no such
/// operation.
pub fn is_unsupported(result: &PassResult) -> bool {
    let mut errors = result.kinds.iter().flat_map(|kind| &kind.errors);
    result.pass.needs_data_ops()
        && result.ops() == 0
        && result.errors() > 0
        && errors.all(|(error, _)| UNSUPPORTED.contains(error))
}

/// Reports how many ends of data and holes a pass found where they were made.
pub(crate) fn ends_found(result: &PassResult, counts: &RangeCounts) -> Option<Fact> {
    if result.pass != Pass::Seek {
        return None;
    }
    let name = format!("{}: ends of data and holes", result.pass);
    let value = format!("{} of {} found exactly", counts.found_ends, result.ops());
    Some(Fact::new("target", name, value, "replies to seeks"))
}

/// Reports how the copies of a pass ended that the server could continue after its reply.
pub(crate) fn copies_followed(result: &PassResult, counts: &RangeCounts) -> Option<Fact> {
    let CopyCounts { synchronous, reported, queried, queries } = counts.copies;
    if synchronous + reported + queried == 0 {
        return None;
    }
    let name = format!("{}: asynchronous copies", result.pass);
    let value = format!(
        "{reported} reported by CB_OFFLOAD, {queried} found with OFFLOAD_STATUS ({queries} sent), \
         {synchronous} complete with the reply"
    );
    Some(Fact::new("target", name, value, "counted by the client"))
}

/// Raises a caveat if the server did not copy asynchronously as it was asked to, or did not report
/// the ends of its copies.
pub fn about_copies(counts: &RangeCounts) -> Option<Caveat> {
    let CopyCounts { synchronous, reported, queried, .. } = counts.copies;
    let all = synchronous + reported + queried;
    let mut evidence = Vec::new();
    if synchronous > 0 {
        evidence.push(format!(
            "async_copy true, but the server copied synchronously: {synchronous} of {all} copies \
             were complete with the reply to COPY"
        ));
    }
    if queried > 0 {
        let often = Duration::from_nanos(COPY_QUERY_NS);
        evidence.push(format!(
            "the server did not report the ends of {queried} of {all} copies (CB_OFFLOAD); they \
             were found by asking every {often:?} (OFFLOAD_STATUS), so their response times are up \
             to that much too long"
        ));
    }
    if evidence.is_empty() {
        return None;
    }
    Some(CaveatCode::OptionNotEffective.because(evidence.join("; ")))
}

/// Raises a caveat if a file system has stored zeros in place of most of the holes.
pub fn about_holes(result: &PassResult, counts: &RangeCounts) -> Option<Caveat> {
    let ops = result.ops();
    if result.pass != Pass::Seek || counts.found_ends.saturating_mul(2) >= ops {
        return None;
    }
    Some(CaveatCode::OptionNotEffective.because(format!(
        "the files have few holes: only {} of {ops} seeks found the end of a block of data or of a \
         hole (hint: the target's own blocks are larger, or it stores zeros; try a larger io_size)",
        counts.found_ends
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Histogram, KindResult, OpKind};

    fn result(pass: Pass, kind: OpKind, done: u64, errors: &[(OpError, u64)]) -> PassResult {
        let mut result = PassResult::new(pass);
        result.kinds = vec![KindResult {
            kind,
            issued: done,
            done,
            bytes: 0,
            errors: errors.to_vec(),
            service_time: Histogram::sparse(),
            response_time: Histogram::sparse(),
        }];
        result
    }

    #[test]
    fn recognizes_missing_operations() {
        let clone = |done, errors: &[(OpError, u64)]| {
            is_unsupported(&result(Pass::Clone, OpKind::Clone, done, errors))
        };
        assert!(clone(0, &[(OpError(95), 100)]) && clone(0, &[(OpError(10_004), 3)]));
        assert!(!clone(0, &[]) && !clone(1, &[(OpError(95), 100)]));
        assert!(!clone(0, &[(OpError(95), 99), (OpError(5), 1)]));
        let read = result(Pass::Read, OpKind::Read, 0, &[(OpError(95), 9)]);
        assert!(!is_unsupported(&read));
    }

    #[test]
    fn reports_copies_without_reports() {
        let copy = result(Pass::Copy, OpKind::Copy, 9, &[]);
        let counts = |synchronous, reported, queried, queries| RangeCounts {
            copies: CopyCounts { synchronous, reported, queried, queries },
            ..RangeCounts::default()
        };
        assert_eq!(copies_followed(&copy, &counts(0, 0, 0, 0)), None);
        assert_eq!(about_copies(&counts(0, 9, 0, 4)), None);
        assert_eq!(
            copies_followed(&copy, &counts(1, 6, 2, 3)).unwrap().value,
            "6 reported by CB_OFFLOAD, 2 found with OFFLOAD_STATUS (3 sent), 1 complete with the \
             reply"
        );
        let caveat = about_copies(&counts(1, 6, 2, 3)).unwrap();
        assert_eq!(caveat.code, CaveatCode::OptionNotEffective);
        assert!(caveat.evidence.contains("1 of 9 copies were complete"), "{caveat:?}");
        assert!(caveat.evidence.contains("2 of 9 copies (CB_OFFLOAD)"), "{caveat:?}");
        assert!(caveat.evidence.contains("every 100ms"), "{caveat:?}");
    }

    #[test]
    fn reports_files_without_holes() {
        let seek = result(Pass::Seek, OpKind::Seek, 10, &[]);
        let counts = |found_ends| RangeCounts { found_ends, ..RangeCounts::default() };
        assert_eq!(about_holes(&seek, &counts(5)), None);
        let caveat = about_holes(&seek, &counts(4)).unwrap();
        assert_eq!(caveat.code, CaveatCode::OptionNotEffective);
        assert_eq!(ends_found(&seek, &counts(9)).unwrap().value, "9 of 10 found exactly");
        let read = result(Pass::ReadPlus, OpKind::ReadPlus, 10, &[]);
        assert_eq!((about_holes(&read, &counts(0)), ends_found(&read, &counts(0))), (None, None));
    }
}
