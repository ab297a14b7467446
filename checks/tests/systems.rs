//! File systems that recipes set up on hosts over real sshd: GlusterFS, MooseFS, unfs3, and our own
//! server.
//!
//! Needs what `cargo xtask setup` doesn't install: glusterfs-server, moosefs-master,
//! moosefs-chunkserver and moosefs-client, and unfs3, which Debian 12 doesn't have. So `cargo xtask
//! real systems` alone runs it.

use anyhow::Result;
use checks::check::Fixture;
use checks::checks;
use checks::hosts::Lab;
use checks::systems::{SHORT, Subject};

static LAB: Fixture<Lab> = Fixture::new(|| Lab::start(2));

checks! {
    glusterfs_is_measured_in_three_layouts: 600 s, {
        let layouts = "layout = [\"distribute\", \"replica\", \"disperse\"]";
        measured(&Subject { settings: layouts, ..GLUSTERFS }, 3)
    };
    glusterfs_is_killed_and_cleaned: 600 s, GLUSTERFS.kill_and_clean(LAB.get()?);
    moosefs_is_measured_with_and_without_fsync: 600 s, {
        measured(&Subject { settings: "fsync = [0, 1]", ..MOOSEFS }, 2)
    };
    moosefs_is_killed_and_cleaned: 600 s, MOOSEFS.kill_and_clean(LAB.get()?);
    unfs3_is_measured: 600 s, measured(&UNFS3, 1);
    unfs3_is_killed_and_cleaned: 600 s, UNFS3.kill_and_clean(LAB.get()?);
    our_server_is_measured_with_its_settings: 600 s, {
        measured(&Subject { settings: "threads = [1, 2]", ..OURS }, 2)
    };
    our_server_is_killed_and_cleaned: 600 s, OURS.kill_and_clean(LAB.get()?);
}

const GLUSTERFS: Subject = Subject {
    system: "glusterfs",
    target: "tmpfs_size = \"600MiB\"",
    settings: "layout = \"replica\"",
    port: 24007,
    is_mounted: true,
};

const MOOSEFS: Subject = Subject {
    system: "moosefs",
    target: "tmpfs_size = \"2GiB\"",
    settings: "servers = 2",
    port: 9421,
    is_mounted: true,
};

const UNFS3: Subject = Subject {
    system: "unfs3",
    target: "backend = \"nfs\"\nnfsvers = 3\ntmpfs_size = \"600MiB\"",
    settings: "",
    port: 20495,
    is_mounted: false,
};

const OURS: Subject = Subject {
    system: "dfsbench",
    target: "backend = \"nfs\"\nnfsvers = 4.1",
    settings: "threads = 2",
    port: 20494,
    is_mounted: false,
};

/// Measures a system; a stream has two passes, metadata three.
fn measured(subject: &Subject, settings: usize) -> Result<()> {
    subject.measure(LAB.get()?, SHORT, settings * PASSES)
}

const PASSES: usize = 5;
