//! Built-in plans, which can be run by name; `dfsbench preset` lists and prints them.
//!
//! Their text is included from `presets/`, so users can read and copy exactly what is run.

use std::path::Path;
use std::process::ExitCode;

use crate::exit::{End, Failure};
use crate::terminal::output;

/// Includes a plan from `presets/`.
macro_rules! preset {
    ($name:literal) => {
        Preset { name: $name, text: include_str!(concat!("../../presets/", $name, ".toml")) }
    };
}

/// The plan that is run if none is named.
pub(crate) const QUICK: Preset = preset!("quick");

/// A built-in plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    pub text: &'static str,
}

impl Preset {
    /// All presets.
    pub(crate) const ALL: [Self; 37] = [
        QUICK,
        preset!("seed-000"),
        preset!("seed-001"),
        preset!("seed-002"),
        preset!("seed-003"),
        preset!("seed-004"),
        preset!("app"),
        preset!("backup"),
        preset!("bonnie"),
        preset!("checkpoint"),
        preset!("cloud-azure-files"),
        preset!("cloud-efs"),
        preset!("cloud-filestore"),
        preset!("cloud-fsx"),
        preset!("cloud-netapp"),
        preset!("contenders"),
        preset!("copies"),
        preset!("database"),
        preset!("developer"),
        preset!("developer-options"),
        preset!("developer-tools"),
        preset!("io500-shape"),
        preset!("iozone"),
        preset!("kernel-features"),
        preset!("kv-cache"),
        preset!("listing"),
        preset!("media"),
        preset!("metadata"),
        preset!("model-load"),
        preset!("neighbors"),
        preset!("nfsd-io"),
        preset!("op-mix"),
        preset!("read-write-steps"),
        preset!("training"),
        preset!("transactions"),
        preset!("vm-boot"),
        preset!("vm-images"),
    ];

    /// Finds a preset by its name or by its path in this repository. An existing file or directory
    /// of that name takes precedence.
    pub(crate) fn find_by_name(text: &str) -> Option<Self> {
        if Path::new(text).exists() { None } else { Self::find_by_path(text) }
    }

    /// Finds a preset by its path, whether or not that file exists.
    fn find_by_path(text: &str) -> Option<Self> {
        let name = bare_name(text);
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }

    /// Returns the first sentence of the plan's comment, without the name.
    fn title(&self) -> String {
        let mut comment = String::new();
        for line in self.text.lines() {
            let Some(part) = line.strip_prefix("# ") else { break };
            comment.push_str(part);
            comment.push(' ');
        }
        let (_, about) = comment.split_once(": ").unwrap_or(("", &comment));
        // Some titles are questions. A colon or semicolon ends the sentence as well.
        let end = about.find([';', '?']).or_else(|| about.find(". ")).unwrap_or(about.len());
        let end = if about[end..].starts_with('?') { end + 1 } else { end };
        about[..end].trim().trim_end_matches('.').to_owned()
    }
}

/// Returns the name of a preset without folder and extension.
fn bare_name(text: &str) -> &str {
    let name = text.strip_prefix("presets/").unwrap_or(text);
    name.strip_suffix(".toml").unwrap_or(name)
}

