//! Explains why a setting has no effect: what it applies to, and what the plan has instead.
//!
//! The help text of a setting ends with a sentence about its scope. [`describe_idle`] builds the
//! message from that sentence, so the two cannot diverge.

use model::Workload;
use model::setting::Setting;

use crate::syntax::error::Fault;
use crate::syntax::raw::{RawPlan, RawTarget};
use crate::syntax::target::TargetArg;

/// The message if the help text does not mention a scope.
const IDLE: &str = "no run of this plan depends on it";

/// Describes why a setting has no effect on any run.
pub(crate) fn describe_idle(setting: Setting, raw: &RawPlan) -> Fault {
    match scope_of(setting.meaning()).filter(|scope| is_reason(scope, raw)) {
        None => Fault::new(IDLE).hint(setting.meaning()),
        Some(scope) => match describe_subject(&scope, raw) {
            None => Fault::new(scope),
            // The subject doesn't say which version was given, or is the default.
            Some(subject)
                if scope.ends_with("with v4.1 and later") && subject.ends_with("(nfs)") =>
            {
                Fault::new(format!("{scope}; {subject}"))
                    .hint("set nfsvers to 4.1 or 4.2; the default is 3")
            }
            Some(subject) => Fault::new(format!("{scope}; {subject}")),
        },
    }
}

/// Returns true if the scope explains why the setting has no effect; false if the plan has what the
/// setting applies to, so that there must be another reason.
fn is_reason(scope: &str, raw: &RawPlan) -> bool {
    let is_named = |name: &str| words(scope).any(|word| word == name);
    if !Workload::NAMES.iter().any(|name| is_named(name)) {
        return true;
    }
    let is_here = raw.workloads.iter().any(|one| is_named(one.kind.value.name()));
    is_here == scope.starts_with("does not")
}

fn words(scope: &str) -> impl Iterator<Item = &str> {
    scope.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

/// Describes a setting that is overridden in every run.
pub(crate) fn describe_overridden() -> Fault {
    Fault::new(IDLE).hint("the workloads or targets that it applies to set it themselves")
}

/// Returns the scope of a setting, from the sentence of its help text that starts with "Only",
/// "For" or "Not for".
fn scope_of(meaning: &str) -> Option<String> {
    const BEGINNINGS: [(&str, &str); 4] = [
        ("Only for ", "applies only to "),
        ("Only ", "applies only "),
        ("Not for ", "does not apply to "),
        ("For ", "applies only to "),
    ];
    for sentence in meaning.trim_end_matches('.').split(". ") {
        for (begin, verb) in BEGINNINGS {
            if let Some(rest) = sentence.trim_start().strip_prefix(begin) {
                // The part after a semicolon is additional information.
                let rest = rest.split("; ").next().unwrap_or_default();
                return Some(format!("{verb}{}", rest.replace(" nor for ", " nor to ")));
            }
        }
    }
    None
}

/// Describes the part of the plan that a scope refers to; `None` if it refers to another setting.
fn describe_subject(scope: &str, raw: &RawPlan) -> Option<String> {
    const OF_TARGETS: [&str; 6] = ["nfs", "server", "director", "posix", "system", "host"];
    if words(scope).any(|word| Workload::from_name(word).is_some()) {
        let mut names: Vec<&str> = raw.workloads.iter().map(|one| one.kind.value.name()).collect();
        names.dedup();
        let verb = if names.len() == 1 { "workload is" } else { "workloads are" };
        return Some(format!("the {verb} {}", names.join(", ")));
    }
    if !OF_TARGETS.iter().any(|word| scope.contains(word)) {
        return None;
    }
    let mut targets: Vec<String> = raw.targets.iter().map(describe_target).collect();
    targets.dedup();
    Some(targets.join(", "))
}

fn describe_target(target: &RawTarget) -> String {
    let shown = match &target.what {
        TargetArg::Ready(ready) => ready.to_string(),
        _ => target.name.value.clone(),
    };
    let noun = target.what.row().noun;
    let mut backends = Vec::new();
    for backend in &target.backends {
        backends.push(backend.name());
    }
    let through =
        if backends.is_empty() { String::new() } else { format!(" ({})", backends.join(", ")) };
    format!("`{shown}` is {noun}{through}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_is_sentence_of_help() {
        for (setting, scope) in [
            (Setting::ReadPercent, Some("applies only to mixed, database and vm_boot")),
            (Setting::CryptKey, Some("applies only with crypt")),
            (Setting::Transactions, Some("applies only to transactions")),
            (Setting::CpuFrequency, None),
        ] {
            assert_eq!(scope_of(setting.meaning()).as_deref(), scope, "{setting:?}");
        }
        let files = scope_of(Setting::Files.meaning()).unwrap();
        assert!(files.contains("nor to op_mix, whose files follow"), "{files}");
        let nfs = scope_of(Setting::NfsVers.meaning()).unwrap();
        assert!(nfs.starts_with("applies only to nfs"), "{nfs}");
    }
}
