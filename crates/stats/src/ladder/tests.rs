//! Tests with ladders that each have one known limit.

#![allow(clippy::float_cmp, reason = "exact figures are the point")]

use model::question::ladder::Layer;
use proptest::prelude::*;

use super::{LayerAnalysis, Limit, MeasuredLayer, analyze_layers};

/// Returns five trials around a time in ns per byte, without waiting.
fn layer(layer: Layer, time_ns: f64) -> MeasuredLayer {
    waiting(layer, time_ns, 0.0)
}

fn waiting(layer: Layer, time_ns: f64, wait: f64) -> MeasuredLayer {
    let times_ns = [0.98, 0.99, 1.0, 1.01, 1.02].map(|x| x * time_ns).to_vec();
    MeasuredLayer { layer, times_ns, waits: vec![wait; 5], held: vec![0.0; 5] }
}

fn share(analysis: &LayerAnalysis, wanted: Layer) -> Option<f64> {
    analysis.shares.iter().find(|(layer, _)| *layer == wanted).unwrap().1
}

fn usual(tcp: f64, own: f64, disk: f64, server: f64) -> Vec<MeasuredLayer> {
    vec![
        layer(Layer::Null, 0.001),
        layer(Layer::Memory, 0.1),
        layer(Layer::Disk, disk),
        layer(Layer::Tcp, tcp),
        layer(Layer::Own, own),
        layer(Layer::Server, server),
    ]
}

#[test]
fn names_slow_server_beside_ours() {
    let analysis = analyze_layers(&usual(0.5, 1.0, 0.8, 10.0)).unwrap();
    assert_eq!(analysis.limit, Limit::Layer(Layer::Server));
    assert_eq!(share(&analysis, Layer::Server), Some(0.9));
    assert_eq!(analysis.gain, 10.0);
    assert!(analysis.gain_interval.0 > 9.5 && analysis.gain_interval.1 < 10.5);
    assert_eq!(analysis.next, Some(Limit::Layer(Layer::Own)));
    assert!(analysis.is_sure() && analysis.confidence == 1.0 - 2.0 / 32.0);
}

#[test]
fn names_slow_link_then_disk() {
    // 100 Mbit/s are 80 ns per byte; our parts and the server's add next to nothing.
    let analysis = analyze_layers(&usual(84.0, 84.1, 12.0, 84.3)).unwrap();
    assert_eq!(analysis.limit, Limit::Layer(Layer::Tcp));
    assert!(share(&analysis, Layer::Tcp).unwrap() > 0.99);
    // Concurrent work limits the gain: the disk's 12 ns.
    assert_eq!(analysis.gain, 84.3 / 12.0);
    assert_eq!(analysis.next, Some(Limit::Layer(Layer::Disk)));
    // The disk is part of the path, but hidden behind the network.
    assert_eq!(share(&analysis, Layer::Disk), Some(0.0));
}

#[test]
fn names_slow_disk_behind_server() {
    let analysis = analyze_layers(&usual(0.5, 1.0, 200.0, 202.0)).unwrap();
    assert_eq!(analysis.limit, Limit::Layer(Layer::Disk));
    // Sequential work can be removed. What remains is 2 ns of the server and 0.1 below the disk.
    assert_eq!(analysis.gain.round(), (202.0_f64 / 2.1).round());
    assert_eq!(analysis.next, Some(Limit::Layer(Layer::Server)));
}

#[test]
fn shares_add_up_to_the_whole() {
    for ladder in [usual(0.5, 1.0, 0.8, 10.0), usual(84.0, 84.1, 12.0, 84.3)] {
        let all: f64 =
            analyze_layers(&ladder).unwrap().shares.iter().filter_map(|(_, share)| *share).sum();
        assert!((all - 1.0).abs() < 1e-12, "{all}");
    }
}

#[test]
fn names_small_transfers_before_server() {
    let mut ladder = usual(0.5, 1.0, 0.8, 20.0);
    ladder.insert(5, layer(Layer::Whole, 2.0));
    let analysis = analyze_layers(&ladder).unwrap();
    // The data path under test adds its transfer size on top of the server's default.
    assert_eq!(analysis.limit, Limit::Layer(Layer::Server));
    assert_eq!(share(&analysis, Layer::Server), Some(0.9));
    assert_eq!(share(&analysis, Layer::Whole), Some(0.05));
}

