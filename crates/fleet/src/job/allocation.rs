//! Hosts of an allocation that its scheduler lists: PBS, Torque and LSF start no agents themselves.
//!
//! [`read_hosts`] is the entry point. Hosts of the list are reached over ssh, except for the one
//! that the controller runs on. A list contains a host once for each slot, so the order of first
//! appearances matters, and the number of times doesn't.
//!
//! **Source:** pbs_job_attributes(7B) and qsub(1B), `PBS_NODEFILE`; IBM Spectrum LSF, "Environment
//! variables set for job execution", `LSB_DJOB_HOSTFILE` and `LSB_MCPU_HOSTS`.

use std::collections::BTreeSet;
use std::path::Path;

use model::Host;

use super::{JobError, JobRequest, Launcher, Scheduler, count_per_node, host_name};
use crate::rendezvous::AGENTS_MAX;

/// A variable with the hosts of a job, or with the path of a file that lists them.
struct Source {
    variable: &'static str,
    form: Form,
}

/// Format of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A file with a line for each slot.
    File,
    /// The value itself: names and numbers of slots, alternating.
    Pairs,
}

/// The variable of PBS Professional, OpenPBS and Torque.
const PBS: [Source; 1] = [Source { variable: "PBS_NODEFILE", form: Form::File }];

/// Variables of LSF, in order of precedence.
const LSF: [Source; 2] = [
    Source { variable: "LSB_DJOB_HOSTFILE", form: Form::File },
    Source { variable: "LSB_MCPU_HOSTS", form: Form::Pairs },
];

/// Reads the hosts of the allocation, one for each agent: the first agent of each host, then the
/// second ones, and so on. `None` if the launcher starts agents by itself.
///
/// # Errors
/// If this isn't such a job, its list can't be used, or the list has fewer hosts than requested
/// agents.
pub(super) fn read_hosts(
    request: &JobRequest,
    scheduler: &Scheduler<'_>,
) -> Result<Option<Vec<Host>>, JobError> {
    let sources = match request.launcher {
        Launcher::Pbs => &PBS[..],
        Launcher::Lsf => &LSF[..],
        _ => return Ok(None),
    };
    check_flags(request)?;
    let names = read_names(sources, scheduler)?;
    let hosts = choose_hosts(request, &names, scheduler)?;
    Ok(Some(hosts))
}

/// Rejects flags for agents that connect by themselves.
fn check_flags(request: &JobRequest) -> Result<(), JobError> {
    for (flag, value) in [("--launch-with", &request.launch_with), ("--listen", &request.listen)] {
        if value.is_some() {
            return Err(JobError::Request(format!(
                "{flag} has no effect with this launcher, which uses ssh to reach the hosts (hint: \
                 leave it out, or use `--launcher mpi`)"
            )));
        }
    }
    Ok(())
}

/// Reads the list of the first variable that is set, with each host once.
fn read_names(sources: &[Source], scheduler: &Scheduler<'_>) -> Result<Vec<String>, JobError> {
    for source in sources {
        let variable = source.variable;
        let Some(value) = (scheduler.variable)(variable) else { continue };
        let (place, parsed) = match source.form {
            Form::Pairs => (variable.to_owned(), parse_pairs(&value)),
            Form::File => {
                let place = format!("{variable}, `{value}`");
                match (scheduler.read_file)(Path::new(&value)) {
                    Ok(text) => (place, parse_lines(&text)),
                    Err(why) => {
                        return Err(JobError::Request(format!(
                            "cannot read the hosts of the job: {place}: {why} (hint: the file only \
                             exists on the first host of the job, while the job is running)"
                        )));
                    }
                }
            }
        };
        let hint = "expected a host name for each slot of the job";
        return match parsed {
            Ok(names) if names.is_empty() => {
                Err(JobError::Request(format!("{place}: it contains no host names (hint: {hint})")))
            }
            Ok(names) => Ok(names),
            Err(why) => Err(JobError::Request(format!("{place}: {why} (hint: {hint})"))),
        };
    }
    let variables: Vec<_> = sources.iter().map(|source| source.variable).collect();
    Err(JobError::Request(format!(
        "not running in a job of that scheduler: {} is not set (hint: run dfsbench in a batch \
         script or an interactive job; otherwise list the hosts in the plan)",
        variables.join(" or ")
    )))
}

