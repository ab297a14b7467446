//! Pages of campaigns that answer a question: a single answer, and pictures that show which points
//! describe the server.

use model::question::{CurveRequest, RampRequest};
use model::{BackendKind, Campaign, CaveatCode, IntervalStats, OfferedLoad, Pass, Question, Soak};
use model::{RunSpec, Workload};
use report::view_pages::ViewPages;
use report::{Format, render};

use crate::campaigns::{self, made, spec};

const SECOND: u64 = 1_000_000_000;

/// Load point: offered and completed ops per second, and whether the client was at its limit.
struct Planted {
    offered: u64,
    done: u64,
    is_client_limited: bool,
}

const fn planted(offered: u64, done: u64) -> Planted {
    Planted { offered, done, is_client_limited: false }
}

/// Returns a campaign with one run for each load.
fn campaign(question: Question, points: &[(RunSpec, Planted)]) -> Campaign {
    let runs: Vec<_> = points.iter().map(|(spec, _)| (spec.clone(), 10, 1)).collect();
    let mut campaign = made(runs);
    campaign.question = question;
    for (run, (_, point)) in campaign.runs.iter_mut().zip(points) {
        let result = &mut run.trials[0].passes[0];
        result.window_ns = result.ops() * SECOND / point.done;
        if run.spec.load.rate_per_s > 0 {
            result.scope.offered = Some(OfferedLoad {
                rate_per_s: point.offered,
                scheduled_ops: result.ops() * point.offered / point.done,
                span_ns: result.window_ns,
                ..OfferedLoad::default()
            });
        }
        if point.is_client_limited {
            result.caveats.push(CaveatCode::ClientSaturated.because("no processor was free"));
        }
    }
    campaign
}

/// Returns a load curve.
fn curve(points: Vec<Planted>) -> Campaign {
    let mut runs = Vec::new();
    for point in points {
        let mut spec = spec("nfs", BackendKind::Nfs, Workload::Mixed);
        spec.load.rate_per_s = point.offered;
        runs.push((spec, point));
    }
    campaign(Question::Curve(CurveRequest::default()), &runs)
}

/// The loads of a search, each sustained.
fn ramp(first_limited: u32) -> Campaign {
    let mut runs = Vec::new();
    for clients in [1, 2, 4, 8] {
        let mut spec = spec("nfs", BackendKind::Nfs, Workload::Mixed);
        spec.clients = clients;
        spec.workers = 1;
        let done = 1_000 * u64::from(clients);
        let is_client_limited = clients >= first_limited;
        runs.push((spec, Planted { offered: 0, done, is_client_limited }));
    }
    let request = RampRequest { max: 8, ..RampRequest::default() };
    campaign(Question::Ramp(request), &runs)
}

/// Returns a search for the highest rate of a server that completes 210 op/s.
fn ramp_of_rate() -> Campaign {
    let mut runs = Vec::new();
    // If the server falls behind, the load is repeated before it counts; then the lightest load
    // checks recovery.
    for rate in [100, 200, 400, 400, 100, 300, 300, 100, 250, 250, 100, 225, 225, 100, 212, 218] {
        let mut spec = spec("nfs", BackendKind::Nfs, Workload::Mixed);
        spec.load.rate_per_s = rate;
        runs.push((spec, planted(rate, rate.min(210))));
    }
    let request = RampRequest {
        setting: "rate".to_owned(),
        first: 100,
        max: 1_000,
        accuracy_permille: 40,
        ..RampRequest::default()
    };
    campaign(Question::Ramp(request), &runs)
}

/// Returns a soak of one segment with ten intervals, in the fifth of which replies took a second.
fn soak() -> Campaign {
    let soak = Soak { duration_ms: 10_000, segment_ms: 10_000, ..Soak::default() };
    let mut spec = spec("nfs", BackendKind::Nfs, Workload::Mixed);
    spec.soak = Some(Box::new(soak.clone()));
    let mut campaign = made(vec![(spec, 10, 1)]);
    let result = &mut campaign.runs[0].trials[0].passes[0];
    result.intervals = (1..=10)
        .map(|number| IntervalStats {
            at_ns: number * SECOND,
            ops: 500,
            p50_ns: 1_000_000,
            p95_ns: 3_000_000,
            p99_ns: if number == 5 { SECOND } else { 5_000_000 },
            max_ns: 2 * SECOND,
            ..IntervalStats::default()
        })
        .collect();
    campaign.question = Question::Soak(soak);
    campaign
}

