//! Many agents on one machine meet, run and report: the cost of one more agent does not grow with
//! their number, and is bounded.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::command::{Cli, End};

const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// How many times as long four times as many agents may take; a step that looks at all agents for
/// each of them would take sixteen times as long.
const RATIO_MAX: u32 = 9;

/// Maximum memory of one agent of a hundred, in bytes; 2 MiB were measured with a debug build, and
/// 1 MiB with a release build, also with a thousand agents.
const AGENT_BYTES_MAX: u64 = 8 << 20;

/// Maximum CPU time of one agent of a hundred, in milliseconds, not counting less than a tick; 7 ms
/// were measured with a debug build, and 9 ms, including parts of ticks, with a release build.
const AGENT_CPU_MS_MAX: u64 = 100;

/// Clock ticks per second in the kernel's reports about a process. **Source:** time(7).
const TICKS_PER_S: u64 = 100;

/// How often their memory is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Resources used by several agents.
#[derive(Debug)]
struct AgentUsage {
    /// Time from the start of the first agent to the exit of the controller.
    all: Duration,
    /// The most memory that they used together, as far as it was seen.
    memory_bytes: u64,
    processor_ms: u64,
}

/// Memory of a process, including its share of shared memory; 0 if it has ended.
fn memory_bytes(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// CPU time of a process that has ended but has not been reaped.
fn processor_ms(process: u32) -> u64 {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let id = Pid::from_raw(process.cast_signed()).unwrap();
    waitid(WaitId::Pid(id), ended).unwrap();
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields = text.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
    fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>() * 1_000 / TICKS_PER_S
}

/// Starts the given number of agents for a short pass; returns their total resource use.
fn met(count: u32) -> AgentUsage {
    let cli = Cli::new();
    let words = format!(
        "run target --workload mixed --file-size 4KiB --read-percent 100 --duration 50ms --trials \
         1 --launcher wait --agents {count} --meet-within 120s --format json"
    );
    let mut command = cli.command(&words.split(' ').collect::<Vec<_>>());
    command.env("DFSBENCH_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut controller = command.spawn().unwrap();
    let mut stderr = BufReader::new(controller.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once('=').unwrap().1.to_owned();
    let drain = thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    let begun = Instant::now();
    let agents: Vec<Child> = (0..count)
        .map(|rank| {
            let mut command = cli.command(&["agent", "--meet"]);
            command.envs([("DFSBENCH_MEET", address.as_str()), ("DFSBENCH_TOKEN", TOKEN)]);
            command.env("DFSBENCH_RANK", rank.to_string()).env("DFSBENCH_SIZE", count.to_string());
            command.env("DFSBENCH_HOST", format!("n{rank}"));
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let ids: Vec<u32> = agents.iter().map(Child::id).collect();
    let (is_over, over) = channel::<()>();
    let watch = thread::spawn(move || {
        let mut most = 0;
        loop {
            most = most.max(ids.iter().filter_map(|id| memory_bytes(*id)).sum());
            if over.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        most
    });
    let end = End::from_output(controller.wait_with_output().unwrap());
    let all = begun.elapsed();
    drop(is_over);
    let memory_bytes = watch.join().unwrap();
    drain.join().unwrap().unwrap();
    let mut processor = 0;
    for mut agent in agents {
        processor += processor_ms(agent.id());
        assert!(agent.wait().unwrap().success());
    }
    assert!([0, 4].contains(&end.code), "{end:?}");
    let json: serde_json::Value = serde_json::from_str(&end.stdout).unwrap();
    let trial = &json["runs"][0]["trials"][0];
    assert_eq!(trial["state"], "done", "{trial}");
    let hosts = trial["passes"][0]["hosts"].as_array().unwrap();
    assert_eq!(hosts.len() as u32, count);
    assert!(hosts.iter().all(|host| host["ops"].as_u64().unwrap() > 0));
    cli.assert_target_is_empty();
    AgentUsage { all, memory_bytes, processor_ms: processor }
}

#[test]
fn measures_with_hundred_agents() {
    let count = 100;
    let few = met(25);
    let many = met(count);
    println!("25 agents: {few:?}, {count} agents: {many:?}");
    // Costs that occur once, however many they are, also occur with the few.
    assert!(many.all < few.all * RATIO_MAX, "25 agents: {few:?}, {count} agents: {many:?}");
    let count = u64::from(count);
    assert!(many.memory_bytes > 0 && many.memory_bytes < count * AGENT_BYTES_MAX, "{many:?}");
    assert!(many.processor_ms < count * AGENT_CPU_MS_MAX, "{many:?}");
}
