//! Agents in their own processes, over pipes: obeyed orders, and every way in which the connection
//! is lost.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fleet::wire::{Greeting, PROTOCOL};
use fleet::{
    Assignment, JournalLocation, Order, PeerGone, Remote, Report, Transport, remote, stdio,
};
use model::testing::RunBuilder;
use model::{Pass, Share, Target, Workload};
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::Cli;

/// Generous, because the machine may be busy.
const SOON: Duration = Duration::from_secs(20);

fn agent() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dfsbench"));
    command.args(["agent", "--stdio"]);
    command
}

fn start(command: &mut Command) -> Result<Remote, PeerGone> {
    Remote::start(command, "h", Arc::default())
}

fn process_of(remote: &Remote) -> u32 {
    remote.process_id().expect("it was started here")
}

fn sh(words: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", words]);
    command
}

/// A greeting as printf(1) accepts it.
fn octal(greeting: &Greeting) -> String {
    greeting.to_bytes().iter().fold(String::new(), |text, byte| text + &format!("\\{byte:03o}"))
}

fn ask(remote: &mut Remote, order: Order) -> Result<Report, PeerGone> {
    remote.send(order)?;
    loop {
        match remote.receive()? {
            Report::Progress(_) => {}
            report => return Ok(report),
        }
    }
}

/// Makes the workers start the mix.
fn begin_mix(remote: &mut Remote) -> Result<(), PeerGone> {
    let pass = Pass::Mix;
    let share = Share::whole(1);
    assert_eq!(ask(remote, Order::Prepare(pass))?, Report::Prepared);
    assert_eq!(ask(remote, Order::Arm { pass, share })?, Report::Armed);
    remote.send(Order::Go { start_ns: 0 })
}

/// Runs the mix.
fn mix(remote: &mut Remote) -> Result<Report, PeerGone> {
    begin_mix(remote)?;
    loop {
        match remote.receive()? {
            Report::Progress(_) => {}
            Report::Worked { .. } => return ask(remote, Order::Account { others: Vec::new() }),
            other => return Ok(other),
        }
    }
}

/// A mix on a directory, for the given duration.
fn a_mix(directory: &Path, duration_ms: u64) -> Order {
    let spec = RunBuilder::new(Workload::Mixed)
        .target(Target::Directory { path: directory.to_owned() })
        .backend(model::BackendKind::Posix)
        .file_size_bytes(1 << 20)
        .read_percent(50)
        .duration_ms(duration_ms)
        .build();
    let work_name = ".dfsbench-test".to_owned();
    Order::Begin(Box::new(Assignment {
        spec,
        seed: 1,
        schedule_seed: 1,
        work_name,
        keep: false,
        share: Share::whole(1),
        joins: false,
        journal: JournalLocation::InMemory,
    }))
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).unwrap();
}

fn within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < limit, "{what} takes longer than {limit:?}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

#[test]
fn runs_trial_and_leaves_nothing() {
    let cli = Cli::new();
    let mut remote = start(&mut agent()).unwrap();
    assert!(matches!(ask(&mut remote, a_mix(&cli.target(), 200)), Ok(Report::Begun(_))));
    let Ok(Report::Ran(end)) = mix(&mut remote) else { panic!() };
    assert!(end.broken.is_none() && end.result.ops() > 0, "{end:?}");
    let times = end.result.response_time();
    assert!(times.count() == end.result.ops() && times.quantile(0.5) > 0, "{times:?}");
    assert_eq!(ask(&mut remote, Order::End { inherits: false }), Ok(Report::Ended));
    cli.assert_target_is_empty();
    let Ok(Report::Clock(before)) = ask(&mut remote, Order::Clock) else { panic!() };
    let Ok(Report::Clock(after)) = ask(&mut remote, Order::Clock) else { panic!() };
    assert!(after.mono_ns > before.mono_ns && before.wall_ns > 1_700_000_000_000_000_000);
    let Ok(Report::Facts(facts)) = ask(&mut remote, Order::Facts) else { panic!() };
    assert!(facts.iter().any(|fact| fact.name == "kernel"), "{facts:?}");
    let process = process_of(&remote);
    drop(remote);
    assert!(!Path::new(&format!("/proc/{process}")).exists());
}

#[test]
fn notices_killed_agent_at_once() {
    let mut remote = start(&mut agent()).unwrap();
    signal(process_of(&remote), Signal::KILL);
    let begun = Instant::now();
    let gone = ask(&mut remote, Order::Clock).unwrap_err();
    insta::assert_snapshot!(gone, @"host h: the agent is gone");
    assert!(begun.elapsed() < SOON);
    // And the agent stays gone.
    assert_eq!(ask(&mut remote, Order::Clock), Err(gone));
}

