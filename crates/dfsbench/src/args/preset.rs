//! Arguments of `dfsbench preset`.
//!
//! The presets themselves are in `crate::plans::presets`.

use clap::Parser;
use clap::builder::PossibleValuesParser;

use crate::plans::presets::Preset;

const EXAMPLES: &str = "\
Examples:
  dfsbench preset                                   list presets and what they measure
  dfsbench run metadata                             run one
  dfsbench preset metadata > mine.toml              copy one, to change it
  dfsbench run mine.toml --dry-run                  show what it would do now";

/// Lists the built-in plans, or prints one.
///
/// `dfsbench run NAME` runs a built-in plan. A printed plan can be saved, edited and run with
/// `dfsbench run`; its comments explain it.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PresetArgs {
    /// Plan to print [default: list all]
    #[arg(value_parser = PossibleValuesParser::new(Preset::ALL.map(|preset| preset.name)))]
    pub name: Option<String>,
}
