//! Many agents on one machine meet, run and report: what one more costs does not grow with how many
//! there are.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::command::{End, Rig};

const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// How often as long four times as many agents may take; a step that looks at all agents for each
/// of them would take sixteen times as long.
const RATIO_MAX: u32 = 9;

/// Has so many agents meet and make a short pass; how long that takes in all.
fn met(count: u32) -> Duration {
    let rig = Rig::new();
    let words = format!(
        "run target --workload mixed --file-size 4KiB --read-percent 100 --duration 50ms --trials \
         1 --launcher wait --agents {count} --meet-within 120s --format json"
    );
    let mut command = rig.command(&words.split(' ').collect::<Vec<_>>());
    command.env("DFSBENCH_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut controller = command.spawn().unwrap();
    let mut stderr = BufReader::new(controller.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once('=').unwrap().1.to_owned();
    let drain = std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    let begun = Instant::now();
    let agents: Vec<Child> = (0..count)
        .map(|rank| {
            let mut command = rig.command(&["agent", "--meet"]);
            command.envs([("DFSBENCH_MEET", address.as_str()), ("DFSBENCH_TOKEN", TOKEN)]);
            command.env("DFSBENCH_RANK", rank.to_string()).env("DFSBENCH_SIZE", count.to_string());
            command.env("DFSBENCH_HOST", format!("n{rank}"));
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let end = End::of(controller.wait_with_output().unwrap());
    let took = begun.elapsed();
    drain.join().unwrap().unwrap();
    for mut agent in agents {
        assert!(agent.wait().unwrap().success());
    }
    assert!([0, 4].contains(&end.code), "{end:?}");
    let json: serde_json::Value = serde_json::from_str(&end.stdout).unwrap();
    let trial = &json["runs"][0]["trials"][0];
    assert_eq!(trial["state"], "done", "{trial}");
    let hosts = trial["passes"][0]["hosts"].as_array().unwrap();
    assert_eq!(hosts.len() as u32, count);
    assert!(hosts.iter().all(|host| host["ops"].as_u64().unwrap() > 0));
    rig.assert_target_is_empty();
    took
}

#[test]
fn a_hundred_agents_meet_run_and_report_at_no_more_than_their_share() {
    // What is paid once, however many they are, is paid by the few, too.
    let (few, many) = (met(25), met(100));
    println!("25 agents: {few:?}, 100 agents: {many:?}");
    assert!(many < few * RATIO_MAX, "25 agents: {few:?}, 100 agents: {many:?}");
}
