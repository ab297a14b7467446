//! `dfsbench slurm`: writes an sbatch script that runs a plan's campaign.
//!
//! All user input in the script is quoted, either for Slurm or for the shell. Line breaks can't be
//! quoted for either and are refused.
//!
//! **Source:** sbatch(1).

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use fleet::job::unnamed_hosts;
use fleet::rendezvous::AGENTS_MAX;
use plan::estimate;

use crate::args::SlurmArgs;
use crate::exit::{End, Failure};
use crate::files::{input_file, output_file, own_program};
use crate::plans::plan_source;
use crate::terminal::output::Printable;

/// Minutes that a job needs in addition to the campaign itself.
const AROUND_MINUTES: u64 = 10;

/// Prints the script.
///
/// # Errors
/// If the plan is invalid or a word can't be quoted.
pub(crate) fn run(args: &SlurmArgs) -> Result<ExitCode, Failure> {
    let agents = count_agents(args)?;
    let source_name = args.plan.display().to_string();
    if input_file::is_read_once(&args.plan) {
        return Err(Failure::Usage(format!(
            "`{source_name}` can be read only once, but the job reads the plan again (hint: name a \
             file that the job can find)"
        )));
    }
    let text = input_file::read_plan(&args.plan)?;
    let hosts = unnamed_hosts(agents, args.agents_per_node);
    let flags = plan_source::RunFlags::parse(&args.run)?;
    let plan = flags.plan_of_job(&text, &source_name, hosts)?;
    let estimated = estimate(&plan).duration_ms.div_ceil(60_000);
    let minutes = args.minutes.unwrap_or(2 * estimated + AROUND_MINUTES);
    let program = match &args.program {
        Some(program) => program.clone(),
        None => own_program::installed()?,
    };
    let script = job_script(args, &plan.name, agents, minutes, &program)?;
    output_file::write_or_print(args.output.as_deref(), &Printable::text(&script))?;
    Ok(End::Ok.into())
}

fn count_agents(args: &SlurmArgs) -> Result<u32, Failure> {
    match args.nodes.checked_mul(args.agents_per_node) {
        Some(agents) if (1..=AGENTS_MAX).contains(&agents) => Ok(agents),
        _ => Err(Failure::Usage(format!(
            "--nodes {} with --agents-per-node {}: must give 1 to {AGENTS_MAX} agents",
            args.nodes, args.agents_per_node
        ))),
    }
}

fn job_script(
    args: &SlurmArgs,
    name: &str,
    agents: u32,
    minutes: u64,
    program: &Path,
) -> Result<String, Failure> {
    let mut options = vec![
        format!("job-name=dfsbench-{name}"),
        format!("nodes={}", args.nodes),
        format!("ntasks={agents}"),
        format!("ntasks-per-node={}", args.agents_per_node),
        format!("time={minutes}"),
    ];
    if let Some(name) = &args.partition {
        options.push(format!("partition={name}"));
    }
    if let Some(name) = &args.account {
        options.push(format!("account={name}"));
    }
    for option in &args.sbatch {
        options.push(option.trim_start_matches("--").to_owned());
    }
    let mut text = String::from("#!/bin/sh\n");
    for option in &options {
        if option.contains(['\n', '\r', '"']) {
            return Err(Failure::Usage(format!("`{option}` is not a valid option of sbatch")));
        }
        let quote = if option.contains([' ', '\t']) { "\"" } else { "" };
        // Writing to a `String` never fails.
        let _ = match option.split_once('=') {
            Some((key, value)) => writeln!(text, "#SBATCH --{key}={quote}{value}{quote}"),
            None => writeln!(text, "#SBATCH --{option}"),
        };
    }
    let [program, plan, results] =
        [program, &args.plan, &args.results].map(|path| quote_word(&path.to_string_lossy()));
    let _ = write!(
        text,
        "\n# The controller runs here, on the first node; srun starts an agent for each task.\n\
         exec {program} run {plan} --launcher slurm --agents {agents} \
         --agents-per-node {} --results {results}",
        args.agents_per_node
    );
    for word in &args.run {
        if word.contains(['\n', '\r']) {
            return Err(Failure::Usage(format!(
                "`{word}` can't be written to a script because of its line break"
            )));
        }
        text.push(' ');
        text.push_str(&quote_word(word));
    }
    text.push('\n');
    Ok(text)
}

/// Quotes a word for the shell, if necessary.
fn quote_word(word: &str) -> String {
    if !word.is_empty()
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+,:=@%".contains(c))
    {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn quote_words(words: &[&str]) -> Result<String, Failure> {
        let args = SlurmArgs::parse_from([&["slurm"], words].concat());
        job_script(&args, "scaling", count_agents(&args)?, 33, Path::new("/opt/it's here/dfsbench"))
    }

    #[test]
    fn quotes_options_in_job_script() {
        let words =
            ["my plan.toml", "--nodes", "4", "--agents-per-node", "2", "--partition", "short"];
        let more =
            ["--sbatch", "--exclusive", "--sbatch", "comment=two words", "--results", "/r/x.db"];
        let flags = ["--", "--name", "two words", "--trials=3"];
        let script = quote_words(&[&words[..], &more[..], &flags[..]].concat()).unwrap();
        let wanted = "\
#!/bin/sh
#SBATCH --job-name=dfsbench-scaling
#SBATCH --nodes=4
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=2
#SBATCH --time=33
#SBATCH --partition=short
#SBATCH --exclusive
#SBATCH --comment=\"two words\"

# The controller runs here, on the first node; srun starts an agent for each task.
exec '/opt/it'\\''s here/dfsbench' run 'my plan.toml' --launcher slurm --agents 8 \
--agents-per-node 2 --results /r/x.db --name 'two words' --trials=3
";
        assert_eq!(script, wanted);
    }

    #[test]
    fn rejects_values_unfit_for_scripts() {
        let errors = [
            &["p", "--nodes", "1", "--account", "a\nrm -r /"][..],
            &["p", "--nodes", "0"],
            &["p", "--nodes", "65537"],
            &["p", "--nodes", "4294967295"],
        ]
        .map(|words| quote_words(words).unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"), @"
        `account=a
        rm -r /` is not a valid option of sbatch
        --nodes 0 with --agents-per-node 1: must give 1 to 65536 agents
        --nodes 65537 with --agents-per-node 1: must give 1 to 65536 agents
        --nodes 4294967295 with --agents-per-node 1: must give 1 to 65536 agents
        ");
    }
}
