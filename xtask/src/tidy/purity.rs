//! Rule: a crate marked pure uses no clock, socket, file, environment or thread.
//!
//! Looks for the modules of `std` that provide them, written out (`std::fs::`) or imported,
//! including from a group (`use std::{fs, net}`). Addresses (`std::net::IpAddr`) are values and may
//! be used; tests are not restricted.

use super::Finding;
use super::files::SourceFile;

const MODULES: [&str; 6] = ["env", "fs", "net", "os", "process", "thread"];
const CLOCKS: [&str; 2] = ["Instant", "SystemTime"];
/// Types of `std::net` that are plain values.
const VALUES: [&str; 6] =
    ["IpAddr", "Ipv4Addr", "Ipv6Addr", "SocketAddr", "SocketAddrV4", "SocketAddrV6"];

/// Checks one file of a pure crate.
pub fn check(file: &SourceFile) -> Vec<Finding> {
    if file.is_test {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, code) in file.source.code.iter().enumerate() {
        if file.source.in_tests(number) {
            continue;
        }
        for what in impurities(code) {
            let place = format!("{}:{}", file.path, number + 1);
            let message = format!("`{}` is pure and may not use `{what}`", file.krate);
            findings.push(Finding::new(place, message));
        }
    }
    findings
}

fn impurities(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("std::") {
        let rest = &code[at + "std::".len()..];
        let names = match rest.strip_prefix('{') {
            Some(group) => group.split(',').collect(),
            None => vec![rest],
        };
        found.extend(names.into_iter().filter_map(impure));
    }
    found
}

/// Judges a path after `std::`.
fn impure(path: &str) -> Option<String> {
    let mut words: Vec<&str> = path.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    words.retain(|word| !word.is_empty());
    let (first, others) = words.split_first()?;
    match *first {
        "net" if only_values(path, others) => None,
        "time" => {
            let clock = others.iter().find(|name| CLOCKS.contains(name))?;
            Some(format!("std::time::{clock}"))
        }
        first if MODULES.contains(&first) => Some(format!("std::{first}")),
        _ => None,
    }
}

/// Returns true if only addresses follow `net`.
fn only_values(path: &str, names: &[&str]) -> bool {
    let is_group = path.trim_start().starts_with("net::{");
    let count = if is_group { names.len() } else { 1 };
    !names.is_empty() && names.iter().take(count).all(|name| VALUES.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let file = SourceFile::new("crates/stats/src/a.rs", text);
        check(&file).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn planted_effects_are_found() {
        for (code, what) in [
            ("use std::fs::File;", "std::fs"),
            ("use std::{fmt, thread};", "std::thread"),
            ("let t = std::time::Instant::now();", "std::time::Instant"),
            ("use std::time::{Duration, SystemTime};", "std::time::SystemTime"),
            ("use std::net::{IpAddr, TcpStream};", "std::net"),
            ("use std::net::TcpStream;", "std::net"),
        ] {
            let found = found(code);
            assert_eq!(found.len(), 1, "{code}: {found:?}");
            assert!(found[0].contains(what), "{code}: {found:?}");
        }
    }

    #[test]
    fn values_and_tests_are_left_alone() {
        let text = "use std::time::Duration;\nuse std::net::{IpAddr, Ipv4Addr};\n// std::fs\n\
                    #[cfg(test)]\nmod tests {\n use std::fs;\n}\n";
        assert_eq!(found(text), Vec::<String>::new());
    }
}
