//! The examples of the short help work: they are run, and each option of `run` and of the questions
//! is tried with each value that its sentence names.

use crate::book::{replaced, words};
use crate::cli::{Cli, ServedProcess};
use crate::traces::write_pcap;

/// Options that the questions share with `run` but refuse, with the expected error.
const REFUSED: [(&str, &str); 14] = [
    ("curve --workload", "a curve needs a workload that can run at a fixed rate"),
    ("curve --bound-quantile", "--bound <TIME>"),
    ("curve --files", "nor to op_mix, whose files follow"),
    ("curve --file-size", "op_mix, whose sizes are given"),
    ("curve --direct", "applies only to posix and uring"),
    ("curve --rate", "a curve measures several rates"),
    ("ramp --raise client_hosts", "clients cannot be added to every run of this plan"),
    ("ramp --raise accelerators", "not every run of this plan trains"),
    ("ramp --workload", "programs need a directory"),
    ("ramp --backend", "clients cannot be added to every run of this plan"),
    ("ramp --direct", "applies only to posix and uring"),
    ("soak --", "has no effect on a soak"),
    ("ladder --duration", "no run of this plan depends on it"),
    ("ladder --server-disk", "is for a ladder to a server outside this process"),
];

/// An option in the short help.
#[derive(Debug, Default)]
struct HelpOption {
    /// The heading above it.
    heading: String,
    /// Such as `--io-size`.
    flag: String,
    /// `<SIZE>`; empty if it takes none.
    value: String,
    /// Its description.
    sentence: String,
}

/// Returns the options in a help text.
fn options(help: &str) -> Vec<HelpOption> {
    let mut options: Vec<HelpOption> = Vec::new();
    let mut heading = "";
    for line in help.lines().take_while(|line| *line != "Examples:") {
        let text = line.trim();
        let last = options.last_mut();
        if !line.starts_with(' ') {
            heading = text.trim_end_matches(':');
        } else if text.starts_with('-') && !line.starts_with("          ") {
            let mut option = HelpOption { heading: heading.to_owned(), ..HelpOption::default() };
            let long = text.find("--").expect("every option has a long name");
            let mut rest = text[long..].split_whitespace();
            rest.next().unwrap_or_default().clone_into(&mut option.flag);
            for word in rest {
                if option.sentence.is_empty() && word.trim_start_matches('[').starts_with('<') {
                    word.clone_into(&mut option.value);
                } else {
                    option.sentence.extend([word, " "]);
                }
            }
            options.push(option);
        } else if let Some(last) = last.filter(|_| line.starts_with("          ")) {
            last.sentence.extend([text, " "]);
        }
    }
    options
}

impl HelpOption {
    /// Returns the values to try: those listed by the description, or one of its type.
    fn values(&self) -> Vec<String> {
        let one = match self.value.as_str() {
            "" | "[<BOOL>]" => "",
            "<N>" if self.flag == "--points" => "20",
            "<N>" => "2",
            "<SIZE>" => "64KiB",
            "<TIME>" => "1s",
            "<SHARE>" => "5%",
            "<TEXT>" => "a name",
            "<FILE>" => "other.db",
            "<RATE>" => "5000",
            "<PERCENT>" => "99",
            "<FACTOR>" => "20",
            "<URL>" => "nfs://127.0.0.1:20490/export",
            "<DIR>" => "target",
            "<DISTURBANCE>" => "server-stall at 1s for 1s",
            "<FAULT>" => "lose-unstable",
            "<KIND>" | "<WORD>" | "<BACKEND>" | "<FORMAT>" | "<WHAT>" => return self.listed(),
            other => panic!("{}: a value for {other}", self.flag),
        };
        vec![one.to_owned()]
    }

    /// `durability of writes: none, close or sync [default: sync]` lists three values.
    fn listed(&self) -> Vec<String> {
        let (_, list) = self
            .sentence
            .split_once("possible values: ")
            .unwrap_or_else(|| self.sentence.split_once(": ").expect("a list follows a colon"));
        let list = list.split(['[', ']']).next().unwrap().replace(" or ", ", ");
        list.split(", ")
            .filter_map(|part| {
                let word = part.split_whitespace().next().unwrap_or_default();
                (!word.is_empty() && word != "...").then(|| word.to_owned())
            })
            .collect()
    }

