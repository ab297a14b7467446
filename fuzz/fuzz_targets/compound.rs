//! A server of NFS v4, compound by compound.
#![no_main]

libfuzzer_sys::fuzz_target!(|run: fuzz::compound::Run| fuzz::compound::check_compounds(&run));
