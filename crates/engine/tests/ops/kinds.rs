//! What each kind of op does, on all backends alike.

use engine::InventoryScope;
use engine::backend::OperationKind;
use model::{BackendKind, NfsVersion, Op, OpError, OpKind, Outcome, Target};

use crate::rig::{FILE_BYTES, FILES, IO_BYTES, Rig};

const ENOENT: Outcome = Outcome::Failed(OpError(2));

fn on_each(test: impl Fn(&mut Rig)) {
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        test(&mut Rig::on_directory(backend, |_| ()));
    }
    for version in NfsVersion::ALL {
        test(&mut Rig::on_nfs(*version, |_| ()));
    }
}

const fn op(kind: OpKind, file: u32, offset_bytes: u64, len_bytes: u32) -> Op {
    Op { scheduled_ns: 0, offset_bytes, len_bytes, file, kind }
}

#[test]
fn reads_and_writes_move_the_bytes_of_their_place() {
    on_each(|rig| {
        for kind in [OpKind::Read, OpKind::GetChars] {
            assert_eq!(rig.op(kind, 1, 3_000, IO_BYTES), IO_BYTES);
            assert_eq!(rig.op(kind, 1, FILE_BYTES - 10, 10), 10);
        }
        for (kind, offset) in [(OpKind::Write, 20_000), (OpKind::PutChars, 26_000)] {
            assert_eq!(rig.op(kind, 2, offset, IO_BYTES), IO_BYTES);
        }
        assert_eq!(rig.op(OpKind::Update, 2, 1_000, 5_000), 5_000);
        rig.name_op(OpKind::Commit, 2);
        rig.name_op(OpKind::Sync, 2);
        let expected = rig.pattern.slice(2, 0, 32_000).to_vec();
        assert!(rig.content("t00000001/f00000002").unwrap() == expected);
        assert!(rig.content("t00000000/f00000001").unwrap().len() == FILE_BYTES as usize);
    });
}

#[test]
fn a_read_beyond_the_end_is_short_and_a_spoiled_byte_is_seen() {
    on_each(|rig| {
        for kind in [OpKind::Read, OpKind::GetChars, OpKind::Update] {
            let short = rig.try_op(op(kind, 0, FILE_BYTES - 10, 11));
            assert_eq!(short, Outcome::Failed(OpError::SHORT), "{kind}");
        }
        let whole = op(OpKind::ReadFile, 0, 0, FILE_BYTES as u32 + 1);
        assert_eq!(rig.try_op(whole), Outcome::Failed(OpError::SHORT));
        rig.spoil("t00000000/f00000000");
        let mismatch = Outcome::Failed(OpError::MISMATCH);
        for kind in [OpKind::Read, OpKind::GetChars, OpKind::Update] {
            assert_eq!(rig.try_op(op(kind, 0, 0, 200)), mismatch, "{kind}");
        }
        assert_eq!(rig.try_op(op(OpKind::ReadFile, 0, 0, FILE_BYTES as u32)), mismatch);
    });
}

#[test]
fn an_update_leaves_damage_that_it_does_not_check() {
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        let mut rig = Rig::on_directory(backend, |spec| spec.verify = false);
        let path = "t00000000/f00000000";
        let whole = rig.content(path).unwrap();
        rig.spoil(path);
        assert_eq!(rig.op(OpKind::Update, 0, 0, 5_000), 5_000);
        let differ = rig.content(path).unwrap().iter().zip(&whole).filter(|(a, b)| a != b).count();
        assert_eq!(differ, 1, "{backend:?}");
    }
}

#[test]
fn files_are_created_read_appended_and_removed_by_name() {
    on_each(|rig| {
        let (file, path) = (7, "t00000001/f00000007");
        assert_eq!(rig.op(OpKind::Create, file, 0, 10_001), 10_001);
        assert_eq!(rig.op(OpKind::Append, file, 10_001, 9_000), 9_000);
        assert_eq!(rig.op(OpKind::ReadFile, file, 0, 19_001), 19_001);
        assert!(rig.content(path).unwrap() == rig.pattern.slice(file, 0, 19_001));
        rig.name_op(OpKind::Stat, file);
        rig.name_op(OpKind::Remove, file);
        assert!(!rig.is_there(path));
        for kind in [OpKind::Stat, OpKind::Remove, OpKind::Lookup] {
            assert_eq!(rig.try_op(op(kind, file, 0, 0)), ENOENT, "{kind}");
        }
        for kind in [OpKind::ReadFile, OpKind::Append] {
            assert_eq!(rig.try_op(op(kind, file, 0, 10)), ENOENT, "{kind}");
        }
        assert_eq!(rig.op(OpKind::Create, file, 0, 0), 0);
        assert!(rig.content(path).unwrap().is_empty());
    });
}

#[test]
fn a_delegated_file_is_opened_once_until_the_client_changes_it() {
    for version in [NfsVersion::V4_1, NfsVersion::V4_2] {
        let mut rig = Rig::on_nfs(version, |spec| {
            if let Target::Nfs(target) = &mut spec.target {
                target.settings.delegations = true;
            }
        });
        let file = 7;
        rig.op(OpKind::Create, file, 0, 10_001);
        let opens = |rig: &Rig| {
            let calls = rig.tally().calls.unwrap();
            [OperationKind::Open, OperationKind::Close].map(|kind| calls.of(kind))
        };
        let [before, closed] = opens(&rig);
        for _ in 0..4 {
            assert_eq!(rig.op(OpKind::ReadFile, file, 0, 10_001), 10_001);
        }
        assert_eq!(opens(&rig), [before + 1, closed + 1], "{version}");
        assert_eq!(rig.tally().delegated_opens, 3);
        // What is appended is opened to write, which no delegation to read outlives.
        rig.op(OpKind::Append, file, 10_001, 9_000);
        assert_eq!(rig.op(OpKind::ReadFile, file, 0, 19_001), 19_001);
        assert_eq!(opens(&rig), [before + 3, closed + 3], "{version}");
        rig.name_op(OpKind::Remove, file);
        assert_eq!(rig.try_op(op(OpKind::ReadFile, file, 0, 10)), ENOENT);
        rig.backend.end();
        let counters = rig.server.as_ref().unwrap().counters();
        assert_eq!(counters.delegations_granted, counters.delegations_returned);
        assert_eq!(counters.delegations_recalled, 0);
    }
}