#[test]
fn loses_frozen_agent_after_seconds() {
    let cli = Cli::new();
    let mut remote = start(&mut agent()).unwrap();
    assert!(matches!(ask(&mut remote, a_mix(&cli.target(), 60_000)), Ok(Report::Begun(_))));
    begin_mix(&mut remote).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    signal(process_of(&remote), Signal::STOP);
    let begun = Instant::now();
    let gone = loop {
        match remote.receive() {
            Ok(Report::Progress(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(gone) => break gone,
        }
    };
    insta::assert_snapshot!(gone, @"host h: the agent has been silent for 3 s");
    let taken = begun.elapsed();
    assert!(taken < remote::LOST_AFTER + SOON, "{taken:?}");
    assert!(!Path::new(&format!("/proc/{}", process_of(&remote))).exists());
}

#[test]
fn gives_up_silent_agent_after_stop() {
    let cli = Cli::new();
    let stop = Arc::new(AtomicBool::new(false));
    let mut remote = Remote::start(&mut agent(), "h", Arc::clone(&stop)).unwrap();
    assert!(matches!(ask(&mut remote, a_mix(&cli.target(), 60_000)), Ok(Report::Begun(_))));
    let pass = Pass::Mix;
    let share = Share::whole(1);
    assert_eq!(ask(&mut remote, Order::Prepare(pass)), Ok(Report::Prepared));
    // Its workers wait to start: it is running, and never has anything to send.
    assert_eq!(ask(&mut remote, Order::Arm { pass, share }), Ok(Report::Armed));
    stop.store(true, Relaxed);
    let gone = remote.receive().unwrap_err().to_string();
    assert!(gone.contains(" for 10 s; "), "{gone}");
    assert!(gone.contains(fleet::LEFT_TO_AGENT), "{gone}");
    // It was not killed, so it removes the files that it created.
    drop(remote);
    within(SOON, "cleaning up", || cli.target().read_dir().unwrap().next().is_none());
}

#[test]
fn keeps_agent_that_works_longer() {
    let cli = Cli::new();
    let mut remote = start(&mut agent()).unwrap();
    // Preparing a file of this size sends no progress reports.
    assert!(matches!(ask(&mut remote, a_mix(&cli.target(), 4_500)), Ok(Report::Begun(_))));
    let ran = mix(&mut remote);
    assert!(matches!(ran, Ok(Report::Ran(_))), "{ran:?}");
}

#[test]
fn stops_working_agent_on_request() {
    let cli = Cli::new();
    let stop = Arc::new(AtomicBool::new(false));
    let mut remote = Remote::start(&mut agent(), "h", Arc::clone(&stop)).unwrap();
    assert!(matches!(ask(&mut remote, a_mix(&cli.target(), 60_000)), Ok(Report::Begun(_))));
    let request = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        stop.store(true, Relaxed);
    });
    let begun = Instant::now();
    let Ok(Report::Ran(end)) = mix(&mut remote) else { panic!() };
    assert_eq!(end.broken, Some(fleet::TrialAbort::Stopped));
    assert!(begun.elapsed() < SOON);
    assert_eq!(ask(&mut remote, Order::End { inherits: false }), Ok(Report::Ended));
    request.join().unwrap();
}

#[test]
fn strangers_and_other_versions_are_named() {
    let refused = |words: &str| start(&mut sh(words)).err().unwrap().to_string();
    let other = Greeting { protocol: PROTOCOL + 7, version: "9.9".into() };
    let messages = [
        refused("echo Welcome to h; exec sleep 60"),
        refused(&format!("printf '{}'; exec sleep 60", octal(&other))),
        refused("echo one >&2; echo no such luck >&2; exit 3"),
        start(&mut Command::new("/no/such/program")).err().unwrap().to_string(),
    ];
    let messages = messages.join("\n");
    let messages = messages.replace(&other.to_string(), "[other version]");
    let messages = messages.replace(&Greeting::own().to_string(), "[this version]");
    insta::assert_snapshot!(messages);
}

#[test]
fn reports_garbage_from_agent_once() {
    let message_after = |then: &str| {
        let words = format!("printf '{}{then}'; exec sleep 60", octal(&Greeting::own()));
        let mut remote = start(&mut sh(&words)).unwrap();
        remote.receive().unwrap_err().to_string()
    };
    let of_4_gib = message_after("\\377\\377\\377\\377");
    assert!(of_4_gib.contains("received a message of 4294967295 bytes"), "{of_4_gib}");
    let of_one = message_after("\\000\\000\\000\\001\\100");
    assert!(of_one.starts_with("host h: received 1 bytes"), "{of_one}");
}

/// An agent with a controller that this test plays.
fn left_alone(cli: &Cli) -> (Child, ChildStdin) {
    let mut child = agent().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&Greeting::own().to_bytes()).unwrap();
    let mut say = |order| {
        fleet::wire::write(&mut stdin, &fleet::wire::Message::Payload(order)).unwrap();
    };
    say(a_mix(&cli.target(), 600_000));
    say(Order::Prepare(Pass::Mix));
    say(Order::Arm { pass: Pass::Mix, share: Share::whole(1) });
    say(Order::Go { start_ns: 0 });
    let mut stdout = child.stdout.take().unwrap();
    std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
    within(SOON, "the trial's begin", || std::fs::read_dir(cli.target()).unwrap().count() == 1);
    (child, stdin)
}

/// Simulates the fate of a controller; returns the resources that it still holds.
type ControllerEnd = fn(ChildStdin) -> Option<ChildStdin>;

#[test]
fn cleans_up_without_controller() {
    let ways: [(&str, ControllerEnd); 3] = [
        ("gone", |_| None),
        ("silent", Some),
        ("mad", |mut stdin| {
            stdin.write_all(&[0xff; 64]).unwrap();
            Some(stdin)
        }),
    ];
    for (way, end) in ways {
        let cli = Cli::new();
        let (mut child, stdin) = left_alone(&cli);
        let held = end(stdin);
        let limit = stdio::LOST_AFTER + SOON;
        within(limit, way, || child.try_wait().unwrap().is_some());
        drop(held);
        cli.assert_target_is_empty();
    }
}

#[test]
fn cleans_up_after_signal() {
    let cli = Cli::new();
    let mut remote = start(&mut agent()).unwrap();
    assert!(matches!(ask(&mut remote, a_mix(&cli.target(), 60_000)), Ok(Report::Begun(_))));
    signal(process_of(&remote), Signal::TERM);
    within(SOON, "the end", || std::fs::read_dir(cli.target()).unwrap().count() == 0);
    // The clock is read by the thread that reads the stream, so it may answer until the process
    // exits.
    within(SOON, "the end of its process", || ask(&mut remote, Order::Clock).is_err());
}
