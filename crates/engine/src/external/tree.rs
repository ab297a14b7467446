//! A reproducible source tree for the `tar` and `make` plans we ship.
//!
//! A setup command whose first word is `dfsbench:tree` creates it instead of running a program. The
//! tree is created as `tree/` in the working directory: a `Makefile`, a header, `main.c`, and
//! directories with [`FILES_PER_DIRECTORY`] C files each. Like real sources, the files range from a
//! few hundred bytes to about 20 KiB. Content and sizes depend only on the number of files.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use model::random::{below, draw};

/// The word used in place of a program.
pub(super) const WORD: &str = "dfsbench:tree";

/// C files per directory.
const FILES_PER_DIRECTORY: u32 = 40;

/// Maximum number of files.
const FILES_MAX: u32 = 100_000;

/// Maximum number of functions in a file. Most files have far fewer.
const FUNCTIONS_MAX: u64 = 60;

const MAKEFILE: &str = "\
CFLAGS = -O1
OBJECTS := main.o $(patsubst %.c,%.o,$(wildcard d*/f*.c))
program: $(OBJECTS)
\t$(CC) -o $@ $(OBJECTS)
%.o: %.c all.h
\t$(CC) $(CFLAGS) -I. -c -o $@ $<
";

/// What a tree is turned into, with the program for it and its commands.
///
/// Settings of users, such as signatures or a daemon, must not matter.
const FORMS: [TreeForm; 3] = [
    TreeForm { name: "archive", program: "tar", commands: &["tar -cf tree.tar tree"] },
    TreeForm {
        name: "repository",
        program: "git",
        commands: &[
            "git init --quiet tree",
            "git -C tree -c core.autocrlf=false add --all",
            "git -C tree -c user.name=dfsbench -c user.email=dfsbench@localhost \
             -c commit.gpgsign=false -c gc.auto=0 commit --quiet --no-verify -m tree",
        ],
    },
    TreeForm { name: "copy", program: "rsync", commands: &["rsync -a tree/ copy"] },
];

/// A form of a tree; see [`FORMS`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TreeForm {
    name: &'static str,
    /// The program that makes it.
    pub program: &'static str,
    /// Its commands, whose words are separated by spaces.
    pub commands: &'static [&'static str],
}

/// The requested properties of a tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TreeRequest<'a> {
    /// Number of C files, not counting `main.c`.
    pub files: u32,
    /// Programs that will be used on it.
    pub needs: Vec<&'a str>,
    /// What it is turned into, if anything.
    pub form: Option<&'static TreeForm>,
}

/// Parses the arguments after [`WORD`]: `files=2000`, `needs=make,cc` and `as=repository`.
pub(super) fn parse_request(arguments: &[String]) -> Result<TreeRequest<'_>, String> {
    let mut wanted = TreeRequest { files: 1000, needs: Vec::new(), form: None };
    for argument in arguments {
        match argument.split_once('=') {
            Some(("files", count)) => {
                let count = count.parse().ok().filter(|count| (1..=FILES_MAX).contains(count));
                let Some(files) = count else {
                    return Err(format!("`{argument}`: files must be 1 to {FILES_MAX}"));
                };
                wanted.files = files;
            }
            Some(("needs", programs)) => wanted.needs.extend(programs.split(',')),
            Some(("as", name)) => {
                let Some(form) = FORMS.iter().find(|form| form.name == name) else {
                    let names = FORMS.each_ref().map(|form| form.name).join(", ");
                    return Err(format!("`{argument}`: as must be one of {names}"));
                };
                wanted.form = Some(form);
            }
            _ => {
                let known = "files=COUNT, needs=PROGRAMS or as=FORM";
                return Err(format!("`{argument}` is none of {known}"));
            }
        }
    }
    Ok(wanted)
}

/// Creates the tree in a directory.
pub(super) fn make(directory: &Path, files: u32) -> std::io::Result<()> {
    let root = directory.join("tree");
    fs::create_dir(&root)?;
    fs::write(root.join("Makefile"), MAKEFILE)?;
    let mut header = String::new();
    let mut calls = String::new();
    for file in 0..files {
        let folder = root.join(format!("d{:04}", file / FILES_PER_DIRECTORY));
        if file % FILES_PER_DIRECTORY == 0 {
            fs::create_dir(&folder)?;
        }
        fs::write(folder.join(format!("f{file:06}.c")), source(file))?;
        // Writing to a string never fails.
        let _ = writeln!(header, "unsigned f{file:06}(unsigned x);");
        let _ = writeln!(calls, "    x = f{file:06}(x);");
    }
    fs::write(root.join("all.h"), header)?;
    let main = format!("#include \"all.h\"\nint main(void) {{\n    unsigned x = 1;\n{calls}");
    fs::write(root.join("main.c"), format!("{main}    return x == 0;\n}}\n"))
}

/// Returns a C file with one function called by others, and several that it calls.
fn source(file: u32) -> String {
    let seed = draw(0x6466_7362, u64::from(file));
    // The square of a uniform number yields many short files and few long ones.
    let share = below(draw(seed, 0), 1000);
    let functions = 1 + FUNCTIONS_MAX * share * share / 1_000_000;
    let mut text = "#include \"all.h\"\n".to_owned();
    for function in 0..functions {
        let _ = writeln!(text, "\nstatic unsigned part{function}(unsigned x) {{");
        for line in 0..2 + below(draw(seed, 100 + function), 12) {
            let number = draw(seed, function * 1000 + line) as u32;
            let _ = writeln!(text, "    x = (x << 5 | x >> 27) ^ {number}u;");
        }
        text.push_str("    return x;\n}\n");
    }
    let _ = writeln!(text, "\nunsigned f{file:06}(unsigned x) {{");
    (0..functions).for_each(|function| {
        let _ = writeln!(text, "    x += part{function}(x);");
    });
    text + "    return x;\n}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_and_refused() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let arguments = words("files=60 needs=make,cc");
        assert_eq!(
            parse_request(&arguments),
            Ok(TreeRequest { files: 60, needs: vec!["make", "cc"], form: None })
        );
        let form = |line| {
            let arguments = words(line);
            parse_request(&arguments).map(|wanted| wanted.form.unwrap().program)
        };
        assert_eq!(form("as=archive"), Ok("tar"));
        assert_eq!(form("files=9 as=repository"), Ok("git"));
        assert!(form("as=zip").unwrap_err().contains("archive, repository, copy"));
        assert_eq!(
            parse_request(&words("files=0")).unwrap_err(),
            "`files=0`: files must be 1 to 100000"
        );
        assert!(parse_request(&words("bytes=7")).unwrap_err().contains("none of"));
    }

    #[test]
    fn generates_same_tree_every_time() {
        let made = || {
            let folder = tempfile::tempdir().unwrap();
            make(folder.path(), 50).unwrap();
            let root = folder.path().join("tree");
            let file = |name: &str| fs::read(root.join(name)).unwrap();
            let all = (0..50).map(|n| file(&format!("d{:04}/f{n:06}.c", n / 40)));
            (file("all.h"), file("main.c"), all.collect::<Vec<_>>())
        };
        let tree = made();
        assert_eq!(made(), tree);
        let sizes: Vec<usize> = tree.2.iter().map(Vec::len).collect();
        assert!(sizes.iter().any(|size| *size < 1000) && sizes.iter().any(|size| *size > 10_000));
    }
}