#[test]
fn pages_of_questions_to_look_at() {
    let mut curve = curve(vec![
        planted(100, 100),
        planted(200, 200),
        Planted { is_client_limited: true, ..planted(250, 250) },
        planted(300, 150),
    ]);
    curve.name = "curve".to_owned();
    let mut ramp = ramp(4);
    ramp.name = "ramp".to_owned();
    let mut soak = soak();
    soak.name = "soak".to_owned();
    for campaign in [curve, ramp, soak] {
        let path = format!("{}/{}.html", env!("CARGO_TARGET_TMPDIR"), campaign.name);
        std::fs::write(path, render(&campaign, Format::Html)).unwrap();
    }
}

/// Returns a picture of a page by its id, up to its end.
fn picture<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page.find(&format!("aria-labelledby=\"{id}-title\"")).expect(id);
    let end = page[start..].find("</figure>").expect("a figure ends");
    &page[start..start + end]
}

/// Returns the answer to the question, one sentence per line.
fn sentences(campaign: &Campaign) -> String {
    let json: serde_json::Value = serde_json::from_str(&render(campaign, Format::Json)).unwrap();
    let sentences = json["found"]["sentences"].as_array().unwrap();
    sentences.iter().filter_map(|line| line.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_page_has_one_answer() {
    let curve = curve(vec![planted(100, 100), planted(200, 200), planted(300, 150)]);
    for campaign in [curve, ramp(100), soak()] {
        let page = render(&campaign, Format::Html);
        assert_eq!(page.matches("<section class=\"answer\"").count(), 1, "{page}");
        assert_eq!(page.find("<section"), page.find("<section class=\"answer\""), "{page}");
        assert!(!page.contains("id=\"answer\""), "{page}");
        // Pictures of the rates and times of each run would repeat those of the answer.
        for other in ["id=\"rates\"", "id=\"curves\"", "id=\"times", "id=\"latency\""] {
            assert!(!page.contains(other), "{other}: {page}");
        }
    }
    let page = render(&campaigns::quick(), Format::Html);
    assert_eq!(page.matches("<section class=\"answer\"").count(), 1, "{page}");
}

#[test]
fn marks_load_points_not_counted() {
    let clean = || vec![planted(100, 100), planted(200, 200)];
    let page = render(&curve(clean()), Format::Html);
    let drawn = picture(&page, "sustained-0");
    assert!(!drawn.contains("unfilled") && !drawn.contains("not sustained"), "{drawn}");
    for line in [">p50<", ">p95<", ">p99<"] {
        assert!(drawn.contains(line), "{line}: {drawn}");
    }
    // Each of the three lines contains the point.
    let mut points = clean();
    points.push(planted(300, 150));
    let page = render(&curve(points), Format::Html);
    let drawn = picture(&page, "sustained-0");
    assert_eq!(drawn.matches("class=\"mark unfilled s").count(), 3, "{drawn}");
    assert!(drawn.contains(">cross: not sustained, or failed<"), "{drawn}");
    assert!(!drawn.contains("unfilled: this host"), "{drawn}");
    // Both are sustained, so each quantile still has one line to the next point.
    let count_lines = |drawn: &str| drawn.matches("<line class=\"line s").count();
    assert_eq!(count_lines(drawn), 3 + 3, "{drawn}");

    let limited = |offered, done| Planted { offered, done, is_client_limited: true };
    let mut points = clean();
    points.extend([limited(300, 300), limited(400, 200)]);
    let page = render(&curve(points), Format::Html);
    let drawn = picture(&page, "sustained-0");
    for legend in ["unfilled: this host was short of CPU time", "ring: not sustained, this host"] {
        assert!(drawn.contains(legend), "{legend}: {drawn}");
    }
    assert!(!drawn.contains("cross: not sustained"), "{drawn}");
}

#[test]
fn blames_no_server_for_client_limit() {
    insta::assert_snapshot!([1, 4, 100].map(|limited| sentences(&ramp(limited))).join("\n\n"));
    let page = render(&ramp(1), Format::Html);
    let drawn = picture(&page, "ramp-times-0-0");
    assert_eq!(drawn.matches("class=\"mark unfilled s").count(), 3 * 4, "{drawn}");
    assert!(drawn.contains("unfilled: this host"), "{drawn}");

    let page = render(&ramp(100), Format::Html);
    let drawn = picture(&page, "ramp-rate-0");
    assert!(!drawn.contains("unfilled") && !drawn.contains("own limit"), "{drawn}");
}

#[test]
fn states_precision_of_ramp() {
    insta::assert_snapshot!(sentences(&ramp_of_rate()));
    let text = render(&ramp_of_rate(), Format::Table);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!flat.contains("saturated"), "{text}");
    assert!(flat.contains("400 op/s 210 op/s"), "{text}");
    assert!(flat.contains("not sustained: 52.5 %"), "{text}");
    for line in text.lines().filter(|line| line.contains(" 400 op/s")) {
        assert!(!line.contains("served"), "{line}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&render(&ramp_of_rate(), Format::Json)).unwrap();
    let search = &json["found"]["figures"]["searches"][0];
    assert_eq!((&search["borne"], &search["gave_in_at"]), (&218.into(), &225.into()));
    assert!((search["known_to_percent"].as_f64().unwrap() - 3.211).abs() < 0.001, "{search}");
}

#[test]
fn shows_no_offered_rate_for_reads() {
    let mut soak = soak();
    let run = &mut soak.runs[0];
    run.spec.load.rate_per_s = 500;
    let mut read_back = run.trials[0].passes[0].clone();
    read_back.pass = Pass::Read;
    run.trials[0].passes.push(read_back);
    let page = render(&soak, Format::Markdown);
    let offered: Vec<&str> = page.lines().filter(|line| line.contains(" offered")).collect();
    assert!(offered.len() == 1 && offered[0].contains("nfs mixed: 500 op/s"), "{offered:?}");
}

#[test]
fn draws_soak_quantiles_logarithmically() {
    let page = render(&soak(), Format::Html);
    let drawn = picture(&page, "soak");
    for part in ["response time, logarithmic", "p50", "p95", "p99", "max", ">10 ms<", ">1 s<"] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
    assert_eq!(drawn.matches("<path class=\"line s").count(), 4, "{drawn}");
    assert!(!drawn.contains("p99 of the response time, 0 to"), "{drawn}");
}

#[test]
fn distinguishes_running_from_killed_campaign() {
    let campaign = campaigns::empty();
    let page = |running: &[i64]| {
        let served = ViewPages { version: 1, running: running.to_vec() };
        served.campaign(&campaign)
    };
    assert!(page(&[campaign.id]).contains("running, started 2025-11-21"));
    for others in [&[][..], &[campaign.id + 1]] {
        assert!(page(others).contains("not finished, started 2025-11-21"));
    }
    // A complete campaign will get no more trials, whatever locks its file.
    let complete = ViewPages { version: 1, running: vec![7] }.campaign(&campaigns::quick());
    assert!(complete.contains("complete, started 2025-11-21"));
}

#[test]
fn distinguishes_offered_from_achieved_rate() {
    let curve = curve(vec![planted(100, 100), planted(200, 200)]);
    let text = render(&curve, Format::Table);
    let heads = text.lines().find(|line| line.starts_with("target")).expect("a table of figures");
    assert_eq!(heads.split_whitespace().filter(|word| *word == "rate").count(), 1, "{heads}");
    assert!(heads.contains("offered op/s"), "{heads}");
    let markdown = render(&curve, Format::Markdown);
    assert!(markdown.contains("| target | pass | offered op/s | rate |"), "{markdown}");
    let page = render(&curve, Format::Html);
    assert_eq!(page.matches("data-kind=\"rate\">rate</th>").count(), 1, "{page}");
}

#[test]
fn ends_soak_line_at_last_interval() {
    // The load is over, and the last interval ends a moment later.
    let whole = soak();
    let mut cut = soak();
    cut.runs[0].trials[0].passes[0]
        .intervals
        .push(IntervalStats { at_ns: 10 * SECOND + 1_000_000, ..IntervalStats::default() });
    let drawn = |campaign: &Campaign| picture(&render(campaign, Format::Html), "soak").to_owned();
    assert_eq!(drawn(&cut), drawn(&whole));
    // A stall that lasts until the end is drawn.
    let mut stalled = soak();
    stalled.runs[0].trials[0].passes[0]
        .intervals
        .push(IntervalStats { at_ns: 11 * SECOND, ..IntervalStats::default() });
    assert_ne!(drawn(&stalled), drawn(&whole));
}
