//! Captures of packets, and what is made of them: streams, records, calls, a trace.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::traces::check_packets(data));
