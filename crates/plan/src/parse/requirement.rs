//! Parses the limits that results must keep: each `[[require]]` of a plan, and `--require`.

use std::fmt::Write as _;

use model::{Limit, Requirement};

use crate::parse::conclusion::{check_pass, read_conditions, write_conditions};
use crate::parse::document::Table;
use crate::parse::section::Section;
use crate::syntax::error::{Fault, Located, PlanError, PlanPosition};
use crate::syntax::text::quoted;

const EXAMPLE: &str = "\"read.p99 < 20ms\"";

/// Parses every `[[require]]`, in the order of the text.
pub(crate) fn read_requirements(root: &Table<'_>) -> Result<Vec<Located<Requirement>>, PlanError> {
    let Some(field) = root.field("require") else { return Ok(Vec::new()) };
    field.tables(Section::Require)?.iter().map(read_one).collect()
}

fn read_one(table: &Table<'_>) -> Result<Located<Requirement>, PlanError> {
    let field = table.required("limit", &format!("such as `limit = {EXAMPLE}`"))?;
    let limit = field.parse(EXAMPLE, check_limit)?;
    let only = table.read("where", read_conditions)?.unwrap_or_default();
    let requirement = Requirement { limit: limit.value.to_owned(), only };
    Ok(Located { value: requirement, place: limit.place })
}

/// Parses the limits given by `flag`.
///
/// # Errors
/// If a text is not a limit, or is about an unknown pass.
pub fn parse_requirements(
    texts: &[String],
    flag: &'static str,
) -> Result<Vec<Located<Requirement>>, PlanError> {
    let parse = |text: &String| {
        let limit = PlanPosition::Flag(flag).accept(check_limit(text))?;
        let requirement = Requirement { limit: limit.value.to_owned(), ..Requirement::default() };
        Ok(Located { value: requirement, place: limit.place })
    };
    texts.iter().map(parse).collect()
}

/// Returns the text if it is a limit on a known pass.
fn check_limit(text: &str) -> Result<&str, Fault> {
    let limit = Limit::parse(text).map_err(|error| Fault::new(error.what).hint(error.hint))?;
    if !limit.pass.is_empty() {
        check_pass(&limit.pass)?;
    }
    Ok(text)
}

/// Writes requirements in the form of a plan; the report parses them back from this form.
pub(crate) fn write(out: &mut String, requirements: &[Requirement]) {
    for one in requirements {
        // Writing to a String can't fail.
        let _ = writeln!(out, "\n[[require]]\nlimit = {}", quoted(&one.limit));
        write_conditions(out, &one.only);
    }
}
