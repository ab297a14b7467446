//! Recipes of systems: the built-in ones, and parsing one from text.
//!
//! The texts are in `systems/`. A derived `Deserialize` is enough for them: a recipe has no
//! dfsbench settings, no flags and no alternative spellings.

use std::path::Path;

use model::system::Recipe;

use crate::parse::document::PlanText;
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::suggestion::unknown_word;

/// Name and text of a built-in recipe.
type BuiltIn = (&'static str, &'static str);

pub const RECIPES: [BuiltIn; 12] = [
    ("afs", include_str!("../../systems/afs.toml")),
    ("cephfs", include_str!("../../systems/cephfs.toml")),
    ("dfsbench", include_str!("../../systems/dfsbench.toml")),
    ("ganesha", include_str!("../../systems/ganesha.toml")),
    ("gfs2", include_str!("../../systems/gfs2.toml")),
    ("glusterfs", include_str!("../../systems/glusterfs.toml")),
    ("knfsd", include_str!("../../systems/knfsd.toml")),
    ("ksmbd", include_str!("../../systems/ksmbd.toml")),
    ("moosefs", include_str!("../../systems/moosefs.toml")),
    ("rclone", include_str!("../../systems/rclone.toml")),
    ("unfs3", include_str!("../../systems/unfs3.toml")),
    ("zerofs", include_str!("../../systems/zerofs.toml")),
];

/// Returns true if a text is the path of a recipe rather than the name of a built-in one.
pub(crate) fn is_recipe_path(text: &str) -> bool {
    text.contains('/') || Path::new(text).extension().is_some_and(|end| end == "toml")
}

/// Returns the text of a built-in recipe.
///
/// # Errors
/// If there is no recipe of that name.
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
/// If the text is not TOML, has an invalid key or value, or refers to an unknown variable.
pub fn parse_recipe(text: &str, source_name: &str) -> Result<Recipe, PlanError> {
    read(text).map_err(|error| error.in_source(source_name))
}

fn read(text: &str) -> Result<Recipe, PlanError> {
    let recipe: Recipe = match toml::from_str(text) {
        Ok(recipe) => recipe,
        Err(error) => {
            let place = match error.span() {
                Some(span) => PlanText::new(text).place_of(&span),
                None => PlanPosition::Whole,
            };
            let message = error.message().replace('\n', "; ");
            return Err(Fault::new(message).hint("docs/systems.md describes every key").at(place));
        }
    };
    match recipe.validate() {
        Ok(()) => Ok(recipe),
        Err(error) => Err(Fault::new(error.what).hint(error.hint).at(PlanPosition::Whole)),
    }
}
