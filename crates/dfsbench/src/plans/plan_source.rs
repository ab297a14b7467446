//! Reads a plan from a file, a preset, stdin or a target, and applies the flags to it.
//!
//! [`read`] is the entry point for most commands. It reads and checks the plan; nothing is
//! measured, written or connected to.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use model::setting::Setting;
use model::{Host, Target, Workload};
use plan::{FioRequest, Overrides, Plan, PlanError, RawPlan, Surroundings, TargetArg, UsedFrom};

use crate::args::{self, RunArgs};
use crate::exit::Failure;
use crate::files::input_file;
use crate::plans::presets::{Preset, QUICK};
use crate::plans::surroundings;
use crate::terminal::output;

/// Reads the plan that the arguments name, and applies their flags to it.
///
/// # Errors
/// If it can't be read, a flag's value is invalid, or it contains disturbances.
pub(crate) fn read(args: &RunArgs) -> Result<RawPlan, Failure> {
    let raw = read_disturbed(args)?;
    let Some(one) = raw.disturbances.first() else { return Ok(raw) };
    let hint = "only `dfsbench soak` supports disturbances; remove [[disturb]] for other commands";
    Err(PlanError {
        source_name: raw.source_name.clone(),
        place: one.place,
        message: format!("`{}` is only for a soak", one.value),
        hint: Some(hint.to_owned()),
    }
    .into())
}

/// Refuses a plan with several loads for a command that measures one.
///
/// # Errors
/// If the plan has loads.
pub(crate) fn refuse_loads(raw: &RawPlan) -> Result<(), Failure> {
    let Some(load) = raw.workloads.iter().find_map(|workload| workload.load.as_ref()) else {
        return Ok(());
    };
    let hint = "only `dfsbench run` runs several; write one of them as a [[workload]]";
    Err(PlanError {
        source_name: raw.source_name.clone(),
        place: load.name.place,
        message: format!("`{}` is one of several loads", load.name.value),
        hint: Some(hint.to_owned()),
    }
    .into())
}

/// Like [`read`], but accepts disturbances, which a soak supports.
///
/// # Errors
/// If the plan can't be read or a flag's value is invalid.
pub(crate) fn read_disturbed(args: &RunArgs) -> Result<RawPlan, Failure> {
    if args.like.is_some() {
        let mut raw = RawPlan::parse(&like_fio(args)?, "the plan made from the job")?;
        apply(&mut raw, args)?;
        return Ok(raw);
    }
    let mut raw = match args.target.as_deref() {
        None if args.wants_null() => RawPlan::for_target(TargetArg::NULL),
        None => RawPlan::parse(QUICK.text, QUICK.name)?,
        Some(text) => match &args.plan {
            None => load_named(text)?,
            Some(path) => load_for_target(path, text)?,
        },
    };
    apply(&mut raw, args)?;
    Ok(raw)
}

/// Translates the job file of `--like` into a plan, and notes how it differs.
///
/// # Errors
/// If it can't be read or translated, or flags would change the work of only one of the tools.
pub(crate) fn like_fio(args: &RunArgs) -> Result<String, Failure> {
    let path = args.like.as_deref().unwrap_or(Path::new(""));
    if let Some(setting) = args.overrides().settings.keys().next() {
        return Err(Failure::Usage(format!(
            "--{}: would change only the work of dfsbench, not that of fio (hint: change the job \
             file, or print the plan with --as-plan and change both in it)",
            setting.key().replace('_', "-")
        )));
    }
    let directory = args.target.as_deref();
    if let Some(target) = directory.filter(|it| it.contains("://") || !Path::new(it).is_dir()) {
        return Err(Failure::Usage(format!(
            "`{target}` is not a directory, and fio needs one (hint: name a mounted directory)"
        )));
    }
    let request = FioRequest {
        text: &input_file::read_job(path)?,
        source_name: &path.display().to_string(),
        sections: &args.section,
        accepted: &args.accept,
        directory,
    };
    let made = plan::plan_like_fio(&request)?;
    if let Some(note) = made.note {
        output::message(&format!("note: {note}"));
    }
    Ok(made.toml)
}

/// Returns the plan of a file or preset, or builds one for a target.
///
/// # Errors
/// If it can't be read.
pub(crate) fn load_named(text: &str) -> Result<RawPlan, Failure> {
    match Preset::find_by_name(text) {
        Some(preset) => Ok(RawPlan::parse(preset.text, preset.name)?),
        None if is_plan_file(text) => read_plan(Path::new(text)),
        None => {
            check_spelling(text)?;
            Ok(RawPlan::for_target(plan::parse_target(text)?))
        }
    }
}

/// Reads a plan, and replaces its targets.
///
/// # Errors
/// If it can't be read, or `text` is not a target.
fn load_for_target(path: &Path, text: &str) -> Result<RawPlan, Failure> {
    if Preset::find_by_name(text).is_some() || is_plan_file(text) {
        return Err(Failure::Usage(format!(
            "--plan: `{text}` is a plan of its own (hint: name a directory or nfs://server/export)"
        )));
    }
    check_spelling(text)?;
    let mut raw = read_plan(path)?;
    raw.replace_targets(plan::parse_target(text)?);
    Ok(raw)
}

