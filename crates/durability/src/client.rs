//! The client process of a durability measurement: the hidden command that writes test files, reads
//! them back or removes them.
//!
//! [`run`] reads its job from stdin and writes messages to stdout, flushing each one right away: an
//! acknowledgement that never reaches the parent process doesn't count. The client exits when its
//! stdin is closed, so none is left behind if the parent is killed.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::time::Duration;
use std::{process, thread};

use engine::target::leftover::{self, Leftover};
use engine::target::named_files::NamedFiles;
use model::durability::{FoundBlock, FoundFile, TestFile};
use workload::Pattern;

use crate::DurabilityError;
use crate::protocol::{ClientJob, ClientMessage, Task};
use crate::writer::{BLOCK_BYTES, WRITE_BYTES, Writer};

/// Seed of the file contents. Stamps distinguish campaigns, files and generations.
const SEED: u64 = 24;

/// Runs the job read from stdin.
///
/// # Errors
/// If stdin contains no job.
pub fn run() -> Result<(), DurabilityError> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let Ok(Ok(job)) = read.map(|_| serde_json::from_str::<ClientJob>(&line)) else {
        let hint = "`dfsbench durability` starts this command";
        return Err(DurabilityError::Usage(format!("stdin contains no job (hint: {hint})")));
    };
    thread::spawn(end_with_parent);
    let last = match do_job(&job) {
        Ok(()) => ClientMessage::Done,
        Err(why) => ClientMessage::Failed(why),
    };
    send(&last);
    // A writer keeps its connection until it is killed: when a client disconnects, the server may
    // flush its data.
    if matches!(job.task, Task::Write { .. }) {
        loop {
            thread::sleep(Duration::from_secs(60));
        }
    }
    Ok(())
}

/// Exits this process once its parent closes stdin or dies.
fn end_with_parent() {
    let mut byte = [0];
    while matches!(io::stdin().read(&mut byte), Ok(1..)) {}
    process::exit(0);
}

fn do_job(job: &ClientJob) -> Result<(), String> {
    let timeout = Duration::from_millis(job.timeout_ms);
    let pattern = Pattern::new(SEED, WRITE_BYTES as usize).stamped(job.campaign, BLOCK_BYTES);
    let open = || NamedFiles::open(&job.target, timeout, pattern.clone(), WRITE_BYTES);
    match &job.task {
        Task::Write { promises, rounds, event_after } => {
            let mut files = open()?;
            send(&ClientMessage::Opened { identity: files.identity()? });
            files.make(&job.folder)?;
            let mut writer = Writer::new(files, &send);
            writer.prepare(promises)?;
            for round in 0..*rounds {
                if round == *event_after {
                    send(&ClientMessage::Ready);
                }
                writer.make_round(promises, round)?;
            }
            Ok(())
        }
        Task::ReadBack { files, identity, accepts_unreadable } => {
            let mut directory = open()?;
            let found = directory.identity()?;
            let is_there = directory.enter(&job.folder)?;
            // If the directory is gone, all files are lost, unless this is a different file system.
            if !is_there
                && let Some(identity) = identity
                && found != *identity
            {
                let what = "the target is now a different file system";
                return Err(format!("{what}: {found}, not {identity}"));
            }
            for file in files {
                let read = if is_there {
                    read_back(&mut directory, &pattern, *file)
                } else {
                    Ok(FoundFile::missing(*file))
                };
                let found = match read {
                    Ok(found) => found,
                    Err(_) if *accepts_unreadable => {
                        FoundFile { is_unreadable: true, ..FoundFile::missing(*file) }
                    }
                    Err(why) => return Err(why),
                };
                send(&ClientMessage::Found(found));
            }
            Ok(())
        }
        Task::Remove => remove_all(job),
    }
}

fn remove_all(job: &ClientJob) -> Result<(), String> {
    let found = leftover::remove(&job.target, &job.campaign_name);
    for one in found.map_err(|error| error.to_string())? {
        if let Leftover::Kept(place, why) = one {
            return Err(format!("{place}: {why}"));
        }
    }
    Ok(())
}

/// Sends a message. Exits if nobody reads it: there is nothing left to do.
fn send(message: &ClientMessage) {
    let Ok(mut line) = serde_json::to_vec(message) else { return };
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    if stdout.write_all(&line).and_then(|()| stdout.flush()).is_err() {
        process::exit(0);
    }
}

/// Reads a file and determines the generation of each of its blocks.
fn read_back(
    directory: &mut NamedFiles,
    pattern: &Pattern,
    file: TestFile,
) -> Result<FoundFile, String> {
    let Some(data) = directory.read(&file.name())? else {
        return Ok(FoundFile::missing(file));
    };
    let mut blocks = Vec::new();
    for (number, block) in data.chunks(BLOCK_BYTES as usize).enumerate() {
        let offset = number as u64 * u64::from(BLOCK_BYTES);
        let generation = pattern.find_generation(block, file.stamp_number(), offset);
        blocks.push(match generation {
            // A partial block doesn't count, even if its generation is right.
            Some(generation) if block.len() == BLOCK_BYTES as usize => {
                FoundBlock::Generation(generation)
            }
            _ if block.iter().all(|byte| *byte == 0) => FoundBlock::Zeros,
            _ => FoundBlock::Other,
        });
    }
    let size_bytes = Some(data.len() as u64);
    Ok(FoundFile { size_bytes, blocks, ..FoundFile::missing(file) })
}
