//! Rule sets: the built-in ones, and those of a file.
//!
//! A file starts from a built-in set and changes severities and limits by rule:
//!
//! ```toml
//! base = "strict"
//! R12 = "off"
//! R07 = { severity = "required", min_trials = 10 }
//! ```

use std::collections::BTreeSet;

use model::{CaveatCode, Severity};
use toml::{Table, Value};

use super::{Finding, Rule, RuleResult, RuleSeverity};

/// How strict a verification is.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSet {
    /// `standard`, `strict` or the name of a file.
    pub name: String,
    severities: Vec<RuleSeverity>,
    pub(super) limits: RuleLimits,
}

/// The limits of rules.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuleLimits {
    /// Minimum number of trials that count.
    pub min_trials: u32,
    /// Caveats that no row may have.
    pub caveats: BTreeSet<CaveatCode>,
    /// Maximum error of a clock, in percent of the pass.
    pub max_clock_error_percent: f64,
    /// Minimum length of a pass, in seconds.
    pub min_seconds: f64,
}

/// Why a file contains no rule set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSetError(pub String);

/// Caveats with which a number is not one of the storage.
const MISLEADING: [CaveatCode; 10] = [
    CaveatCode::Cached,
    CaveatCode::MixedTrials,
    CaveatCode::Localio,
    CaveatCode::Delegated,
    CaveatCode::OptionNotEffective,
    CaveatCode::BackendFallback,
    CaveatCode::Compressible,
    CaveatCode::Emulated,
    CaveatCode::ConcurrentCampaign,
    CaveatCode::Traced,
];

/// Notes that the strict set refuses, too.
const STRICT_NOTES: [CaveatCode; 4] = [
    CaveatCode::FitsMemory,
    CaveatCode::ServerCached,
    CaveatCode::MayBeServerCached,
    CaveatCode::SmallDataSet,
];

impl RuleSet {
    /// Names of the built-in sets.
    pub const BUILT_IN: [&'static str; 2] = ["standard", "strict"];

    /// Returns the set for results that a reader may rely on.
    pub fn standard() -> Self {
        let severity = |rule: &Rule| match rule {
            Rule::Durable | Rule::Released | Rule::LongEnough => RuleSeverity::Advised,
            _ => RuleSeverity::Required,
        };
        Self {
            name: "standard".to_owned(),
            severities: Rule::ALL.iter().map(severity).collect(),
            limits: RuleLimits {
                min_trials: 3,
                caveats: MISLEADING.into(),
                max_clock_error_percent: 1.0,
                min_seconds: 10.0,
            },
        }
    }

    /// Returns the set for published results: all rules are required, and nothing degrades a row.
    pub fn strict() -> Self {
        let degrading = CaveatCode::ALL.iter().copied();
        let degrading = degrading.filter(|code| code.severity() == Severity::Degraded);
        Self {
            name: "strict".to_owned(),
            severities: vec![RuleSeverity::Required; Rule::ALL.len()],
            limits: RuleLimits {
                min_trials: 5,
                caveats: degrading.chain(STRICT_NOTES).collect(),
                max_clock_error_percent: 1.0,
                min_seconds: 60.0,
            },
        }
    }

    /// Returns the built-in set with this name.
    pub fn built_in(name: &str) -> Option<Self> {
        match name {
            "standard" => Some(Self::standard()),
            "strict" => Some(Self::strict()),
            _ => None,
        }
    }

    /// Reads a set from a file.
    ///
    /// # Errors
    /// If it is not TOML, or a rule, a severity or a limit is unknown.
    pub fn parse(name: &str, text: &str) -> Result<Self, RuleSetError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            RuleSetError(error.to_string().trim_end().to_owned())
        })?;
        let base = match table.get("base") {
            None => Some(Self::standard()),
            Some(base) => base.as_str().and_then(Self::built_in),
        };
        let Some(mut rules) = base else {
            return Err(RuleSetError(format!(
                "base = {} is not a rule set (hint: `standard` or `strict`)",
                table["base"]
            )));
        };
        name.clone_into(&mut rules.name);
        for (key, value) in &table {
            if key != "base" {
                rules.change(key, value)?;
            }
        }
        Ok(rules)
    }

    /// Applies one line of a file.
    fn change(&mut self, id: &str, value: &Value) -> Result<(), RuleSetError> {
        let Some(rule) = Rule::from_id(id) else {
            let (first, last) = (Rule::ALL[0].id(), Rule::ALL[Rule::ALL.len() - 1].id());
            return Err(RuleSetError(format!(
                "there is no rule `{id}` (hint: rules are {first} to {last}; `dfsbench verify \
                 --list-rules` describes them)"
            )));
        };
        match value {
            Value::String(_) => self.set_severity(rule, value),
            Value::Table(changes) => changes.iter().try_for_each(|(key, value)| match &**key {
                "severity" => self.set_severity(rule, value),
                _ => self.set_limit(rule, key, value),
            }),
            _ => Err(RuleSetError(format!(
                "{id} = {value} is neither a severity nor a table (hint: {id} = \"advised\")"
            ))),
        }
    }

    fn set_severity(&mut self, rule: Rule, value: &Value) -> Result<(), RuleSetError> {
        let id = rule.id();
        let Some(severity) = value.as_str().and_then(RuleSeverity::from_name) else {
            return Err(RuleSetError(format!(
                "{id}: {value} is not a severity (hint: \"required\", \"advised\" or \"off\")"
            )));
        };
        if rule == Rule::Intact && severity != RuleSeverity::Required {
            return Err(RuleSetError(format!(
                "{id} is always required (hint: without it, no other rule means anything)"
            )));
        }
        self.severities[rule as usize] = severity;
        Ok(())
    }

    fn set_limit(&mut self, rule: Rule, key: &str, value: &Value) -> Result<(), RuleSetError> {
        let id = rule.id();
        let number = value.as_float().or_else(|| value.as_integer().map(|n| n as f64));
        let refuse =
            |wanted: &str| Err(RuleSetError(format!("{id}: {key} = {value} is not {wanted}")));
        let limits = &mut self.limits;
        match (rule, key) {
            (Rule::EnoughTrials, "min_trials") => match value.as_integer() {
                Some(trials @ 1..=1_000_000) => limits.min_trials = trials as u32,
                _ => return refuse("a number of trials, at least 1"),
            },
            (Rule::ClocksAgree, "max_clock_error_percent") => match number {
                Some(percent) if percent > 0.0 && percent <= 100.0 => {
                    limits.max_clock_error_percent = percent;
                }
                _ => return refuse("a percentage above 0 and at most 100"),
            },
            (Rule::LongEnough, "min_seconds") => match number {
                Some(seconds) if (0.0..=1e9).contains(&seconds) => limits.min_seconds = seconds,
                _ => return refuse("a number of seconds"),
            },
            (Rule::NoCaveat, "caveats") => {
                let Some(codes) = value.as_array() else { return refuse("a list of caveats") };
                limits.caveats.clear();
                for code in codes {
                    let Some(code) = code.as_str().and_then(CaveatCode::from_code) else {
                        return Err(RuleSetError(format!(
                            "{id}: {code} is not a caveat (hint: docs/caveats.md lists them)"
                        )));
                    };
                    limits.caveats.insert(code);
                }
            }
            _ => {
                let hint = match limit_name(rule) {
                    Some(limit) => format!("`severity` and `{limit}`"),
                    None => "only `severity`".to_owned(),
                };
                return Err(RuleSetError(format!("{id} has no limit `{key}` (hint: {hint})")));
            }
        }
        Ok(())
    }

    pub fn severity(&self, rule: Rule) -> RuleSeverity {
        self.severities[rule as usize]
    }

    /// Returns what a rule demands, with the limits of this set.
    pub fn title(&self, rule: Rule) -> String {
        let limits = &self.limits;
        rule.title()
            .replace("{min_trials}", &limits.min_trials.to_string())
            .replace("{max_clock_error_percent}", &limits.max_clock_error_percent.to_string())
            .replace("{min_seconds}", &limits.min_seconds.to_string())
    }

    /// Returns the caveats that rows must not have, separated by commas.
    pub fn caveats(&self) -> String {
        let codes: Vec<_> = self.limits.caveats.iter().map(|code| code.code()).collect();
        codes.join(", ")
    }

    pub(super) fn result(&self, rule: Rule, findings: Vec<Finding>) -> RuleResult {
        RuleResult { rule, severity: self.severity(rule), title: self.title(rule), findings }
    }
}