/// Lists the presets, or prints the plan of one.
pub(crate) fn run(name: Option<&str>) -> Result<ExitCode, Failure> {
    if let Some(name) = name {
        for preset in Preset::ALL {
            if name == preset.name {
                output::text(preset.text)?;
            }
        }
    } else {
        let titles = Preset::ALL.map(|preset| (preset.name, preset.title()));
        let listed: Vec<_> = titles.iter().map(|(name, title)| (*name, title.as_str())).collect();
        output::text(&output::name_list(&listed))?;
        output::message("`dfsbench run NAME` runs one, `dfsbench preset NAME` prints it to copy");
    }
    Ok(End::Ok.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{BackendKind, DataPath, FileSystem, LabSpec, NfsVersion, Proto, RunSpec, Workload};
    use plan::{Overrides, Plan, RawPlan, Surroundings};

    fn around() -> Surroundings {
        Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 1, job: None }
    }

    #[test]
    fn has_no_idle_settings_in_presets() {
        for preset in Preset::ALL {
            let plan = scaled(preset.name, None);
            assert_eq!(plan.name, preset.name);
            assert_eq!(plan.without_effect, [], "{}", preset.name);
            let impossible = plan.runs.iter().filter(|run| run.impossible().is_some()).count();
            let expected = match preset.name {
                // Impossible: in v2 all files of 4 GiB, in v4 everything over UDP.
                "seed-001" => 2 * (2 + 2) + 2 * 4,
                // Impossible: in v2 transfers larger than 8 KiB, in v4.1 everything over UDP. Each
                // for two file sizes and two kinds of export.
                "seed-002" => 2 * 2 * (2 + 3),
                _ => 0,
            };
            assert_eq!(impossible, expected, "{}", preset.name);
        }
    }

    #[test]
    fn finds_presets_by_path() {
        for preset in Preset::ALL {
            let title = preset.title();
            assert!((20..=100).contains(&title.chars().count()), "{}: {title}", preset.name);
            assert!(!title.contains(preset.name) || title.contains(' '), "{title}");
            let path = format!("presets/{}.toml", preset.name);
            // The tests of this crate run in a directory that contains such a file.
            assert_eq!(Preset::find_by_path(&path).unwrap().name, preset.name);
        }
        assert!(Preset::find_by_name("presets/none.toml").is_none());
    }

    /// Resolves the plan of a preset, scaled if a factor is given.
    fn scaled(name: &str, scale: Option<&str>) -> Plan {
        let preset = Preset::ALL.into_iter().find(|preset| preset.name == name).unwrap();
        let mut raw = RawPlan::parse(preset.text, name).unwrap();
        let scale = scale.map(str::to_owned);
        raw.apply(&Overrides { scale, ..Overrides::default() }).unwrap();
        Plan::resolve(&raw, &around()).unwrap()
    }

    fn runs(name: &str) -> Plan {
        scaled(name, None)
    }

    fn lab(run: &RunSpec) -> &LabSpec {
        run.lab.as_deref().unwrap()
    }

    /// Counts the runs that match a predicate.
    fn count(plan: &Plan, is_so: impl Fn(&RunSpec) -> bool) -> usize {
        plan.runs.iter().filter(|run| is_so(run)).count()
    }

    fn mib(run: &RunSpec) -> u64 {
        run.file_size_bytes >> 20
    }

    /// Matches a workload over NFS with the given file size and version.
    fn is_nfs(run: &RunSpec, workload: Workload, size: u64, version: NfsVersion) -> bool {
        let over_nfs = lab(run).path == DataPath::Network && run.nfs().version == version;
        run.workload == workload && over_nfs && mib(run) == size
    }

    #[test]
    fn has_all_rows_of_seed_000() {
        let plan = runs("seed-000");
        let v2 = NfsVersion::V2;
        let v3 = NfsVersion::V3;
        let on_disk = |run: &RunSpec, workload, size| {
            lab(run).path == DataPath::Disk && run.workload == workload && mib(run) == size
        };
        for size in [100, 1_000, 2_000] {
            for file_system in
                [FileSystem::Ext2, FileSystem::Ext3, FileSystem::Ext4, FileSystem::Xfs]
            {
                let rows = count(&plan, |run| {
                    on_disk(run, Workload::Stream, size)
                        && lab(run).storage.file_system == file_system
                });
                assert_eq!(rows, 1, "local baseline, {file_system}, {size} MB");
            }
            for version in [v2, v3] {
                for clients in [1, 2, 5, 10] {
                    let rows = count(&plan, |run| {
                        is_nfs(run, Workload::Stream, size, version)
                            && run.agents() == clients
                            && lab(run).serving.threads.max == 8
                    });
                    assert_eq!(rows, 2, "{clients} clients, v{version}, {size} MB, two kernels");
                }
            }
            for threads in [8, 16] {
                let rows = count(&plan, |run| {
                    is_nfs(run, Workload::Stream, size, v2)
                        && run.agents() == 2
                        && lab(run).serving.threads.max == threads
                        && run.target_name == "nfs"
                });
                assert_eq!(rows, 1, "{threads} nfsd, {size} MB");
            }
        }
        for size in [100, 500, 1_000, 2_000] {
            let rows = count(&plan, |run| on_disk(run, Workload::Bonnie, size));
            assert_eq!(rows, 1, "local baseline, bonnie, {size} MB");
        }
        for size in [10, 100, 250, 500, 1_000, 2_000] {
            for (version, mtu) in [(v2, 1_500), (v2, 9_000), (v3, 9_000)] {
                let rows = count(&plan, |run| {
                    is_nfs(run, Workload::Bonnie, size, version)
                        && lab(run).tuning.mtu_bytes == Some(mtu)
                });
                assert_eq!(rows, 1, "bonnie, v{version}, MTU {mtu}, {size} MB");
            }
        }
        let postmark = count(&plan, |run| run.workload == Workload::Transactions);
        // Disk, v2 and v3.
        assert_eq!(postmark, 3);
        // The tables without duplicates: nfsd with 8 threads is also one of the runs with two
        // clients.
        assert_eq!(plan.runs.len(), 4 * 3 + 4 + 6 * 2 * 2 + 3 + 2 * 4 * 2 * 3 + 3);
        assert!(plan.runs.iter().all(|run| lab(run).fresh == model::Fresh::Pass));
        // All files are small enough for v2.
        assert!(plan.runs.iter().all(|run| run.file_size_bytes < 1 << 31));
    }

    #[test]
    fn has_all_rows_of_seed_001() {
        let plan = runs("seed-001");
        assert!(plan.runs.iter().all(|run| mib(run) == 4_096 && run.io_size_bytes == 4_096));
        let rows = |path, version, proto| {
            count(&plan, |run| {
                lab(run).path == path && run.nfs().version == version && run.nfs().proto == proto
            })
        };
        assert_eq!(count(&plan, |run| lab(run).path == DataPath::Disk), 1);
        for version in [NfsVersion::V2, NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_2] {
            for proto in [Proto::Udp, Proto::Tcp] {
                assert_eq!(rows(DataPath::Loopback, version, proto), 1);
                assert_eq!(rows(DataPath::Network, version, proto), 1);
                // With and without ssh -C.
                assert_eq!(rows(DataPath::Tunnel, version, proto), 2);
            }
        }
        assert_eq!(plan.runs.len(), 1 + 8 + 8 + 2 * 8);
    }

    #[test]
    fn has_all_rows_of_seed_002() {
        let plan = runs("seed-002");
        assert_eq!((plan.trials, plan.repetition.discard), (7, model::Discard::Extremes));
        assert!(plan.runs.iter().all(|run| run.io_size_bytes == 1_024));
        for (version, proto) in [(NfsVersion::V2, Proto::Udp), (NfsVersion::V3, Proto::Tcp)] {
            for transfer in [None, Some(8 << 10), Some(32 << 10)] {
                for size in [1, 100] {
                    let rows = count(&plan, |run| {
                        let nfs = run.nfs();
                        (nfs.version, nfs.proto) == (version, proto)
                            && run.transfer_size_bytes == transfer
                            && mib(run) == size
                    });
                    // Synchronous and asynchronous exports.
                    assert_eq!(rows, 2, "v{version} {proto} {transfer:?} {size} MB");
                }
            }
        }
        assert_eq!(plan.runs.len(), 3 * 2 * 3 * 2 * 2);
    }

    #[test]
    fn has_all_rows_of_seed_003() {
        let plan = runs("seed-003");
        assert_eq!(plan.trials, 11);
        let streams = |run: &RunSpec| run.workload == Workload::Stream;
        assert!(plan.runs.iter().filter(|run| streams(run)).all(|run| mib(run) == 20));
        assert!(plan.runs.iter().all(|run| lab(run).tuning.rate_bits_per_s == Some(100_000_000)));
        let kinds = [(NfsVersion::V2, 8), (NfsVersion::V3, 8), (NfsVersion::V3, 32)];
        for (version, transfer) in kinds {
            for proto in [Proto::Udp, Proto::Tcp] {
                let is_row = |run: &RunSpec, backend| {
                    let nfs = run.nfs();
                    streams(run)
                        && run.backend == backend
                        && (nfs.version, nfs.proto) == (version, proto)
                        && run.transfer_size_bytes == Some(transfer << 10)
                };
                for mtu in [1_500, 4_352] {
                    for read_ahead in [1, 5] {
                        let of_link = |run: &RunSpec| lab(run).tuning.mtu_bytes == Some(mtu);
                        let ours = count(&plan, |run| {
                            is_row(run, BackendKind::Nfs)
                                && of_link(run)
                                && run.nfs().read_ahead == read_ahead
                        });
                        let kernels = count(&plan, |run| {
                            let kib = lab(run).mounting.read_ahead_kib;
                            is_row(run, BackendKind::Posix)
                                && of_link(run)
                                && kib == Some(read_ahead * transfer)
                        });
                        // The kernel's server and ours.
                        assert_eq!(
                            [ours, kernels],
                            [2, 2],
                            "v{version} {transfer} KiB {proto} {mtu}"
                        );
                    }
                }
                for read_ahead in 0..=8 {
                    let rows = count(&plan, |run| {
                        is_row(run, BackendKind::Nfs)
                            && lab(run).tuning.mtu_bytes == Some(1_500)
                            && lab(run).serving.kind == model::ServerKind::Own
                            && run.nfs().read_ahead == read_ahead
                    });
                    assert_eq!(
                        rows, 1,
                        "v{version} {transfer} KiB {proto}, read-ahead {read_ahead}"
                    );
                }
            }
        }
        assert_eq!(count(&plan, |run| run.workload == Workload::OpMix), 2 * 5);
        // The rows for read-ahead 1 and 5 are already included.
        assert_eq!(plan.runs.len(), 3 * 2 * 2 * 2 * 2 * 2 + 3 * 2 * 7 + 10);
    }

    #[test]
    fn has_all_rows_of_seed_004() {
        let plan = runs("seed-004");
        assert!(plan.runs.iter().all(|run| run.direct && run.duration_ms == 30_000));
        let mix = 3 * 2 * 2 * 9;
        for disk in ["disk.1", "disk.2", "disk.3", "disk.4", "disk.5", "disk"] {
            assert_eq!(count(&plan, |run| run.target_name == disk), mix, "{disk}");
        }
        let at_once = plan.runs.iter().find(|run| run.target_name == "disk").unwrap();
        assert_eq!((at_once.target.paths().len(), at_once.files), (5, 5));
        for khz in [1_800_000, 2_400_000] {
            for transfer in [32 << 10, 1 << 20] {
                let rows = count(&plan, |run| {
                    lab(run).tuning.cpu_khz == Some(khz)
                        && run.transfer_size_bytes == Some(transfer)
                        && lab(run).storage.crypt
                        && lab(run).storage.raid == model::Raid::Raid5
                });
                assert_eq!(rows, mix, "{khz} kHz, {transfer}");
            }
        }
        let levels = count(&plan, |run| lab(run).storage.chunk_bytes.is_some());
        assert_eq!(levels, 4 * 2 * 2 * (3 * 2 * 2 * 2));
        assert_eq!(
            plan.runs.len(),
            6 * mix + 4 * mix + levels,
            "differs from the plan's first lines"
        );
        assert_eq!(plan.destroys().len(), 5);
        let hours = plan::estimate(&plan).duration_ms / 3_600_000;
        assert_eq!(hours, 23, "differs from the plan's first lines");
    }

    #[test]
    fn varies_each_kernel_feature() {
        let plan = runs("kernel-features");
        let features = |run: &RunSpec| {
            let LabSpec { serving, mounting, .. } = lab(run);
            let feature = [mounting.localio, serving.delegations, mounting.directory_delegations];
            (feature, mounting.nfs.nconnect, mounting.read_ahead_kib)
        };
        for workload in [Workload::Stream, Workload::OpMix] {
            for switch in 0..3 {
                for is_on in [true, false] {
                    let rows = count(&plan, |run| {
                        run.workload == workload && features(run).0[switch] == Some(is_on)
                    });
                    // LOCALIO is only varied on the server itself, the others only between hosts.
                    assert_eq!(rows, if switch == 0 { 1 } else { 8 }, "{workload} {switch}");
                }
            }
            for (connections, kib) in [(1, 128), (1, 15_360), (4, 128), (4, 15_360)] {
                let rows = count(&plan, |run| {
                    let (_, nconnect, read_ahead) = features(run);
                    run.workload == workload && (nconnect, read_ahead) == (connections, Some(kib))
                });
                assert_eq!(rows, 4, "{workload}, nconnect {connections}, read-ahead {kib} KiB");
            }
        }
        assert_eq!(plan.runs.len(), 2 * (16 + 2));
        assert_eq!(scaled("kernel-features", Some("0.01")).without_effect, []);
    }

    #[test]
    fn scales_seed_to_hundredth() {
        for name in ["seed-000", "seed-001", "seed-002", "seed-003", "seed-004"] {
            let whole = runs(name);
            let small = scaled(name, Some("0.01"));
            // At one percent, files of 10 and 100 MB become the same size: 1 MiB of 8 KiB each.
            assert_eq!(small.without_effect, [], "{name}");
            let whole_cost = plan::estimate(&whole);
            let small_cost = plan::estimate(&small);
            assert!(small_cost.duration_ms < whole_cost.duration_ms, "{name}");
            // Matrices of more than a hundred runs only keep those needed to cover each pair of
            // levels.
            let all = whole.runs.len();
            assert_eq!(small.runs.len() < all, all > 100, "{name}");
            assert!(small.runs.len() >= all.min(100), "{name}");
            let minutes = small_cost.duration_ms / 60_000;
            assert!(minutes < 60, "{name}: {minutes}");
        }
        let bytes = |plan: &Plan| plan::estimate(plan).bytes_written;
        let share = bytes(&runs("seed-000")) / bytes(&scaled("seed-000", Some("1%")));
        assert!((90..=101).contains(&share), "{share}");
    }

    #[test]
    fn matches_sizes_of_bonnie_tables() {
        let sizes: Vec<_> = runs("bonnie").runs.iter().map(|run| run.set_bytes() >> 20).collect();
        assert_eq!(sizes, [10, 100, 250, 500, 1_000]);
    }

    #[test]
    fn reads_scaled_presets_back() {
        for preset in Preset::ALL {
            for scale in [None, Some("0.02")] {
                let plan = scaled(preset.name, scale);
                let again = RawPlan::parse(&plan.to_toml(), preset.name).unwrap();
                let again = Plan::resolve(&again, &around()).unwrap();
                // A killed campaign is only resumed if its plan gives the same runs again.
                assert!(plan.runs == again.runs, "{} {scale:?}", preset.name);
            }
        }
    }
}
