//! Output of strace and logs of fio.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::traces::check_import(data));
