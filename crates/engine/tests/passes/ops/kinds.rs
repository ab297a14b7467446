//! The effect of each kind of op, on all backends alike.

use engine::InventoryScope;
use engine::backend::OperationKind;
use model::{BackendKind, NfsVersion, Op, OpError, OpKind, Outcome, Target};

use super::backend_fixture::{BackendFixture, FILE_BYTES, FILES, IO_BYTES};

const ENOENT: Outcome = Outcome::Failed(OpError(2));

fn on_each(test: impl Fn(&mut BackendFixture)) {
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        test(&mut BackendFixture::on_directory(backend, |_| ()));
    }
    for version in NfsVersion::ALL {
        test(&mut BackendFixture::on_nfs(*version, |_| ()));
    }
}

const fn op(kind: OpKind, file: u32, offset_bytes: u64, len_bytes: u32) -> Op {
    Op { scheduled_ns: 0, offset_bytes, len_bytes, file, kind }
}

#[test]
fn moves_bytes_of_their_place() {
    on_each(|fixture| {
        for kind in [OpKind::Read, OpKind::GetChars] {
            assert_eq!(fixture.op(kind, 1, 3_000, IO_BYTES), IO_BYTES);
            assert_eq!(fixture.op(kind, 1, FILE_BYTES - 10, 10), 10);
        }
        for (kind, offset) in [(OpKind::Write, 20_000), (OpKind::PutChars, 26_000)] {
            assert_eq!(fixture.op(kind, 2, offset, IO_BYTES), IO_BYTES);
        }
        assert_eq!(fixture.op(OpKind::Update, 2, 1_000, 5_000), 5_000);
        assert_eq!(fixture.op(OpKind::LogAppend, 2, 10_000, 512), 512);
        fixture.name_op(OpKind::Commit, 2);
        fixture.name_op(OpKind::Sync, 2);
        let expected = fixture.pattern.slice(2, 0, 32_000).to_vec();
        assert!(fixture.content("t00000001/f00000002").unwrap() == expected);
        assert!(fixture.content("t00000000/f00000001").unwrap().len() == FILE_BYTES as usize);
    });
}

#[test]
fn detects_short_read_and_bad_byte() {
    on_each(|fixture| {
        for kind in [OpKind::Read, OpKind::GetChars, OpKind::Update] {
            let short = fixture.try_op(op(kind, 0, FILE_BYTES - 10, 11));
            assert_eq!(short, Outcome::Failed(OpError::SHORT), "{kind}");
        }
        let whole = op(OpKind::ReadFile, 0, 0, FILE_BYTES as u32 + 1);
        assert_eq!(fixture.try_op(whole), Outcome::Failed(OpError::SHORT));
        fixture.spoil("t00000000/f00000000");
        let mismatch = Outcome::Failed(OpError::MISMATCH);
        for kind in [OpKind::Read, OpKind::GetChars, OpKind::Update] {
            assert_eq!(fixture.try_op(op(kind, 0, 0, 200)), mismatch, "{kind}");
        }
        assert_eq!(fixture.try_op(op(OpKind::ReadFile, 0, 0, FILE_BYTES as u32)), mismatch);
    });
}

#[test]
fn ignores_damage_in_unverified_update() {
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        let mut fixture = BackendFixture::on_directory(backend, |spec| spec.verify = false);
        let path = "t00000000/f00000000";
        let whole = fixture.content(path).unwrap();
        fixture.spoil(path);
        assert_eq!(fixture.op(OpKind::Update, 0, 0, 5_000), 5_000);
        let differ =
            fixture.content(path).unwrap().iter().zip(&whole).filter(|(a, b)| a != b).count();
        assert_eq!(differ, 1, "{backend:?}");
    }
}

