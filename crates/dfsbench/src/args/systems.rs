//! Arguments of `dfsbench systems`.
//!
//! The recipes themselves are in `plan`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  dfsbench systems                                  names, and what each is
  dfsbench systems show glusterfs                   print its recipe, to read or copy
  dfsbench systems new mine                         write mine.toml, to fill in
  dfsbench systems check mine.toml                  list all mistakes of a recipe
In a plan, set `system = \"NAME\"` (or the path of a file) in a [[target]] with `server`.";

/// Lists the file systems that dfsbench can set up, or prints or checks a recipe.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SystemsArgs {
    /// The command [default: list]
    #[command(subcommand)]
    pub command: Option<SystemsCommand>,
}

/// The commands of `dfsbench systems`.
#[derive(Debug, Subcommand)]
pub(crate) enum SystemsCommand {
    #[command(about = "List the built-in recipes with their settings and packages")]
    List,
    #[command(about = "Print a built-in recipe, to read or copy")]
    Show {
        /// Name of the system
        #[arg(value_parser = PossibleValuesParser::new(names()))]
        name: String,
    },
    #[command(about = "Write a recipe to fill in, NAME.toml, with every key explained")]
    New {
        /// Name of the system: lower-case letters, digits and `-`
        name: String,
    },
    #[command(about = "List all mistakes of a recipe, without a host")]
    Check {
        /// File of the recipe
        file: PathBuf,
    },
}

fn names() -> Vec<PossibleValue> {
    plan::RECIPES.map(|(name, _)| PossibleValue::new(name)).to_vec()
}
