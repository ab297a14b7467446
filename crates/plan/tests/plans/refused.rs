//! Every invalid plan is refused with one line that contains the place, the problem, the value and
//! a hint.
//!
//! The cases are in `refused.txt`; `{plain}` stands for the targets without an address.

use crate::common::plan;
use model::Target;

/// Returns the targets without an address, formatted as the end of a list in a hint.
fn plain_targets() -> String {
    let mut names: Vec<_> = Target::PLAIN.iter().map(|target| target.row().usual_name).collect();
    let last = names.pop().expect("some targets have no address");
    format!("{} or {last}", names.join(", "))
}

/// Inserts the lines of a case at the place that its heading names, into a plan that is valid
/// without them.
fn whole_plan(heading: &str, lines: &str) -> String {
    let name = "name = \"t\"\n";
    let target = "[[target]]\nname = \"n\"\npath = \"m\"\nbackend = [\"posix\", \"uring\"]\n";
    match heading {
        "plan" => lines.to_owned(),
        // The case starts at line 3.
        "factors" => format!("{name}[factors]\n{lines}{target}[[workload]]\nkind = \"mixed\"\n"),
        // The case starts at line 4.
        "target" => {
            format!("{name}[[target]]\nname = \"n\"\n{lines}[[workload]]\nkind = \"stream\"\n")
        }
        // The case starts at line 2.
        "host" => format!(
            "{name}{lines}[[target]]\nname = \"n\"\nserver = \"s\"\n\
             [[workload]]\nkind = \"mixed\"\n"
        ),
        // The case starts at line 8.
        "lab" => format!(
            "{name}[[host]]\nname = \"s\"\nssh = \"root@s\"\n[[host]]\nname = \"c\"\naddress = \"c\"\n\
             {lines}\
             [[workload]]\nkind = \"mixed\"\n"
        ),
        // The case starts at line 7.
        "workload" => format!("{name}{target}[[workload]]\n{lines}"),
        // The case starts at line 6.
        "load" => format!("{name}{target}{lines}"),
        other => panic!("no heading `{other}`"),
    }
}

#[test]
fn rejects_bad_plans_in_one_line() {
    let mut heading = "";
    let mut cases = 0;
    let text = include_str!("refused.txt").replace("{plain}", &plain_targets());
    for part in text.split("\n\n").skip(2).map(str::trim_end) {
        if let Some(line) = part.strip_prefix("== ") {
            heading = line.split(':').next().unwrap_or_default();
            continue;
        }
        let (lines, expected) = part.split_at(part.find("> ").expect(part));
        let whole = whole_plan(heading, lines);
        let error = plan(&whole).expect_err(&whole).to_string();
        assert_eq!(error, expected[2..], "of this plan:\n{whole}");
        cases += 1;
    }
    assert_eq!(cases, text.matches("\n> ").count());
}

#[test]
fn counts_offsets_in_any_encoding() {
    for (text, place) in [
        ("name = \"größer\"\r\ntrials = 0\r\n", "p.toml:2:10: trials: "),
        ("\"größe\" = 1", "p.toml:1:1: unknown key `größe`"),
    ] {
        let error = plan(text).unwrap_err().to_string();
        assert!(error.starts_with(place), "{error}");
    }
}

#[test]
fn rejects_oversized_matrix_early() {
    let many: Vec<String> = (1..=1024).map(|n| n.to_string()).collect();
    let error = plan(&format!(
        "name = \"t\"\n[factors]\nworkers = [{0}]\nqueue_depth = [{0}]\n[[target]]\nname = \"n\"\n\
         null = true\n[[workload]]\nkind = \"stream\"\n",
        many.join(",")
    ));
    insta::assert_snapshot!(error.unwrap_err());
}

#[test]
fn rejects_set_beyond_server_memory() {
    let text = |size: &str| {
        format!(
            "name = \"t\"\n[server]\nmemory = \"64MiB\"\n[[target]]\nname = \"n\"\n\
             embedded = true\n[[workload]]\nkind = \"stream\"\nfile_size = \"{size}\"\n"
        )
    };
    assert!(plan(&text("47MiB")).is_ok());
    let small = |files: u32, size: u64| {
        let settings = format!("small_files = {files}\nsmall_file_size = {size}\n");
        plan(&format!(
            "name = \"t\"\n[server]\nmemory = \"8MiB\"\n[[target]]\nname = \"n\"\n\
             embedded = true\n[[workload]]\nkind = \"metadata\"\n{settings}"
        ))
    };
    // 5000 B take 8 KiB, 1 B takes 512 B, nothing takes nothing; 640 B are added to them.
    for (size, held) in [(5_000, 8_192), (1, 512), (0, 0)] {
        // Files have three quarters of the memory.
        let most = (6 << 20) / (held + 640);
        assert!(small(most, size).is_ok(), "{size}");
        let error = small(most + 1, size).unwrap_err().to_string();
        assert!(error.ends_with("lower small_file_size or small_files)"), "{error}");
    }
    insta::assert_snapshot!(plan(&text("48MiB")).unwrap_err());
}
