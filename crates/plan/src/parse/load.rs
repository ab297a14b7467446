//! Parses the loads that run alone and together: each `[[load]]` of a plan, and `--with`.

use model::setting::Setting;
use model::units::parse_time_ns;
use model::{NamedLoad, Workload};

use crate::parse::document::{Field, Table};
use crate::parse::keys::key_elsewhere;
use crate::parse::level;
use crate::parse::section::Section;
use crate::parse::values::{settings_among, workload_named};
use crate::parse::work;
use crate::syntax::error::{Fault, Located, PlanError, PlanPosition};
use crate::syntax::limits;
use crate::syntax::raw::{RawLoad, RawPlan, RawWorkload};
use crate::syntax::suggestion::nearest_word;
use crate::syntax::text::{time, with_article};

/// The flag that adds a load.
pub(crate) const FLAG: &str = "--with";

/// The form of its value.
const FORM: &str = "NAME: WORKLOAD KEY=VALUE ..., such as 'backup: mixed read_percent=0'";

/// Parses every `[[load]]`, in the order of the text.
pub(crate) fn read_loads(field: &Field<'_>) -> Result<Vec<RawWorkload>, PlanError> {
    field.tables(Section::Load)?.iter().map(read_one).collect()
}

fn read_one(table: &Table<'_>) -> Result<RawWorkload, PlanError> {
    let name = table.required("name", "for example `name = \"backup\"`")?;
    let name = name.parse("\"backup\"", name_of_load)?;
    let field = table.required("kind", "for example `kind = \"mixed\"`")?;
    let kind = field.parse("\"mixed\"", workload_named)?;
    work::check_settings(table, kind.value)?;
    let read_host = |item: &Field<'_>| Ok(item.located(item.text("\"client1\"")?.value.to_owned()));
    let load = RawLoad {
        name,
        hosts: table.read_each("hosts", read_host)?,
        start_ms: table.read("start", |field| field.parse("\"5s\"", time_in_window))?,
        end_ms: table.read("end", |field| field.parse("\"30s\"", time_in_window))?,
    };
    Ok(RawWorkload {
        load: Some(load),
        settings: settings_among(&Setting::ALL, table)?,
        mix: work::read_mix(table, kind.value)?,
        mix_from: work::read_mix_from(table, kind.value)?,
        mix_since: work::read_mix_since(table)?,
        ..RawWorkload::with_defaults(kind.value, kind.place)
    })
}

/// Checks the name of a load, which appears in tables and joined to others.
fn name_of_load(name: &str) -> Result<String, Fault> {
    let fits = (1..=limits::LOAD_NAME_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    if !fits || name == NamedLoad::ALONE {
        let what = format!("`{name:.80}` is not a name of a load");
        let hint = format!(
            "up to {} letters, digits, `_`, `-` and `.`, and not \"{}\"",
            limits::LOAD_NAME_MAX,
            NamedLoad::ALONE
        );
        return Err(Fault::new(what).hint(hint));
    }
    Ok(name.to_owned())
}

/// Parses an instant within the window in which loads run together, in milliseconds.
fn time_in_window(text: &str) -> Result<u64, Fault> {
    let ms = parse_time_ns(text)? / 1_000_000;
    if ms > limits::WINDOW_MS_MAX {
        let what = format!("must be at most {}, not {text}", time(limits::WINDOW_MS_MAX));
        return Err(Fault::new(what).hint("it counts from the start of the first load"));
    }
    Ok(ms)
}

/// Parses a load from the command line: `backup: mixed read_percent=0 io_size=1MiB`.
fn read_text(text: &str) -> Result<RawWorkload, Fault> {
    let place = PlanPosition::Flag(FLAG);
    let Some((name, rest)) = text.split_once(':') else {
        return Err(Fault::new(format!("`{text}` has no name before a colon")).hint(FORM));
    };
    let name = Located { value: name_of_load(name.trim())?, place };
    let mut words = rest.split_whitespace();
    let Some(kind) = words.next() else {
        return Err(Fault::new(format!("load `{}` has no workload", name.value)).hint(FORM));
    };
    let kind = workload_named(kind)?;
    let mut load = RawLoad { name, hosts: None, start_ms: None, end_ms: None };
    let mut workload = RawWorkload::with_defaults(kind, place);
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            let what = format!("`{word}` in load `{}` is not KEY=VALUE", load.name.value);
            return Err(Fault::new(what).hint(FORM));
        };
        match key {
            "start" => load.start_ms = Some(Located { value: time_in_window(value)?, place }),
            "end" => load.end_ms = Some(Located { value: time_in_window(value)?, place }),
            "hosts" => {
                let names = value.split(',').map(|name| Located { value: name.to_owned(), place });
                load.hosts = Some(names.collect());
            }
            _ => read_setting(&mut workload, key, value, place)?,
        }
    }
    Ok(RawWorkload { load: Some(load), ..workload })
}

fn read_setting(
    workload: &mut RawWorkload,
    key: &str,
    value: &str,
    place: PlanPosition,
) -> Result<(), Fault> {
    let kind: Workload = workload.kind.value;
    let Some(setting) = Setting::from_key(key) else {
        let hint = match (key_elsewhere(key), nearest_word(key, &Setting::ALL.map(Setting::key))) {
            (Some(ours), _) => format!("it is called `{ours}` here"),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => "each flag of `dfsbench run --help` has its key here".to_owned(),
        };
        return Err(Fault::new(format!("unknown key `{key}`")).hint(hint));
    };
    if !setting.has_workload(kind) {
        let what = format!("{key} doesn't apply to {} workload", with_article(kind.name()));
        return Err(Fault::new(what));
    }
    let level = Located { value: level::read(setting, value)?, place };
    workload.settings.insert(setting, vec![level]);
    Ok(())
}

impl RawPlan {
    /// Returns true if the plan has loads that run alone and together.
    pub fn has_loads(&self) -> bool {
        self.workloads.iter().any(|workload| workload.load.is_some())
    }

    /// Adds loads from the command line. The only workload of a plan without loads becomes one,
    /// named after its kind.
    pub(crate) fn add_loads(&mut self, texts: &[String]) -> Result<(), PlanError> {
        let place = PlanPosition::Flag(FLAG);
        for text in texts {
            let load = place.accept(read_text(text))?.value;
            if !self.has_loads() {
                let [only] = self.workloads.as_mut_slice() else {
                    let what = format!("the plan has {} workloads", self.workloads.len());
                    let hint = "name the one that runs beside the load, such as --workload mixed";
                    return Err(Fault::new(what).hint(hint).at(place));
                };
                let name = Located { value: only.kind.value.name().to_owned(), place };
                only.load = Some(RawLoad { name, hosts: None, start_ms: None, end_ms: None });
            }
            self.workloads.push(load);
        }
        Ok(())
    }
}
