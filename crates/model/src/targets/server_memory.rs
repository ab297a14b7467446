//! How the in-memory server divides its memory.
//!
//! Files get most of it, and always the same part, so that the capacity doesn't depend on who is
//! connected. The rest is for connections, client state, and copies of data that is overwritten
//! while it is being sent.

/// Returns how many of `memory_bytes` are available for files: three quarters up to 1 GiB, then all
/// but 256 MiB, and fifteen sixteenths from 4 GiB on.
pub const fn file_bytes(memory_bytes: u64) -> u64 {
    const REST: u64 = 256 << 20;
    let quarter = memory_bytes / 4;
    let sixteenth = memory_bytes / 16;
    let rest = if quarter <= REST {
        quarter
    } else if sixteenth >= REST {
        sixteenth
    } else {
        REST
    };
    memory_bytes - rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_get_most_of_the_memory() {
        const MIB: u64 = 1 << 20;
        for (memory, files) in
            [(4, 3), (256, 192), (1024, 768), (2048, 1792), (4096, 3840), (16_384, 15_360)]
        {
            assert_eq!(file_bytes(memory * MIB), files * MIB, "{memory} MiB");
        }
        assert!((1..5000).all(|mib| file_bytes(mib * MIB) < file_bytes((mib + 1) * MIB)));
    }
}