    /// Returns a command that uses the option with a value but only does a dry run.
    fn command(&self, command: &'static str, value: &str) -> Vec<String> {
        let is_nfs = self.heading == "Factors of NFS" || value == "nfs";
        let target = match (command, self.flag.as_str()) {
            ("soak", "--disturb" | "--fault") => "embedded",
            (_, "--backend") if !is_nfs => "target",
            ("curve" | "ramp" | "ladder", _) => "nfs://server/export",
            _ if is_nfs => "nfs://server/export",
            _ => "target",
        };
        let mut words = vec![command, target, self.flag.as_str()];
        if !value.is_empty() {
            words.push(value);
        }
        if command == "run" && ["--rate", "--duration"].contains(&self.flag.as_str()) {
            words.extend(["--workload", "mixed"]);
        }
        words.push("--dry-run");
        words.dedup();
        words.into_iter().map(str::to_owned).collect()
    }
}

#[test]
fn accepts_values_named_in_help() {
    let cli = Cli::new();
    let options = options(&cli.run(&["run", "-h"]).stdout);
    assert!(options.len() >= 20, "{options:?}");
    let mut tried = 0;
    for option in &options {
        assert!(!option.sentence.is_empty(), "{option:?}");
        for value in option.values() {
            let words = option.command("run", &value);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let end = cli.run(&words);
            assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{words:?}");
            assert!(!end.stdout.is_empty(), "{words:?}");
            tried += 1;
        }
    }
    assert!(tried >= 50, "{tried} commands");
    cli.assert_target_is_empty();
}

/// Tries each option of a question with each value; an error must have the expected reason.
fn type_options_of(command: &'static str, options_min: usize) {
    let cli = Cli::new();
    let options = options(&cli.run(&[command, "-h"]).stdout);
    assert!(options.len() >= options_min, "{options:?}");
    let mut works = 0;
    for option in &options {
        assert!(!option.sentence.is_empty(), "{option:?}");
        for value in option.values() {
            let words = option.command(command, &value);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let end = cli.run(&words);
            if end.code == 0 {
                works += 1;
                assert_eq!(end.stderr, "", "{words:?}");
                assert!(!end.stdout.is_empty(), "{words:?}");
                continue;
            }
            let typed = format!("{command} {} {value}", option.flag);
            let reason = REFUSED.iter().find(|(begin, _)| typed.starts_with(begin));
            let (_, reason) = reason.unwrap_or_else(|| panic!("{words:?}: {end:?}"));
            assert_eq!(end.stderr.matches("error: ").count(), 1, "{words:?}: {end:?}");
            assert!(end.code == 2 && end.stderr.contains(reason), "{words:?}: {end:?}");
        }
    }
    assert!(works > options_min, "{works} commands of {command} work");
}

#[test]
fn accepts_values_named_for_curve() {
    type_options_of("curve", 25);
}

#[test]
fn accepts_values_named_for_ramp() {
    type_options_of("ramp", 25);
}

#[test]
fn accepts_values_named_for_soak() {
    type_options_of("soak", 25);
}

#[test]
fn accepts_values_named_for_ladder() {
    type_options_of("ladder", 23);
}

/// Returns the commands in the examples of a short help, split into words. Explanations are at
/// least two columns to the right, or below.
fn examples(help: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let (_, examples) = help.split_once("\nExamples:\n").expect("every help has examples");
    // A line that continues on the next one ends with a backslash.
    for line in examples.replace("\\\n", "").lines() {
        let Some(line) = line.strip_prefix("  dfsbench ") else { continue };
        let Some(end) = line.find("  ").filter(|end| !line[*end..].trim_start().starts_with("--"))
        else {
            commands.push(words(&format!("dfsbench {line}")));
            continue;
        };
        commands.push(words(&format!("dfsbench {}", &line[..end])));
    }
    commands
}

/// A directory with all files that examples name: a trace, plans, results of four campaigns.
fn rig_of_examples() -> Cli {
    let cli = Cli::new();
    write_pcap(&cli.folder().join("nfs.pcap"));
    assert_eq!(cli.run(&["capture", "nfs.pcap", "-o", "nfs.dfst", "--quiet"]).code, 0);
    let run = ["run", "embedded", "--nfsvers", "3,4.1", "--file-size", "1MiB", "--trials", "3"];
    for _ in 0..4 {
        let end = cli.run(&[&run[..], &["--quiet"]].concat());
        assert!([0, 4].contains(&end.code), "{end:?}");
    }
    for copy in ["old.db", "new.db"] {
        std::fs::copy(cli.folder().join("dfsbench.db"), cli.folder().join(copy)).unwrap();
    }
    let plan = "name = \"p\"\n[[target]]\nname = \"nfs\"\nembedded = true\n[[workload]]\n\
                kind = \"mixed\"\n";
    for name in ["plan.toml", "fleet.toml"] {
        std::fs::write(cli.folder().join(name), plan).unwrap();
    }
    cli
}