#[test]
fn names_client_short_of_cpu() {
    let mut ladder = usual(0.5, 1.0, 0.8, 1.2);
    for layer in &mut ladder {
        layer.times_ns.iter_mut().for_each(|time| *time *= 10.0);
        layer.waits = vec![0.9; 5];
    }
    let analysis = analyze_layers(&ladder).unwrap();
    assert_eq!(analysis.limit, Limit::Processor);
    assert!((analysis.gain - 10.0).abs() < 1e-9, "{}", analysis.gain);
    assert_eq!(analysis.next, Some(Limit::Layer(Layer::Own)));
}

#[test]
fn names_client_held_by_quota() {
    // Nearly all of the remaining time is NFS in our client. This exceeds the 85 % in which it was
    // throttled, but it is only what the client did while it could run.
    let mut ladder = usual(0.1, 20.0, 0.1, 20.0);
    for layer in &mut ladder {
        layer.waits = vec![0.85; 5];
    }
    assert_eq!(analyze_layers(&ladder).unwrap().limit, Limit::Layer(Layer::Own));
    // The kernel doesn't count every pause.
    ladder[1].held = vec![0.0, 0.0, 0.85, 0.0, 0.0];
    let analysis = analyze_layers(&ladder).unwrap();
    assert_eq!((analysis.limit, analysis.is_held), (Limit::Processor, true));
    assert!(analysis.is_sure() && (analysis.gain - 1.0 / 0.15).abs() < 1e-9, "{analysis:?}");
    assert_eq!(analysis.next, Some(Limit::Layer(Layer::Own)));
    // A quota that is only hit occasionally doesn't decide.
    ladder[1].held = vec![0.2; 5];
    assert_eq!(analyze_layers(&ladder).unwrap().limit, Limit::Layer(Layer::Own));
    // Nor does one that hardly affects the data path under test.
    ladder[1].held = vec![0.85; 5];
    for layer in &mut ladder {
        layer.waits = vec![0.3; 5];
    }
    let analysis = analyze_layers(&ladder).unwrap();
    assert_eq!((analysis.limit, analysis.is_held), (Limit::Layer(Layer::Own), false));
}

#[test]
fn does_not_blame_inherent_waiting() {
    // Small transfers take CPU time, and wait for it on a busy host.
    let ladder = [
        waiting(Layer::Memory, 0.2, 0.4),
        waiting(Layer::Tcp, 0.5, 0.4),
        waiting(Layer::Whole, 1.0, 0.4),
        waiting(Layer::Own, 8.0, 0.5),
    ];
    let analysis = analyze_layers(&ladder).unwrap();
    assert_eq!((analysis.limit, analysis.waited), (Limit::Layer(Layer::Own), 0.5));
    // As fast as with the server's transfer size, which also waits.
    assert!((analysis.gain - 8.0).abs() < 1e-9, "{}", analysis.gain);
}

#[test]
fn shares_agree_with_the_rates() {
    // 7642, 4444 and 3786 MB/s. Over loopback, our server uses the CPU half of the time while the
    // client waits for it. Without that waiting, TCP would seem as fast as memory.
    let ladder = [
        layer(Layer::Null, 0.008),
        layer(Layer::Memory, 1e3 / 7642.0),
        waiting(Layer::Tcp, 1e3 / 4444.0, 0.45),
        waiting(Layer::Own, 1e3 / 3786.0, 0.48),
    ];
    let analysis = analyze_layers(&ladder).unwrap();
    let percent = |wanted| (share(&analysis, wanted).unwrap() * 100.0).round();
    assert_eq!(
        [Layer::Null, Layer::Memory, Layer::Tcp, Layer::Own].map(percent),
        [3.0, 47.0, 36.0, 15.0]
    );
    // Waiting is the largest part. Without it, the rate would be 1 / (1 - 0.48) times as high.
    assert_eq!(analysis.limit, Limit::Processor);
    assert!((analysis.gain - 1.0 / 0.52).abs() < 1e-9, "{}", analysis.gain);
    // With less waiting, memory is the limit, and the gain is bounded by the time of TCP and the
    // server.
    let mut quieter = ladder;
    for layer in &mut quieter {
        layer.waits = vec![0.2; 5];
    }
    let analysis = analyze_layers(&quieter).unwrap();
    assert_eq!(analysis.limit, Limit::Layer(Layer::Memory));
    assert!((1.8..1.9).contains(&analysis.gain), "{}", analysis.gain);
}

