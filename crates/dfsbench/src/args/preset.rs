//! Arguments of `dfsbench preset`.
//!
//! The presets themselves are in `crate::presets`.

use clap::Parser;
use clap::builder::PossibleValuesParser;

use crate::presets::Preset;

const EXAMPLES: &str = "\
Examples:
  dfsbench preset                                   names, and what each measures
  dfsbench run metadata                             runs one
  dfsbench preset metadata > mine.toml              copies one, to change it
  dfsbench run mine.toml --dry-run                  what it would do now";

/// Lists the plans that are built in, or prints one.
///
/// `dfsbench run NAME` runs it. A printed plan is a file that `dfsbench run` takes; its comments
/// explain it.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct PresetArgs {
    /// The plan to print [default: list all]
    #[arg(value_parser = PossibleValuesParser::new(Preset::ALL.map(|preset| preset.name)))]
    pub name: Option<String>,
}
