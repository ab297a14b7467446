//! Recipes of systems: the built-in ones, and parsing one from text.
//!
//! The texts are in `systems/`.

use std::path::Path;

use model::system::{Recipe, check_recipe_name};

use crate::parse::recipe_problems;
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::suggestion::unknown_word;

/// Name and text of a built-in recipe.
type BuiltIn = (&'static str, &'static str);

pub const RECIPES: [BuiltIn; 21] = [
    ("afs", include_str!("../../systems/afs.toml")),
    ("beegfs", include_str!("../../systems/beegfs.toml")),
    ("cephfs", include_str!("../../systems/cephfs.toml")),
    ("dfsbench", include_str!("../../systems/dfsbench.toml")),
    ("dittofs", include_str!("../../systems/dittofs.toml")),
    ("ganesha", include_str!("../../systems/ganesha.toml")),
    ("gfs2", include_str!("../../systems/gfs2.toml")),
    ("glusterfs", include_str!("../../systems/glusterfs.toml")),
    ("go-nfs", include_str!("../../systems/go-nfs.toml")),
    ("juicefs", include_str!("../../systems/juicefs.toml")),
    ("knfsd", include_str!("../../systems/knfsd.toml")),
    ("ksmbd", include_str!("../../systems/ksmbd.toml")),
    ("lustre", include_str!("../../systems/lustre.toml")),
    ("moosefs", include_str!("../../systems/moosefs.toml")),
    ("nfsserve", include_str!("../../systems/nfsserve.toml")),
    ("orangefs", include_str!("../../systems/orangefs.toml")),
    ("rclone", include_str!("../../systems/rclone.toml")),
    ("rclone-s3", include_str!("../../systems/rclone-s3.toml")),
    ("seaweedfs", include_str!("../../systems/seaweedfs.toml")),
    ("unfs3", include_str!("../../systems/unfs3.toml")),
    ("zerofs", include_str!("../../systems/zerofs.toml")),
];

/// A recipe without content: mandatory keys to fill in, and all others commented out.
const SKELETON: &str = include_str!("recipe_skeleton.toml");

/// Returns a new recipe of that name, to be filled in.
pub fn new_recipe(name: &str) -> Result<String, PlanError> {
    let fault = match check_recipe_name(name) {
        Some(error) => Fault::new(error.what).hint(error.hint),
        None if RECIPES.iter().any(|(known, _)| *known == name) => {
            let hint = format!("another name, or `dfsbench systems show {name}` to start from it");
            Fault::new(format!("`{name}` is a built-in recipe")).hint(hint)
        }
        None => return Ok(SKELETON.replace("NAME", name)),
    };
    Err(fault.at(PlanPosition::Whole).in_source("systems new"))
}

/// Returns true if a text is the path of a recipe rather than the name of a built-in one.
pub fn is_recipe_path(text: &str) -> bool {
    text.contains('/') || Path::new(text).extension().is_some_and(|end| end == "toml")
}

/// Returns the text of a built-in recipe.
pub fn built_in_recipe(name: &str) -> Result<&'static str, PlanError> {
    for (known, text) in RECIPES {
        if known == name {
            return Ok(text);
        }
    }
    Err(unknown_recipe(name).at(PlanPosition::Whole).in_source("system"))
}

pub(crate) fn unknown_recipe(name: &str) -> Fault {
    unknown_word("system", name, &RECIPES.map(|(known, _)| known))
}

/// Parses a recipe and checks everything that needs no host; errors refer to the text as
/// `source_name`.
///
/// # Errors
/// If the text is not TOML, has an invalid key or value, or refers to an unknown variable. Returns
/// the first problem of the text.
pub fn parse_recipe(text: &str, source_name: &str) -> Result<Recipe, PlanError> {
    check_recipe(text, source_name).map_err(|mut problems| {
        let mut first = problems.swap_remove(0);
        let more = problems.len();
        if more > 0 {
            let hint = first.hint.take().map(|hint| format!("{hint}; ")).unwrap_or_default();
            first.hint = Some(format!("{hint}`dfsbench systems check` lists {more} more"));
        }
        first
    })
}

/// Parses a recipe like [`parse_recipe`].
///
/// # Errors
/// All problems, at least one, in the order of the text; those of the recipe as a whole come first.
pub fn check_recipe(text: &str, source_name: &str) -> Result<Recipe, Vec<PlanError>> {
    recipe_problems::read(text).map_err(|problems| {
        problems.into_iter().map(|problem| problem.in_source(source_name)).collect()
    })
}
