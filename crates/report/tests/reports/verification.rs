//! Rules for bundles: each is met by a good campaign, and broken by its planted cause only.

use std::collections::BTreeSet;

use model::lab::Host;
use model::{
    BackendKind, Campaign, CampaignState, CaveatCode, CrossCheck, HostResult, OpError, Question,
    TrialState, Verdict, Workload,
};
use report::Screen;
use report::verification::{
    BundleContent, BundleToVerify, Finding, PlanCheck, RuleSet, Verification, index_page,
    state_facts, state_verdicts, to_json, to_text, verify,
};
use serde_json::Value;

use crate::campaigns::{HOSTILE, made, many, spec};

const SECOND: u64 = 1_000_000_000;

/// A campaign that breaks no rule of the strict set.
fn good() -> Campaign {
    let run = spec("nfs", BackendKind::Nfs, Workload::Stream);
    let mut campaign = made(vec![(run.clone(), 10, 5), (run, 12, 5)]);
    campaign.runs[1].spec.workers = 8;
    for trial in campaign.runs.iter_mut().flat_map(|run| &mut run.trials) {
        for pass in &mut trial.passes {
            // Equal times, so that no interval is wide and no rate drifts.
            pass.window_ns = 100 * SECOND;
            pass.common_window_ns = pass.window_ns;
            pass.samples.clear();
            pass.caveats.clear();
            pass.scope = model::Scope::default();
        }
    }
    campaign
}

fn plan_of(campaign: &Campaign) -> PlanCheck {
    PlanCheck { runs: Some(campaign.runs.len()), trials: 5, differences: Vec::new() }
}

fn content(campaign: &Campaign) -> BundleContent<'_> {
    BundleContent {
        sha256: "5a".repeat(32),
        packed_by: "0.1.0".into(),
        verified_by: "0.1.0",
        campaign,
        uuid: "u".into(),
        differing_copies: Vec::new(),
        stated: state_verdicts(campaign),
        plan: plan_of(campaign),
    }
}

