//! `dfsbench systems`: lists, prints and checks recipes of systems.
//!
//! No host is contacted: anything missing on a host is reported when a plan sets it up.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use model::system::Recipe;

use crate::args::{SystemsArgs, SystemsCommand};
use crate::commands::system_up;
use crate::exit::{End, Failure};
use crate::plans::plan_source;
use crate::terminal::output;

/// Runs `dfsbench systems`.
///
/// # Errors
/// If a recipe can't be read or is invalid, or stdout can't be written.
pub(crate) fn run(args: &SystemsArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        None | Some(SystemsCommand::List) => list()?,
        Some(SystemsCommand::Show { name }) => {
            output::text(plan::built_in_recipe(name)?)?;
        }
        Some(SystemsCommand::New { name }) => write_new(name)?,
        Some(SystemsCommand::Check { name }) => check(name)?,
        Some(SystemsCommand::Up(args)) => return system_up::up(args),
        Some(SystemsCommand::Down { name }) => return system_up::down(name),
    }
    Ok(End::Ok.into())
}

fn list() -> Result<(), Failure> {
    let recipes = plan::RECIPES
        .iter()
        .map(|(name, text)| plan::parse_recipe(text, name))
        .collect::<Result<Vec<_>, _>>()?;
    let titled = |recipe: &Recipe| match recipe.not_tried.as_str() {
        "" => recipe.title.clone(),
        _ => format!("{} (not tried by the authors)", recipe.title),
    };
    let titles: Vec<_> = recipes.iter().map(titled).collect();
    let names = recipes.iter().map(|recipe| recipe.name.as_str());
    let rows: Vec<_> = names.zip(titles.iter().map(String::as_str)).collect();
    output::text(&output::name_list(&rows))?;
    output::message(
        "`dfsbench systems show NAME` prints a recipe; docs/design/recipes.md explains its keys",
    );
    Ok(())
}

/// Writes a recipe to fill in.
fn write_new(name: &str) -> Result<(), Failure> {
    let text = plan::new_recipe(name)?;
    let path = format!("{name}.toml");
    let cannot_write = |error: io::Error| Failure::Output {
        what: path.clone(),
        reason: error.to_string(),
        hint: "check the current folder",
    };
    let mut file = match File::create_new(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let what = format!("{path} already exists (hint: another name, or remove it first)");
            return Err(Failure::Usage(what));
        }
        Err(error) => return Err(cannot_write(error)),
    };
    if let Err(error) = file.write_all(text.as_bytes()) {
        let _ = fs::remove_file(&path);
        return Err(cannot_write(error));
    }
    let hint = "fill in the lines marked FILL IN; `dfsbench systems check` lists what is left";
    output::message(&format!("wrote {path}: {hint}"));
    Ok(())
}

/// Checks a recipe and describes how it would be used.
fn check(name: &str) -> Result<(), Failure> {
    let recipe =
        plan::check_recipe(&plan_source::read_recipe(name)?, name).map_err(|problems| {
            let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            if lines.len() > 1 {
                lines.insert(0, format!("{name} has {} problems", lines.len()));
            }
            Failure::Usage(lines.join("\n"))
        })?;
    output::text(&describe(&recipe))?;
    Ok(())
}

/// Describes a recipe: its settings, kinds of access and requirements.
fn describe(recipe: &Recipe) -> String {
    let mut text = String::new();
    // Writing to a `String` never fails.
    let _ = writeln!(text, "{}: {}", recipe.name, recipe.title);
    let _ = match recipe.not_tried.as_str() {
        "" => writeln!(text, "tried: {}", recipe.tried),
        why => writeln!(text, "not tried by the authors: {why}"),
    };
    let ways: Vec<&str> = recipe.ways().iter().map(|way| way.name()).collect();
    let _ = writeln!(text, "access: {}", ways.join(", "));
    for (name, role) in &recipe.roles {
        let _ = writeln!(text, "role {name} (up to {} hosts): {}", role.hosts_max, role.meaning);
    }
    for (distribution, packages) in &recipe.packages {
        let _ = writeln!(text, "packages of {distribution}: {}", packages.join(" "));
    }
    for (name, source) in &recipe.secrets {
        let _ = writeln!(text, "secret {name}: {source}, read where dfsbench is started");
    }
    for (name, setting) in &recipe.settings {
        let default = &setting.default;
        let legal = setting.legal();
        let _ = writeln!(text, "setting {name} = {default} ({legal}): {}", setting.meaning);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    /// Hosts often have the program, but not Go.
    #[test]
    fn finds_version_of_go_nfs_without_go() {
        let recipe = plan::built_in_recipe("go-nfs").unwrap();
        let [shell, option, script] = &plan::parse_recipe(recipe, "go-nfs").unwrap().version[..]
        else {
            panic!("not a script");
        };
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("osnfs");
        let run = |content: &[u8]| {
            fs::write(&program, content).unwrap();
            fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
            let path = format!("{}:/usr/bin:/bin", folder.path().display());
            Command::new(shell).args([option, script]).env("PATH", path).output().unwrap()
        };
        let found = run(b"\x7fELF\0mod\tgithub.com/willscott/go-nfs\tv0.0.4\th1:x=\n\xff\0");
        assert_eq!(found.stdout, b"github.com/willscott/go-nfs v0.0.4\n", "{found:?}");
        let unknown = run(b"\x7fELF\0");
        assert!(!unknown.status.success() && unknown.stdout.is_empty(), "{unknown:?}");
        assert!(unknown.stderr.ends_with(b"without module versions\n"), "{unknown:?}");
    }

    #[test]
    fn checks_every_recipe() {
        for (name, text) in plan::RECIPES {
            let recipe = plan::parse_recipe(text, name).unwrap();
            assert_eq!(recipe.name, name);
            assert!(describe(&recipe).contains("access: "));
        }
    }
}