#[test]
fn creates_reads_and_removes_by_name() {
    on_each(|fixture| {
        let file = 7;
        let path = "t00000001/f00000007";
        assert_eq!(fixture.op(OpKind::Create, file, 0, 10_001), 10_001);
        assert_eq!(fixture.op(OpKind::Append, file, 10_001, 9_000), 9_000);
        assert_eq!(fixture.op(OpKind::ReadFile, file, 0, 19_001), 19_001);
        assert!(fixture.content(path).unwrap() == fixture.pattern.slice(file, 0, 19_001));
        fixture.name_op(OpKind::Stat, file);
        fixture.name_op(OpKind::Remove, file);
        assert!(!fixture.is_there(path));
        for kind in [OpKind::Stat, OpKind::Remove, OpKind::Lookup] {
            assert_eq!(fixture.try_op(op(kind, file, 0, 0)), ENOENT, "{kind}");
        }
        for kind in [OpKind::ReadFile, OpKind::Append] {
            assert_eq!(fixture.try_op(op(kind, file, 0, 10)), ENOENT, "{kind}");
        }
        assert_eq!(fixture.op(OpKind::Create, file, 0, 0), 0);
        assert!(fixture.content(path).unwrap().is_empty());
    });
}

#[test]
fn opens_delegated_file_once() {
    for version in [NfsVersion::V4_1, NfsVersion::V4_2] {
        let mut fixture = BackendFixture::on_nfs(version, |spec| {
            if let Target::Nfs(target) = &mut spec.target {
                target.settings.delegations = true;
            }
        });
        let file = 7;
        fixture.op(OpKind::Create, file, 0, 10_001);
        let opens = |fixture: &BackendFixture| {
            let calls = fixture.tally().calls.unwrap();
            [OperationKind::Open, OperationKind::Close].map(|kind| calls.get(kind))
        };
        let [before, closed] = opens(&fixture);
        for _ in 0..4 {
            assert_eq!(fixture.op(OpKind::ReadFile, file, 0, 10_001), 10_001);
        }
        assert_eq!(opens(&fixture), [before + 1, closed + 1], "{version}");
        assert_eq!(fixture.tally().delegated_opens, 3);
        // An append opens the file for writing, which recalls a read delegation.
        fixture.op(OpKind::Append, file, 10_001, 9_000);
        assert_eq!(fixture.op(OpKind::ReadFile, file, 0, 19_001), 19_001);
        assert_eq!(opens(&fixture), [before + 3, closed + 3], "{version}");
        fixture.name_op(OpKind::Remove, file);
        assert_eq!(fixture.try_op(op(OpKind::ReadFile, file, 0, 10)), ENOENT);
        fixture.backend.end();
        let counters = fixture.server.as_ref().unwrap().counters();
        assert_eq!(counters.delegations_granted, counters.delegations_returned);
        assert_eq!(counters.delegations_recalled, 0);
    }
}

#[test]
fn names_lead_there_and_back() {
    on_each(|fixture| {
        let file = "t00000001/f00000003";
        let other = "t00000001/g00000003";
        fixture.op(OpKind::Rename, 3, 0, 0);
        assert!(fixture.is_there(other) && !fixture.is_there(file));
        fixture.op(OpKind::Rename, 3, 1, 0);
        assert!(fixture.is_there(file) && !fixture.is_there(other));
        for number in [0, 12] {
            fixture.op(OpKind::Link, 3, number, 0);
            let second = format!("t00000001/h{number:08}");
            assert!(fixture.is_there(file) && fixture.content(&second) == fixture.content(file));
        }

        let made = "t00000000/d00000005";
        let moved = "t00000000/e00000005";
        fixture.name_op(OpKind::Mkdir, 5);
        fixture.name_op(OpKind::StatDir, 5);
        fixture.op(OpKind::RenameDir, 5, 0, 0);
        assert!(fixture.is_there(moved) && !fixture.is_there(made));
        fixture.op(OpKind::RenameDir, 5, 1, 0);
        fixture.name_op(OpKind::Rmdir, 5);
        assert!(!fixture.is_there(made));
        assert_eq!(fixture.try_op(op(OpKind::StatDir, 5, 0, 0)), ENOENT);
    });
}

