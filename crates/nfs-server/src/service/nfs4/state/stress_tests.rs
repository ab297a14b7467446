//! Many threads on the state tables: nothing hangs and nothing is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use nfs_proto::Status;

use super::*;
use crate::fs::{Context, CreateMode, FileSystem, FileTime, SetAttributes, StoreMode};

const LEASE_NS: u64 = 1_000;
const THREADS: u64 = 4;
const STEPS: u64 = 2_000;

#[test]
fn leaves_no_state_behind() {
    let fs = FileSystem::new(StoreMode::Keep, 1 << 20, 7, FileTime(1));
    let set = SetAttributes::default();
    let files: Vec<_> = [b"a", b"b", b"c"]
        .map(|name| {
            let mode = CreateMode::Guarded;
            fs.create(fs.root(), name, mode, &set, &Context::default()).unwrap().id
        })
        .into();
    let tables = Tables::new(7, LEASE_NS, Arc::new(Memory::new(1 << 30, 1)));
    let clock = AtomicU64::new(1);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let fs = &fs;
            let tables = &tables;
            let clock = &clock;
            let files = &files;
            scope.spawn(move || {
                for step in 0..STEPS {
                    // Now and then all leases expire at once.
                    let pace = if step % 50 == thread { 2 * LEASE_NS } else { 1 };
                    let now_ns = clock.fetch_add(pace, Ordering::Relaxed);
                    let name = [thread as u8, (step / 10 % 3) as u8];
                    let Ok(client) = client(tables, &name, now_ns) else { continue };
                    let file = files[(step * 7 + thread) as usize % files.len()];
                    let share = Share { access: 3, deny: (step % 4) as u32 };
                    let pin = fs.pin(file).unwrap();
                    let opened = tables.open_file(&client, &name, pin, share, now_ns);
                    let Ok(opened) = opened else { continue };
                    let found =
                        tables.find_state(&opened.stateid, Requester::WithoutSession, now_ns);
                    let Ok(state) = found else { continue };
                    let span = Span::new(step % 5, 3).unwrap();
                    let mode = if step % 2 == 0 { LockMode::Exclusive } else { LockMode::Shared };
                    let request = LockRequest { owner: &name, span, mode };
                    let _ = tables.lock_range(&state, request, now_ns);
                    if step % 3 > 0 {
                        let _ = tables.close_open(&state);
                    }
                }
            });
        }
    });
    let end_ns = clock.load(Ordering::Relaxed) + 3 * LEASE_NS;
    tables.sweep(end_ns);
    assert!(tables.confirmed_clients().is_empty());
    assert_eq!((tables.states.len(), tables.ranges.load(Ordering::Relaxed)), (0, 0));
    assert_eq!(tables.memory.clients.used_bytes(), 0);
    assert!(!tables.files.has_deniers());
    for (file, name) in files.iter().zip([b"a", b"b", b"c"]) {
        assert!(tables.files.lock(*file).is_empty());
        fs.remove(fs.root(), name, &Context::default()).unwrap();
        assert!(fs.attributes(*file).is_err(), "nothing uses it any more");
    }
}

fn client(tables: &Tables, name: &[u8], now_ns: u64) -> Result<Arc<Client>, Status> {
    let identity = Identity { owner: name, verifier: [1; 8], principal: 1 };
    let (id, confirm) = tables.set_client_id(identity, now_ns)?;
    tables.confirm_client_id(id, confirm, 1, now_ns)?;
    tables.client(id, now_ns)
}
