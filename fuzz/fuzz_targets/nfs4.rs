//! Calls and replies of NFS v4.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::messages::check_nfs4(data));
