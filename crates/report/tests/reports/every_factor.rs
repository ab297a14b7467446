//! No format may lose a factor: each setting is varied separately, and every format is searched for
//! it.

use model::setting::{Kind, Setting, Value};
use model::{
    Arrivals, BackendKind, Campaign, FileSystem, Host, LabSpec, NfsVersion, Pass, Proto, Raid,
    RunSpec, Sharing, Target, Workload,
};
use report::{Format, render};

use crate::campaigns::{made, spec};

/// Runs that together depend on every setting.
fn bases() -> Vec<RunSpec> {
    let mut bases = Vec::new();
    for workload in Workload::ALL.iter().copied().filter(|workload| !workload.is_external()) {
        for (name, backend) in [("posix", BackendKind::Posix), ("nfs", BackendKind::Nfs)] {
            let mut run = spec(name, backend, workload);
            run.placement.hosts = ["a", "b", "c", "a:2", "b:2"].map(Host::local).to_vec();
            run.layout.sharing = Sharing::Shared;
            run.tree.depth = 1;
            bases.push(run.clone());
            run.passes = vec![Pass::Write, Pass::StrideRead];
            run.load.rate_per_s = 100;
            if let Target::Nfs(nfs) = &mut run.target {
                nfs.settings.proto = Proto::Udp;
            }
            bases.push(run.clone());
            // Copies within the server exist since v4.2, delegations since v4.1, and a policy needs
            // several connections.
            if let Target::Nfs(nfs) = &mut run.target {
                nfs.settings.nconnect = 2;
                nfs.settings.proto = Proto::Tcp;
                nfs.settings.version = NfsVersion::V4_2;
            }
            bases.push(run.clone());
            if let Target::Nfs(nfs) = &mut run.target {
                nfs.settings.version = NfsVersion::V4_1;
            }
            bases.push(run);
        }
    }
    let mut lab = LabSpec::new(Host::local("s"), Host::local("c"));
    lab.storage.file_system = FileSystem::Ext4;
    for path in ["network", "tunnel"] {
        let mut run = spec("posix", BackendKind::Posix, Workload::Stream);
        lab.path = model::DataPath::from_name(path).unwrap();
        run.lab = Some(Box::new(lab.clone()));
        bases.push(run);
    }
    // Delegations need sessions, and their timestamps need v4.2.
    let mut run = spec("posix", BackendKind::Posix, Workload::Stream);
    let mut with_v4_2 = lab.clone();
    with_v4_2.mounting.nfs.version = NfsVersion::V4_2;
    run.lab = Some(Box::new(with_v4_2));
    bases.push(run);
    // A system has its own settings.
    let mut run = spec("posix", BackendKind::Posix, Workload::Stream);
    let recipe = model::system::Recipe::default();
    let system = model::System { source: "s".to_owned(), recipe, ..model::System::default() };
    run.lab = Some(Box::new(LabSpec { system: Some(Box::new(system)), ..lab.clone() }));
    bases.push(run);
    // An encrypted array has chunks and a cipher.
    let mut run = spec("posix", BackendKind::Posix, Workload::Stream);
    lab.storage.raid = Raid::Raid5;
    lab.storage.crypt = true;
    run.lab = Some(Box::new(lab));
    bases.push(run);
    bases
}

fn two_levels(setting: Setting) -> [Value; 2] {
    if setting == Setting::ClientHosts {
        return [Value::Number(3), Value::Number(2)];
    }
    if setting == Setting::ObjectSize {
        return ["4MiB", "8MiB"].map(|size| Value::Text(size.to_owned()));
    }
    if setting == Setting::FileSize {
        return [Value::Number(64 << 20), Value::Number(128 << 20)];
    }
    if let Some(range) = setting.range() {
        // Neither is a default, and both are displayed exactly.
        return [Value::Number(range.min + 2), Value::Number(range.min + 3)];
    }
    match setting.kind() {
        Kind::Flag => [Value::Flag(false), Value::Flag(true)],
        Kind::Word => [Value::Word(setting.words()[0]), Value::Word(setting.words()[1])],
        Kind::Passes => [Value::Passes(vec![Pass::Write]), Value::Passes(vec![Pass::Read])],
        Kind::Words => ["a=1", "b=2"].map(|word| Value::Words(vec![word.to_owned()])),
        _ => ["cubic", "reno"].map(|name| Value::Text(name.to_owned())),
    }
}

/// Returns a campaign of two runs that differ in one setting, on which both depend.
fn varied(setting: Setting) -> Campaign {
    for base in bases() {
        let mut runs = Vec::new();
        for level in two_levels(setting) {
            let mut run = base.clone();
            if setting.put(&mut run, level) && setting.applies(&run) {
                runs.push((run, 10, 5));
            }
        }
        if runs.len() == 2 {
            return made(runs);
        }
    }
    panic!("no run of this test depends on {setting:?}");
}

/// Returns the cells of a CSV line; commas in quotes do not separate cells.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cells.last_mut().unwrap().push(other),
        }
    }
    cells
}

fn check_csv(setting: Setting, campaign: &Campaign) {
    let csv = render(campaign, Format::Csv);
    let mut lines = csv.lines().map(cells);
    let header = lines.next().unwrap();
    let column = header.iter().position(|name| *name == setting.column()).unwrap();
    for (index, name) in header.iter().enumerate() {
        assert!(!header[..index].contains(name), "two columns are called {name}");
    }
    let run = header.iter().position(|name| name == "run").unwrap();
    let mut levels = ["0", "1"].map(|wanted| {
        let mut line = csv.lines().map(cells).filter(|line| line[run] == wanted);
        line.next().map(|line| line[column].clone()).unwrap()
    });
    assert!(levels.iter().all(|level| !level.is_empty()), "{setting:?}: {levels:?}");
    levels.sort();
    assert_ne!(levels[0], levels[1], "{setting:?}");
    assert!(lines.all(|line| line.len() == header.len()), "{setting:?}");
}

#[test]
fn no_format_loses_a_factor() {
    for setting in Setting::ALL {
        let campaign = varied(setting);
        check_csv(setting, &campaign);
        let shown = [0, 1].map(|index: usize| setting.show(&campaign.runs[index].spec));
        for format in [Format::Table, Format::Markdown, Format::Html] {
            let text = render(&campaign, format);
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let is_there =
                |word: &String| flat.contains(&word.replace('_', "\\_")) || flat.contains(word);
            assert!(is_there(&setting.key().to_owned()), "{setting:?} in {format:?}: {text}");
            assert!(shown.iter().all(is_there), "{shown:?} of {setting:?} in {format:?}: {text}");
        }
        let metrics = render(&campaign, Format::OpenMetrics);
        for level in &shown {
            let label = format!("{}=\"{level}\"", setting.key());
            assert!(metrics.contains(&label), "{label}: {metrics}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
        assert_ne!(json["runs"][0]["settings"], json["runs"][1]["settings"], "{setting:?}");
    }
}

#[test]
fn ignores_inapplicable_settings_between_rows() {
    // Think time has no effect if ops are offered at a rate.
    let runs = [0, 5].map(|think_time_ns| {
        let mut run = spec("posix", BackendKind::Posix, Workload::Mixed);
        run.load.rate_per_s = 100;
        run.load.arrivals = Arrivals::Constant;
        run.load.think_time_ns = think_time_ns;
        (run, 10, 5)
    });
    let table = render(&made(runs.to_vec()), Format::Table);
    assert!(table.contains("arrivals constant") && !table.contains("think_time"), "{table}");
}
