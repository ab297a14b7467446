//! Settings that vary among the rows of a kind of pass, most important first.
//!
//! [`VariedSetting`] is the main type: a setting, or the target, with its sorted levels. Heat
//! maps and small multiples choose their axes from these.

use std::cmp::Reverse;

use crate::factor_effects::FactorEffects;
use crate::table::setting_number::quantity;
use crate::table::{NOT_APPLICABLE, Row, Sheet};

/// Maximum number of levels; more are a continuum.
const LEVELS_MAX: usize = 64;

/// Setting with its levels.
pub(super) struct VariedSetting {
    /// Column of the sheet; `None` for the target.
    pub column: Option<usize>,
    pub name: String,
    /// Levels; sorted if they are numbers, otherwise in campaign order.
    pub levels: Vec<String>,
    pub is_number: bool,
}

impl VariedSetting {
    /// Settings that vary among the rows of a pass. The dominant ones come first, followed by those
    /// of unknown effect, with the most levels first.
    pub(super) fn all(sheet: &Sheet<'_>, rows: &[&Row<'_>], dominant: &[&str]) -> Vec<Self> {
        let mut all = vec![Self::new(None, "target", rows)];
        for (column, name) in sheet.columns.iter().enumerate() {
            all.push(Self::new(Some(column), name, rows));
        }
        all.retain(|varied| (2..=LEVELS_MAX).contains(&varied.levels.len()));
        all.sort_by_key(|varied| {
            let rank = dominant.iter().position(|name| *name == varied.name);
            (rank.unwrap_or(dominant.len()), Reverse(varied.levels.len()))
        });
        all
    }

    fn new(column: Option<usize>, name: &str, rows: &[&Row<'_>]) -> Self {
        let name = name.to_owned();
        let mut varied = Self { column, name, levels: Vec::new(), is_number: false };
        for row in rows {
            let value = varied.value(row);
            if value != NOT_APPLICABLE && !varied.levels.iter().any(|known| known == value) {
                varied.levels.push(value.to_owned());
            }
            if varied.levels.len() > LEVELS_MAX {
                break;
            }
        }
        let name = &varied.name;
        varied.is_number =
            column.is_some() && varied.levels.iter().all(|level| quantity(name, level).is_some());
        if varied.is_number {
            varied.levels.sort_by(|a, b| {
                let [a, b] = [a, b].map(|level| quantity(name, level).unwrap_or_default());
                a.total_cmp(&b)
            });
        }
        varied
    }

    /// Keeps settings that one picture can show together: in order, each that most rows have in
    /// addition to the earlier ones, and that leaves each of these at least two levels.
    ///
    /// For example, no row has the read-ahead settings of two kinds of client, so a picture with
    /// one as its axis and the other as its color would be empty.
    pub(super) fn together(all: Vec<Self>, rows: &[&Row<'_>]) -> Vec<Self> {
        let mut shared = rows.to_vec();
        let mut kept: Vec<Self> = Vec::new();
        for setting in all {
            let mut with = shared.clone();
            with.retain(|row| setting.value(row) != NOT_APPLICABLE);
            let narrowed: Vec<_> = kept
                .iter()
                .chain([&setting])
                .map(|one| Self::new(one.column, &one.name, &with))
                .collect();
            let has_levels = narrowed.iter().all(|one| one.levels.len() >= 2);
            if has_levels && with.len() * 2 >= rows.len() {
                kept = narrowed;
                shared = with;
            }
        }
        kept
    }

    /// Returns true if this is the target rather than a setting.
    pub(super) const fn is_target(&self) -> bool {
        self.column.is_none()
    }

    pub(super) fn value<'r>(&self, row: &'r Row<'_>) -> &'r str {
        match self.column {
            Some(column) => &row.values[column],
            None => &row.run.spec.target_name,
        }
    }

    /// Index of a row's level.
    pub(super) fn level_of(&self, row: &Row<'_>) -> Option<usize> {
        self.levels.iter().position(|level| level == self.value(row))
    }
}

/// Names the factors of a kind of pass, sorted by share of the variance.
pub(super) fn dominant_names<'e>(effects: &'e FactorEffects, pass: &str) -> Vec<&'e str> {
    let mut names = Vec::new();
    for factors in effects.passes.iter().filter(|factors| factors.name == pass) {
        if let Ok(found) = &factors.found {
            names.extend(
                found.factors.iter().map(|effect| factors.factors[effect.factor].name.as_str()),
            );
        }
    }
    names
}
