//! What `dfsbench run -h` says can be typed: its examples are made, and each option is tried with
//! each value that its sentence names.

use crate::book::{replaced, words};
use crate::rig::{Rig, Served};

/// An option of the short help.
#[derive(Debug, Default)]
struct Described {
    /// The heading that it stands below.
    heading: String,
    /// `--io-size`.
    flag: String,
    /// `<SIZE>`; empty where it takes none.
    value: String,
    /// What it says.
    sentence: String,
}

/// The options of a help text.
fn options(help: &str) -> Vec<Described> {
    let (mut options, mut heading): (Vec<Described>, &str) = (Vec::new(), "");
    for line in help.lines().take_while(|line| *line != "Examples:") {
        let text = line.trim();
        let last = options.last_mut();
        if !line.starts_with(' ') {
            heading = text.trim_end_matches(':');
        } else if text.starts_with('-') {
            let mut option = Described { heading: heading.to_owned(), ..Described::default() };
            let mut rest = text.trim_start_matches("-h, ").split_whitespace();
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

impl Described {
    /// The values to try: those that the sentence lists, or one of the kind.
    fn values(&self) -> Vec<String> {
        let one = match self.value.as_str() {
            "" | "[<BOOL>]" => "",
            "<N>" => "2",
            "<SIZE>" => "64KiB",
            "<TIME>" => "1s",
            "<SHARE>" => "5%",
            "<TEXT>" => "a name",
            "<FILE>" => "other.db",
            "<KIND>" | "<WORD>" | "<BACKEND>" | "<FORMAT>" => return self.listed(),
            other => panic!("{}: a value for {other}", self.flag),
        };
        vec![one.to_owned()]
    }

    /// `durability of writes: none, close or sync [default: sync]` lists three.
    fn listed(&self) -> Vec<String> {
        let (_, list) = match self.sentence.split_once("possible values: ") {
            Some(split) => split,
            None => self.sentence.split_once(": ").expect("a list follows a colon"),
        };
        let list = list.split(['[', ']']).next().unwrap().replace(" or ", ", ");
        let mut values = Vec::new();
        for part in list.split(", ") {
            let word = part.split_whitespace().next().unwrap_or_default();
            if !word.is_empty() && word != "..." {
                values.push(word.to_owned());
            }
        }
        values
    }

    /// A command that has the option with a value, and only says what it would do.
    fn command(&self, value: &str) -> Vec<String> {
        let is_nfs = self.heading == "Factors of NFS" || value == "nfs";
        let target = if is_nfs { "nfs://server/export" } else { "target" };
        let mut words = vec!["run", target, self.flag.as_str()];
        if !value.is_empty() {
            words.push(value);
        }
        if ["--rate", "--duration"].contains(&self.flag.as_str()) {
            words.extend(["--workload", "mixed"]);
        }
        words.push("--dry-run");
        words.dedup();
        words.into_iter().map(str::to_owned).collect()
    }
}

#[test]
fn each_option_of_the_short_help_takes_each_value_that_it_names() {
    let rig = Rig::new();
    let options = options(&rig.run(&["run", "-h"]).stdout);
    assert!(options.len() >= 20, "{options:?}");
    let mut tried = 0;
    for option in &options {
        assert!(!option.sentence.is_empty(), "{option:?}");
        for value in option.values() {
            let words = option.command(&value);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let end = rig.run(&words);
            assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{words:?}");
            assert!(!end.stdout.is_empty(), "{words:?}");
            tried += 1;
        }
    }
    assert!(tried >= 50, "{tried} commands");
    rig.assert_target_is_empty();
}

#[test]
fn the_examples_of_the_short_help_are_made() {
    let rig = Rig::new();
    let served = Served::start(&rig, &[]);
    let help = rig.run(&["run", "-h"]).stdout;
    let (_, examples) = help.split_once("\nExamples:\n").unwrap();
    let mut made = 0;
    for line in examples.lines() {
        let Some(line) = line.strip_prefix("  dfsbench ") else { continue };
        // What explains it stands further right, or below.
        let line = line.split("  ").next().unwrap();
        let typed = words(&format!("dfsbench {line}"));
        let typed = replaced(&typed, &served.port().to_string());
        let mut typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        if !typed.contains(&"--dry-run") {
            typed.extend(["--trials", "1", "--file-size", "4MiB", "--quiet"]);
        }
        let end = rig.run(&typed);
        // What was measured on a busy machine may be invalid.
        assert!([0, 4].contains(&end.code), "{typed:?}: {end:?}");
        assert!(!end.stdout.is_empty(), "{typed:?}");
        made += 1;
    }
    assert_eq!(made, 4, "{examples}");
    // The sentence at the end names two more.
    assert!(
        examples.contains("--help shows all options") && examples.contains("`dfsbench preset`")
    );
    for words in [["run", "--help"].as_slice(), &["preset"]] {
        assert_eq!(rig.run(words).code, 0, "{words:?}");
    }
    rig.assert_target_is_empty();
}