/// Reads the files that a plan refers to: mixes and recipes.
///
/// # Errors
/// If one can't be read or is invalid.
pub(crate) fn read_inputs(raw: &mut RawPlan) -> Result<(), Failure> {
    raw.read_mixes(input_file::read_mix)?;
    Ok(raw.read_systems(|path| input_file::read_text(Path::new(path)))?)
}

/// Returns the text of a recipe: of a file if `name` is a path, as in plans, else a built-in one.
///
/// # Errors
/// If the file can't be read, or there is no such recipe.
pub(crate) fn read_recipe(name: &str) -> Result<Cow<'static, str>, Failure> {
    if plan::is_recipe_path(name) {
        return match input_file::read_text(Path::new(name)) {
            Ok(text) => Ok(text.into()),
            Err(why) => {
                let name = name.escape_debug();
                let hint = "the path of a file, or a name that `dfsbench systems` lists";
                Err(Failure::Usage(format!("can't read recipe `{name}`: {why} (hint: {hint})")))
            }
        };
    }
    let found = plan::built_in_recipe(name);
    let files = [format!("./{name}"), format!("{name}.toml")];
    match files.iter().find(|file| found.is_err() && Path::new(file).is_file()) {
        Some(file) => Err(Failure::Usage(format!(
            "there is no built-in recipe `{name}` (hint: for the file, write `{file}`)"
        ))),
        None => Ok(found?.into()),
    }
}

/// Refuses a word that is not a local directory and looks like a misspelled preset or target.
fn check_spelling(text: &str) -> Result<(), Failure> {
    let mut targets = vec!["embedded"];
    targets.extend(Target::PLAIN.iter().map(|target| target.row().usual_name));
    if targets.contains(&text) || text.contains(['/', ':']) || Path::new(text).exists() {
        return Ok(());
    }
    let mut known = Preset::ALL.map(|preset| preset.name).to_vec();
    known.extend(targets);
    match plan::nearest_word(text, &known) {
        None if text.starts_with("seed-") => Err(Failure::Usage(format!(
            "there is no directory, plan or preset `{text}` (hint: `dfsbench preset` lists the \
             presets)"
        ))),
        None => Ok(()),
        Some(near) => Err(Failure::Usage(format!(
            "there is no directory, plan or target `{text}` (hint: did you mean `{near}`? For a \
             directory with this name, write `./{text}`)"
        ))),
    }
}

/// Rejects `--scale` for a bare target: only a plan has sizes to scale. A checkpoint or a
/// training without a plan has the size of its model.
fn check_scale(given: &Overrides, target: Option<&str>, has_plan: bool) -> Result<(), Failure> {
    match target {
        Some(text)
            if !has_plan
                && given.scale.is_some()
                && given.workload != [Workload::Checkpoint.name()]
                && given.workload != [Workload::Training.name()]
                && !is_plan_file(text)
                && Preset::find_by_name(text).is_none() =>
        {
            Err(Failure::Usage(format!(
                "--scale: applies only to plans and presets; `{text}` is a target (hint: use \
                 --file-size and --duration)"
            )))
        }
        _ => Ok(()),
    }
}

/// Applies the flags, which take precedence over the plan, and the user's defaults, which don't.
/// Then reads the files that the plan refers to.
///
/// # Errors
/// If a flag or a file is invalid.
pub(crate) fn apply(raw: &mut RawPlan, args: &RunArgs) -> Result<(), Failure> {
    let mut defaults = args.defaults();
    // Scale first, because values given as flags are not scaled.
    raw.apply(&Overrides { scale: defaults.scale.take(), ..Overrides::default() })?;
    let given = args.overrides();
    check_scale(&given, args.target.as_deref(), args.plan.is_some())?;
    raw.apply(&given)?;
    if let Some((trials, duration)) = args.effort() {
        raw.apply(&effort_overrides(raw, &given, trials, duration))?;
    }
    raw.apply_defaults(defaults)?;
    if let Some((trials, duration)) = args.default_effort() {
        raw.apply_defaults(effort_overrides(raw, &given, trials, duration))?;
    }
    read_inputs(raw)?;
    if args.job.launcher.is_some() {
        use_job_hosts(raw)?;
    }
    Ok(())
}

/// Makes targets that name no hosts use the hosts of the job.
///
/// # Errors
/// If this isn't possible for any target.
fn use_job_hosts(raw: &mut RawPlan) -> Result<(), Failure> {
    for target in &mut raw.targets {
        if target.used_from != UsedFrom::One {
            continue;
        }
        match &mut target.what {
            TargetArg::Ready(Target::Directory { path }) => make_absolute(path)?,
            TargetArg::Ready(Target::Directories { paths }) => {
                for path in paths {
                    make_absolute(path)?;
                }
            }
            TargetArg::Ready(Target::Null) | TargetArg::Nfs(_) => {}
            TargetArg::Ready(_)
            | TargetArg::Temporary
            | TargetArg::Embedded(_)
            | TargetArg::Lab(_) => continue,
        }
        target.used_from = UsedFrom::Job;
    }
    let mut names_hosts = false;
    for target in &raw.targets {
        match target.used_from {
            UsedFrom::Job => return Ok(()),
            UsedFrom::Hosts(_) => names_hosts = true,
            UsedFrom::One => {}
        }
    }
    let hint = if names_hosts {
        "remove `hosts` and `clients` from the targets: the job provides the hosts"
    } else {
        "name a directory that all of them have, or nfs://server/export"
    };
    let what = "no target of the plan can be used from the hosts of a job";
    Err(Failure::Usage(format!("{what} (hint: {hint})")))
}

