//! Translates jobs of fio into a plan that does the same with fio and with dfsbench, in turn.
//!
//! [`plan_like_fio`] is the entry point. fio gets each job's own options, and our settings follow
//! from them. Each of several jobs is a target, so that both tools are compared job by job. What
//! has no counterpart and changes the result is an error, unless the user accepts that only fio
//! does it.
//!
//! **Source:** fio(1) of fio 3.33: meaning and default of each option.

use std::fmt::Write as _;

use model::{FioOptionRole, fio_option_role};

use crate::parse::fio_job::{FioJob, FioOption, parse_jobs, position};
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::text;

/// Longest time of a mix, for one that ends by its number of ops.
const DURATION_MAX: &str = "24h";

/// What to translate.
#[derive(Clone, Copy, Debug)]
pub struct FioRequest<'a> {
    /// Content of the job file.
    pub text: &'a str,
    /// Name of the file, for messages and comments.
    pub source_name: &'a str,
    /// Names of the jobs; all if empty.
    pub sections: &'a [String],
    /// Options without a counterpart that only fio is to use.
    pub accepted: &'a [String],
    /// Directory to work in, in place of the job's.
    pub directory: Option<&'a str>,
}

/// A plan made from a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioPlan {
    /// The plan as TOML, with comments.
    pub toml: String,
    /// How the plan differs from what fio does with the whole file.
    pub note: Option<String>,
}

/// Translates jobs.
///
/// # Errors
/// If the file can't be read, or a job has options without a counterpart.
pub fn plan_like_fio(request: &FioRequest<'_>) -> Result<FioPlan, PlanError> {
    let translated = parse_jobs(request.text).and_then(|jobs| {
        let jobs = choose(&jobs, request.sections)?;
        translate_jobs(&jobs, request)
    });
    translated.map_err(|error| match error.place {
        PlanPosition::Flag(_) => error,
        _ => error.in_source(request.source_name),
    })
}

/// Returns the jobs of these names, or all.
fn choose<'a>(jobs: &'a [FioJob], names: &[String]) -> Result<Vec<&'a FioJob>, PlanError> {
    if let Some(unknown) = names.iter().find(|name| !jobs.iter().any(|job| job.name == **name)) {
        let known: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).take(10).collect();
        let hint = format!("choose one with --section: {}", text::join_with_or(&known));
        let fault = Fault::new(format!("there is no job `{unknown}`"));
        return Err(fault.hint(hint).at(PlanPosition::Whole));
    }
    Ok(jobs.iter().filter(|job| names.is_empty() || names.contains(&job.name)).collect())
}

fn translate_jobs(jobs: &[&FioJob], request: &FioRequest<'_>) -> Result<FioPlan, PlanError> {
    let mut made = Vec::new();
    let mut faults = Vec::new();
    for job in jobs {
        match Translation::make(job, request) {
            Ok(translation) => made.push(translation),
            Err(fault) => faults.push((job.name.as_str(), fault)),
        }
    }
    if let Some(fault) = join_faults(faults, jobs.len()) {
        return Err(fault);
    }
    let is_missing =
        |key: &str| made.iter().any(|it| it.missing.iter().any(|(it, _)| it.key == key));
    if let Some(key) = request.accepted.iter().find(|key| !is_missing(key)) {
        let fault = Fault::new(format!("`{key}` is not an option without a counterpart"));
        let hint = "name only options that are reported as not translated";
        return Err(fault.hint(hint).at(PlanPosition::Flag("--accept")));
    }
    write_plan(&made, request)
}

/// Returns one error with the faults of all jobs.
fn join_faults(faults: Vec<(&str, PlanError)>, jobs: usize) -> Option<PlanError> {
    let mut faults = faults.into_iter();
    let (name, mut first) = faults.next()?;
    if jobs == 1 {
        return Some(first);
    }
    first.message = format!("job `{name}`: {}", first.message);
    for (name, fault) in faults {
        let line = match fault.place {
            PlanPosition::Text { line, .. } => format!(" (line {line})"),
            PlanPosition::Flag(_) | PlanPosition::Whole => String::new(),
        };
        let _ = write!(first.message, "; job `{name}`{line}: {}", fault.message);
    }
    let others = "--section NAME compares only some jobs";
    first.hint = Some(first.hint.map_or(others.to_owned(), |hint| format!("{hint}; {others}")));
    Some(first)
}

