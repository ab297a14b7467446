//! Reads job files of fio: sections, options, and values with fio's units.
//!
//! [`parse_jobs`] is the entry point. Each [`FioJob`] has the options of the `[global]` sections
//! before it, followed by its own, each with its line. What the options mean is up to
//! [`fio_plan`](super::fio_plan). A job file is foreign input: whatever would need another file, a
//! variable or another program is refused.
//!
//! **Source:** fio(1) of fio 3.33, "JOB FILE FORMAT" and "PARAMETER TYPES"; the units were tried
//! with fio 3.33, which takes `4KiB` as 4000 bytes and `4ki` as 4096.

use model::fio_option_name;

use crate::syntax::error::{Fault, PlanError, PlanPosition};

/// Maximum number of jobs and of options in a file. Real ones have tens.
const JOBS_MAX: usize = 256;
const OPTIONS_MAX: usize = 2000;

/// Maximum length of an option's value. A list of files is the longest in practice.
const VALUE_LENGTH_MAX: usize = 1000;

/// A job with all options that apply to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FioJob {
    pub name: String,
    pub line: u32,
    /// In order; the last one of a name counts.
    pub options: Vec<FioOption>,
}

/// An option of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FioOption {
    pub line: u32,
    /// The main name in lower case, such as `rw` for `readwrite`.
    pub key: String,
    /// `1` if the option has no value.
    pub value: String,
}

impl FioOption {
    /// Makes a fault one of this option.
    pub(crate) fn refuse(&self, fault: Fault) -> PlanError {
        let fault = Fault { message: format!("{}: {}", self.key, fault.message), ..fault };
        fault.at(position(self.line))
    }

    fn is_no(&self, what: &str, hint: &str) -> PlanError {
        self.refuse(Fault::new(format!("`{}` is not {what}", self.value)).hint(hint))
    }

    /// Returns the value as an integer.
    pub(crate) fn number(&self) -> Result<u64, PlanError> {
        self.value.parse().map_err(|_| self.is_no("an integer", "such as 4"))
    }

    pub(crate) fn switch(&self) -> Result<bool, PlanError> {
        match self.value.as_str() {
            "0" | "false" => Ok(false),
            "1" | "true" => Ok(true),
            _ => Err(self.is_no("a switch", "write 0 or 1")),
        }
    }

    pub(crate) fn bytes(&self, kb_base: u64) -> Result<u64, PlanError> {
        parse_bytes(&self.value, kb_base)
            .ok_or_else(|| self.is_no("a size", "an integer with k, m, g or t, such as 64k"))
    }

    /// Returns the value as microseconds; `unit_us` is the unit of a number without one.
    pub(crate) fn time_us(&self, unit_us: u64) -> Result<u64, PlanError> {
        parse_time_us(&self.value, unit_us).ok_or_else(|| {
            self.is_no("a time", "an integer with us, ms, s, m, h or d, such as 30s")
        })
    }
}

pub(crate) const fn position(line: u32) -> PlanPosition {
    PlanPosition::Text { line, column: 1 }
}

/// Reads the jobs of a file.
///
/// # Errors
/// If a line is neither a section nor an option, or refers to something outside of the file.
pub(crate) fn parse_jobs(text: &str) -> Result<Vec<FioJob>, PlanError> {
    let mut globals: Vec<FioOption> = Vec::new();
    let mut jobs: Vec<FioJob> = Vec::new();
    let mut in_section = false;
    let mut in_global = false;
    let mut options = 0;
    for (line, content) in (1_u32..).zip(text.lines()) {
        let content = content.trim();
        let refuse = |what: String, hint: &str| Err(Fault::new(what).hint(hint).at(position(line)));
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = content.strip_prefix('[') {
            let Some(name) = header.strip_suffix(']').filter(|name| is_plain(name)) else {
                let hint = "a section is the name of a job in brackets";
                return refuse(format!("`{}` is not a section", shortened(content)), hint);
            };
            in_section = true;
            in_global = name.eq_ignore_ascii_case("global");
            if !in_global {
                jobs.push(FioJob { name: name.to_owned(), line, options: globals.clone() });
            }
            if jobs.len() > JOBS_MAX {
                return refuse(format!("more than {JOBS_MAX} jobs"), "split the file");
            }
            continue;
        }
        let option = parse_option(line, content)?;
        if !in_section {
            return refuse(
                format!("`{}` is outside of a section", shortened(content)),
                "a job file begins with [global] or [NAME]; commands are not read",
            );
        }
        options += 1;
        if options > OPTIONS_MAX {
            return refuse(format!("more than {OPTIONS_MAX} options"), "split the file");
        }
        match jobs.last_mut() {
            Some(job) if !in_global => job.options.push(option),
            _ => globals.push(option),
        }
    }
    if jobs.is_empty() {
        let hint = "a job is a section with a name other than [global]";
        return Err(Fault::new("there is no job").hint(hint).at(PlanPosition::Whole));
    }
    Ok(jobs)
}

