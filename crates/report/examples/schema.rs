//! Prints the JSON Schema of reports:
//! `cargo run -p dfsbench-report --example schema > docs/results.schema.json`.
#![allow(clippy::print_stdout, reason = "printing is all that it does")]

fn main() {
    print!("{}", report::json_schema());
}