#[test]
fn ignores_directory_off_path() {
    let ladder = [
        layer(Layer::Memory, 0.1),
        layer(Layer::Local, 500.0),
        layer(Layer::Tcp, 0.5),
        layer(Layer::Own, 2.0),
    ];
    let analysis = analyze_layers(&ladder).unwrap();
    assert_eq!(share(&analysis, Layer::Local), None);
    assert_eq!(analysis.limit, Limit::Layer(Layer::Own));
}

#[test]
fn substitutes_missing_layer() {
    let ladder = [layer(Layer::Memory, 0.1), layer(Layer::Tcp, 9.0), layer(Layer::Network, 10.0)];
    let analysis = analyze_layers(&ladder).unwrap();
    assert_eq!(analysis.limit, Limit::Layer(Layer::Tcp));
}

#[test]
fn what_is_unknown_is_not_claimed() {
    // Two layers, either of which may be larger, in trials that vary widely.
    let scattered = |layer, time: f64| MeasuredLayer {
        layer,
        times_ns: [0.4, 0.6, 1.0, 1.5, 2.0].map(|x| x * time).to_vec(),
        waits: vec![0.0; 5],
        held: vec![0.0; 5],
    };
    let ladder =
        [layer(Layer::Memory, 0.1), scattered(Layer::Tcp, 1.0), scattered(Layer::Own, 2.0)];
    let analysis = analyze_layers(&ladder).unwrap();
    assert!(!analysis.is_sure(), "{:?}", analysis.votes);
    assert!(analysis.votes.len() > 1);
    // A single trial has no spread to evaluate.
    let mut once = usual(0.5, 1.0, 0.8, 10.0);
    for layer in &mut once {
        layer.times_ns = vec![layer.times_ns[2]];
        layer.waits = vec![0.0];
    }
    let analysis = analyze_layers(&once).unwrap();
    assert_eq!((analysis.confidence, analysis.is_sure()), (0.0, false));
}

#[test]
fn reports_part_slower_than_whole() {
    let analysis = analyze_layers(&usual(0.5, 1.0, 40.0, 10.0)).unwrap();
    assert_eq!(analysis.crossed, [(Layer::Server, Layer::Disk)]);
    // The server had the data in memory, so its disk cannot be the limit.
    assert_eq!(analysis.limit, Limit::Layer(Layer::Server));
    assert_eq!(share(&analysis, Layer::Server), Some(0.9));
    assert!(analyze_layers(&usual(0.5, 1.0, 0.8, 10.0)).unwrap().crossed.is_empty());
}

#[test]
fn one_layer_is_no_ladder() {
    assert_eq!(analyze_layers(&[layer(Layer::Server, 1.0)]), None);
    assert_eq!(analyze_layers(&[]), None);
    let empty = MeasuredLayer {
        layer: Layer::Tcp,
        times_ns: Vec::new(),
        waits: Vec::new(),
        held: Vec::new(),
    };
    assert_eq!(analyze_layers(&[empty, layer(Layer::Own, 1.0)]), None);
}

proptest! {
    #[test]
    fn whatever_the_times_nothing_is_lost(
        times in prop::collection::vec(0.001_f64..1e6, 6),
        wait in 0.0_f64..1.0,
    ) {
        let kinds =
            [Layer::Null, Layer::Memory, Layer::Disk, Layer::Tcp, Layer::Own, Layer::Server];
        let ladder: Vec<_> =
            kinds.iter().zip(&times).map(|(kind, time)| waiting(*kind, *time, wait)).collect();
        let analysis = analyze_layers(&ladder).unwrap();
        let all: f64 = analysis.shares.iter().filter_map(|(_, share)| *share).sum();
        prop_assert!((all - 1.0).abs() < 1e-9);
        prop_assert!(analysis.shares.iter().all(|(_, share)| share.is_none_or(|s| s >= 0.0)));
        prop_assert!(analysis.gain >= 1.0 - 1e-9);
        prop_assert_eq!(analyze_layers(&ladder), Some(analysis));
    }
}
