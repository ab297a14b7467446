//! Parsing a long plan takes time proportional to its length, not to its square.

use std::fmt::Write as _;

use plan::RawPlan;

/// Maximum CPU time for parsing: it takes two seconds, or several minutes if lines are counted from
/// the top for each value.
const CPU_MAX_NS: u64 = 60_000_000_000;

/// CPU time of this thread so far, which does not depend on other programs.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn reads_forty_thousand_targets() {
    let mut text = "name = \"t\"\n[[workload]]\nkind = \"stream\"\n".to_owned();
    for number in 0..40_000 {
        writeln!(text, "[[target]]\nname = \"t{number}\"\npath = \"/d/{number}\"").unwrap();
    }
    let begun_ns = cpu_ns();
    let plan = RawPlan::parse(&text, "t.toml").unwrap();
    assert!(cpu_ns() - begun_ns < CPU_MAX_NS);
    assert_eq!(plan.targets.len(), 40_000);
    text.push_str("[[target]]\nname = \"t5\"\npath = \"/d/5\"\n");
    let error = RawPlan::parse(&text, "t.toml").unwrap_err().to_string();
    let place = format!("t.toml:{}:8: ", 3 + 3 * 40_000 + 2);
    assert!(error.starts_with(&place), "{error}");
    assert!(error.contains("`t5`"), "{error}");
}