/// Returns a sentence about jobs that fio would run at the same time.
fn note_parallel_jobs(made: &[Translation<'_>]) -> Result<Option<String>, PlanError> {
    for pair in made.windows(2) {
        if !pair[1].switch("stonewall")? {
            return Ok(Some(format!(
                "fio would run the jobs `{}` and `{}` at the same time (`{1}` has no stonewall); \
                 here each job runs alone",
                pair[0].job.name, pair[1].job.name
            )));
        }
    }
    Ok(None)
}

/// Returns a name for the target of each job: `dir`, or those of the jobs.
fn name_targets(made: &[Translation<'_>]) -> Vec<String> {
    if made.len() == 1 {
        return vec!["dir".to_owned()];
    }
    let mut names: Vec<String> = Vec::new();
    for translation in made {
        let plain = |sign: char| if sign.is_ascii_alphanumeric() { sign } else { '_' };
        let name: String = translation.job.name.chars().map(plain).take(48).collect();
        let count = names.iter().filter(|it| it.split('.').next() == Some(&*name)).count();
        names.push(if count == 0 { name } else { format!("{name}.{}", count + 1) });
    }
    names
}

fn write_plan(made: &[Translation<'_>], request: &FioRequest<'_>) -> Result<FioPlan, PlanError> {
    let source = request.source_name.replace(char::is_control, "?");
    let (what, name) = match made {
        [one] => (format!("The job `{}` of {source}", one.job.name), one.job.name.as_str()),
        _ => (format!("The jobs of {source}"), source.as_str()),
    };
    let name: String = format!("like {name}").chars().take(64).collect();
    let mut toml = format!("# {what}: fio and dfsbench do the same work in turn.\n");
    let note = note_parallel_jobs(made)?;
    if let Some(note) = &note {
        let _ = writeln!(toml, "# Note: {note}.");
    }
    let _ = write!(toml, "name = {}\ntrials = 5\n", quoted(&name));
    for (translation, target) in made.iter().zip(name_targets(made)) {
        translation.write(&mut toml, &target, made.len() > 1);
    }
    Ok(FioPlan { toml, note })
}

/// Which kind of pass the job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Direction {
    reads: bool,
    writes: bool,
    is_random: bool,
}

impl Direction {
    fn from_option(option: Option<&FioOption>) -> Result<Self, PlanError> {
        let Some(option) = option else {
            return Ok(Self { reads: true, writes: false, is_random: false });
        };
        let (reads, writes, is_random) = match option.value.as_str() {
            "read" => (true, false, false),
            "write" => (false, true, false),
            "randread" => (true, false, true),
            "randwrite" => (false, true, true),
            "rw" | "readwrite" => (true, true, false),
            "randrw" => (true, true, true),
            other => {
                let fault = Fault::new(format!("`{other}` has no counterpart"))
                    .hint("read, write, randread, randwrite, rw and randrw have one");
                return Err(option.refuse(fault));
            }
        };
        Ok(Self { reads, writes, is_random })
    }

    const fn is_mix(self) -> bool {
        self.reads && self.writes
    }

    const fn pass(self) -> &'static str {
        match (self.writes, self.is_random) {
            (false, false) => "read",
            (false, true) => "random_read",
            (true, false) => "write",
            (true, true) => "random_write",
        }
    }
}

/// A job and its translation.
struct Translation<'a> {
    job: &'a FioJob,
    /// Directory to work in.
    directory: String,
    kb_base: u64,
    direction: Direction,
    is_timed: bool,
    /// Settings of both workloads, as keys and values of TOML.
    shared: Vec<(&'static str, String)>,
    /// Settings of ours only.
    own: Vec<(&'static str, String)>,
    backend: &'static str,
    /// Options without a counterpart, with the reason.
    missing: Vec<(&'a FioOption, &'static str)>,
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Returns the number of files in a list of names.
fn count_files(names: &str) -> u64 {
    names.replace("\\:", "").split(':').count() as u64
}

fn milliseconds(us: u64) -> String {
    quoted(&format!("{}ms", us.div_ceil(1000)))
}

impl<'a> Translation<'a> {
    /// Translates a job.
    fn make(job: &'a FioJob, request: &FioRequest<'_>) -> Result<Self, PlanError> {
        let mut translation = Self::new(job)?;
        translation.translate()?;
        translation.check(request.accepted)?;
        translation.directory = translation.find_directory(request.directory)?;
        Ok(translation)
    }

    fn new(job: &'a FioJob) -> Result<Self, PlanError> {
        let mut translation = Self {
            job,
            directory: String::new(),
            kb_base: 1024,
            direction: Direction { reads: true, writes: false, is_random: false },
            is_timed: false,
            shared: Vec::new(),
            own: Vec::new(),
            backend: "posix",
            missing: Vec::new(),
        };
        translation.direction = Direction::from_option(translation.find("rw"))?;
        if let Some(option) = translation.find("kb_base") {
            translation.kb_base = option.number()?;
            if ![1000, 1024].contains(&translation.kb_base) {
                return Err(option.refuse(Fault::new("write 1000 or 1024")));
            }
        }
        translation.is_timed = translation.switch("time_based")?;
        Ok(translation)
    }

    /// Returns the option of this name that counts.
    fn find(&self, key: &str) -> Option<&'a FioOption> {
        self.job.options.iter().rev().find(|option| option.key == key)
    }

    fn switch(&self, key: &str) -> Result<bool, PlanError> {
        self.find(key).map_or(Ok(false), FioOption::switch)
    }

    fn number(&self, key: &str, default: u64) -> Result<u64, PlanError> {
        self.find(key).map_or(Ok(default), FioOption::number)
    }

    /// Returns an option's number of bytes; `None` if it is left out or has several values, which
    /// have no counterpart.
    fn bytes(&mut self, key: &str, reason: &'static str) -> Result<Option<u64>, PlanError> {
        let Some(option) = self.find(key) else { return Ok(None) };
        if option.value.contains([',', '-', ':', '%', '/']) {
            self.missing.push((option, reason));
            return Ok(None);
        }
        option.bytes(self.kb_base).map(Some)
    }

    fn miss(&mut self, key: &str, reason: &'static str) {
        if let Some(option) = self.find(key) {
            self.missing.push((option, reason));
        }
    }

    fn translate(&mut self) -> Result<(), PlanError> {
        for option in &self.job.options {
            let is_last = self.find(&option.key).is_some_and(|last| last.line == option.line);
            match fio_option_role(&option.key) {
                Some(FioOptionRole::Refused) => {
                    let hint =
                        "remove it; a job is compared alone, without other programs, files or jobs";
                    let fault = Fault::new("is not used from a job file").hint(hint);
                    return Err(option.refuse(fault));
                }
                None if is_last => self.missing.push((option, "no counterpart")),
                _ => {}
            }
        }
        self.set_work()?;
        self.set_engine()?;
        self.set_durability()?;
        self.set_load()?;
        self.set_data()
    }

    /// Sets what is read and written, and for how long.
    fn set_work(&mut self) -> Result<(), PlanError> {
        let io_size = self.bytes("bs", "several block sizes")?.unwrap_or(4096).max(1);
        let jobs = self.number("numjobs", 1)?.max(1);
        let files = self.files_per_job()?;
        let size = self.bytes("size", "a share of the file system, or several sizes")?;
        let file_size = match self.bytes("filesize", "several file sizes")? {
            Some(bytes) => Some(bytes),
            None => size.map(|size| size / files),
        };
        let Some(file_size) = file_size else {
            if self.missing.is_empty() {
                let fault = Fault::new("size is missing").hint("write size=1g, or filesize");
                return Err(fault.at(position(self.job.line)));
            }
            return Ok(());
        };
        // fio rounds down as well: the part of a file below a block is left out.
        let file_size = file_size / io_size * io_size;
        if file_size == 0 {
            let fault = Fault::new(format!("a file has less than one block of {io_size} bytes"));
            return Err(fault.hint("make size larger or bs smaller").at(position(self.job.line)));
        }
        let total = file_size.saturating_mul(files).saturating_mul(jobs);
        if size.is_some_and(|size| size / files / io_size * io_size != file_size) {
            self.miss("filesize", "size is not that of all files");
        }
        self.shared.push(("workers", jobs.to_string()));
        self.own.push(("files", files.saturating_mul(jobs).to_string()));
        self.shared.push(("file_size", file_size.to_string()));
        self.shared.push(("io_size", io_size.to_string()));
        if self.number("loops", 1)? > 1 {
            self.miss("loops", "repetitions within a trial");
        }
        let mut limit = None;
        if let Some(bytes) = self.bytes("io_size", "several limits")? {
            let bytes = bytes.saturating_mul(jobs);
            if bytes > total {
                self.miss("io_size", "more than the files have");
            }
            limit = Some(bytes.min(total) / io_size * io_size);
        }
        let runtime = self.find("runtime").map(|it| it.time_us(1_000_000)).transpose()?;
        let runtime = runtime.filter(|us| *us > 0);
        if self.is_timed && runtime.is_none() {
            self.miss("time_based", "without a runtime");
        }
        let ramp = self.find("ramp_time").map_or(Ok(0), |it| it.time_us(1_000_000))?;
        if self.is_timed {
            if ramp > 0 {
                self.own.push(("warmup", milliseconds(ramp)));
            }
        } else if ramp > 0 {
            self.miss("ramp_time", "without time_based");
        }
        if self.is_timed || self.direction.is_mix() {
            let ends_by_time = runtime.map(milliseconds);
            self.own.push(("duration", ends_by_time.unwrap_or_else(|| quoted(DURATION_MAX))));
            if !self.is_timed {
                self.own.push(("ops", (limit.unwrap_or(total) / io_size).to_string()));
            } else if self.find("io_size").is_some() {
                self.miss("io_size", "with time_based");
            }
            self.set_mix()
        } else {
            self.shared.push(("passes", format!("[{}]", quoted(self.direction.pass()))));
            if let Some(bytes) = limit.filter(|bytes| *bytes < total) {
                self.own.push(("bytes", bytes.to_string()));
            }
            if let Some(us) = runtime {
                self.own.push(("time_max", milliseconds(us)));
            }
            self.miss("percentage_random", "of a job that is not a mix or time_based");
            if self.find("random_distribution").is_some_and(|it| it.value != "random") {
                self.miss("random_distribution", "of a job that is not a mix or time_based");
            }
            Ok(())
        }
    }

    /// Sets the shares of a mix.
    fn set_mix(&mut self) -> Result<(), PlanError> {
        let percent = |option: &FioOption| match option.number()? {
            percent @ 0..=100 => Ok(percent),
            other => {
                let fault = Fault::new(format!("`{other}` is not a percentage"));
                Err(option.refuse(fault.hint("write 0 to 100")))
            }
        };
        let reads = match self.direction {
            Direction { reads: true, writes: false, .. } => 100,
            Direction { reads: false, .. } => 0,
            _ => match (self.find("rwmixread"), self.find("rwmixwrite")) {
                (Some(reads), _) => percent(reads)?,
                (None, Some(writes)) => 100 - percent(writes)?,
                (None, None) => 50,
            },
        };
        let random = match self.find("percentage_random") {
            Some(option) => percent(option)?,
            None => {
                if self.direction.is_random {
                    100
                } else {
                    0
                }
            }
        };
        self.own.push(("read_percent", reads.to_string()));
        self.own.push(("random_percent", random.to_string()));
        let Some(option) = self.find("random_distribution") else { return Ok(()) };
        let theta = option.value.strip_prefix("zipf:").and_then(|it| it.parse::<f64>().ok());
        match theta.filter(|theta| (0.01..=3.0).contains(theta)) {
            Some(theta) => self.own.push(("skew", format!("{:.0}", theta * 100.0))),
            None if option.value == "random" => {}
            None => self.miss("random_distribution", "this distribution"),
        }
        Ok(())
    }

    /// Returns the number of files of each job.
    fn files_per_job(&mut self) -> Result<u64, PlanError> {
        let Some(option) = self.find("filename") else {
            return Ok(self.number("nrfiles", 1)?.max(1));
        };
        if option.value.starts_with("/dev/") || option.value == "-" {
            let hint = "name a file in a directory; dfsbench never writes to devices";
            let fault = Fault::new(format!("`{}` is not a file in a directory", option.value));
            return Err(option.refuse(fault.hint(hint)));
        }
        if self.number("numjobs", 1)? > 1 {
            self.missing.push((option, "several jobs in the same file"));
        }
        Ok(count_files(&option.value))
    }

    fn set_engine(&mut self) -> Result<(), PlanError> {
        let depth = self.number("iodepth", 1)?.max(1);
        let mut is_mapped = false;
        if let Some(option) = self.find("ioengine") {
            match option.value.as_str() {
                "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => {}
                "libaio" | "io_uring" | "posixaio" => self.backend = "uring",
                "mmap" => is_mapped = true,
                _ => {
                    let hint = "sync, psync, vsync, pvsync, pvsync2, mmap, libaio, posixaio and \
                                io_uring have one";
                    let fault = Fault::new(format!("`{}` has no counterpart", option.value));
                    return Err(option.refuse(fault.hint(hint)));
                }
            }
        }
        if self.backend == "uring" {
            self.own.push(("queue_depth", depth.to_string()));
        }
        if is_mapped {
            self.own.push(("mmap", "true".to_owned()));
        }
        let direct = match (self.find("direct"), self.find("buffered")) {
            (Some(option), _) => option.switch()?,
            (None, Some(option)) => !option.switch()?,
            (None, None) => false,
        };
        self.shared.push(("direct", direct.to_string()));
        // fio drops the files from the cache even before it writes.
        let invalidate = self.find("invalidate").map_or(Ok(true), FioOption::switch)?;
        self.own.push(("invalidate", invalidate.to_string()));
        Ok(())
    }

    fn set_durability(&mut self) -> Result<(), PlanError> {
        let mut durability = "none";
        if self.switch("end_fsync")? {
            durability = "sync";
        }
        for (key, level) in [("fdatasync", "dsync"), ("fsync", "osync")] {
            match self.number(key, 0)? {
                0 => {}
                1 => durability = level,
                _ => self.miss(key, "a sync after every few writes"),
            }
        }
        if let Some(option) = self.find("sync") {
            match option.value.as_str() {
                "none" | "0" => {}
                "dsync" => durability = "dsync",
                "sync" | "1" => durability = "osync",
                _ => return Err(option.refuse(Fault::new("write none, dsync or sync"))),
            }
        }
        if self.direction.writes {
            self.shared.push(("durability", quoted(durability)));
        }
        Ok(())
    }

    /// Sets limits of the load. Those of fio are for each job, ours for all of them.
    fn set_load(&mut self) -> Result<(), PlanError> {
        let jobs = self.number("numjobs", 1)?.max(1);
        for key in ["rate", "rate_iops"] {
            if self.direction.is_mix() {
                self.miss(key, "it applies to reads and writes of a mix separately");
            }
        }
        let is_one = |option: Option<&FioOption>| option.is_some_and(|it| !it.value.contains(','));
        if !self.direction.is_mix() {
            if let Some(bytes) = self.bytes("rate", "different rates of reads and writes")? {
                self.own.push(("bandwidth", bytes.saturating_mul(jobs).to_string()));
            }
            if is_one(self.find("rate_iops")) {
                let rate = self.number("rate_iops", 0)?.saturating_mul(jobs);
                let is_poisson = self.find("rate_process").is_some_and(|it| it.value == "poisson");
                let arrivals = if is_poisson { "poisson" } else { "constant" };
                self.own.push(("rate", rate.to_string()));
                self.own.push(("arrivals", quoted(arrivals)));
            } else {
                self.miss("rate_iops", "different rates of reads and writes");
            }
        }
        let thinks = self.find("thinktime").map_or(Ok(0), |it| it.time_us(1))?;
        if thinks > 0 {
            self.own.push(("think_time", quoted(&format!("{thinks}us"))));
        }
        Ok(())
    }

    fn set_data(&mut self) -> Result<(), PlanError> {
        if !self.direction.writes {
            return Ok(());
        }
        if self.switch("zero_buffers")? {
            self.own.push(("data", quoted("zeros")));
            return Ok(());
        }
        for (key, setting) in
            [("buffer_compress_percentage", "compress"), ("dedupe_percentage", "dedup")]
        {
            let percent = self.number(key, 0)?;
            if percent > 0 {
                self.own.push((setting, percent.to_string()));
            }
        }
        Ok(())
    }

    /// Returns the arguments that make fio do exactly what the job says. Defaults of fio undo what
    /// dfsbench passes by itself.
    fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut defaults = vec![
            ("rw", "read"),
            ("ioengine", "psync"),
            ("iodepth", "1"),
            ("fallocate", "native"),
            ("file_service_type", "roundrobin"),
        ];
        if !self.is_timed {
            defaults.push(("time_based", "0"));
        }
        if self.direction.is_mix() || self.is_timed {
            defaults.push(("runtime", "0"));
            defaults
                .push(("percentage_random", if self.direction.is_random { "100" } else { "0" }));
            defaults.push(("rwmixread", "50"));
        }
        for (key, value) in defaults {
            let is_set = self.find(key).is_some()
                || (key == "rwmixread" && self.find("rwmixwrite").is_some());
            if !is_set {
                words.push(format!("--{key}={value}"));
            }
        }
        if let Some(option) = self.find("filename") {
            words.push(format!("--nrfiles={}", count_files(&option.value)));
        }
        // Units depend on the base, so fio must read it first.
        let passed = |option: &&FioOption| {
            self.find(&option.key).is_some_and(|last| std::ptr::eq(last, *option))
                && !matches!(fio_option_role(&option.key), Some(FioOptionRole::Ignored))
        };
        let mut options: Vec<&FioOption> = self.job.options.iter().filter(passed).collect();
        options.sort_by_key(|option| option.key != "kb_base");
        words.extend(options.iter().map(|option| format!("--{}={}", option.key, option.value)));
        words
    }

    /// Refuses a job that would not be the same with both tools.
    fn check(&self, accepted: &[String]) -> Result<(), PlanError> {
        let is_accepted = |option: &FioOption| accepted.contains(&option.key);
        let mut not_translated: Vec<String> = Vec::new();
        let mut keys: Vec<&str> = Vec::new();
        for (option, reason) in &self.missing {
            if is_accepted(option) {
                continue;
            }
            not_translated.push(format!("{} (line {}: {reason})", option.key, option.line));
            keys.push(&option.key);
        }
        if let Some((first, _)) = self.missing.iter().find(|(option, _)| !is_accepted(option)) {
            let what = format!("not translated: {}", not_translated.join(", "));
            let hint =
                format!("remove them, or let only fio use them with --accept {}", keys.join(","));
            return Err(Fault::new(what).hint(hint).at(position(first.line)));
        }
        if !self.shared.iter().any(|(key, _)| *key == "file_size") {
            let fault = Fault::new("the size of its files is unknown");
            return Err(fault.hint("write size=1g").at(position(self.job.line)));
        }
        Ok(())
    }

    /// Returns the directory to work in.
    fn find_directory(&self, given: Option<&str>) -> Result<String, PlanError> {
        if let Some(directory) = given {
            return Ok(directory.to_owned());
        }
        if let Some(option) = self.find("directory") {
            if option.value.replace("\\:", "").contains(':') {
                let fault = Fault::new("several directories").hint("name one after the job file");
                return Err(option.refuse(fault));
            }
            return Ok(option.value.replace("\\:", ":"));
        }
        let file = self.find("filename").map(|it| it.value.as_str()).unwrap_or_default();
        match file.split(':').next().and_then(|first| first.rsplit_once('/')) {
            Some((directory, _)) if file.starts_with('/') && !directory.is_empty() => {
                Ok(directory.to_owned())
            }
            _ => {
                let fault = Fault::new("the job names no directory");
                let hint = "name one: dfsbench run --like FILE DIRECTORY";
                Err(fault.hint(hint).at(position(self.job.line)))
            }
        }
    }

    /// Writes the target and the workloads of both tools.
    fn write(&self, text: &mut String, target: &str, is_one_of_several: bool) {
        let _ = write!(
            text,
            "\n[[target]]\nname = {}\npath = {}\nbackend = \"{}\"\n",
            quoted(target),
            quoted(&self.directory),
            self.backend
        );
        for (option, reason) in &self.missing {
            let _ = writeln!(text, "# Only fio uses {}={}: {reason}.", option.key, option.value);
        }
        let only = if is_one_of_several {
            format!("targets = [{}]\n", quoted(target))
        } else {
            String::new()
        };
        let is_mix = self.is_timed || self.direction.is_mix();
        let _ = write!(
            text,
            "\n[[workload]]\nkind = \"{}\"\n{only}",
            if is_mix { "mixed" } else { "stream" }
        );
        for (key, value) in self.shared.iter().chain(&self.own) {
            let _ = writeln!(text, "{key} = {value}");
        }
        let _ = write!(text, "\n[[workload]]\nkind = \"fio\"\n{only}");
        for (key, value) in &self.shared {
            let _ = writeln!(text, "{key} = {value}");
        }
        if is_mix {
            text.push_str("passes = [\"mix\"]\n");
        }
        text.push_str("run = [\n");
        for word in self.arguments() {
            let _ = writeln!(text, "    {},", quoted(&word));
        }
        text.push_str("]\n");
    }
}
