//! The client's state machine.
#![no_main]

libfuzzer_sys::fuzz_target!(|run: fuzz::client::Run<'_>| fuzz::client::check_session(&run));
