//! Arguments of `dfsbench systems`.
//!
//! The recipes themselves are in `plan`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Parser, Subcommand};
use model::system::AccessWay;

const EXAMPLES: &str = "\
Examples:
  dfsbench systems                                  names, and what each is
  dfsbench systems show glusterfs                   print its recipe, to read or copy
  dfsbench systems new mine                         write mine.toml, to fill in
  dfsbench systems check mine.toml                  list all mistakes of a recipe
  dfsbench systems up ganesha --hosts a,b           keep it up, to look at it
  dfsbench systems down ganesha                     remove it again
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
        /// File of the recipe, or name of a built-in one
        name: String,
    },
    #[command(about = "Set up a system and keep it up until `systems down` or ctrl-C")]
    Up(UpArgs),
    #[command(about = "Remove a system that `systems up` keeps up or left, and restore its hosts")]
    Down {
        /// Name or file, as given to `systems up`
        name: String,
    },
}

/// Sets up a system without measuring it.
#[derive(Debug, Parser)]
pub(crate) struct UpArgs {
    /// Name of a built-in recipe, or file of a recipe
    pub name: String,

    /// Hosts by ssh: the server, then clients that mount it; HOST=ADDRESS if they reach each other
    /// by another address [default: this host]
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub hosts: Vec<String>,

    /// Settings of the recipe
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    pub settings: Vec<String>,

    /// How clients access it [default: the first of fuse, mount and nfs that the recipe has]
    #[arg(long, value_parser = read_access)]
    pub access: Option<AccessWay>,

    /// Further addresses or networks that may mount it; this host and the clients may anyway
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub allow: Vec<String>,

    /// Configuration file for ssh
    #[arg(long, value_name = "FILE")]
    pub ssh_config: Option<PathBuf>,
}

fn read_access(text: &str) -> Result<AccessWay, String> {
    AccessWay::from_name(text).ok_or_else(|| format!("write {}", AccessWay::NAMES.join(", ")))
}

fn names() -> Vec<PossibleValue> {
    plan::RECIPES.map(|(name, _)| PossibleValue::new(name)).to_vec()
}
