//! The reassembly of records from a stream in pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|stream: fuzz::record::Stream<'_>| fuzz::record::check_stream(&stream));
