//! How settings change the execution of ops.

use engine::InventoryScope;
use model::testing::RunBuilder;
use model::{
    BackendKind, Durability, Fill, Layout, NfsVersion, OpKind, Opens, Pass, RunSpec, Sharing,
    Target, Workload,
};
use nfs_client::proto::nfs3::Procedure;
use rustix::fs::OFlags;

use super::backend_fixture::{BackendFixture, pass_on_directory};

/// A stream of two small files; their bytes are verified.
fn stream(change: impl FnOnce(&mut RunSpec)) -> RunSpec {
    let mut spec = RunBuilder::new(Workload::Stream)
        .target(Target::Null)
        .backend(BackendKind::Posix)
        .io_size_bytes(8192)
        .file_size_bytes(8192 * 5)
        .files(2)
        .verify(true)
        .durability(Durability::Sync)
        .build();
    change(&mut spec);
    spec
}

#[test]
fn moves_same_bytes_when_mapped() {
    let spec = stream(|spec| spec.layout.mmap = true);
    let passes = [Pass::Write, Pass::Read, Pass::Rewrite, Pass::RandomRead, Pass::RandomWrite];
    pass_on_directory(&spec, &passes, |work, pattern| {
        for (file, name) in ["f00000000", "f00000001"].iter().enumerate() {
            let found = std::fs::read(work.join(name)).unwrap();
            assert!(found == pattern.slice(file as u32, 0, 8192 * 5), "{name}");
        }
    });
}

#[test]
fn keeps_bytes_in_all_access_styles() {
    for backend in [BackendKind::Posix, BackendKind::Uring] {
        let spec = stream(|spec| spec.backend = backend);
        let passes = [Pass::CharWrite, Pass::CharRead, Pass::Update, Pass::ReadFiles, Pass::Read];
        pass_on_directory(&spec, &passes, |work, pattern| {
            let found = std::fs::read(work.join("f00000001")).unwrap();
            assert!(found == pattern.slice(1, 0, 8192 * 5));
        });
    }
}

#[test]
fn waits_for_every_write_if_planned() {
    for (durability, flag) in
        [(Durability::Dsync, OFlags::DSYNC), (Durability::Osync, OFlags::SYNC)]
    {
        let spec = stream(|spec| spec.durability = durability);
        let (target, _directory) = BackendFixture::target(&spec);
        target.prepare(&spec, Pass::Write).unwrap();
        let opened = target.open(&spec, Pass::Write, 0).unwrap();
        let flags = flags_of_open_files(&target.local_paths()[0]);
        assert_eq!(flags.len(), 2);
        assert!(flags.iter().all(|flags| flags.contains(flag)), "{durability}: {flags:?}");
        drop(opened);
    }
}

/// Returns the flags of our descriptors for files in a directory.
fn flags_of_open_files(work: &std::path::Path) -> Vec<OFlags> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = entries.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target.parent() == Some(work))
    });
    let flags = ours.map(|entry| {
        let number = entry.file_name().into_string().unwrap();
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
        let octal = text.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
        OFlags::from_bits_retain(u32::from_str_radix(octal, 8).unwrap())
    });
    flags.collect()
}

#[test]
fn does_not_read_unwritten_data() {
    for zeros in [false, true] {
        let spec = stream(|spec| {
            if zeros {
                spec.data.fill = Fill::Zeros;
            }
        });
        assert_eq!(Pass::Read.opens(), Opens::ToRead);
        let (target, _directory) = BackendFixture::target(&spec);
        target.prepare(&spec, Pass::Write).unwrap();
        let work = target.local_paths().remove(0);
        // The pass that should have written the file wrote a part of it and left a hole.
        for name in ["f00000000", "f00000001"] {
            std::fs::write(work.join(name), [1; 4096]).unwrap();
        }
        let refused = |target: &engine::TrialTarget| match target.open(&spec, Pass::Read, 0) {
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        let message = refused(&target).expect("short files are rejected");
        assert!(message.contains("never written") && message.contains("4 KiB"), "{message}");
        let file = std::fs::File::options().write(true).open(work.join("f00000000")).unwrap();
        file.set_len(8192 * 5).unwrap();
        let message = refused(&target).expect("the other file is short");
        assert_eq!(message.contains("f00000001"), zeros, "{message}");
    }
}

#[test]
fn counts_and_removes_trees() {
    let mut spec = stream(|spec| (spec.workload, spec.files) = (Workload::Metadata, 30));
    spec.file_size_bytes = 10;
    spec.workers = 2;
    spec.tree.sharing = Sharing::Own;
    spec.tree.depth = 2;
    spec.tree.branching = 3;
    let (target, directory) = BackendFixture::target(&spec);
    target.prepare(&spec, Pass::Stat).unwrap();
    target.prepare(&spec, Pass::Rmdir).unwrap();
    let inventory = target.inventory(InventoryScope::All).unwrap().unwrap();
    // Two trees of 1 + 3 + 9 directories, and the 30 directories that ops work on.
    assert_eq!((inventory.files, inventory.bytes, inventory.directories), (30, 300, 26 + 30));
    target.remove().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn counts_and_removes_remote_trees() {
    for version in [NfsVersion::V2, NfsVersion::V3, NfsVersion::V4_1] {
        let fixture = BackendFixture::on_nfs(version, |_| ());
        let inventory = fixture.target.inventory(InventoryScope::All).unwrap().unwrap();
        assert_eq!((inventory.files, inventory.directories, inventory.links), (4, 2, 20));
        assert!(fixture.is_working_directory_there());
        fixture.end_and_look(|is_there| assert!(!is_there, "version {version}"));
    }
}

#[test]
fn writes_with_requested_stability() {
    for (durability, commits) in [(Durability::Osync, 0), (Durability::None, 1)] {
        let mut fixture =
            BackendFixture::on_nfs(NfsVersion::V3, |spec| spec.durability = durability);
        let before = fixture.server.as_ref().unwrap().counters().calls_of(Procedure::Commit);
        fixture.name_op(OpKind::Sync, 0);
        let after = fixture.server.as_ref().unwrap().counters().calls_of(Procedure::Commit);
        assert_eq!(after - before, commits, "{durability}");
    }
}

#[test]
fn reports_backend_deviations() {
    let evidence_of = |fixture: &BackendFixture, spec: &RunSpec, pass: Pass| {
        let caveats = fixture.target.open(spec, pass, 0).unwrap().caveats;
        caveats.into_iter().map(|caveat| caveat.evidence).collect::<Vec<_>>().join("; ")
    };
    let mut spec = None;
    let fixture =
        BackendFixture::on_directory(BackendKind::Uring, |made| spec = Some(made.clone()));
    let uring = spec.take().unwrap();
    let evidence = evidence_of(&fixture, &uring, Pass::OpMix);
    assert!(evidence.contains("setattr, access, readlink"), "{evidence}");
    let layout = Layout { mmap: true, ..uring.layout };
    let mapped = RunBuilder::from(uring).layout(layout).build();
    assert!(evidence_of(&fixture, &mapped, Pass::Create).contains("uring cannot map files"));

    for (version, expected) in [(NfsVersion::V2, true), (NfsVersion::V3, false)] {
        let fixture = BackendFixture::on_nfs(version, |made| spec = Some(made.clone()));
        let mut mix = spec.take().unwrap();
        mix.op_mix.shares = vec![(OpKind::Access, 10_000)];
        let evidence = evidence_of(&fixture, &mix, Pass::OpMix);
        assert_eq!(evidence.contains("GETATTR for access"), expected, "{version}: {evidence}");
    }
}
