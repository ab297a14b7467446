//! A list of checks of this client against a server of any vendor.
//!
//! `cargo run -p dfsbench-nfs-client --example interop --
//! nfs://HOST/EXPORT?version=3&proto=tcp&port=2049...` The address takes `version`, `proto`,
//! `port`, `mountport` and, for TLS, `tls_ca`; `--entries N` and `--large BYTES` set the size of
//! the large directory and of the sparse file, `--only NAME` runs a single check,
//! `--empty-read-plus` accepts an empty READ_PLUS. Every check works in its own directory below the
//! export and removes it again. Prints one line per check, then the wire counters as a line of
//! JSON; exits with 1 if anything failed.
#![allow(clippy::print_stdout, reason = "a tool for tests that prints its results")]

use std::process::ExitCode;

mod address;
mod data;
mod names;
mod space;
mod tested_client;
mod xattrs;

use address::Settings;
use tested_client::TestedClient;

/// Result of a check: nothing, or the problem.
type CheckResult = Result<(), String>;

/// One check: its name, whether a version supports it, and the function.
struct Check {
    name: &'static str,
    applies: fn(&TestedClient) -> bool,
    run: fn(&mut TestedClient) -> CheckResult,
}

const fn always(name: &'static str, run: fn(&mut TestedClient) -> CheckResult) -> Check {
    Check { name, applies: |_| true, run }
}

const CHECKS: [Check; 15] = [
    always("create, find, rename and remove names", names::life),
    always("errors of the protocol", names::errors),
    always("set and read attributes", names::attributes),
    always("hard and symbolic links", names::links),
    Check { name: "special files", applies: tested_client::is_not_v2, run: names::special },
    always("a directory with many entries", names::listing),
    Check {
        name: "the same with attributes",
        applies: tested_client::is_not_v2,
        run: names::listing_plus,
    },
    always("data of various sizes", data::sizes),
    Check { name: "every durability", applies: tested_client::is_not_v2, run: data::durability },
    always("truncate and extend a file", data::truncation),
    always("a sparse file beyond 4 GiB", data::sparse),
    always("limits of the file system", space::limits),
    Check { name: "holes and reservations", applies: tested_client::is_v42, run: space::holes },
    Check { name: "a copy on the server", applies: tested_client::is_v42, run: space::copy },
    Check { name: "extended attributes", applies: tested_client::is_v42, run: xattrs::all },
];

fn main() -> ExitCode {
    let settings = match Settings::from_arguments(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(error) => {
            println!("interop: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&settings) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("interop: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all checks and returns how many failed.
fn run(settings: &Settings) -> Result<usize, String> {
    let mut client = TestedClient::connect(settings)?;
    let mut failed = 0;
    for check in &CHECKS {
        let wanted = settings.only.as_ref().is_none_or(|only| check.name.contains(only.as_str()));
        if !wanted || !(check.applies)(&client) {
            continue;
        }
        let outcome = client.in_own_folder(check.run);
        println!("interop: {} ... {}", check.name, if outcome.is_ok() { "ok" } else { "FAILED" });
        if let Err(error) = outcome {
            println!("    {error}");
            failed += 1;
        }
    }
    println!("{}", client.end()?);
    Ok(failed)
}
