//! Parses the layers table of `docs/design/architecture.md`.
//!
//! Main type: [`Architecture`]. The page is the only place where allowed dependencies are listed; a
//! row that can't be parsed is an error, so that a typo there can't allow a dependency.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

use crate::doctable;

const COLUMNS: [&str; 4] = ["layer", "crate", "what it is", "may use"];
const PAGE: &str = "architecture.md";

/// One row of the table.
#[derive(Debug)]
pub struct CrateRow {
    /// Number of the layer; dependencies go to lower layers, or within one if the table lists them.
    pub layer: u8,
    /// Whether it must not use a clock, socket, file, environment or thread.
    pub pure: bool,
    /// The crates that it may use.
    pub uses: BTreeSet<String>,
}

/// The whole table, by crate name.
#[derive(Debug)]
pub struct Architecture {
    /// Rows by crate name.
    pub crates: BTreeMap<String, CrateRow>,
}

impl Architecture {
    /// Parses the layers table of the page.
    ///
    /// # Errors
    /// If there is no such table, or a row has an unknown crate or no layer.
    pub fn parse(page: &str) -> Result<Self> {
        let Some(rows) = doctable::find_table(page, &COLUMNS) else {
            bail!("{PAGE} has no table of layers");
        };
        let mut crates = BTreeMap::new();
        for row in &rows {
            let [layer, krate, _what, uses] = row.as_slice() else {
                bail!("{PAGE}: a row of the table of layers has {} cells, not 4", row.len());
            };
            let layer = layer.parse().with_context(|| format!("{PAGE}: layer {layer:?}"))?;
            let pure = krate.contains("(pure)");
            let name = krate.split_whitespace().next().unwrap_or_default().to_owned();
            crates.insert(name, CrateRow { layer, pure, uses: parse_uses(uses) });
        }
        let architecture = Self { crates };
        architecture.check_names()?;
        Ok(architecture)
    }

    /// Returns true if a crate is marked pure.
    pub fn is_pure(&self, krate: &str) -> bool {
        self.crates.get(krate).is_some_and(|row| row.pure)
    }

    fn check_names(&self) -> Result<()> {
        for (name, row) in &self.crates {
            for used in &row.uses {
                let is_known = self.crates.contains_key(used);
                ensure!(is_known, "{PAGE}: `{name}` may use `{used}`, which has no row");
            }
        }
        Ok(())
    }
}

fn parse_uses(cell: &str) -> BTreeSet<String> {
    match cell {
        "none" => BTreeSet::new(),
        names => names.split(',').map(|name| name.trim().to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::Architecture;

    const HEAD: &str = "| layer | crate | what it is | may use |\n|---|---|---|---|\n";

    #[test]
    fn reads_layer_purity_and_uses() {
        let rows = "| 1 | `stats` (pure) | x | model |\n| 0 | `model` (pure) | x | none |\n\
                    | 2 | `lab` | x | model |\n";
        let architecture = Architecture::parse(&format!("{HEAD}{rows}")).unwrap();
        assert_eq!(architecture.crates["stats"].layer, 1);
        assert!(architecture.is_pure("stats") && !architecture.is_pure("lab"));
        assert!(architecture.crates["stats"].uses.contains("model"));
        assert!(!architecture.crates["model"].uses.contains("stats"));
    }

    #[test]
    fn rejects_unknown_crate_in_table() {
        let page = format!("{HEAD}| 1 | `stats` | x | modle |\n");
        let error = Architecture::parse(&page).unwrap_err();
        assert!(error.to_string().contains("modle"), "{error}");
    }

    #[test]
    fn the_page_of_this_repository_parses() {
        let page = include_str!("../../../docs/design/architecture.md");
        let architecture = Architecture::parse(page).unwrap();
        assert!(architecture.crates.len() >= 15);
        assert!(architecture.is_pure("nfs-proto"));
    }
}
