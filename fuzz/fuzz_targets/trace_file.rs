//! Trace files, whole or as a block alone.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::traces::check_trace(data));