/// Why an example is refused on a machine without its servers, hosts or packets.
const ABSENT: [(&str, &str); 16] = [
    ("describe target --as-plan", "it has no files"),
    ("factors 3 4 7", "holds no campaign 7"),
    // All campaigns here were run on the same kernel.
    ("factors old.db new.db:2", "so it is not a factor"),
    ("report old.db new.db", "are the same campaign"),
    // The trace of the tests only contains NULL calls.
    ("replay nfs.dfst target", "has no operations that can be replayed"),
    ("soak plan.toml", "it needs a server that the plan sets up"),
    ("replay nfs.dfst nfs://a/export", "cannot resolve the host name `a`"),
    ("replay nfs.dfst nfs://b/export", "cannot resolve the host name `b`"),
    // Only if it names hosts that ssh can't find.
    ("replay nfs.dfst nfs://127.", "host h1: cannot be reached"),
    ("compare a.json b.json", "can't read replay `a.json`"),
    ("capture ring_*.pcapng", "can't read capture `ring_*.pcapng`"),
    ("capture --from", "No such file or directory"),
    ("capture -", "it is empty"),
    ("run contenders.toml", "server"),
    ("contenders --baseline", "there is no contender `knfsd export=sync`"),
    ("compare last --where", "have no row in common"),
];

#[test]
fn runs_examples_of_other_commands() {
    let cli = rig_of_examples();
    let served = ServedProcess::start(&cli, &[]);
    let mut made = 0;
    let mut refused = 0;
    for command in [
        "curve",
        "ramp",
        "soak",
        "ladder",
        "replay",
        "capture",
        "compare",
        "report",
        "contenders",
        "factors",
        "describe",
    ] {
        for typed in examples(&cli.run(&[command, "-h"]).stdout) {
            let end = typed.iter().position(|word| [">", "|", "&&"].contains(&word.as_str()));
            let typed = &typed[..end.unwrap_or(typed.len())];
            // Don't test commands that need an interface or cut the power of a host.
            if typed[0] == "durability" || typed.contains(&"--interface".to_owned()) {
                continue;
            }
            let mut typed = replaced(typed, &served.port().to_string());
            let searches_load = typed.get(1).is_some_and(|word| word == "nfs.dfst");
            match typed[0].as_str() {
                "curve" | "ramp" if searches_load => typed.extend(["--max".into(), "2".into()]),
                "curve" | "ramp" | "soak" | "ladder" | "run" => typed.push("--dry-run".into()),
                _ => {}
            }
            let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
            let end = cli.run(&typed);
            let line = typed.join(" ");
            // Bounds that are exceeded or inconclusive are answers as well.
            if end.code == 0 || end.code == 1 || end.code == 4 {
                made += 1;
                assert!(!end.stdout.is_empty() || line.contains("-o"), "{line}: {end:?}");
                continue;
            }
            let reason = ABSENT.iter().find(|(begin, _)| line.starts_with(begin));
            let (_, reason) = reason.unwrap_or_else(|| panic!("{line}: {end:?}"));
            assert_eq!(end.stderr.matches("error: ").count(), 1, "{line}: {end:?}");
            assert!(end.stderr.contains(reason), "{line}: {end:?}");
            refused += 1;
        }
    }
    assert!(made >= 30, "{made} made, {refused} refused");
    cli.assert_target_is_empty();
}

#[test]
fn runs_examples_of_short_help() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &[]);
    let help = cli.run(&["run", "-h"]).stdout;
    let (_, examples) = help.split_once("\nExamples:\n").unwrap();
    let mut made = 0;
    for line in examples.lines() {
        let Some(line) = line.strip_prefix("  dfsbench ") else { continue };
        // Its explanation is further right, or below.
        let line = line.split("  ").next().unwrap();
        let typed = words(&format!("dfsbench {line}"));
        let typed = replaced(&typed, &served.port().to_string());
        let mut typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        if !typed.contains(&"--dry-run") {
            typed.extend(["--trials", "1", "--file-size", "4MiB", "--quiet"]);
        }
        let end = cli.run(&typed);
        // On a busy machine, results may be invalid.
        assert!([0, 4].contains(&end.code), "{typed:?}: {end:?}");
        assert!(!end.stdout.is_empty(), "{typed:?}");
        made += 1;
    }
    assert_eq!(made, 4, "{examples}");
    // The sentence at the end mentions two more commands.
    assert!(
        examples.contains("--help shows all options") && examples.contains("`dfsbench preset`")
    );
    for words in [["run", "--help"].as_slice(), &["preset"]] {
        assert_eq!(cli.run(words).code, 0, "{words:?}");
    }
    cli.assert_target_is_empty();
}
