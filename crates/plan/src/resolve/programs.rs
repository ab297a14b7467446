//! The programs that the author of a plan chose and that run as part of it.
//!
//! A plan that came with a results file may be from anybody, so these are shown before one of them
//! is started. Programs chosen by dfsbench itself, such as `fio` or `mkfs`, are not listed.

use model::Workload;

use crate::parse::recipe::is_recipe_path;
use crate::syntax::raw::RawPlan;
use crate::syntax::target::TargetArg;

/// Returns the commands and the command files that a plan names, without duplicates.
pub fn chosen_programs(raw: &RawPlan) -> Vec<String> {
    let mut programs = Vec::new();
    for workload in &raw.workloads {
        let command = &workload.command;
        for argv in [&command.setup, &command.run, &command.cleanup] {
            if argv.is_empty() {
                continue;
            }
            let mut words = Vec::new();
            if workload.kind.value != Workload::App {
                // The command of an adapter consists of additional arguments, which may start
                // programs.
                words.push(workload.kind.value.name().to_owned());
            }
            words.extend(argv.iter().map(|word| quote_word(word)));
            programs.push(words.join(" "));
        }
    }
    for host in &raw.hosts {
        if let (Some(ssh), Some(config)) = (&host.ssh, &host.ssh_config) {
            programs.push(format!(
                "ssh -F {} {}",
                quote_word(&config.to_string_lossy()),
                quote_word(ssh)
            ));
        }
    }
    for target in &raw.targets {
        let TargetArg::Lab(lab) = &target.what else { continue };
        if let Some(system) = &lab.system
            && is_recipe_path(&system.source.value)
        {
            programs.push(format!("the steps of the recipe {}", quote_word(&system.source.value)));
        }
        if let Some(mount) = &lab.site_mount {
            programs.push(format!(
                "mount -t {} {}",
                quote_word(&mount.kind),
                quote_word(&mount.source)
            ));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    programs.retain(|program| seen.insert(program.clone()));
    programs
}

/// Quotes a word that is empty or contains whitespace or control characters.
fn quote_word(word: &str) -> String {
    let is_plain =
        !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_plain { word.to_owned() } else { format!("{word:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(text: &str) -> Vec<String> {
        let text = format!("name = \"p\"\n{text}");
        chosen_programs(&RawPlan::parse(&text, "plan").unwrap())
    }

    #[test]
    fn lists_each_program_once() {
        let app = "[[workload]]\nkind = \"app\"\nsetup = [\"./make\"]\n\
                   run = [\"sh\", \"-c\", \"rm -rf ~\\u001b\"]\ncleanup = [\"./make\"]\n";
        let adapter = "[[workload]]\nkind = \"fio\"\nrun = [\"--exec_prerun=x\"]\n";
        let target = "[[target]]\nname = \"d\"\npath = \"/d\"\n";
        assert_eq!(
            programs(&[app, adapter, target].concat()),
            ["./make", "sh -c \"rm -rf ~\\u{1b}\"", "fio --exec_prerun=x"]
        );
    }

    #[test]
    fn lists_files_that_name_programs() {
        let text = "[[host]]\nname = \"a\"\nssh = \"x\"\nssh_config = \"./config\"\n\
                    [[host]]\nname = \"b\"\nssh = \"y\"\n\
                    [[target]]\nname = \"t\"\nserver = \"a\"\nclient = \"b\"\n\
                    system = \"./s.toml\"\n\
                    [[target]]\nname = \"u\"\nserver = \"a\"\nclient = \"b\"\n\
                    mount = { type = \"fuse.x\", source = \"s:/\" }\n\
                    [[workload]]\nkind = \"stream\"\n";
        let expected =
            ["ssh -F ./config x", "the steps of the recipe ./s.toml", "mount -t fuse.x s:/"];
        assert_eq!(programs(text), expected);
    }

    #[test]
    fn lists_nothing_without_programs() {
        let text = "[[target]]\nname = \"d\"\npath = \"/d\"\n[[workload]]\nkind = \"stream\"\n\
                    [[workload]]\nkind = \"fio\"\n";
        assert_eq!(programs(text), [""; 0]);
    }
}
