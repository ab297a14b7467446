//! How the in-memory server divides the memory that it may use.
//!
//! Files get most of it, and always the same part, so that what fits does not depend on who is
//! connected. The rest is for connections, the state of clients, and copies of data that is being
//! sent while it is overwritten.

/// Returns how many bytes of `memory_bytes` files may take: seven eighths, or three quarters of up
/// to 16 MiB. In between the rest is 4 MiB.
pub const fn file_bytes(memory_bytes: u64) -> u64 {
    const REST_MIN: u64 = 4 << 20;
    let (eighth, quarter) = (memory_bytes / 8, memory_bytes / 4);
    let rest = if eighth >= REST_MIN {
        eighth
    } else if quarter <= REST_MIN {
        quarter
    } else {
        REST_MIN
    };
    memory_bytes - rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_get_most_of_the_memory() {
        const MIB: u64 = 1 << 20;
        let shares = [(1, 0.75), (16, 12.0), (20, 16.0), (32, 28.0), (64, 56.0), (1024, 896.0)];
        for (memory, files) in shares {
            assert_eq!(file_bytes(memory * MIB), (files * MIB as f64) as u64, "{memory} MiB");
        }
        assert!((1..200).all(|mib| file_bytes(mib * MIB) < file_bytes((mib + 1) * MIB)));
    }
}
