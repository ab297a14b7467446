//! Generates a test for each check of the crate `lab`: the rows of `checks!` for `tests/lab.rs` and
//! `tests/vm_lab.rs`, from the lists `checks![ .. ]` in `crates/lab/examples/lab_real`.
//!
//! A new check of the lab becomes a named test without a second list; a test compares the list with
//! that of the program.

#![allow(clippy::disallowed_methods, reason = "cargo sets the environment of build scripts")]

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// The file whose checks need a virtual machine.
const KERNEL: &str = "kernel.rs";

fn main() {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../crates/lab/examples/lab_real");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut here = Vec::new();
    let mut kernel = Vec::new();
    for entry in fs::read_dir(&folder).expect("the lab has its checks") {
        let path = entry.expect("a folder can be read").path();
        let text = fs::read_to_string(&path).expect("a file can be read");
        let is_kernel = path.file_name().is_some_and(|name| name == KERNEL);
        let names = if is_kernel { &mut kernel } else { &mut here };
        names.extend(read_names(&text));
    }
    here.sort();
    kernel.sort();
    write_table("lab_here.rs", &here);
    write_table("lab_kernel.rs", &kernel);
}

/// Returns the names in the lists of a file.
fn read_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for list in text.split("checks![").skip(1) {
        let list = list.split(']').next().unwrap_or_default();
        names.extend(
            list.split(',')
                .filter(|name| !name.trim().is_empty())
                .map(|name| name.trim().to_owned()),
        );
    }
    names
}

/// Writes a table of checks that call `run_one`, and the constant `NAMES`.
fn write_table(file: &str, names: &[String]) {
    let mut rows = String::new();
    for name in names {
        // Writing to a String can't fail.
        let _ = writeln!(rows, "    {name}: 300 s, run_one(\"{name}\");");
    }
    let table = format!("checks::checks! {{\n{rows}}}\nconst NAMES: &[&str] = &{names:?};\n");
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&folder).join(file), table).expect("the output folder can be written");
}
