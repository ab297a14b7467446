//! Trace files, whole or only a block.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::traces::check_trace(data));
