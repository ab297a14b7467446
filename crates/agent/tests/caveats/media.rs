//! Frames of streams: each is counted, and those that a slow server delivers too late are found.

use std::sync::Arc;

use model::{
    Arrivals, CaveatCode, Durability, FrameDelivery, Load, Media, NfsVersion, Pass, PassResult,
    RunSpec, Target, Workload,
};
use nfs_server::{BandwidthCap, CappedBytes, FaultPlan, Server, ServerConfig};

use crate::driven_agent::{DrivenAgent, evidence, nfs, stream};

const FRAMES: u32 = 24;
const FRAME_BYTES: u64 = 96 << 10;

/// Streams of small frames at 100 frames per second, buffered for `frame_buffer` frame times.
fn media(on: &RunSpec, workers: u32, frame_buffer: u32) -> RunSpec {
    let media = Media { frame_rate: 100, frame_buffer };
    let rate_per_s = u64::from(media.frame_rate * workers);
    RunSpec {
        workload: Workload::Media,
        passes: vec![Pass::Record, Pass::Play],
        files: FRAMES,
        file_size_bytes: FRAME_BYTES,
        io_size_bytes: 32 << 10,
        queue_depth: 1,
        workers,
        verify: true,
        load: Load { rate_per_s, arrivals: Arrivals::Constant, ..Load::default() },
        media,
        ..on.clone()
    }
}

/// Asserts that exactly the frames were moved, and that nobody counted anything else.
fn assert_whole(result: &PassResult) {
    assert_eq!((result.ops(), result.errors()), (FRAMES.into(), 0), "{}", result.pass);
    assert_eq!(result.bytes(), u64::from(FRAMES) * FRAME_BYTES, "{}", result.pass);
    for check in &result.cross_checks {
        assert_eq!(check.expected, check.found, "{check:?}");
    }
    let accounting = evidence(&result.caveats, CaveatCode::Accounting);
    assert_eq!(accounting, None, "{}", result.pass);
}

#[test]
fn counts_frames_of_directories() {
    let directory = tempfile::tempdir().unwrap();
    // Ten seconds of buffer, so that no frame is late on a busy machine.
    let mut spec = media(&stream(directory.path()), 3, 1_000);
    for durability in [Durability::Sync, Durability::None] {
        spec.durability = durability;
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        for pass in [Pass::Record, Pass::Play] {
            let result = agent.run(pass).result;
            assert_whole(&result);
            let all = FrameDelivery { frames: 24, streams: 3, ..FrameDelivery::default() };
            assert_eq!(result.scope.frames, Some(all));
            let is_unsafe = pass == Pass::Record && durability == Durability::None;
            let not_durable = evidence(&result.caveats, CaveatCode::NotDurable);
            assert_eq!(not_durable.is_some(), is_unsafe, "{pass} {durability}: {not_durable:?}");
        }
        agent.end();
    }
}

#[test]
fn counts_frames_of_all_versions() {
    for version in NfsVersion::ALL {
        let server = Arc::new(Server::start(ServerConfig::default()).unwrap());
        let mut spec = media(&nfs(&server), 2, 1_000);
        let Target::Nfs(target) = &mut spec.target else { unreachable!() };
        target.settings.version = *version;
        let mut agent = DrivenAgent::beside(&server);
        agent.begin(&spec);
        for pass in [Pass::Record, Pass::Play] {
            let result = agent.run(pass).result;
            assert_whole(&result);
            assert_eq!(result.scope.frames.unwrap().late_frames, 0, "{version} {pass}");
        }
        agent.end();
    }
}

#[test]
fn counts_late_frames_of_slow_server() {
    // Frames are asked for every 10 ms and take 12 ms. So frame n, from 1, is complete 12 n ms
    // after the first was asked for at the earliest, and due 10 (n - 1) ms after that plus 10 ms
    // for each frame in the buffer.
    let bandwidth = BandwidthCap {
        bytes_per_s: FRAME_BYTES * 1_000 / 12,
        counts: CappedBytes::Payload,
        burst_bytes: 0,
    };
    let faults = FaultPlan { bandwidth: Some(bandwidth), ..FaultPlan::default() };
    let server =
        Arc::new(Server::start(ServerConfig { faults, ..ServerConfig::default() }).unwrap());
    let played = |frame_buffer: u32| {
        let mut spec = media(&nfs(&server), 1, frame_buffer);
        spec.passes = vec![Pass::Play];
        let mut agent = DrivenAgent::beside(&server);
        agent.begin(&spec);
        let result = agent.run(Pass::Play).result;
        assert_whole(&result);
        agent.end();
        let below = evidence(&result.caveats, CaveatCode::BelowOffered).is_some();
        (result.scope.frames.unwrap(), below)
    };
    let (frames, is_below_offered) = played(1);
    assert_eq!((frames.late_frames, frames.late_streams, frames.streams), (24, 1, 1));
    assert!(frames.worst_lateness_ns >= 48_000_000, "{frames:?}");
    assert!(is_below_offered);
    // From frame 11 on, 2 n ms are more than the 20 ms of the additional buffer.
    let (frames, _) = played(3);
    assert!((14..=24).contains(&frames.late_frames), "{frames:?}");
    assert!(frames.worst_lateness_ns >= 28_000_000, "{frames:?}");
    let (frames, _) = played(1_000);
    assert_eq!((frames.late_frames, frames.worst_lateness_ns), (0, 0));
}
