//! Arguments of `dfsbench systems`.
//!
//! The recipes themselves are in `plan`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  dfsbench systems                                  names, and what each is
  dfsbench systems show glusterfs                   its recipe, to read and to copy
  dfsbench systems check mine.toml                  what is wrong with a recipe
A plan takes one by `system = \"NAME\"` in a [[target]] with `server`, or by the path of a file.";

/// Lists the file systems that dfsbench can set up, prints the recipe of one, or checks a recipe.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct SystemsArgs {
    /// The command [default: list]
    #[command(subcommand)]
    pub command: Option<SystemsCommand>,
}

/// The commands of `dfsbench systems`.
#[derive(Debug, Subcommand)]
pub enum SystemsCommand {
    #[command(about = "List the recipes that are built in, with settings and packages")]
    List,
    #[command(about = "Print a recipe that is built in, to read and to copy")]
    Show {
        /// Name of the system
        #[arg(value_parser = PossibleValuesParser::new(names()))]
        name: String,
    },
    #[command(about = "Check a recipe without a host, and say what is wrong with it")]
    Check {
        /// File of the recipe
        file: PathBuf,
    },
}

fn names() -> Vec<PossibleValue> {
    plan::RECIPES.map(|(name, _)| PossibleValue::new(name)).to_vec()
}
