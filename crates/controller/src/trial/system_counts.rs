//! Compares the server-side counters of a system with what clients recorded during a pass.
//!
//! The counters come from the system's recipe and are read before and after a pass, because running
//! a command in between would disturb the measurement. Servers may count more than clients
//! recorded, for example because of read-ahead and replicas. If they count less, reads were served
//! from a client's cache, or writes never arrived.

use std::collections::BTreeMap;

use fleet::request;
use lab::counters_of_system;
use model::units::Size;
use model::{
    Caveat, CaveatCode, CrossCheck, Durability, EffectiveSettings, Evidence, KindResult, LabSpec,
    LabStep, OpKind, Pass, PassResult, RunSpec,
};

use crate::hosts::Hosts;

/// Minimum share of the bytes read that servers must have sent. Below it, client caches served the
/// rest.
const SENT_SHARE_MIN: f64 = 0.9;

/// Counts by name, summed over all servers.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Reads the counters of a run's system. Empty if its recipe has none.
///
/// # Errors
/// If the counters cannot be read; the error is a sentence.
pub(crate) fn read(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<Counts, String> {
    let mut counts = Counts::new();
    let steps = counters_of_system(lab).map_err(|error| error.to_string())?;
    for effective in ask_facts(hosts, &steps)? {
        for fact in effective?.facts {
            let Ok(number) = fact.value.parse::<u64>() else {
                return Err(format!("`{}` is not a valid {} count", fact.value, fact.name));
            };
            let sum = counts.entry(fact.name).or_default();
            *sum = sum.saturating_add(number);
        }
    }
    Ok(counts)
}

/// Asks hosts for facts by steps that change nothing, one for each host.
///
/// # Errors
/// If a host can't forget its step; the error is a sentence.
pub(crate) fn ask_facts(
    hosts: &mut Hosts<'_>,
    steps: &[LabStep],
) -> Result<Vec<Result<EffectiveSettings, String>>, String> {
    let mut reading = Vec::new();
    let mut leaving = Vec::new();
    for step in steps {
        reading.push((step.host.as_str(), request::apply(step.action.clone())));
        leaving.push((step.host.as_str(), request::undo_last()));
    }
    let answers = hosts.ask_each(reading);
    // The read step is finished and not part of the hosts' setup, so undo it. A failed step has
    // undone itself.
    let mut read = answers.iter().map(Result::is_ok);
    leaving.retain(|_| read.next().unwrap_or(false));
    for left in hosts.ask_each(leaving) {
        left?;
    }
    Ok(answers)
}

/// Compares the increase of the counters during a pass with what was recorded.
pub(crate) fn compare(spec: &RunSpec, before: &Counts, after: &Counts, result: &mut PassResult) {
    let system = spec.lab.as_ref().and_then(|lab| lab.system.as_ref());
    let Some(system) = system.map(|system| system.recipe.name.as_str()) else { return };
    let risen = |name: &str| {
        let before = before.get(name)?;
        let after = after.get(name)?;
        Some(after.saturating_sub(*before))
    };
    let read = sum(result, |kind| if kind.kind.reads_data() { kind.bytes } else { 0 });
    if let Some(sent) = risen("read_bytes") {
        // The caveat means that nothing counts the reads, but here the servers do.
        result.caveats.retain(|caveat| caveat.code != CaveatCode::FitsMemory);
        // The client's own counters may have shown this already.
        if !result.caveats.iter().any(|caveat| caveat.code == CaveatCode::Cached) {
            result.caveats.extend(about_reads(system, read, sent));
        }
    }
    // Only data that is written once and durable at the end must have reached the servers in full.
    let is_exact = result.errors() == 0 && spec.durability >= Durability::Sync;
    let written = match result.pass.base() {
        Pass::Write | Pass::Save if is_exact => {
            let written = sum(result, |kind| if kind.kind.writes_data() { kind.bytes } else { 0 });
            risen("written_bytes").map(|found| (written, found, "bytes written"))
        }
        Pass::Create | Pass::Record if result.errors() == 0 => {
            let created =
                sum(result, |kind| if kind.kind == OpKind::Create { kind.done } else { 0 });
            risen("creates").map(|found| (created, found, "files created"))
        }
        _ => None,
    };
    if let Some((expected, counted, what)) = written {
        let source = format!("{what}, counted by the servers of {system} (at least)");
        if counted < expected {
            let evidence = format!("recorded {expected}, found {counted} ({source})");
            let data = Evidence::counts(counted, expected, "counted", source.as_str());
            result.caveats.push(CaveatCode::Accounting.because(evidence).with_data(data));
        }
        result.cross_checks.push(CrossCheck { expected, found: counted.min(expected), source });
    }
}

fn sum(result: &PassResult, amount: impl Fn(&KindResult) -> u64) -> u64 {
    result.kinds.iter().map(amount).sum()
}

/// Raises a caveat if the servers sent less than was read.
fn about_reads(system: &str, read: u64, sent: u64) -> Option<Caveat> {
    if read == 0 || sent as f64 >= read as f64 * SENT_SHARE_MIN {
        return None;
    }
    let source = format!("counters of the servers of {system}");
    let evidence = format!("{} were read, but the servers sent only {}", Size(read), Size(sent));
    let share = sent as f64 / read as f64;
    let data = Evidence::shares(share, SENT_SHARE_MIN, source.as_str());
    Some(CaveatCode::Cached.because(format!("{evidence} ({source})")).with_data(data))
}

#[cfg(test)]
mod tests {
    use model::testing::RunBuilder;
    use model::{Histogram, Host, System, Workload};

    use super::*;

    fn compared(pass: Pass, kind: OpKind, name: &str, counted: u64) -> PassResult {
        let mut result = PassResult::new(pass);
        result.kinds.push(KindResult {
            kind,
            issued: 10,
            done: 10,
            bytes: 10_000,
            errors: Vec::new(),
            service_time: Histogram::new(),
            response_time: Histogram::new(),
        });
        let mut lab = LabSpec::new(Host::local("s"), Host::local("c"));
        lab.system = Some(Box::default());
        let System { recipe, .. } = lab.system.as_deref_mut().unwrap();
        recipe.name = "plain".to_owned();
        let mut spec = RunBuilder::new(Workload::Stream).lab(Some(Box::new(lab))).build();
        spec.durability = Durability::Sync;
        result.caveats.push(CaveatCode::FitsMemory.because("1 B in 2 B"));
        let counts = |number| Counts::from([(name.to_owned(), number)]);
        compare(&spec, &counts(5), &counts(5 + counted), &mut result);
        result
    }

    fn codes(result: &PassResult) -> Vec<CaveatCode> {
        result.caveats.iter().map(|caveat| caveat.code).collect()
    }

    #[test]
    fn attributes_missing_bytes_to_client_cache() {
        let read = |sent| compared(Pass::Read, OpKind::Read, "read_bytes", sent);
        assert_eq!(codes(&read(8_900)), [CaveatCode::Cached], "the counters show it");
        // Read-ahead reads more.
        assert_eq!(codes(&read(9_000)), []);
        assert_eq!(codes(&read(20_000)), []);
        // A missing counter proves nothing.
        let uncounted = compared(Pass::Read, OpKind::Read, "creates", 0);
        assert_eq!(codes(&uncounted), [CaveatCode::FitsMemory]);
    }

    #[test]
    fn requires_written_files_to_arrive() {
        for (pass, kind, name, number) in [
            (Pass::Write, OpKind::Write, "written_bytes", 10_000),
            (Pass::Create, OpKind::Create, "creates", 10),
        ] {
            let whole = compared(pass, kind, name, number);
            assert_eq!((codes(&whole).len(), whole.cross_checks.len()), (1, 1), "{pass}");
            // Replicas are counted, too.
            let copies = compared(pass, kind, name, 2 * number);
            assert_eq!((codes(&copies).len(), copies.cross_checks[0].found), (1, number));
            let short = compared(pass, kind, name, number - 1);
            assert_eq!(codes(&short)[1..], [CaveatCode::Accounting], "{pass}");
            assert_eq!(short.cross_checks[0].found, number - 1);
        }
        // Data that is overwritten may reach the servers only once.
        let rewrite = compared(Pass::Rewrite, OpKind::Write, "written_bytes", 0);
        assert_eq!((codes(&rewrite).len(), rewrite.cross_checks.len()), (1, 0));
    }
}
