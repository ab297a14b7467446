//! The program as a user meets it: what it prints, how it ends, and what it leaves behind.
#![allow(clippy::disallowed_methods, reason = "tests time what they wait for")]

mod agents;
mod bad_input;
mod book;
mod compare;
mod curve;
mod estimate;
mod help;
mod hostile;
mod hosts;
mod input_files;
mod interruption;
mod jobs;
mod jobs_again;
mod keeping;
mod killed;
mod kubernetes;
mod ladder;
mod output_files;
mod overlay;
mod ramp;
mod results_file;
mod rig;
mod servers;
mod serving;
mod sharing;
mod soak;
mod strange;
mod traces;
mod typed;
mod until_broken;
mod versions;
mod view;
mod watching;
mod whole;
mod workloads;