#[test]
fn sets_and_reads_named_attributes() {
    let test = |mut fixture: BackendFixture, missing: u32| {
        let failed = Outcome::Failed(OpError(missing));
        let first = fixture.try_op(op(OpKind::GetXattr, 2, 0, 0));
        // The file system of the temporary directory may have none.
        if first == Outcome::Failed(OpError(95)) {
            return;
        }
        assert_eq!(first, failed);
        fixture.name_op(OpKind::SetXattr, 2);
        fixture.name_op(OpKind::GetXattr, 2);
        assert_eq!(fixture.try_op(op(OpKind::GetXattr, 3, 0, 0)), failed);
        assert_eq!(fixture.try_op(op(OpKind::SetXattr, 77, 0, 0)), ENOENT);
    };
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        test(BackendFixture::on_directory(backend, |_| ()), 61);
    }
    test(BackendFixture::on_nfs(NfsVersion::V4_2, |_| ()), 10_095);
    let mut older = BackendFixture::on_nfs(NfsVersion::V4_1, |_| ());
    for kind in [OpKind::SetXattr, OpKind::GetXattr] {
        assert_eq!(older.try_op(op(kind, 2, 0, 0)), Outcome::Failed(OpError(10_004)));
    }
}

#[test]
fn links_are_made_read_and_removed() {
    on_each(|fixture| {
        let path = "t00000001/l00000042";
        fixture.name_op(OpKind::Symlink, 42);
        assert!(fixture.is_there(path));
        fixture.name_op(OpKind::Readlink, 42);
        fixture.name_op(OpKind::Readlink, 2);
        fixture.name_op(OpKind::Unlink, 42);
        assert!(!fixture.is_there(path));
        assert_eq!(fixture.try_op(op(OpKind::Readlink, 42, 0, 0)), ENOENT);
    });
}

#[test]
fn answers_queries_and_missing_names() {
    on_each(|fixture| {
        for kind in [
            OpKind::Null,
            OpKind::Getattr,
            OpKind::Lookup,
            OpKind::LookupMissing,
            OpKind::Access,
            OpKind::Readdir,
            OpKind::ReaddirPlus,
            OpKind::Fsstat,
            OpKind::Fsinfo,
            OpKind::Pathconf,
        ] {
            fixture.name_op(kind, 1);
        }
        fixture.set_mode("t00000000/f00000001", 0o600);
        fixture.name_op(OpKind::Setattr, 1);
        assert_eq!(fixture.mode("t00000000/f00000001"), 0o644);
        let execute = fixture.try_op(op(OpKind::Execute, 0, 0, 0));
        assert!(matches!(execute, Outcome::Failed(_)), "backends don't run commands");
    });
}

#[test]
fn completes_many_ops_at_once() {
    on_each(|fixture| {
        let mut ops = Vec::new();
        for number in 0..40 {
            ops.push(op(OpKind::Create, 100 + number, 0, 1_000 + number));
            ops.push(op(OpKind::Read, number % FILES, u64::from(number) * 100, 2_000));
            ops.push(op(OpKind::Mkdir, 100 + number, 0, 0));
            ops.push(op(OpKind::Readdir, number % 2, u64::from(number), 0));
            ops.push(op(OpKind::Stat, 900 + number, 0, 0));
        }
        let outcomes = fixture.all(&ops);
        for (op, outcome) in ops.iter().zip(outcomes) {
            let expected =
                if op.kind == OpKind::Stat { ENOENT } else { Outcome::Done(op.len_bytes) };
            assert_eq!(outcome, expected, "{op:?}");
        }
        if let Some(counted) = fixture.tally().ops {
            let written = u64::from(FILES) * FILE_BYTES / 4_000;
            assert_eq!(counted, ops.len() as u64 + written);
        }
        let inventory = fixture.target.inventory(InventoryScope::All).unwrap().unwrap();
        let created: u64 = (0..40).map(|number| 1_000 + number).sum();
        assert_eq!(inventory.files, 40 + u64::from(FILES));
        assert_eq!(inventory.bytes, created + u64::from(FILES) * FILE_BYTES);
        assert_eq!((inventory.directories, inventory.links), (2 + 40, 20));
    });
}
