//! Arguments of `dfsbench preset`.
//!
//! The presets themselves are in `crate::presets`.

use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};

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
    #[arg(value_parser = PossibleValuesParser::new(names()))]
    pub name: Option<String>,
}

/// The names of presets; those that they had before are taken, too, and not listed.
fn names() -> Vec<PossibleValue> {
    let mut names: Vec<PossibleValue> = Vec::new();
    for preset in Preset::ALL {
        names.push(PossibleValue::new(preset.name));
    }
    for former in Preset::former_names() {
        names.push(PossibleValue::new(former).hide(true));
    }
    names
}
