//! Data that a system holds back: drained after passes that write, evicted before passes that read,
//! and looked for in the object store when a write is acknowledged.

use model::system::{
    AccessWays, Drain, Evict, MountAccess, ObjectCheck, Recipe, RecipeStep, Restart,
};
use model::{Caveat, CaveatCode, Invalidation, LabSpec, PassResult, System, Trial, TrialState};

use super::network;
use super::scripted_hosts::{Script, ScriptedHosts, reported};

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// A system with everything that a recipe can say about data that it holds back.
fn lab(change: impl FnOnce(&mut Recipe)) -> LabSpec {
    let mut lab = network(8);
    let mount = MountAccess { kind: "plain".to_owned(), source: "s:/".to_owned(), options: vec![] };
    let mut recipe = Recipe {
        name: "plain".to_owned(),
        steps: vec![RecipeStep { start: words("served"), ..RecipeStep::default() }],
        restart: Restart::OnState,
        access: AccessWays { mount: Some(mount), ..AccessWays::default() },
        ..Recipe::default()
    };
    recipe.caches.cold = Invalidation::Remount;
    change(&mut recipe);
    lab.invalidation = Invalidation::Remount;
    lab.system = Some(Box::new(System { recipe, ..System::default() }));
    lab
}

type Results = &'static [(&'static str, &'static str)];

