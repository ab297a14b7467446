//! Packet captures, and the streams, records, calls and traces made of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::traces::check_packets(data));
