//! Jobs of fio as plans: what each option becomes, and what is refused.

use plan::{FioRequest, Plan, PlanError, RawPlan, Surroundings, plan_like_fio};

fn around() -> Surroundings {
    Surroundings { temp_dir: "/tmp".into(), uid: 7, gid: 8, seed: 9, job: None }
}

fn request(text: &str) -> FioRequest<'_> {
    FioRequest {
        text,
        source_name: "job.fio",
        sections: &[],
        accepted: &[],
        directory: Some("/mnt/data"),
    }
}

/// Lines of our workload and those of fio's, after the plan was resolved.
fn translated(request: &FioRequest<'_>) -> [Vec<String>; 2] {
    let toml = plan_like_fio(request).unwrap().toml;
    let raw = RawPlan::parse(&toml, "made").unwrap_or_else(|error| panic!("{error}\n{toml}"));
    let plan = Plan::resolve(&raw, &around()).unwrap();
    assert_eq!(plan.runs.len(), 2, "{toml}");
    assert!(plan.without_effect.is_empty(), "{:?}", plan.without_effect);
    let mut parts = toml.split("[[workload]]\n").skip(1);
    let lines = |part: Option<&str>| part.unwrap().lines().map(|it| it.trim().to_owned()).collect();
    [lines(parts.next()), lines(parts.next())]
}

fn refusal(request: &FioRequest<'_>) -> String {
    plan_like_fio(request).map_or_else(|error: PlanError| error.to_string(), |plan| plan.toml)
}

#[test]
fn translates_jobs_of_all_kinds() {
    // Job, lines of ours, arguments of fio.
    let cases: [(&str, &[&str], &[&str]); 9] = [
        (
            // A database: random reads with a queue.
            "[global]\nioengine=libaio\ndirect=1\niodepth=32\n[oltp]\nrw=randread\nbs=8k\nsize=1g\n\
             numjobs=4\ngroup_reporting\nname=x\n",
            &[
                "kind = \"stream\"",
                "passes = [\"random_read\"]",
                "workers = 4",
                "files = 4",
                "file_size = 1073741824",
                "io_size = 8192",
                "queue_depth = 32",
                "direct = true",
            ],
            &["\"--ioengine=libaio\",", "\"--iodepth=32\",", "\"--numjobs=4\","],
        ),
        (
            // A log: each write is synced.
            "[wal]\nreadwrite=write\nblocksize=4k\nsize=64m\nfdatasync=1\n",
            &["passes = [\"write\"]", "durability = \"dsync\"", "io_size = 4096"],
            &["\"--rw=write\",", "\"--fdatasync=1\",", "\"--fallocate=native\","],
        ),
        (
            // A backup: whole files, synced at the end.
            "[backup]\nrw=write\nbs=1m\nsize=100m\nnrfiles=4\nend_fsync=1\nzero_buffers\n",
            &["files = 4", "file_size = 26214400", "durability = \"sync\"", "data = \"zeros\""],
            &["\"--nrfiles=4\",", "\"--zero_buffers=1\","],
        ),
        (
            // A mix for a time, with a ramp.
            "[mix]\nrw=randrw\nrwmixwrite=30\nsize=1g\ntime_based\nruntime=2m\nramp_time=10\n",
            &[
                "kind = \"mixed\"",
                "read_percent = 70",
                "random_percent = 100",
                "duration = \"120000ms\"",
                "warmup = \"10000ms\"",
                "durability = \"none\"",
            ],
            &["\"--runtime=2m\",", "\"--ramp_time=10\",", "passes = [\"mix\"]"],
        ),
        (
            // A mix that ends with its blocks.
            "[mix]\nrw=rw\nsize=1m\nbs=4k\nnumjobs=2\n",
            &["ops = 512", "duration = \"24h\"", "random_percent = 0", "read_percent = 50"],
            &["\"--time_based=0\",", "\"--runtime=0\","],
        ),
        (
            "[limits]\nrw=read\nsize=8m\nbs=64k\nio_size=4m\nruntime=5\nrate=1m\nnumjobs=2\nthinktime=50\n",
            &[
                "bytes = 8388608",
                "time_max = \"5000ms\"",
                "bandwidth = 2097152",
                "think_time = \"50us\"",
            ],
            &["\"--io_size=4m\",", "\"--rate=1m\","],
        ),
        (
            "[open]\nrw=randread\nsize=8m\nrate_iops=100\nrate_process=poisson\nnumjobs=3\n",
            &["rate = 300", "arrivals = \"poisson\""],
            &["\"--rate_iops=100\","],
        ),
        (
            "[names]\nrw=randread\nfilename=/mnt/x/a:/mnt/x/b\nsize=8m\nioengine=mmap\ninvalidate=0\n",
            &["files = 2", "file_size = 4194304", "mmap = true", "invalidate = false"],
            &["\"--nrfiles=2\",", "\"--invalidate=0\","],
        ),
        (
            "[units]\nkb_base=1000\nrw=randwrite\nbs=4KiB\nsize=1m\nbuffer_compress_percentage=50\n",
            &["io_size = 4096", "file_size = 999424", "compress = 50"],
            &["\"--kb_base=1000\","],
        ),
    ];
    for (text, own, fio) in cases {
        let [our_lines, fio_lines] = translated(&request(text));
        for line in own {
            assert!(our_lines.iter().any(|it| it == line), "{line} is not in {our_lines:#?}");
        }
        for line in fio {
            assert!(fio_lines.iter().any(|it| it == line), "{line} is not in {fio_lines:#?}");
        }
    }
}