fn bundle(content: BundleContent<'_>) -> BundleToVerify<'_> {
    BundleToVerify { name: "result.dfsb".into(), content: Ok(content) }
}

/// Ids of the rules that are not met.
fn unmet(verification: &Verification<'_>) -> Vec<&'static str> {
    verification.results.iter().filter(|one| !one.is_met()).map(|one| one.rule.id()).collect()
}

fn strictly(content: BundleContent<'_>) -> Vec<&'static str> {
    unmet(&verify(&bundle(content), &RuleSet::strict()))
}

/// Plants something in the good campaign and returns the rules that are not met.
fn planted(plant: impl FnOnce(&mut Campaign)) -> Vec<&'static str> {
    let mut campaign = good();
    plant(&mut campaign);
    strictly(content(&campaign))
}

#[test]
fn good_campaign_meets_strict_rules() {
    let campaign = good();
    let bundle = bundle(content(&campaign));
    let verification = verify(&bundle, &RuleSet::strict());
    assert_eq!(unmet(&verification), [""; 0]);
    assert!(verification.is_valid());
    let ids: BTreeSet<_> = verification.results.iter().map(|result| result.rule.id()).collect();
    assert_eq!(ids.len(), 14);
}

#[test]
fn damaged_bundle_breaks_first_rule_only() {
    let damaged =
        BundleToVerify { name: "x".into(), content: Err(vec!["`plan.toml` is missing".into()]) };
    let verification = verify(&damaged, &RuleSet::standard());
    assert_eq!(unmet(&verification), ["R01"]);
    assert!(!verification.is_valid());
    assert!(to_text(&[verification], Screen::default()).contains("`plan.toml` is missing"));
}

#[test]
fn detects_differing_copies_and_plans() {
    let campaign = good();
    let mut copies = content(&campaign);
    copies.differing_copies.push("`plan.toml` differs".into());
    assert_eq!(strictly(copies), ["R02"]);
    let mut plan = content(&campaign);
    plan.plan.differences.push(Finding::new("run 0", "workers is 4, and 8 in the plan"));
    assert_eq!(strictly(plan), ["R04"]);
}

#[test]
fn detects_missing_runs_and_trials() {
    assert_eq!(planted(|campaign| campaign.state = CampaignState::Interrupted), ["R03"]);
    let campaign = good();
    let mut lacking = content(&campaign);
    lacking.plan.runs = Some(3);
    assert_eq!(strictly(lacking), ["R03"]);
    let mut more = content(&campaign);
    more.plan.trials = 6;
    assert_eq!(strictly(more), ["R03"]);
    // A slow trial that was removed from the middle leaves a gap.
    let gap = planted(|campaign| {
        campaign.runs[0].trials.remove(2);
    });
    assert_eq!(gap, ["R03", "R07"]);
    assert!(planted(|campaign| campaign.runs.clear()).contains(&"R03"));
}

#[test]
fn accepts_failure_that_is_stated() {
    let unmet = planted(|campaign| {
        let trials = &mut campaign.runs[0].trials;
        trials.truncate(1);
        trials[0].state = TrialState::Failed("no route to host".into());
        trials[0].passes.clear();
    });
    // The run is complete, but has no result.
    assert_eq!(unmet, ["R06", "R07"]);
}

#[test]
fn computes_verdicts_again() {
    let campaign = good();
    let with = |change: &dyn Fn(&mut report::verification::StatedVerdict)| {
        let mut changed = content(&campaign);
        change(&mut changed.stated[1]);
        strictly(changed)
    };
    assert_eq!(with(&|row| row.verdict = Verdict::Degraded), ["R05"]);
    assert_eq!(with(&|row| row.rate = row.rate.map(|rate| rate * 1.000_001)), ["R05"]);
    assert_eq!(with(&|row| row.interval = None), ["R05"]);
    assert_eq!(with(&|row| row.caveats.push("cached".into())), ["R05"]);
    assert_eq!(with(&|row| row.trials_used -= 1), ["R05"]);
    assert_eq!(with(&|row| row.response_time_p99_ns = None), ["R05"]);
    assert_eq!(with(&|row| row.row.push('x')), ["R05"]);
    // Another machine may round differently.
    assert_eq!(with(&|row| row.rate = row.rate.map(|rate| rate * (1.0 + 1e-12))), [""; 0]);
    let mut fewer = content(&campaign);
    fewer.stated.pop();
    assert_eq!(strictly(fewer), ["R05"]);
}

#[test]
fn detects_bad_rows() {
    let failed = planted(|campaign| {
        for trial in &mut campaign.runs[0].trials {
            trial.passes[0].kinds[0].errors.push((OpError(5), 3));
            trial.passes[0].caveats.push(CaveatCode::Errors.because("3 ops failed"));
        }
    });
    assert_eq!(failed, ["R06"]);
    // The caveat was removed, but not the errors behind it.
    let hidden = planted(|campaign| {
        campaign.runs[0].trials[0].passes[0].kinds[0].errors.push((OpError(5), 3));
    });
    assert_eq!(hidden, ["R05"]);
    let cached = planted(|campaign| {
        let pass = &mut campaign.runs[0].trials[0].passes[0];
        pass.caveats.push(CaveatCode::Cached.because("nothing was read from storage"));
    });
    assert!(cached.contains(&"R08"), "{cached:?}");
    let count = planted(|campaign| {
        let source = "bytes at the target".to_owned();
        let check = CrossCheck { expected: 7, found: 6, source };
        campaign.runs[0].trials[3].passes[0].cross_checks.push(check);
    });
    assert_eq!(count, ["R05", "R10"]);
    let unsafe_write = planted(|campaign| {
        let pass = &mut campaign.runs[0].trials[0].passes[0];
        pass.caveats.push(CaveatCode::NotDurable.because("no COMMIT"));
    });
    assert_eq!(unsafe_write, ["R11"]);
    let short = planted(|campaign| {
        for trial in &mut campaign.runs[1].trials {
            trial.passes[1].window_ns = 59 * SECOND;
            trial.passes[1].common_window_ns = 59 * SECOND;
        }
    });
    assert_eq!(short, ["R14"]);
}

#[test]
fn detects_clocks_that_disagree() {
    let with_error = |error_ns: u64| {
        planted(|campaign| {
            for trial in campaign.runs.iter_mut().flat_map(|run| &mut run.trials) {
                for pass in &mut trial.passes {
                    for host in ["a", "b"] {
                        let (ops, bytes) = (pass.ops() / 2, pass.bytes() / 2);
                        pass.hosts.push(HostResult {
                            host: host.into(),
                            workers: 1,
                            ops,
                            bytes,
                            end_ns: 100_000_000_000,
                            error_ns,
                            ..HostResult::default()
                        });
                    }
                }
            }
        })
    };
    assert_eq!(with_error(SECOND), [""; 0]);
    assert_eq!(with_error(2 * SECOND), ["R09"]);
}

#[test]
fn detects_undisclosed_setup() {
    assert_eq!(planted(|campaign| campaign.tool_version = "0.2.0-dev".into()), ["R12"]);
    assert_eq!(planted(|campaign| campaign.facts.retain(|fact| fact.name != "kernel")), ["R13"]);
    assert_eq!(planted(|campaign| campaign.runs[0].trials[2].facts.clear()), ["R13"]);
    let other_host = planted(|campaign| {
        for run in &mut campaign.runs {
            run.spec.placement.hosts = vec![Host::local("client")];
        }
    });
    assert_eq!(other_host, ["R13"]);
}

#[test]
fn expects_trials_of_plain_campaigns_only() {
    let one = |question: Question| {
        let mut campaign = good();
        campaign.question = question;
        campaign.runs.iter_mut().for_each(|run| run.trials.truncate(1));
        let mut content = content(&campaign);
        content.plan.trials = 1;
        unmet(&verify(&bundle(content), &RuleSet::standard()))
    };
    assert_eq!(one(Question::Figures), ["R07"]);
    assert_eq!(one(Question::Soak(model::soak::Soak::default())), [""; 0]);
}

#[test]
fn advised_rules_leave_bundle_valid() {
    let mut campaign = good();
    campaign.tool_version = "0.2.0-dev".into();
    let bundle = bundle(content(&campaign));
    let standard = verify(&bundle, &RuleSet::standard());
    assert_eq!((unmet(&standard), standard.is_valid()), (vec!["R12"], true));
    let off = RuleSet::parse("mine", "base = 'strict'\nR12 = 'off'").unwrap();
    assert_eq!(unmet(&verify(&bundle, &off)), [""; 0]);
    assert!(!verify(&bundle, &RuleSet::strict()).is_valid());
}

#[test]
fn writes_reasons_as_text_and_json() {
    let mut campaign = good();
    campaign.name = HOSTILE.to_owned();
    campaign.state = CampaignState::Interrupted;
    let bundle = bundle(content(&campaign));
    let verification = verify(&bundle, &RuleSet::standard());
    let json: Value = serde_json::from_str(&to_json(std::slice::from_ref(&verification))).unwrap();
    assert_eq!(json["valid"], false);
    let part = &json["bundles"][0];
    assert_eq!((&part["verdict"], &part["rule_set"]), (&"INVALID".into(), &"standard".into()));
    let rule = &part["rules"][2];
    assert_eq!((&rule["id"], &rule["met"]), (&"R03".into(), &false.into()));
    assert_eq!(rule["findings"][0]["value"], "the campaign is interrupted");
    insta::assert_snapshot!(to_text(&[verification], Screen::default()));
}

#[test]
fn states_each_fact_once() {
    let campaign = good();
    let facts = state_facts(&campaign);
    let once: BTreeSet<_> = facts.iter().map(|fact| (&fact.scope, &fact.name)).collect();
    assert_eq!(once.len(), facts.len());
    assert!(facts.iter().any(|fact| fact.scope == "target"));
}

/// Many results of two bundles, one of them invalid, and a damaged bundle.
fn page_of_many() -> String {
    let (mut large, bad) = (many(300, Workload::Stream, 1), good());
    large.facts.push(model::Fact::new("host", "host name", "lab-a", "/proc"));
    large.started_unix_ms += 86_400_000;
    let rules = RuleSet::standard();
    let mut incomplete = content(&bad);
    incomplete.plan.trials = 9;
    let bundles = [
        BundleToVerify { name: "large.dfsb".into(), content: Ok(content(&large)) },
        BundleToVerify { name: "bad.dfsb".into(), content: Ok(incomplete) },
        BundleToVerify { name: HOSTILE.into(), content: Err(vec!["it ends early".into()]) },
    ];
    let verifications: Vec<_> = bundles.iter().map(|bundle| verify(bundle, &rules)).collect();
    index_page(&verifications)
}

#[test]
fn page_of_bundles_to_look_at() {
    let page = page_of_many();
    assert!(page.contains("604 results from 3 bundles"), "{}", &page[..4_000]);
    assert!(page.contains("0 of 3 bundles valid"));
    assert!(!page.contains(HOSTILE));
    assert!(page.contains("R01 BROKEN: it ends early"));
    for heading in ["system", "verdict", "bundle", "rules", "host", "measured"] {
        assert!(page.contains(&format!(">{heading}</th>")), "{heading}");
    }
    assert!(page.len() < 300_000, "{} bytes", page.len());
    let folder = env!("CARGO_TARGET_TMPDIR");
    std::fs::write(format!("{folder}/bundles.html"), page).unwrap();
}