/// Makes a path absolute, because agents on other hosts run in a different directory.
fn make_absolute(path: &mut PathBuf) -> Result<(), Failure> {
    match std::path::absolute(&*path) {
        Ok(absolute) => *path = absolute,
        Err(error) => {
            let shown = path.display();
            return Err(Failure::Usage(format!("can't make `{shown}` absolute: {error}")));
        }
    }
    Ok(())
}

/// Returns the trials and duration of `--quick` or `--thorough`, unless flags set them.
fn effort_overrides(raw: &RawPlan, given: &Overrides, trials: &str, duration: &str) -> Overrides {
    let mut effort = Overrides::default();
    if given.trials.is_none() {
        effort.trials = Some(trials.to_owned());
    }
    // If no workload is limited by time, the setting would have no effect and cause a warning.
    let is_timed = raw.workloads.iter().any(|it| Setting::Duration.has_workload(it.kind.value));
    if is_timed && !given.settings.contains_key(&Setting::Duration) {
        effort = effort.with(Setting::Duration, &[duration]);
    }
    effort
}

/// Reads a plan from a file, or from stdin if the path is `-`.
///
/// # Errors
/// If it can't be read or is not a plan.
pub(crate) fn read_plan(path: &Path) -> Result<RawPlan, Failure> {
    let name = path.display().to_string();
    Ok(RawPlan::parse(&input_file::read_plan(path)?, &name)?)
}

/// Parses the arguments of `dfsbench run` that follow `--` in another command, which sets the
/// ignored ones itself: the user's defaults don't change these.
///
/// # Errors
/// If one is unknown or has an invalid value, or the configuration file can't be used.
pub(crate) fn parse_run(words: &[String], ignored: &[&str]) -> Result<RunArgs, Failure> {
    args::parse_run(words, ignored)?.map_err(|error| explain_flags(&error))
}

fn explain_flags(error: &clap::Error) -> Failure {
    if error.exit_code() == 0 {
        return args::end_with_help(error);
    }
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let what = line.strip_prefix("error: ").unwrap_or(line);
    Failure::Usage(format!("{what} (hint: `dfsbench run --help` lists the flags)"))
}

/// Flags of `dfsbench run` to be written into a job script, checked beforehand.
pub(crate) struct RunFlags(RunArgs);

impl RunFlags {
    /// Parses flags, and refuses those that the job sets by itself.
    ///
    /// # Errors
    /// If one is unknown, has an invalid value, or is set by the job.
    pub(crate) fn parse(words: &[String]) -> Result<Self, Failure> {
        const OF_JOB: [&str; 8] = [
            "--results",
            "--launcher",
            "--agents",
            "--agents-per-node",
            "--listen",
            "--meet-within",
            "--launch-with",
            "--dry-run",
        ];
        for word in words {
            let name = word.split('=').next().unwrap_or_default();
            if OF_JOB.contains(&name) {
                return Err(Failure::Usage(format!(
                    "{name} after `--`: the job sets it itself (hint: omit it; --help lists the \
                     options of this command)"
                )));
            }
        }
        // The job itself applies the defaults of its host.
        let all = std::iter::once("run").chain(words.iter().map(String::as_str));
        let args = RunArgs::try_parse_from(all).map_err(|error| explain_flags(&error))?;
        match &args.target {
            None => Ok(Self(args)),
            Some(target) => Err(Failure::Usage(format!(
                "`{target}` after `--` is not a flag (hint: the job runs the plan that is named \
                 first)"
            ))),
        }
    }

    /// Resolves a plan with these flags in the same way as the job will, with each agent as a host.
    ///
    /// # Errors
    /// If it is invalid.
    pub(crate) fn plan_of_job(
        &self,
        text: &str,
        source_name: &str,
        agents: Vec<Host>,
    ) -> Result<Plan, Failure> {
        let mut raw = RawPlan::parse(text, source_name)?;
        apply(&mut raw, &self.0)?;
        use_job_hosts(&mut raw)?;
        Ok(Plan::resolve(
            &raw,
            &Surroundings { job: Some(agents), ..surroundings::for_campaign() },
        )?)
    }
}

/// Returns true if a target is the name of a plan file or a pipe, or stands for stdin.
pub(crate) fn is_plan_file(text: &str) -> bool {
    let path = Path::new(text);
    let is_named_so = path.extension().is_some_and(|extension| extension == "toml");
    let is_file = is_named_so || path.is_file() || input_file::is_pipe(path);
    text == input_file::STDIN || !text.contains("://") && is_file
}