/// Returns names in the order in which they first appear.
#[derive(Default)]
struct Names {
    in_order: Vec<String>,
    known: BTreeSet<String>,
}

impl Names {
    fn add(&mut self, name: &str) {
        if self.known.insert(name.to_owned()) {
            self.in_order.push(name.to_owned());
        }
    }
}

/// Parses a file with a line for each slot. LSF also has files with the number of slots after the
/// name.
fn parse_lines(text: &str) -> Result<Vec<String>, String> {
    let mut names = Names::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, slots) = match line.split_once(char::is_whitespace) {
            Some((name, slots)) => (name, slots.trim()),
            None => (line, "1"),
        };
        if slots.parse::<u32>().is_err() {
            let shown = line.escape_default();
            return Err(format!("line {}: `{shown}` is not a host name", index + 1));
        }
        check_name(name).map_err(|why| format!("line {}: {why}", index + 1))?;
        names.add(name);
    }
    Ok(names.in_order)
}

/// Parses names and numbers of slots, such as `hosta 4 hostb 4`.
fn parse_pairs(text: &str) -> Result<Vec<String>, String> {
    let mut names = Names::default();
    let mut words = text.split_whitespace();
    while let Some(name) = words.next() {
        check_name(name)?;
        match words.next() {
            Some(slots) if slots.parse::<u32>().is_ok() => names.add(name),
            Some(other) => {
                let other = other.escape_default();
                return Err(format!("`{other}` after `{name}` is not a number of slots"));
            }
            None => return Err(format!("`{name}` is not followed by a number of slots")),
        }
    }
    Ok(names.in_order)
}

/// Rejects anything that is not a host name, since it becomes an argument of ssh.
fn check_name(name: &str) -> Result<(), String> {
    let is_usual = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(is_usual) {
        return Ok(());
    }
    Err(format!("`{}` is not a host name", name.escape_default()))
}

/// Selects as many hosts as agents are requested, starting with the first.
fn choose_hosts(
    request: &JobRequest,
    names: &[String],
    scheduler: &Scheduler<'_>,
) -> Result<Vec<Host>, JobError> {
    let per_node = request.agents_per_node.unwrap_or(1);
    let most = (names.len() as u32).saturating_mul(per_node);
    let agents = request.agents.unwrap_or(most);
    let laid_out = JobRequest { agents_per_node: Some(per_node), ..request.clone() };
    count_per_node(&laid_out, agents, scheduler)?;
    if agents > most {
        return Err(JobError::Request(format!(
            "--agents {agents}: the job has {} hosts, enough for {most} agents with {per_node} on \
             each (hint: raise --agents-per-node)",
            names.len()
        )));
    }
    if !(1..=AGENTS_MAX).contains(&agents) {
        return Err(JobError::Request(format!("--agents {agents}: must be 1 to {AGENTS_MAX}")));
    }
    let this = host_name();
    let mut hosts = Vec::new();
    for slot in 1..=per_node {
        for name in &names[..(agents / per_node) as usize] {
            let host = reached_host(name, &this);
            hosts.push(if slot == 1 { host } else { host.for_agent(slot) });
        }
    }
    Ok(hosts)
}

