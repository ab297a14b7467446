//! RPC headers, requests, MOUNT and the port mappers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::messages::check_rpc(data));
