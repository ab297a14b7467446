//! Kernel settings and rules of interfaces.

use model::{Action, action};

use crate::{Check, Host, apply_all, fact, read, run};

/// Every check of this file.
pub(crate) const CHECKS: &[Check] = checks![
    applies_and_restores_settings,
    sets_and_restores_read_ahead,
    reports_value_changed_by_kernel,
    rules_of_others_are_left_alone,
    explains_impossible_settings,
];

pub(crate) fn sysctl(name: &str, value: &str) -> Action {
    Action::Sysctl(action::Sysctl { name: name.to_owned(), value: value.to_owned() })
}

pub(crate) fn shape(rate_bits_per_s: Option<u64>, delay_us: Option<u32>) -> Action {
    Action::Shape(action::Shape { interface: "lo".to_owned(), rate_bits_per_s, delay_us })
}

pub(crate) fn mtu(bytes: u32) -> Action {
    Action::Mtu(action::Mtu { interface: "lo".to_owned(), bytes })
}

fn applies_and_restores_settings() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    let all = [
        mtu(9_000),
        shape(Some(100_000_000), None),
        sysctl("net.ipv4.tcp_rmem", "4096 131072 1048576"),
    ];
    apply_all(&mut lab, &all);
    assert!(run(&["tc", "qdisc", "show", "dev", "lo"]).contains("rate 100Mbit"));
    assert!(run(&["ip", "link", "show", "dev", "lo"]).contains("mtu 9000"));
    assert_eq!(read("/proc/sys/net/ipv4/tcp_rmem").trim(), "4096\t131072\t1048576");
    lab.undo_all().unwrap();
    host.assert_as_before(&before);
}

fn sets_and_restores_read_ahead() {
    let host = Host::new();
    let mut lab = host.lab();
    let file_system = model::FileSystem::Ext4;
    apply_all(&mut lab, &crate::storage::stack(host.path("disk"), file_system, 64 << 20));
    let set =
        |kib| Action::ReadAhead(action::ReadAhead { point: crate::storage::POINT.into(), kib });
    let found = lab.apply(&set(1_024)).unwrap();
    assert_eq!(fact(&found, "read-ahead in KiB"), "1024");
    let path = found.facts[0].source.clone();
    lab.undo_last().unwrap();
    assert_ne!(read(&path).trim(), "1024");
    lab.undo_all().unwrap();
}

fn reports_value_changed_by_kernel() {
    let host = Host::new();
    let mut lab = host.lab();
    // The kernel reduces it to the allowed maximum.
    let error = lab.apply(&sysctl("net.ipv4.tcp_congestion_control", "no-such")).unwrap_err();
    assert!(error.to_string().contains("tcp_congestion_control"), "{error}");
    assert_eq!(lab.height(), 0);
    let error = lab.apply(&sysctl("net.ipv4.no_such_setting", "1")).unwrap_err();
    assert!(error.to_string().contains("no_such_setting"), "{error}");
    let found = lab.apply(&sysctl("net.ipv4.ip_default_ttl", "0x20")).unwrap();
    assert_eq!(
        (found.differences[0].requested.as_str(), found.differences[0].found.as_str()),
        ("0x20", "32")
    );
    lab.undo_all().unwrap();
}

fn rules_of_others_are_left_alone() {
    let host = Host::new();
    let mut lab = host.lab();
    run(&["tc", "qdisc", "add", "dev", "lo", "root", "pfifo", "limit", "77"]);
    let before = host.traces();
    let error = lab.apply(&shape(Some(1_000_000), None)).unwrap_err().to_string();
    assert!(error.contains("pfifo") && error.contains("not created by dfsbench"), "{error}");
    host.assert_as_before(&before);
    let error =
        lab.apply(&Action::Mtu(action::Mtu { interface: "no-such0".to_owned(), bytes: 1_500 }));
    assert!(error.unwrap_err().to_string().contains("no-such0"));
}

fn explains_impossible_settings() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    let has_frequencies =
        std::path::Path::new("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq").exists();
    if !has_frequencies {
        let error = lab
            .apply(&Action::CpuFrequency(action::CpuFrequency { khz: 1_000_000 }))
            .unwrap_err()
            .to_string();
        assert!(error.contains("the CPU frequency cannot be limited on this host"), "{error}");
    }
    let error =
        lab.apply(&Action::Cores(action::Cores { online: 10_000 })).unwrap_err().to_string();
    assert!(error.contains("10000 were requested"), "{error}");
    if !crate::has_program("mdadm") {
        let devices = Vec::new();
        let raid = Action::Raid(action::Raid {
            name: "dfsbench".to_owned(),
            level: model::Raid::Raid0,
            chunk_bytes: None,
            devices,
        });
        let error = lab.apply(&raid).unwrap_err().to_string();
        assert!(error.contains("mdadm") || error.contains("modprobe"), "{error}");
    }
    assert_eq!(lab.height(), 0);
    host.assert_as_before(&before);
}