#[test]
fn gives_fio_nothing_that_only_prints() {
    let text = "[a]\nrw=read\nsize=1m\nwrite_bw_log=x\nfilename=/etc/passwd\ndirectory=/etc\n\
                group_reporting\n";
    let [_, lines] = translated(&request(text));
    for word in ["log", "passwd", "directory", "group"] {
        assert!(!lines.iter().any(|line| line.contains(word)), "{word}: {lines:#?}");
    }
}

#[test]
fn directory_is_the_jobs_by_default() {
    let of = |text| {
        let toml = plan_like_fio(&FioRequest { directory: None, ..request(text) }).unwrap().toml;
        toml.lines().find(|line| line.starts_with("path")).unwrap().to_owned()
    };
    assert_eq!(of("[a]\nsize=1m\ndirectory=/mnt/a\n"), "path = \"/mnt/a\"");
    assert_eq!(of("[a]\nsize=1m\nfilename=/mnt/b/f\n"), "path = \"/mnt/b\"");
}

#[test]
fn compares_each_job_alone() {
    let text = "[global]\nsize=1m\n[log write]\nrw=write\n[mix]\nstonewall\nrw=randrw\n[mix]\n\
                stonewall\nioengine=libaio\n";
    let made = plan_like_fio(&request(text)).unwrap();
    assert_eq!(made.note, None);
    let raw = RawPlan::parse(&made.toml, "made").unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::resolve(&raw, &around()).unwrap();
    assert!(plan.without_effect.is_empty(), "{:?}", plan.without_effect);
    let run = |it: &model::RunSpec| format!("{} {} {}", it.target_name, it.workload, it.backend);
    let runs: Vec<String> = plan.runs.iter().map(run).collect();
    let jobs = ["log_write stream posix", "mix mixed posix", "mix.2 stream uring"];
    let fio = ["log_write fio posix", "mix fio posix", "mix.2 fio uring"];
    assert_eq!(runs, jobs.iter().zip(fio).flat_map(|(ours, fio)| [*ours, fio]).collect::<Vec<_>>());
    let only = ["mix".to_owned()];
    let made = plan_like_fio(&FioRequest { sections: &only, ..request(text) }).unwrap();
    assert!(!made.toml.contains("log"), "{}", made.toml);
    let parallel = plan_like_fio(&request("[a]\nsize=1m\n[b]\nsize=1m\n")).unwrap();
    let note = parallel.note.unwrap();
    assert!(note.contains("`a` and `b` at the same time"), "{note}");
    assert!(parallel.toml.contains(&note));
}

#[test]
fn accepted_options_go_to_fio_only() {
    let accepted = ["bssplit".to_owned()];
    let text = "[a]\nrw=randread\nsize=1m\nbssplit=4k/50:64k/50\n";
    let [own, fio] = translated(&FioRequest { accepted: &accepted, ..request(text) });
    assert!(fio.contains(&"\"--bssplit=4k/50:64k/50\",".to_owned()), "{fio:?}");
    assert!(!own.iter().any(|line| line.contains("split")));
}

#[test]
fn refuses_what_has_no_counterpart() {
    let jobs = "[a]\nsize=1m\n[b]\nsize=1m\n";
    let of = |text| refusal(&request(text));
    let none = refusal(&FioRequest { directory: None, ..request("[a]\nsize=1m\n") });
    let unknown = ["c".to_owned()];
    let other = refusal(&FioRequest { sections: &unknown, ..request(jobs) });
    let accepted = ["bs".to_owned()];
    let useless = refusal(&FioRequest { accepted: &accepted, ..request("[a]\nsize=1m\n") });
    let messages = [
        of("[a]\nsize=1m\n[b]\nrw=trim\nsize=1m\n[c]\nsize=1m\nwait_for=b\n"),
        other,
        none,
        useless,
        of("[a]\nrw=randread\nsize=1m\nbssplit=4k/50:64k/50\nverify=crc32c\ncpus_allowed=0\n"),
        of("[a]\nrw=trim\nsize=1m\n"),
        of("[a]\nioengine=rbd\nsize=1m\n"),
        of("[a]\nfilename=/dev/sda\nsize=1m\n"),
        of("[a]\nfilename=f\nnumjobs=2\nsize=1m\n"),
        of("[a]\nsize=50%\n"),
        of("[a]\nrw=read\n"),
        of("[a]\nsize=1k\nbs=4k\n"),
        of("[a]\nsize=1m\nexec_prerun=reboot\n"),
        of("[a]\nsize=1m\nwait_for=b\n"),
        of("[a]\nsize=1m\nrw=randrw\nrate_iops=100\n"),
        of("[a]\nsize=1m\ntime_based\n"),
        of("[a]\nsize=1m\nfsync=32\nrw=write\n"),
        of("[a]\nsize=1m\nruntime=soon\n"),
        of("[a]\nsize=1m\nrw=rw\nrwmixread=170\n"),
        of("[a]\nsize=1m\niodepth=many\n"),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn foreign_bytes_never_panic() {
    let seed = "[global]\nbs=4k,8k\nsize=1g\n[a]\nrw=randrw\nrate=1m\nfilename=/x:/y\nruntime=3\n";
    let mut bytes = seed.as_bytes().to_vec();
    for round in 0..3000_u64 {
        let at = model::random::draw(7, 2 * round) as usize % bytes.len();
        bytes[at] = model::random::draw(7, 2 * round + 1) as u8;
        if round % 40 == 0 {
            bytes = seed.as_bytes().to_vec();
        }
        let text = String::from_utf8_lossy(&bytes);
        // What is accepted must be a plan, or be refused as one.
        if let Ok(made) = plan_like_fio(&request(&text)) {
            let _ = RawPlan::parse(&made.toml, "made")
                .map(|raw| Plan::resolve(&raw, &around()).map(|plan| plan.runs.len()));
        }
    }
}
