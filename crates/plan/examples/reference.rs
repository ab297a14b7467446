//! Prints the reference of plans: `cargo run -p dfsbench-plan --example reference > docs/plan.md`.
#![allow(clippy::print_stdout, reason = "printing is all that it does")]

fn main() {
    print!("{}", plan::reference_page());
}
