//! `dfsbench bundle`: packs a campaign into one file that others can check.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use model::{Campaign, CampaignState};
use report::verification::{state_facts, state_verdicts};
use results::Store;
use results::bundle::{BundledCampaign, BundledTexts, PackError, pack};
use serde::Serialize;

use crate::args::BundleArgs;
use crate::exit::{End, Failure};
use crate::files::output_file::{self, StreamedFile};
use crate::files::temporary;
use crate::stored::{joined, memory_guard};
use crate::terminal::output;

/// Maximum number of names of a kind to list.
const NAMES_MAX: usize = 10;

/// Packs a campaign.
///
/// # Errors
/// If there is no such campaign, it is not finished, or the bundle exists or can't be written.
pub(crate) fn run(args: &BundleArgs) -> Result<ExitCode, Failure> {
    let path = &args.output;
    output_file::check(path, Some(&args.results))?;
    let is_kept = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    if is_kept && !args.force {
        return Err(Failure::Usage(format!(
            "`{}` exists (hint: name another file, or --force to replace it)",
            path.display()
        )));
    }
    let (store, id) = joined::find_campaign(&args.campaign, &args.results)?;
    let campaign = memory_guard::load(&store, id)?;
    if campaign.state != CampaignState::Complete && !args.unfinished {
        return Err(refuse_unfinished(&campaign));
    }
    let sha256 = pack_campaign(&store, &campaign, args)?;
    let text = describe(&store, &campaign, args, &sha256)?;
    if output_file::is_stdout(path) {
        output::message(text.trim_end());
    } else {
        output::text(&text)?;
    }
    Ok(End::Ok.into())
}

fn refuse_unfinished(campaign: &Campaign) -> Failure {
    let Campaign { id, name, state, .. } = campaign;
    let what = format!("campaign {id} ({name}) is {}", state.name());
    Failure::Usage(match state {
        CampaignState::Running => format!("{what} (hint: wait for its end)"),
        _ => format!(
            "{what} (hint: `dfsbench resume {id}` finishes it; --unfinished packs it as it is, and \
             `dfsbench verify` then reports what is missing)"
        ),
    })
}

/// Writes the bundle and returns its hash.
fn pack_campaign(store: &Store, campaign: &Campaign, args: &BundleArgs) -> Result<String, Failure> {
    let folder = temporary::Folder::for_copies().map_err(|error| Failure::Output {
        what: "a copy of the campaign to the temporary directory".to_owned(),
        reason: error.to_string(),
        hint: "set TMPDIR to a directory with free space",
    })?;
    let results = folder.path().join("results.db");
    store.extract(campaign.id, &results)?;
    let facts = state_facts(campaign);
    let kernels = facts.iter().filter(|fact| fact.name == "kernel");
    let kernels: BTreeSet<String> = kernels.map(|fact| fact.value.clone()).collect();
    let header = BundledCampaign {
        uuid: store.line(campaign.id)?.uuid,
        name: campaign.name.clone(),
        measured_by: campaign.tool_version.clone(),
        started_unix_ms: campaign.started_unix_ms,
        kernels: kernels.into_iter().collect(),
    };
    let texts = BundledTexts {
        plan_toml: campaign.plan_toml.clone().into_bytes(),
        facts_json: to_lines(&facts),
        verdicts_json: to_lines(&state_verdicts(campaign)),
    };
    let mut file = StreamedFile::create(&args.output)?;
    let version = env!("CARGO_PKG_VERSION");
    match pack(&mut &mut file, version, header, &texts, &results) {
        Ok(sha256) => {
            file.commit()?;
            Ok(sha256)
        }
        Err(PackError::Write(error)) => Err(file.failure(&error)),
        Err(error) => Err(Failure::lab(error)),
    }
}

/// Renders a list as JSON with an item per line.
pub(crate) fn to_lines(items: &[impl Serialize]) -> Vec<u8> {
    let lines: Vec<String> = items
        .iter()
        .map(|item| serde_json::to_string(item).expect("text and numbers can be written"))
        .collect();
    format!("[\n{}\n]\n", lines.join(",\n")).into_bytes()
}

/// Describes the bundle, and what it tells others.
fn describe(
    store: &Store,
    campaign: &Campaign,
    args: &BundleArgs,
    sha256: &str,
) -> Result<String, Failure> {
    let facts = state_facts(campaign);
    let values = |name: &'static str| {
        facts.iter().filter(move |fact| fact.name == name).map(|fact| fact.value.clone())
    };
    let clients = campaign.runs.iter().flat_map(|run| run.spec.client_hosts());
    let passes = campaign.runs.iter().flat_map(|run| &run.trials).flat_map(|trial| &trial.passes);
    let watched = passes.flat_map(|pass| &pass.telemetry).map(|telemetry| telemetry.host.clone());
    let hosts: BTreeSet<String> = values("host name")
        .chain(clients.map(|host| host.name.clone()))
        .chain(watched)
        .filter(|name| !name.is_empty())
        .collect();
    let targets: BTreeSet<String> =
        campaign.runs.iter().map(|run| run.spec.target.to_string()).collect();
    let line = store.line(campaign.id)?;
    let notes = store.notes(campaign.id)?;
    let mut parts = vec![
        ("bundle", args.output.display().to_string()),
        ("sha256", sha256.to_owned()),
        (
            "campaign",
            format!(
                "{} {}, {}",
                line.id,
                line.name,
                report::counted(line.trials as usize, "trial")
            ),
        ),
        ("hosts", list_names(&hosts)),
        ("targets", list_names(&targets)),
        ("command", campaign.command.clone()),
    ];
    if !line.tags.is_empty() {
        parts.push(("tags", line.tags.join(" ")));
    }
    if !notes.is_empty() {
        parts.push(("notes", report::counted(notes.len(), "note")));
    }
    let mut text = String::new();
    for (name, what) in parts {
        // Writing to a String never fails.
        let _ = writeln!(text, "{name:<10}{}", what.replace('\n', " "));
    }
    text.push_str(
        "\nWhoever gets the bundle can read these names, and also addresses, mount options, user \
         ids and\nhardware in its plan and facts. Nothing was sent anywhere.\n",
    );
    Ok(text)
}

fn list_names(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
    let more = names.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}