/// Returns the host with a name: this one, or one to be reached over ssh.
fn reached_host(name: &str, this: &str) -> Host {
    let first_label = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    // Either the scheduler or the host may omit the domain; if both have one, they must agree.
    let is_this = name.eq_ignore_ascii_case(this)
        || name.contains('.') != this.contains('.')
            && first_label(name).eq_ignore_ascii_case(&first_label(this));
    let ssh = if is_this { None } else { Some(name.to_owned()) };
    Host { ssh, ..Host::local(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(variables: &[(&str, &str)], sources: &[Source]) -> Result<Vec<String>, String> {
        let get = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let scheduler = Scheduler { variable: &get, read_file: &read_file };
        read_names(sources, &scheduler).map_err(|error| error.to_string())
    }

    fn read_file(path: &Path) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn file_with(text: &[u8]) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        std::fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        (folder, path)
    }

    #[test]
    fn counts_host_once_per_slots() {
        let (_folder, path) = file_with(b"n1\nn2.cluster\nn1\n\n  n3 \nn2.cluster\n");
        let hosts = ["n1", "n2.cluster", "n3"].map(str::to_owned).to_vec();
        assert_eq!(names_of(&[("PBS_NODEFILE", &path)], &PBS), Ok(hosts.clone()));
        assert_eq!(names_of(&[("LSB_DJOB_HOSTFILE", &path)], &LSF), Ok(hosts.clone()));
        // The file takes precedence if both are set; otherwise the pairs are used.
        let pairs = ("LSB_MCPU_HOSTS", "n1 16 n2.cluster 8 n3 1");
        assert_eq!(names_of(&[("LSB_DJOB_HOSTFILE", &path), pairs], &LSF), Ok(hosts.clone()));
        assert_eq!(names_of(&[pairs], &LSF), Ok(hosts));
        let (_folder, path) = file_with(b"# comment\nn1 4\nn2\t2\nn1 1\n");
        let hosts = ["n1", "n2"].map(str::to_owned).to_vec();
        assert_eq!(names_of(&[("LSB_DJOB_HOSTFILE", &path)], &LSF), Ok(hosts));
    }

    #[test]
    fn rejects_bad_host_list() {
        let refused = |value: &str| names_of(&[("PBS_NODEFILE", value)], &PBS).unwrap_err();
        let mut errors = vec![
            names_of(&[], &PBS).unwrap_err(),
            names_of(&[], &LSF).unwrap_err(),
            refused("/no/such/file"),
            refused("/"),
        ];
        for text in [
            &b""[..],
            b"\n \n",
            b"n1\nn2 n3\n",
            b"-oProxyCommand=x\n",
            b"n1\nroot@n2\n",
            b"n1\n\x1b[31m\n",
            b"\xff\xfe\n",
        ] {
            let (_folder, path) = file_with(text);
            errors.push(refused(&path).replace(&path, "[file]"));
        }
        for pairs in ["", "n1", "n1 n2", "n1 2 -x 1"] {
            errors.push(names_of(&[("LSB_MCPU_HOSTS", pairs)], &LSF).unwrap_err());
        }
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn spreads_agents_breadth_first() {
        let listed = ["n1", "n2", "n3"].map(str::to_owned);
        let scheduler = Scheduler { variable: &|_| None, read_file: &read_file };
        let chosen = |agents, agents_per_node| {
            let request =
                JobRequest { agents, agents_per_node, ..JobRequest::with_launcher(Launcher::Pbs) };
            match choose_hosts(&request, &listed, &scheduler) {
                Ok(hosts) => {
                    Ok(hosts.into_iter().map(|host| host.name).collect::<Vec<_>>().join(" "))
                }
                Err(error) => Err(error.to_string()),
            }
        };
        assert_eq!(chosen(None, None).unwrap(), "n1 n2 n3");
        assert_eq!(chosen(Some(2), None).unwrap(), "n1 n2");
        assert_eq!(chosen(None, Some(2)).unwrap(), "n1 n2 n3 n1:2 n2:2 n3:2");
        assert_eq!(chosen(Some(4), Some(2)).unwrap(), "n1 n2 n1:2 n2:2");
        let errors = [
            chosen(Some(4), None),
            chosen(Some(0), None),
            chosen(Some(3), Some(2)),
            chosen(None, Some(0)),
        ];
        insta::assert_snapshot!(errors.map(Result::unwrap_err).join("\n"));
    }

    #[test]
    fn does_not_ssh_to_itself() {
        for (name, this, is_this) in [
            ("n1", "n1", true),
            ("N1", "n1", true),
            ("n1.cluster", "n1", true),
            ("n1", "n1.cluster", true),
            ("n1.a", "n1.b", false),
            ("n10", "n1", false),
        ] {
            let host = reached_host(name, this);
            assert_eq!(host.ssh.is_none(), is_this, "{name} on {this}");
            assert_eq!(host.name, name);
        }
    }
}
