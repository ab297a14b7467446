//! How pages are laid out: titles, the order and number of their sections, which of them are drawn.

use model::{BackendKind, Campaign, CampaignState, Workload};
use report::{Format, render};

use crate::campaigns::{self, made, programs, quick, spec, sweep, transports};

fn page(campaign: &Campaign) -> String {
    render(campaign, Format::Html)
}

/// Returns the ids of the sections in order.
fn sections(page: &str) -> Vec<&str> {
    page.split("<h2 id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn answer_is_the_first_section() {
    for campaign in [quick(), sweep(), programs(), transports()] {
        let page = page(&campaign);
        assert_eq!(page.find("<section"), page.find("<section class=\"answer\""));
        assert_eq!(sections(&page)[0], "answer");
    }
}

#[test]
fn quick_has_seven_sections() {
    let page = page(&quick());
    let expected = ["answer", "rates", "figures", "times", "caveats", "conditions", "trials"];
    assert_eq!(sections(&page), expected);
    // Requested settings are listed with the conditions, each target once.
    let conditions = page.split("<h2 id=\"conditions\">").nth(1).unwrap();
    for term in ["workload stream", "target nfs", "altogether"] {
        assert_eq!(page.matches(&format!("<dt>{term}</dt>")).count(), 1, "{term}");
        assert!(conditions.contains(&format!("<dt>{term}</dt>")), "{term}");
    }
}

#[test]
fn secondary_parts_are_folded() {
    let page = page(&quick());
    let folds: Vec<&str> = page
        .split("<details><summary>")
        .skip(1)
        .filter_map(|rest| rest.split("</summary>").next())
        .collect();
    for fold in [
        "Quantiles of the response times",
        "Other settings (22)",
        "The host",
        "Trial by trial, 10 runs",
    ] {
        assert!(folds.contains(&fold), "{fold} is not in {folds:?}");
    }
    assert!(!page.contains("<details open"));
}

#[test]
fn titles_have_target_and_date() {
    let one = made(vec![(spec("posix", BackendKind::Posix, Workload::Mixed), 10, 3)]);
    let both = "nfs://(in-memory server)/export and /var/tmp";
    for (campaign, title) in [
        (one, "made: /var/tmp, 2025-11-21 19:17 UTC".to_owned()),
        (sweep_of_two(), format!("made: {both}, 2025-11-21 19:17 UTC")),
        (campaigns::empty(), "empty, 2025-11-21 19:17 UTC".to_owned()),
    ] {
        let page = page(&campaign);
        for tag in [format!("<title>dfsbench: {title}</title>"), format!("<h1>{title}</h1>")] {
            assert!(page.contains(&tag), "{tag} is not in {}", &page[..2_000]);
        }
    }
    // Others have only the name, next to a line with the date.
    assert!(render(&quick(), Format::Markdown).starts_with("# dfsbench: quick\n"));
}

/// Returns two targets, one of them with two backends.
fn sweep_of_two() -> Campaign {
    let backends = [BackendKind::Nfs, BackendKind::Posix, BackendKind::Uring];
    let names = ["nfs", "dir", "dir"];
    let run = |(name, backend)| (spec(name, backend, Workload::Mixed), 10, 3);
    made(names.into_iter().zip(backends).map(run).collect())
}

#[test]
fn extent_counts_combinations_and_trials() {
    let mut campaign = sweep_of_two();
    for (state, extent) in [
        (CampaignState::Complete, "3 combinations, 9 trials"),
        (CampaignState::Running, "3 combinations, 9 trials so far"),
        (CampaignState::Interrupted, "3 combinations, 9 trials before the interruption"),
    ] {
        campaign.state = state;
        let page = page(&campaign);
        assert!(page.contains(&format!("<p class=\"meta\">{extent}</p>")), "{extent}");
        assert!(page.contains(&format!("<dd><p>{extent}</p></dd>")), "{extent}");
    }
    let one = made(vec![(spec("posix", BackendKind::Posix, Workload::Mixed), 10, 3)]);
    assert!(page(&one).contains("<p class=\"meta\">1 run, 3 trials</p>"));
}

#[test]
fn marks_cut_rate_intervals() {
    // The legend has one as well.
    let arrows = |campaign: &Campaign| page(campaign).matches("class=\"arrow\"").count();
    let mut campaign = made(vec![(spec("posix", BackendKind::Posix, Workload::Mixed), 10, 3)]);
    // Equal trials have an interval of zero width, which ends at the marks of the trials.
    let window_ns = campaign.runs[0].trials[0].passes[0].window_ns;
    for trial in &mut campaign.runs[0].trials {
        trial.passes[0].window_ns = window_ns;
    }
    let narrow = arrows(&campaign);
    // One of three trials is far slower, so the interval extends beyond all of them.
    campaign.runs[0].trials[2].passes[0].window_ns *= 3;
    assert_eq!((narrow, arrows(&campaign)), (1, 2));
}