#[test]
fn names_lead_there_and_back() {
    on_each(|rig| {
        let (file, other) = ("t00000001/f00000003", "t00000001/g00000003");
        rig.op(OpKind::Rename, 3, 0, 0);
        assert!(rig.is_there(other) && !rig.is_there(file));
        rig.op(OpKind::Rename, 3, 1, 0);
        assert!(rig.is_there(file) && !rig.is_there(other));
        for number in [0, 12] {
            rig.op(OpKind::Link, 3, number, 0);
            let second = format!("t00000001/h{number:08}");
            assert!(rig.is_there(file) && rig.content(&second) == rig.content(file));
        }

        let (made, moved) = ("t00000000/d00000005", "t00000000/e00000005");
        rig.name_op(OpKind::Mkdir, 5);
        rig.name_op(OpKind::StatDir, 5);
        rig.op(OpKind::RenameDir, 5, 0, 0);
        assert!(rig.is_there(moved) && !rig.is_there(made));
        rig.op(OpKind::RenameDir, 5, 1, 0);
        rig.name_op(OpKind::Rmdir, 5);
        assert!(!rig.is_there(made));
        assert_eq!(rig.try_op(op(OpKind::StatDir, 5, 0, 0)), ENOENT);
    });
}

#[test]
fn attributes_are_set_and_read_by_name_where_the_version_has_them() {
    let test = |mut rig: Rig, missing: u32| {
        let failed = Outcome::Failed(OpError(missing));
        let first = rig.try_op(op(OpKind::GetXattr, 2, 0, 0));
        // The file system of the temporary directory may have none.
        if first == Outcome::Failed(OpError(95)) {
            return;
        }
        assert_eq!(first, failed);
        rig.name_op(OpKind::SetXattr, 2);
        rig.name_op(OpKind::GetXattr, 2);
        assert_eq!(rig.try_op(op(OpKind::GetXattr, 3, 0, 0)), failed);
        assert_eq!(rig.try_op(op(OpKind::SetXattr, 77, 0, 0)), ENOENT);
    };
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        test(Rig::on_directory(backend, |_| ()), 61);
    }
    test(Rig::on_nfs(NfsVersion::V4_2, |_| ()), 10_095);
    let mut older = Rig::on_nfs(NfsVersion::V4_1, |_| ());
    for kind in [OpKind::SetXattr, OpKind::GetXattr] {
        assert_eq!(older.try_op(op(kind, 2, 0, 0)), Outcome::Failed(OpError(10_004)));
    }
}

#[test]
fn links_are_made_read_and_removed() {
    on_each(|rig| {
        let path = "t00000001/l00000042";
        rig.name_op(OpKind::Symlink, 42);
        assert!(rig.is_there(path));
        rig.name_op(OpKind::Readlink, 42);
        rig.name_op(OpKind::Readlink, 2);
        rig.name_op(OpKind::Unlink, 42);
        assert!(!rig.is_there(path));
        assert_eq!(rig.try_op(op(OpKind::Readlink, 42, 0, 0)), ENOENT);
    });
}

#[test]
fn questions_are_answered_and_a_missing_name_is_missing() {
    on_each(|rig| {
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
            rig.name_op(kind, 1);
        }
        rig.set_mode("t00000000/f00000001", 0o600);
        rig.name_op(OpKind::Setattr, 1);
        assert_eq!(rig.mode("t00000000/f00000001"), 0o644);
        let execute = rig.try_op(op(OpKind::Execute, 0, 0, 0));
        assert!(matches!(execute, Outcome::Failed(_)), "a backend runs no commands");
    });
}

#[test]
fn many_ops_at_once_all_come_back_as_what_they_were() {
    on_each(|rig| {
        let mut ops = Vec::new();
        for number in 0..40 {
            ops.push(op(OpKind::Create, 100 + number, 0, 1_000 + number));
            ops.push(op(OpKind::Read, number % FILES, u64::from(number) * 100, 2_000));
            ops.push(op(OpKind::Mkdir, 100 + number, 0, 0));
            ops.push(op(OpKind::Readdir, number % 2, u64::from(number), 0));
            ops.push(op(OpKind::Stat, 900 + number, 0, 0));
        }
        let outcomes = rig.all(&ops);
        for (op, outcome) in ops.iter().zip(outcomes) {
            let expected =
                if op.kind == OpKind::Stat { ENOENT } else { Outcome::Done(op.len_bytes) };
            assert_eq!(outcome, expected, "{op:?}");
        }
        if let Some(counted) = rig.tally().ops {
            let written = u64::from(FILES) * FILE_BYTES / 4_000;
            assert_eq!(counted, ops.len() as u64 + written);
        }
        let inventory = rig.target.inventory(InventoryScope::All).unwrap().unwrap();
        let created: u64 = (0..40).map(|number| 1_000 + number).sum();
        assert_eq!(inventory.files, 40 + u64::from(FILES));
        assert_eq!(inventory.bytes, created + u64::from(FILES) * FILE_BYTES);
        assert_eq!((inventory.directories, inventory.links), (2 + 40, 20));
    });
}
