//! `dfsbench verify`: checks bundles by rules.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use model::{Campaign, Fact};
use report::document::text::push_beside;
use report::verification::{
    BundleContent, BundleToVerify, Rule, RuleSet, RuleSetError, StatedVerdict, Verification,
    index_page, state_facts, to_json, to_text, verify,
};
use report::{Format, ReportDetail};

use crate::args::VerifyArgs;
use crate::commands::bundle::to_lines;
use crate::exit::{End, Failure};
use crate::files::{input_file, output_file};
use crate::stored::bundle_file::{self, CAMPAIGN, OpenBundle};
use crate::stored::{memory_guard, plan_check};
use crate::terminal::output::{self, Printable};

/// A bundle with its campaign in memory, or why it is damaged.
struct LoadedBundle {
    name: String,
    content: Result<LoadedContent, Vec<String>>,
}

struct LoadedContent {
    opened: OpenBundle,
    campaign: Campaign,
    uuid: String,
}

/// Verifies bundles, or lists the rules.
///
/// # Errors
/// If a file is not a bundle, or the rules can't be read.
pub(crate) fn run(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let rules = read_rules(&args.rules)?;
    if args.list_rules {
        output::text(&describe_rules(&rules))?;
        return Ok(End::Ok.into());
    }
    output_file::check_with_inputs(args.output.as_deref(), &args.bundles)?;
    let mut loaded = Vec::with_capacity(args.bundles.len());
    for path in &args.bundles {
        loaded.push(LoadedBundle { name: path.display().to_string(), content: load(path)? });
    }
    let bundles: Vec<_> = loaded.iter().map(LoadedBundle::to_verify).collect();
    let verifications: Vec<_> = bundles.iter().map(|bundle| verify(bundle, &rules)).collect();
    let format = if args.json { Format::Json } else { args.format };
    let text = match format {
        Format::Json => to_json(&verifications),
        Format::Html => index_page(&verifications),
        _ => to_text(&verifications, output::screen(ReportDetail::Whole)),
    };
    output_file::write_or_print(args.output.as_deref(), &Printable::report(&text, format))?;
    let is_valid = verifications.iter().all(Verification::is_valid);
    Ok(if is_valid { End::Ok } else { End::Lost }.into())
}

/// Loads a bundle; the inner error describes its damage.
fn load(path: &Path) -> Result<Result<LoadedContent, Vec<String>>, Failure> {
    let opened = match bundle_file::open(path)? {
        Ok(opened) => opened,
        Err(damage) => return Ok(Err(damage)),
    };
    let loaded = memory_guard::load(&opened.store, CAMPAIGN);
    let line = opened.store.line(CAMPAIGN);
    let (campaign, line) = match (loaded, line) {
        (Ok(campaign), Ok(line)) => (campaign, line),
        (Err(Failure::Store(error)), _) | (_, Err(error)) => {
            let path = opened.store.path().display().to_string();
            return Ok(Err(vec![error.to_string().replace(&path, "results.db")]));
        }
        (Err(failure), _) => return Err(failure),
    };
    Ok(Ok(LoadedContent { opened, campaign, uuid: line.uuid }))
}

impl LoadedBundle {
    fn to_verify(&self) -> BundleToVerify<'_> {
        let content = match &self.content {
            Ok(content) => content.to_verify(),
            Err(damage) => Err(damage.clone()),
        };
        BundleToVerify { name: self.name.clone(), content }
    }
}

impl LoadedContent {
    fn to_verify(&self) -> Result<BundleContent<'_>, Vec<String>> {
        let Self { opened, campaign, uuid } = self;
        let bundle = &opened.bundle;
        let stated: Vec<StatedVerdict> = serde_json::from_slice(&bundle.texts.verdicts_json)
            .map_err(|error| vec![format!("`verdicts.json` can't be read: {error}")])?;
        Ok(BundleContent {
            sha256: bundle.sha256.clone(),
            packed_by: bundle.manifest.packed_by.clone(),
            verified_by: env!("CARGO_PKG_VERSION"),
            campaign,
            uuid: uuid.clone(),
            differing_copies: self.compare_copies(),
            stated,
            plan: plan_check::check(campaign),
        })
    }

    /// Describes the copies for people that differ from the results file.
    fn compare_copies(&self) -> Vec<String> {
        let Self { opened, campaign, uuid } = self;
        let texts = &opened.bundle.texts;
        let mut differing = Vec::new();
        if texts.plan_toml != campaign.plan_toml.as_bytes() {
            differing.push("`plan.toml` is not the plan of the results".to_owned());
        }
        let facts: Vec<&Fact> = state_facts(campaign);
        if texts.facts_json != to_lines(&facts) {
            differing.push("`facts.json` are not the facts of the results".to_owned());
        }
        let stated = &opened.bundle.manifest.campaign;
        let is_same = stated.uuid == *uuid
            && stated.name == campaign.name
            && stated.measured_by == campaign.tool_version
            && stated.started_unix_ms == campaign.started_unix_ms;
        if !is_same {
            differing.push("`manifest.json` describes another campaign".to_owned());
        }
        differing
    }
}

/// Returns a built-in rule set, or reads one from a file.
fn read_rules(name: &str) -> Result<RuleSet, Failure> {
    if let Some(rules) = RuleSet::built_in(name) {
        return Ok(rules);
    }
    let refuse = |why: &str| {
        let known = RuleSet::BUILT_IN.join(", ");
        Failure::Usage(format!("--rules {name}: {why} (hint: {known}, or the path of a file)"))
    };
    let text = input_file::read_text(Path::new(name)).map_err(|why| refuse(&why))?;
    RuleSet::parse(name, &text)
        .map_err(|RuleSetError(why)| Failure::Usage(format!("--rules {name}: {why}")))
}

/// Lists the rules of a set.
fn describe_rules(rules: &RuleSet) -> String {
    let columns = output::screen(ReportDetail::Whole).columns();
    let mut text = format!("rules: {}\n\n", rules.name);
    for rule in Rule::ALL {
        let lead = format!("{}  {}", rule.id(), rules.severity(*rule).name());
        push_beside(&mut text, &lead, 15, &rules.title(*rule), columns);
        push_beside(&mut text, "", 15, rule.reason(), columns);
        if *rule == Rule::NoCaveat {
            push_beside(&mut text, "", 15, &format!("List: {}", rules.caveats()), columns);
        }
    }
    // Writing to a String never fails.
    let _ = writeln!(text);
    text
}