fn parse_option(line: u32, content: &str) -> Result<FioOption, PlanError> {
    let refuse = |what: String, hint: &str| Err(Fault::new(what).hint(hint).at(position(line)));
    if content == "include" || content.starts_with("include ") {
        let hint = "copy its lines into the job file";
        return refuse(format!("`{}`: other files are not read", shortened(content)), hint);
    }
    let (key, value) = content.split_once('=').unwrap_or((content, "1"));
    let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().to_owned());
    let is_key = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == '-';
    if key.is_empty() || !key.chars().all(is_key) {
        let hint = "write name=value; the output of fio is not a job file";
        return refuse(format!("`{}` is not an option", shortened(content)), hint);
    }
    let option = FioOption { line, key: fio_option_name(&key).to_owned(), value };
    let value = &option.value;
    if value.contains("${")
        || ["$pagesize", "$mb_memory", "$ncpus"].iter().any(|it| value.contains(it))
    {
        let what = format!("`{}` has a variable, which is not replaced", shortened(value));
        return Err(option.refuse(Fault::new(what).hint("write its value")));
    }
    if value.starts_with('(') {
        let what = format!("`{}` is an expression, which is not computed", shortened(value));
        return Err(option.refuse(Fault::new(what).hint("write its value")));
    }
    if value.is_empty() || value.len() > VALUE_LENGTH_MAX || value.chars().any(char::is_control) {
        return Err(option.refuse(Fault::new(format!(
            "its value is empty, has control characters or more than {VALUE_LENGTH_MAX} bytes"
        ))));
    }
    Ok(option)
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= VALUE_LENGTH_MAX && !name.chars().any(char::is_control)
}

/// Shortens text for a message.
fn shortened(text: &str) -> String {
    text.chars().filter(|sign| !sign.is_control()).take(60).collect()
}

/// Splits a number from its unit in lower case.
fn split_unit(text: &str) -> Option<(u64, String)> {
    let end = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.to_ascii_lowercase()))
}

fn parse_bytes(text: &str, kb_base: u64) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    // With the usual base of 1024, fio takes `k` as 1024 and `kib` as 1000.
    let other = if kb_base == 1000 { 1024_u64 } else { 1000 };
    let (letter, base) = match unit.strip_suffix("ib") {
        Some(letter) => (letter, other),
        None if unit == "b" => ("", kb_base),
        None => (unit.strip_suffix(['b', 'i']).unwrap_or(&unit), kb_base),
    };
    let power = match letter {
        "" if unit.len() <= 1 => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    number.checked_mul(base.checked_pow(power)?)
}

fn parse_time_us(text: &str, unit_us: u64) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let unit_us = match unit.as_str() {
        "" => unit_us,
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "s" | "sec" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    number.checked_mul(unit_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_sections_inherit_globals() {
        let text =
            "; all\n[global]\nbs=4k\n direct = 1\n\n[a]\nrw=read\n[global]\nbs=8k\n[b]\nthread\n";
        let jobs = parse_jobs(text).unwrap();
        let shown = |job: &FioJob| {
            let options =
                job.options.iter().map(|it| format!("{}={}@{}", it.key, it.value, it.line));
            format!("{}: {}", job.name, options.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(shown(&jobs[0]), "a: bs=4k@3 direct=1@4 rw=read@7");
        assert_eq!(shown(&jobs[1]), "b: bs=4k@3 direct=1@4 bs=8k@9 thread=1@11");
    }

    #[test]
    fn sizes_follow_units_of_fio() {
        for (text, base, bytes) in [
            ("4096", 1024, Some(4096)),
            ("4k", 1024, Some(4096)),
            ("4KB", 1024, Some(4096)),
            ("4ki", 1024, Some(4096)),
            ("4KiB", 1024, Some(4000)),
            ("4k", 1000, Some(4000)),
            ("4KiB", 1000, Some(4096)),
            ("2g", 1024, Some(2 << 30)),
            ("512b", 1024, Some(512)),
            ("50%", 1024, None),
            ("k", 1024, None),
            ("4kk", 1024, None),
            ("4ib", 1024, None),
            ("99999999999999999p", 1024, None),
        ] {
            assert_eq!(parse_bytes(text, base), bytes, "{text}");
        }
    }

    #[test]
    fn times_have_their_own_units() {
        for (text, us) in [
            ("60", Some(60_000_000)),
            ("500ms", Some(500_000)),
            ("2m", Some(120_000_000)),
            ("1h", Some(3_600_000_000)),
            ("7x", None),
            ("", None),
        ] {
            assert_eq!(parse_time_us(text, 1_000_000), us, "{text}");
        }
    }

    #[test]
    fn refuses_what_needs_more_than_the_file() {
        for text in [
            "",
            "[global]\nbs=4k\n",
            "bs=4k\n",
            "[a\nrw=read\n",
            "[a]\ninclude other.fio\n",
            "[a]\nsize=${SIZE}\n",
            "[a]\nnumjobs=$ncpus\n",
            "[a]\nsize=(4*1024)\n",
            "[a]\nbs=\n",
            "[a]\nread : io=64MiB\n",
            "\u{0}\u{1}[",
        ] {
            assert!(parse_jobs(text).is_err(), "{text:?}");
        }
    }
}
