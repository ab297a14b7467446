//! A whole server, over sockets.
#![no_main]

libfuzzer_sys::fuzz_target!(|run: fuzz::server::Run<'_>| fuzz::server::check_server(&run));
