//! Flags override the plan, and errors name the flag that can't be used.

use crate::common::around;
use model::setting::{Setting, Value};
use model::{BackendKind, Workload};
use plan::{Overrides, Plan, PlanError, RawPlan, parse_target};

const PLAN: &str = r#"
name = "t"
seed = 1
[factors]
workers = [1, 2]
[[target]]
name = "nfs"
embedded = true
[[target]]
name = "dir"
path = "m"
[[workload]]
kind = "stream"
file_size = ["1MiB", "2MiB"]
[[workload]]
kind = "metadata"
backends = ["nfs"]
"#;

fn with(flags: &Overrides) -> Result<Plan, PlanError> {
    let mut raw = RawPlan::parse(PLAN, "p.toml")?;
    raw.apply(flags)?;
    Plan::resolve(&raw, &around())
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn no_flags_change_nothing() {
    let plan = with(&Overrides::default()).unwrap();
    // stream: 2 workers x 2 sizes x 2 targets; metadata: 2 workers on nfs.
    assert_eq!((plan.runs.len(), plan.seed), (8 + 2, 1));
}

#[test]
fn flags_win_over_factors_and_workloads() {
    let flags = Overrides {
        trials: Some("3".into()),
        seed: Some("77".into()),
        server_memory: Some("96MiB".into()),
        server_threads: Some("2".into()),
        workload: texts(&["stream"]),
        ..Overrides::default()
    };
    let flags =
        flags.with(Setting::Workers, &["4"]).with(Setting::FileSize, &["4MiB", "8MiB", " 12MiB"]);
    let plan = with(&flags).unwrap();
    assert_eq!((plan.trials, plan.seed), (3, 77));
    assert_eq!((plan.server.memory_bytes, plan.server.threads), (96 << 20, 2));
    let sizes: Vec<_> = plan.runs.iter().map(|run| run.file_size_bytes >> 20).collect();
    assert_eq!(sizes, [4, 8, 12, 4, 8, 12]);
    assert!(plan.runs.iter().all(|run| (run.workers, run.files) == (4, 4)));
}

#[test]
fn limits_file_size_to_data_files() {
    let flags = Overrides::default()
        .with(Setting::Files, &["2"])
        .with(Setting::FileSize, &["1GiB"])
        .with(Setting::SmallFiles, &["70"]);
    let mut raw = RawPlan::for_target(parse_target("some/dir").unwrap());
    raw.apply(&flags).unwrap();
    let plan = Plan::resolve(&raw, &around()).unwrap();
    let sets: Vec<_> =
        plan.runs.iter().map(|run| (run.workload, run.files, run.file_size_bytes)).collect();
    assert_eq!(
        sets,
        [
            (Workload::Stream, 2, 1 << 30),
            (Workload::Mixed, 2, 1 << 30),
            (Workload::Metadata, 70, 4 << 10),
        ]
    );
}

#[test]
fn adds_workload_from_flag() {
    let flags = Overrides { workload: texts(&["mixed"]), ..Overrides::default() };
    let plan = with(&flags).unwrap();
    assert!(plan.runs.iter().all(|run| run.workload == Workload::Mixed));
    assert_eq!(plan.runs.len(), 2 * 2);
}

#[test]
fn selects_targets_by_backend() {
    let flags = Overrides { backend: texts(&["uring", "posix"]), ..Overrides::default() };
    let plan = with(&flags).unwrap();
    assert!(plan.runs.iter().all(|run| run.target_name == "dir"));
    assert_eq!(plan.runs[0].backend, BackendKind::Uring);
    // stream 4 and metadata 2, on each backend.
    assert_eq!(plan.runs.len(), 12);
}

#[test]
fn names_bad_flags() {
    let none = Overrides::default;
    let errors = [
        none().with(Setting::IoSize, &["12XB"]),
        none().with(Setting::Workers, &["1", "x"]),
        none().with(Setting::Workers, &["2000"]),
        Overrides { scale: Some("0".into()), ..none() },
        Overrides { trials: Some("0".into()), ..none() },
        none().with(Setting::Direct, &["maybe"]),
        Overrides { workload: texts(&["strem"]), ..none() },
        Overrides { backend: texts(&["null"]), ..none() },
    ]
    .map(|flags| with(&flags).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn names_flags_without_effect() {
    let none = Overrides::default;
    let errors = [
        none().with(Setting::SmallFileSize, &["4GiB"]),
        none().with(Setting::SmallFiles, &["1"]),
        Overrides { workload: texts(&["metadata"]), ..none().with(Setting::Files, &["10"]) },
        none().with(Setting::ReadPercent, &["50"]),
        none().with(Setting::IoSize, &["4MiB"]),
    ]
    .map(|flags| with(&flags).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn flags_take_words_ranges_and_fractions() {
    let levels = |setting: Setting, texts: &[&str]| {
        let mut raw = RawPlan::for_target(plan::TargetArg::NULL);
        raw.apply(&Overrides::default().with(setting, texts)).unwrap();
        let levels = raw.factors.get(setting).unwrap();
        levels.iter().map(|level| level.value.clone()).collect::<Vec<_>>()
    };
    let numbers = |numbers: &[u64]| numbers.iter().copied().map(Value::Number).collect::<Vec<_>>();
    assert_eq!(levels(Setting::Workers, &["1..4", "8"]), numbers(&[1, 2, 3, 4, 8]));
    assert_eq!(levels(Setting::Workers, &["1..64*4"]), numbers(&[1, 4, 16, 64]));
    assert_eq!(levels(Setting::ReadPercent, &["0..100+50"]), numbers(&[0, 50, 100]));
    assert_eq!(levels(Setting::IoSize, &["4KiB..20KiB*2"]), numbers(&[4_096, 8_192, 16_384]));
    assert_eq!(levels(Setting::Duration, &["1s..2s+500ms"]), numbers(&[1_000, 1_500, 2_000]));
    assert_eq!(levels(Setting::Duration, &["1h30m"]), numbers(&[5_400_000]));
    assert_eq!(levels(Setting::Skew, &["1.1", "110", "0.25"]), numbers(&[110, 110, 25]));
    let flags = [true, false, true, false, true, false].map(Value::Flag);
    assert_eq!(levels(Setting::Direct, &["yes", "no", "1", "0", "on", "off"]), flags);
    let errors = [
        (Setting::Workers, "8..1"),
        (Setting::Workers, "0..8*2"),
        (Setting::Workers, "1..8*1"),
        (Setting::Workers, "1..100000"),
        (Setting::IoSize, "4KiB..1MiB"),
        (Setting::ReadPercent, "0..200+50"),
        (Setting::Skew, "1.123"),
    ]
    .map(|(setting, text)| {
        let mut raw = RawPlan::for_target(plan::TargetArg::NULL);
        raw.apply(&Overrides::default().with(setting, &[text])).unwrap_err().to_string()
    });
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn checks_campaign_name() {
    let mut raw = RawPlan::for_target(plan::TargetArg::NULL);
    let named = |name: &str| Overrides { name: Some(name.to_owned()), ..Overrides::default() };
    raw.apply(&named("nightly")).unwrap();
    assert_eq!(raw.name, "nightly");
    for name in ["", " ", "a\nb", &"x".repeat(65)] {
        let error = raw.apply(&named(name)).unwrap_err().to_string();
        assert!(error.contains("--name: must be 1 to 64 characters"), "{error}");
    }
}

#[test]
fn prefers_few_trials_over_until() {
    let text = PLAN.replace("seed = 1", "seed = 1\ntrials = 15\nuntil = \"7%\"\nbudget = \"70s\"");
    let with = |trials: &str, until: Option<&str>| {
        let mut raw = RawPlan::parse(&text, "p.toml").unwrap();
        raw.apply(&Overrides {
            trials: Some(trials.to_owned()),
            until: until.map(str::to_owned),
            ..Overrides::default()
        })
        .unwrap();
        Plan::resolve(&raw, &around())
    };
    let few = with("3", None).unwrap();
    assert_eq!((few.trials, few.repetition.until_permille, few.budget_ms), (3, 0, 70_000));
    let more = with("8", None).unwrap();
    assert_eq!((more.trials, more.repetition.until_permille), (8, 70));
    // Both flags at once contradict each other.
    assert!(with("3", Some("5%")).is_err());
}