/// Returns the name of a rule's limit in files.
const fn limit_name(rule: Rule) -> Option<&'static str> {
    match rule {
        Rule::EnoughTrials => Some("min_trials"),
        Rule::NoCaveat => Some("caveats"),
        Rule::ClocksAgree => Some("max_clock_error_percent"),
        Rule::LongEnough => Some("min_seconds"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rules_in_order() {
        for (number, rule) in (1..).zip(Rule::ALL) {
            assert_eq!(rule.id(), format!("R{number:02}"));
            assert!(!rule.reason().is_empty());
            let title = RuleSet::strict().title(*rule);
            assert!(!title.contains('{'), "{title}");
        }
    }

    #[test]
    fn reads_severities_and_limits() {
        let text = "base = 'strict'\nR12 = 'off'\nR07 = { severity = 'advised', min_trials = 10 }\n\
                    R14.min_seconds = 0.5\nR08.caveats = ['cached']\n\
                    R09.max_clock_error_percent = 2";
        let rules = RuleSet::parse("mine.toml", text).unwrap();
        assert_eq!(rules.severity(Rule::Released), RuleSeverity::Off);
        assert_eq!(rules.severity(Rule::EnoughTrials), RuleSeverity::Advised);
        assert_eq!(rules.severity(Rule::Durable), RuleSeverity::Required);
        let RuleLimits { min_trials, caveats, max_clock_error_percent, min_seconds } = rules.limits;
        assert_eq!((min_trials, max_clock_error_percent, min_seconds), (10, 2.0, 0.5));
        assert_eq!(caveats, [CaveatCode::Cached].into());
        let named = RuleSet { name: "x".into(), ..RuleSet::standard() };
        assert_eq!(RuleSet::parse("x", ""), Ok(named));
    }

    #[test]
    fn refuses_wrong_lines() {
        for (text, part) in [
            ("R99 = 'off'", "no rule `R99`"),
            ("R1 = 'off'", "no rule `R1`"),
            ("base = 'lax'", "`standard` or `strict`"),
            ("R12 = 'maybe'", "\"maybe\" is not a severity"),
            ("R12 = 1", "neither a severity"),
            ("R01 = 'off'", "always required"),
            ("R12.min_trials = 3", "no limit `min_trials` (hint: only `severity`)"),
            ("R07.trials = 3", "`severity` and `min_trials`"),
            ("R07.min_trials = 0", "at least 1"),
            ("R09.max_clock_error_percent = nan", "a percentage"),
            ("R14.min_seconds = -1", "a number of seconds"),
            ("R08.caveats = 'cached'", "a list"),
            ("R08.caveats = ['casched']", "\"casched\" is not a caveat"),
            ("R07 = [", "line 1"),
        ] {
            let RuleSetError(message) = RuleSet::parse("x", text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
