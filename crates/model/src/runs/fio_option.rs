//! Options of fio's job files, by how dfsbench treats them when it does the same work.
//!
//! **Source:** fio(1) of fio 3.33, "JOB PARAMETERS".

/// How an option of a job file is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FioOptionRole {
    /// It has a counterpart among our settings; fio gets it as well.
    Translated,
    /// Only fio has it. The report names what it means for the result.
    FioOnly,
    /// It doesn't change the result, or only what fio prints, and is left out.
    Ignored,
    /// It is never used: it runs programs, reads other files, or makes fio do something else.
    Refused,
}

use FioOptionRole::{FioOnly, Ignored, Refused, Translated};

const OPTIONS: &[(FioOptionRole, &[&str])] = &[
    (
        Translated,
        &[
            "rw",
            "bs",
            "size",
            "io_size",
            "filesize",
            "nrfiles",
            "numjobs",
            "iodepth",
            "ioengine",
            "direct",
            "buffered",
            "sync",
            "fsync",
            "fdatasync",
            "end_fsync",
            "runtime",
            "time_based",
            "ramp_time",
            "rwmixread",
            "rwmixwrite",
            "percentage_random",
            "random_distribution",
            "rate",
            "rate_iops",
            "rate_process",
            "thinktime",
            "loops",
            "invalidate",
            "zero_buffers",
            "buffer_compress_percentage",
            "dedupe_percentage",
            "kb_base",
        ],
    ),
    (
        FioOnly,
        &[
            "norandommap",
            "refill_buffers",
            "scramble_buffers",
            "fallocate",
            "fadvise_hint",
            "file_service_type",
            "thread",
            "randrepeat",
            "allrandrepeat",
            "randseed",
            "random_generator",
            "overwrite",
            "fixedbufs",
            "registerfiles",
            "nonvectored",
            "mem",
            "create_serialize",
            "create_fsync",
        ],
    ),
    (
        Ignored,
        &[
            "name",
            "description",
            "directory",
            "filename",
            "filename_format",
            "group_reporting",
            "new_group",
            "stonewall",
            "startdelay",
            "exitall",
            "unlink",
            "log_avg_msec",
            "log_hist_msec",
            "log_max_value",
            "log_offset",
            "log_unix_epoch",
            "per_job_logs",
            "write_bw_log",
            "write_lat_log",
            "write_iops_log",
            "write_hist_log",
            "bwavgtime",
            "iopsavgtime",
            "disk_util",
            "disable_lat",
            "disable_clat",
            "disable_slat",
            "disable_bw_measurement",
            "lat_percentiles",
            "clat_percentiles",
            "slat_percentiles",
            "percentile_list",
            "significant_figures",
            "unit_base",
            "gtod_reduce",
            "unified_rw_reporting",
        ],
    ),
    (
        Refused,
        &[
            "include",
            "wait_for",
            "exec_prerun",
            "exec_postrun",
            "read_iolog",
            "write_iolog",
            "profile",
            "client",
            "flow",
            "steadystate",
        ],
    ),
];

/// Other names of options.
const ALIASES: [(&str, &str); 8] = [
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("timeout", "runtime"),
    ("nr_files", "nrfiles"),
    ("io_limit", "io_size"),
    ("iomem", "mem"),
    ("wait_for_previous", "stonewall"),
    ("steadystate_duration", "steadystate"),
];

/// Returns how an option is treated, or `None` if dfsbench has no counterpart of it.
pub fn fio_option_role(key: &str) -> Option<FioOptionRole> {
    OPTIONS.iter().find(|(_, keys)| keys.contains(&key)).map(|(role, _)| *role)
}

/// Returns the main name of an option.
pub fn fio_option_name(key: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_one_role() {
        let mut keys: Vec<&str> =
            OPTIONS.iter().flat_map(|(_, keys)| keys.iter().copied()).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
        for (alias, name) in ALIASES {
            assert!(fio_option_role(name).is_some() && fio_option_role(alias).is_none(), "{alias}");
        }
    }
}