/// Runs one trial of a write and a read pass. Returns it, and the commands that were run.
fn run(lab: &LabSpec, commands: &[(&'static str, Results)]) -> (Trial, Vec<String>) {
    let commands =
        commands.iter().map(|(name, results)| (*name, results.iter().copied().collect()));
    let hosts = ScriptedHosts::new(Script { commands: commands.collect(), ..Script::default() });
    let (mut campaign, left) = hosts.run(std::slice::from_ref(lab));
    assert_eq!(left, [""; 0]);
    (campaign.runs.remove(0).trials.remove(0), hosts.log())
}

fn find(pass: &PassResult, code: CaveatCode) -> Option<&Caveat> {
    pass.caveats.iter().find(|caveat| caveat.code == code)
}

fn drained() -> LabSpec {
    lab(|recipe| {
        recipe.drain = Some(Drain {
            run: words("flush"),
            check: words("queue"),
            until: "0".to_owned(),
            within_s: 60,
            ..Drain::default()
        });
    })
}

#[test]
fn measures_time_to_drain() {
    // The first check is before the pass.
    let queue: Results = &[("0", "0"), ("0", "2"), ("1", "no answer"), ("0", "1"), ("0", "0")];
    let (trial, log) = run(&drained(), &[("queue", queue)]);
    assert_eq!(trial.state, TrialState::Done);
    let [write, read] = &trial.passes[..] else { panic!("{:?}", trial.passes) };
    // Three waits of 100 ms each.
    let drain_ms = write.drain_ns().unwrap() / 1_000_000;
    assert!((300..400).contains(&(drain_ms % 10_000)), "{drain_ms}");
    assert_eq!(read.drain_ns(), None, "it writes nothing");
    for pass in [write, read] {
        assert_eq!(find(pass, CaveatCode::NotDrained), None);
    }
    let count = |command: &str| log.iter().filter(|line| *line == command).count();
    assert_eq!((count("s runs flush"), count("s runs queue")), (3, 6));
}

#[test]
fn reports_what_has_not_drained() {
    let (trial, _) = run(&drained(), &[("queue", &[("0", "3")])]);
    let [write, read] = &trial.passes[..] else { panic!("{:?}", trial.passes) };
    assert_eq!((write.drain_ns(), &trial.state), (None, &TrialState::Done));
    let evidence = &find(write, CaveatCode::NotDrained).unwrap().evidence;
    assert!(evidence.contains("after 60 s: the check said `3`"), "{evidence}");
    assert_eq!(&find(read, CaveatCode::NotDrained).unwrap().evidence, evidence, "it waits again");
}

#[test]
fn fails_trial_if_flush_fails() {
    let (trial, _) = run(&drained(), &[("flush", &[("2", "no such volume")])]);
    let TrialState::Failed(why) = &trial.state else { panic!("{:?}", trial.state) };
    assert!(why.contains("[drain] run failed on s with 2: no such volume"), "{why}");
}

fn evicted() -> LabSpec {
    lab(|recipe| {
        let (run, check, empty) = (words("forget"), words("used"), "0".to_owned());
        recipe.evict = Some(Evict { run, check, empty, ..Evict::default() });
    })
}

#[test]
fn trusts_cache_that_was_emptied() {
    let (trial, log) = run(&evicted(), &[("used", &[("0", "4096"), ("0", "0")])]);
    let fact = reported(&trial, "s", "read: system cache").unwrap();
    assert_eq!(fact, "4096 before, 0 after it was emptied");
    assert!(trial.passes.iter().all(|pass| find(pass, CaveatCode::NotEvicted).is_none()));
    // Its clients are gone by then, and only passes that read need it.
    let commands: Vec<&str> = log.iter().map(String::as_str).collect();
    let at = commands.iter().position(|line| *line == "s runs used").unwrap();
    assert_eq!(commands[at + 1..at + 3], ["s runs forget", "s runs used"]);
    assert_eq!(commands.iter().filter(|line| line.contains("runs forget")).count(), 1);
    assert!(commands[..at].contains(&"c - remote-mount"));
    assert_eq!(commands[at + 3..].first(), Some(&"c + remote-mount"));
    // A pass that may read warm data leaves it alone.
    let warm = LabSpec { invalidation: Invalidation::Caches, ..evicted() };
    assert!(!run(&warm, &[]).1.iter().any(|line| line.contains("runs forget")));
}

#[test]
fn doubts_cache_that_stays_full() {
    for (used, seen) in [(("0", "4096"), "`4096` after"), (("3", "gone"), "`exit status 3: gone`")]
    {
        let results: Results = if used.0 == "0" { &[("0", "4096")] } else { &[("3", "gone")] };
        let (trial, _) = run(&evicted(), &[("used", results)]);
        let [write, read] = &trial.passes[..] else { panic!("{:?}", trial.passes) };
        assert_eq!(find(write, CaveatCode::NotEvicted), None);
        let evidence = &find(read, CaveatCode::NotEvicted).unwrap().evidence;
        assert!(evidence.contains(seen), "{evidence}");
    }
}

fn stored() -> LabSpec {
    lab(|recipe| recipe.object = Some(ObjectCheck { run: words("head {file}"), within_s: 5 }))
}

#[test]
fn trusts_object_that_is_there() {
    let (trial, log) = run(&stored(), &[]);
    let fact = reported(&trial, "s", "object of a synced file").unwrap();
    assert!(fact.starts_with("in the bucket when acknowledged"), "{fact}");
    for pass in &trial.passes {
        assert_eq!(find(pass, CaveatCode::AcknowledgedBeforeUpload), None);
    }
    let at = log.iter().position(|line| line == "c writes probe").unwrap();
    assert!(log[at + 1].starts_with("s runs head .dfsbench-"), "{}", log[at + 1]);
    assert!(log[at + 1].ends_with("/probe"), "{}", log[at + 1]);
    assert_eq!(log[at + 2..at + 4], ["c removes probe", "c trial"]);
}

#[test]
fn notes_object_that_appears_late() {
    let late: Results = &[("1", ""), ("1", ""), ("0", "")];
    for (results, seen) in
        [(late, "appeared 0.2"), (&[("1", "none")], "not in the bucket within 5")]
    {
        let (trial, log) = run(&stored(), &[("head", results)]);
        let [write, read] = &trial.passes[..] else { panic!("{:?}", trial.passes) };
        let evidence = &find(write, CaveatCode::AcknowledgedBeforeUpload).unwrap().evidence;
        assert!(evidence.contains(seen), "{evidence}");
        assert_eq!(find(read, CaveatCode::AcknowledgedBeforeUpload), None);
        assert!(log.iter().any(|line| line == "c removes probe"));
    }
}

#[test]
fn notes_recipe_that_was_never_tried() {
    let why = "it needs a kernel of its own";
    let untried = lab(|recipe| recipe.not_tried = why.to_owned());
    for (lab, is_noted) in [(untried, true), (lab(|recipe| recipe.tried = why.to_owned()), false)] {
        let (trial, _) = run(&lab, &[]);
        assert_eq!(trial.passes.len(), 2);
        for pass in &trial.passes {
            let noted = find(pass, CaveatCode::RecipeNotTried).map(|noted| &*noted.evidence);
            let expected = "plain: it needs a kernel of its own (not_tried of the recipe)";
            assert_eq!(noted, is_noted.then_some(expected));
        }
    }
}
