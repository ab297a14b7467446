//! `dfsbench systems`: lists, prints and checks recipes of systems.
//!
//! No host is contacted: anything missing on a host is reported when a plan sets it up.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

use model::system::Recipe;

use crate::args::{SystemsArgs, SystemsCommand};
use crate::commands::system_up;
use crate::exit::{End, Failure};
use crate::files::input_file;
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
        Some(SystemsCommand::Check { file }) => check(file)?,
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
    let written = File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let what = format!("{path} already exists (hint: another name, or remove it first)");
            return Err(Failure::Usage(what));
        }
        Err(error) => {
            let (what, reason) = (path, error.to_string());
            return Err(Failure::Output { what, reason, hint: "check the current folder" });
        }
    }
    let hint = "fill in the lines marked FILL IN; `dfsbench systems check` lists what is left";
    output::message(&format!("wrote {path}: {hint}"));
    Ok(())
}

/// Checks a recipe and describes how it would be used.
fn check(file: &Path) -> Result<(), Failure> {
    let text = input_file::read_text(file)
        .map_err(|why| Failure::Usage(format!("can't read recipe `{}`: {why}", file.display())))?;
    let checked = plan::check_recipe(&text, &file.display().to_string());
    let recipe = checked.map_err(|problems| {
        let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        if lines.len() > 1 {
            lines.insert(0, format!("{} has {} problems", file.display(), lines.len()));
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
    use super::*;

    #[test]
    fn checks_every_recipe() {
        for (name, text) in plan::RECIPES {
            let recipe = plan::parse_recipe(text, name).unwrap();
            assert_eq!(recipe.name, name);
            assert!(describe(&recipe).contains("access: "));
        }
    }
}
