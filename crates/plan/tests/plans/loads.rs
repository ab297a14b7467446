//! Several loads: which runs they have, which of them are made together, and their hosts.

use model::{Pass, RunSpec};
use plan::{Estimate, Overrides, Plan, RawPlan, Step, estimate};

use crate::common::{around, plan};
use crate::round_trip::reads_back;

/// Name, company and agents of each run.
fn described(plan: &Plan) -> Vec<String> {
    let agents = |run: &RunSpec| {
        run.placement.hosts.iter().map(|host| host.name.clone()).collect::<Vec<_>>().join(" ")
    };
    let described = |run: &RunSpec| {
        let load = run.named_load.as_ref().unwrap();
        format!("{} {} {} on {}", load.group, load.name, load.company(), agents(run))
    };
    plan.runs.iter().map(described).collect()
}

const HEAD: &str = "name = \"t\"\nseed = 3\ntrials = 4\n";
const TARGET: &str = "[[target]]\nname = \"d\"\npath = \"/d\"\nbackend = [\"posix\"]\n";

fn load(name: &str, lines: &str) -> String {
    format!("[[load]]\nname = \"{name}\"\nkind = \"mixed\"\n{lines}")
}

#[test]
fn runs_loads_alone_and_together() {
    let (a, b) = (load("a", ""), load("b", "start = \"2s\"\nend = \"5s\"\n"));
    let plan = plan(&format!("{HEAD}{TARGET}{a}{b}")).unwrap();
    assert_eq!(
        described(&plan),
        [
            "0 a none on this host",
            "0 b none on this host:2",
            "1 a b on this host",
            "1 b a on this host:2",
        ]
    );
    assert_eq!((plan.runs[1].duration_ms, plan.runs[3].duration_ms), (3_000, 3_000));
    assert_eq!(plan.hosts().len(), 0);
    reads_back(&plan);
}

#[test]
fn runs_each_pair_of_three() {
    let loads = ["a", "b", "c"].map(|name| load(name, "")).concat();
    let plan = plan(&format!("{HEAD}{TARGET}{loads}")).unwrap();
    let groups: Vec<u32> =
        plan.runs.iter().map(|run| run.named_load.as_ref().unwrap().group).collect();
    assert_eq!(groups, [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4]);
    assert!(described(&plan).contains(&"4 b a+c on this host:2".to_owned()));
    reads_back(&plan);
}

#[test]
fn loads_use_their_own_hosts() {
    let hosts = "[[host]]\nname = \"x\"\nssh = \"x\"\n[[host]]\nname = \"y\"\nssh = \"y\"\n";
    let target = format!("{TARGET}hosts = [\"x\", \"y\"]\n");
    let (a, b) = (load("a", ""), load("b", "hosts = [\"y\"]\n"));
    let plan = plan(&format!("{HEAD}{hosts}{target}{a}{b}")).unwrap();
    assert_eq!(
        described(&plan),
        ["0 a none on x y", "0 b none on y:2", "1 a b on x y", "1 b a on y:2"]
    );
    assert!(plan.runs[2].has_company() && !plan.runs[0].has_company());
    assert_eq!(plan.hosts().len(), 2);
    reads_back(&plan);
    let more = load("b", "hosts = [\"y\"]\nclient_hosts = 2\n");
    let error = self::plan(&format!("{HEAD}{hosts}{target}{a}{more}")).unwrap_err();
    assert!(
        error.to_string().contains("client_hosts: load `b` has 1 host, not 2 (hint"),
        "{error}"
    );
}

#[test]
fn varies_factors_of_all_loads() {
    let factors = "[factors]\nworkers = [1, 2]\nread_percent = 30\n";
    let (a, b) = (load("a", "rate = 50\n"), load("b", "io_size = \"1MiB\"\n"));
    let plan = plan(&format!("{HEAD}{TARGET}{factors}{a}{b}")).unwrap();
    assert_eq!(plan.runs.len(), 8);
    for run in &plan.runs {
        let group = run.named_load.as_ref().unwrap().group;
        assert!(group == 0 || group == run.workers, "{group}");
        assert_eq!(run.read_percent, 30);
    }
    reads_back(&plan);
}

#[test]
fn keeps_steps_of_group_adjacent() {
    let loads = [load("a", ""), load("b", "")].concat();
    let plan = plan(&format!("{HEAD}{TARGET}{loads}")).unwrap();
    let steps = plan.order();
    assert_eq!(steps.len(), 16);
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.run == 2) {
        assert_eq!(steps[at + 1], Step { run: 3, trial: step.trial });
    }
    // The first step of a block is not always the same.
    let firsts: Vec<usize> = steps.chunks(4).map(|block| block[0].run).collect();
    assert!(firsts.iter().any(|first| *first != firsts[0]), "{firsts:?}");
    let repeated = plan.order_with_repeats();
    assert_eq!(repeated.len(), 16 + 4 * plan.repeats_max() as usize);
}

#[test]
fn estimates_longest_of_group() {
    let of = |text: &str| -> Estimate { estimate(&plan(text).unwrap()) };
    let (a, b) = (load("a", "duration = \"10s\"\n"), load("b", "duration = \"4s\"\n"));
    let found = of(&format!("{HEAD}{TARGET}{a}{b}"));
    let sum: u64 = found.runs.iter().map(|run| run.duration_ms).sum();
    assert_eq!(found.duration_ms, 4 * (sum - found.runs[3].duration_ms));
    // The files of both exist at the same time.
    let one = of(&format!("{HEAD}{TARGET}[[workload]]\nkind = \"mixed\"\n"));
    assert_eq!(found.targets[0].peak_bytes, 2 * one.targets[0].peak_bytes);
}

/// Applies `--with` to a plan with one workload.
fn with(texts: &[&str]) -> Result<Plan, String> {
    let text = format!("{HEAD}{TARGET}[[workload]]\nkind = \"op_mix\"\nrate = 20\n");
    let mut raw = RawPlan::parse(&text, "p.toml").unwrap();
    let with_loads = texts.iter().map(|text| (*text).to_owned()).collect();
    let flags = Overrides { with_loads, ..Overrides::default() };
    let applied = raw.apply(&flags).and_then(|()| Plan::resolve(&raw, &around()));
    applied.map_err(|error| error.to_string())
}

#[test]
fn adds_loads_from_command_line() {
    let plan = with(&["scan: stream passes=read start=1s time_max=9s", "b: mixed rate=5"]).unwrap();
    let named = described(&plan);
    assert_eq!(named.len(), 12);
    assert!(named.contains(&"4 op_mix scan+b on this host".to_owned()), "{named:?}");
    assert_eq!((plan.runs[1].passes(), plan.runs[1].load.time_max_ms), (&[Pass::Read][..], 9_000));
    assert_eq!(plan.runs[1].named_load.as_ref().unwrap().start_ms, 1_000);
    reads_back(&plan);
}

#[test]
fn refuses_bad_texts_of_loads() {
    let texts = [
        "mixed",
        "a:",
        "a b: mixed",
        "a: mixt",
        "a: mixed fast",
        "a: mixed bs=4KiB",
        "a: mixed transactions=5",
        "a: mixed io_size=4QiB",
        "a: mixed hosts=c",
        "op_mix: mixed",
        "a: metadata",
    ];
    let errors: Vec<String> = texts.iter().map(|text| with(&[text]).unwrap_err()).collect();
    insta::assert_snapshot!(errors.join("\n"));
}
