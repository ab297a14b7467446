//! The controller with a scripted agent: order of trials, failures, interruptions, stored results.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use controller::{
    CampaignRunner, ControllerError, Event, FAILURES_MAX, Hosts, LaunchedAgent, LocalClock,
};
use fleet::{
    ClockReading, HostPermissions, Order, PassEnd, PeerGone, Report, Transport, TrialAbort,
};
use model::random::SplitMix64;
use model::{
    Campaign, CampaignState, CaveatCode, Fact, Histogram, Host, Interference, InterferenceSource,
    KindResult, OpKind, Pass, PassResult, Span, Trial, TrialState,
};
use plan::Plan;
use results::Store;

use crate::campaign;

/// Answers each order with a function of (number of the trial, order).
struct Scripted<F> {
    script: F,
    trials: usize,
    answers: VecDeque<Report>,
    /// The report of the last pass.
    ran: Option<Report>,
    orders: Vec<String>,
}

impl<F: FnMut(usize, &Order) -> Option<Report>> Scripted<F> {
    fn new(script: F) -> Self {
        Self { script, trials: 0, answers: VecDeque::new(), ran: None, orders: Vec::new() }
    }
}

impl<F: FnMut(usize, &Order) -> Option<Report>> Transport for Scripted<F> {
    fn send(&mut self, order: Order) -> Result<(), PeerGone> {
        self.trials += usize::from(matches!(order, Order::Begin(_)));
        let reported = (self.script)(self.trials, &order);
        let answer = match &order {
            Order::Begin(_) => {
                reported.unwrap_or_else(|| Report::Begun(fleet::TrialSetup::default()))
            }
            Order::Prepare(_) => Report::Prepared,
            Order::Arm { pass, .. } => match reported {
                Some(ran @ Report::Ran(_)) => {
                    self.ran = Some(ran);
                    Report::Armed
                }
                Some(other) => other,
                None => {
                    self.ran = Some(ran(empty(*pass), None));
                    Report::Armed
                }
            },
            Order::Go { start_ns: 0 } => Report::Worked { done: Vec::new(), is_broken: false },
            Order::Account { .. } => self.ran.take().expect("a pass has run"),
            Order::End { inherits: false } => reported.unwrap_or(Report::Ended),
            order => panic!("unexpected order {order:?}"),
        };
        self.answers.push_back(answer);
        match order {
            Order::Begin(begun) => {
                self.orders.push(format!("begin {}", begun.spec.workload.name()));
            }
            Order::Arm { pass, .. } => self.orders.push(pass.name().to_owned()),
            Order::End { .. } => self.orders.push("end".to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Report, PeerGone> {
        self.answers.pop_front().ok_or_else(gone)
    }

    fn try_receive(&mut self) -> Result<Option<Report>, PeerGone> {
        self.receive().map(Some)
    }
}

/// Returns the agent of this process, and no other hosts.
fn only_here<'a>(agent: &'a mut dyn Transport, clock: &'a dyn LocalClock) -> Hosts<'a> {
    // A closure without captures takes no memory to leak.
    let launch = Box::leak(Box::new(|hosts: &[&Host]| -> Vec<LaunchedAgent> {
        hosts.iter().map(|_| Err(gone())).collect()
    }));
    let opening = HostPermissions { campaign: "abc".to_owned(), ..HostPermissions::default() };
    Hosts::new(launch, clock, opening).with_local_agent(agent)
}

/// A clock that never advances.
fn stopped_clock() -> ClockReading {
    ClockReading { mono_ns: 0, wall_ns: 7_000_000 }
}

fn gone() -> PeerGone {
    PeerGone("the agent is gone".to_owned())
}

/// The report of an agent about a pass.
fn ran(result: PassResult, broken: Option<TrialAbort>) -> Report {
    Report::Ran(Box::new(PassEnd {
        result,
        facts: Vec::new(),
        broken,
        span: Span::default(),
        timeline: Vec::new(),
    }))
}

fn empty(pass: Pass) -> PassResult {
    PassResult { window_ns: 1, common_window_ns: 1, first_done_ns: 1, ..PassResult::new(pass) }
}

fn plan(text: &str) -> Plan {
    let head = "name = \"t\"\ntrials = 4\nseed = 3\n[[target]]\nname = \"d\"\npath = \"/d\"\n";
    campaign::plan(&format!("{head}{text}"))
}

/// A runner of a plan's trials without an observer.
fn runner<'a>(
    plan: &'a Plan,
    agent: &'a mut dyn Transport,
    stop: &'a AtomicBool,
    observe: &'a mut dyn FnMut(Event<'_>),
) -> CampaignRunner<'a> {
    let hosts = only_here(agent, &stopped_clock);
    CampaignRunner { plan, hosts, stop, observe, inject_fault: None }
}

/// Walks the plan with an agent; returns the stored results and the events received.
fn walked(
    plan: &Plan,
    agent: &mut dyn Transport,
    stop: &AtomicBool,
    folder: &Path,
) -> (Campaign, Vec<String>) {
    let mut events = Vec::new();
    let mut observe = |event: Event<'_>| {
        events.push(match event {
            // The directory of each trial; the preflight's has no other event.
            Event::DirectoryBegun { .. } | Event::DirectoryEnded { .. } => return,
            Event::TrialBegun { position, .. } => format!("trial {position}"),
            Event::PassBegun(pass) => pass.name().to_owned(),
            Event::TrialEnded { .. } => "ended".to_owned(),
            Event::RunGivenUp(_) => "given up".to_owned(),
            Event::Progress(_) => "progress".to_owned(),
            Event::HostProgress { host, .. } => format!("progress of {host}"),
            Event::PassEnded(result) => format!("{} ended", result.pass),
            Event::Left(left) => panic!("{left}"),
        });
    };
    let hosts = only_here(agent, &stopped_clock);
    let campaign = campaign::run(plan, hosts, stop, &mut observe, folder).unwrap();
    (campaign, events)
}

/// Resumes a stored campaign with an agent that follows orders. Returns the stored results and the
/// number of new trials.
fn resumed(plan: &Plan, id: i64, folder: &Path) -> (Campaign, usize) {
    let mut store = Store::open_or_create(&folder.join("r.db")).unwrap();
    let mut agent = Scripted::new(|_, _: &Order| None);
    let stop = AtomicBool::new(false);
    let mut ignore = |_: Event<'_>| {};
    runner(plan, &mut agent, &stop, &mut ignore).resume(&mut store, id).unwrap();
    (store.load(id).unwrap(), agent.trials)
}

#[test]
fn follows_order_of_plan() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan("[[workload]]\nkind = \"stream\"\n[[workload]]\nkind = \"metadata\"\n");
    let mut agent = Scripted::new(|_, _: &Order| None);
    let (campaign, events) = walked(&plan, &mut agent, &AtomicBool::new(false), folder.path());
    assert_eq!(campaign.state, CampaignState::Complete);
    let positions = |run: usize| -> Vec<u32> {
        campaign.runs[run].trials.iter().map(|trial| trial.position).collect()
    };
    let expected = |run: usize| -> Vec<u32> {
        let order = plan.order().into_iter().enumerate();
        order.filter(|(_, step)| step.run == run).map(|(at, _)| at as u32).collect()
    };
    for run in 0..2 {
        assert_eq!(positions(run), expected(run));
        let indexes: Vec<u32> = campaign.runs[run].trials.iter().map(|t| t.index).collect();
        assert_eq!(indexes, [0, 1, 2, 3]);
    }
    assert_eq!(events.iter().filter(|event| *event == "ended").count(), 8);
    let passes = campaign.runs.iter().flat_map(|run| &run.trials).flat_map(|trial| &trial.passes);
    let ended = events.iter().filter(|event| event.ends_with(" ended"));
    assert_eq!(ended.count(), passes.count());
    assert_eq!(agent.orders.iter().filter(|order| *order == "end").count(), 8);
}

#[test]
fn gives_up_failing_run() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan("[[workload]]\nkind = \"stream\"\n[[workload]]\nkind = \"metadata\"\n");
    let mut agent = Scripted::new(|_, order: &Order| match order {
        Order::Begin(assignment) if assignment.spec.workload.name() == "stream" => {
            Some(Report::Failed("no such luck".into()))
        }
        _ => None,
    });
    let (campaign, events) = walked(&plan, &mut agent, &AtomicBool::new(false), folder.path());
    let failed = TrialState::Failed("no such luck".into());
    let states: Vec<_> = campaign.runs[0].trials.iter().map(|t| t.state.clone()).collect();
    assert_eq!(states, vec![failed; FAILURES_MAX as usize]);
    assert_eq!(campaign.runs[1].trials.len(), 4);
    assert_eq!(events.iter().filter(|event| *event == "given up").count(), 1);
}

#[test]
fn keeps_results_when_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan("[[workload]]\nkind = \"stream\"\n");
    let stop = AtomicBool::new(false);
    let mut agent = Scripted::new(|trial, order: &Order| match order {
        Order::Arm { pass: Pass::Write, .. } if trial == 2 => {
            stop.store(true, Relaxed);
            let result = empty(Pass::Write);
            Some(ran(result, Some(TrialAbort::Stopped)))
        }
        _ => None,
    });
    let (campaign, _) = walked(&plan, &mut agent, &stop, folder.path());
    assert_eq!(campaign.state, CampaignState::Interrupted);
    let states: Vec<_> = campaign.runs[0].trials.iter().map(|t| t.state.clone()).collect();
    assert_eq!(states, [TrialState::Done, TrialState::Interrupted]);
    let expected = ["begin stream", "write", "read", "end", "begin stream", "write", "end"];
    assert_eq!(agent.orders, expected);
}

#[test]
fn resumes_in_same_order() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan("[[workload]]\nkind = \"stream\"\n[[workload]]\nkind = \"metadata\"\n");
    let whole = tempfile::tempdir().unwrap();
    let mut undisturbed = Scripted::new(|_, _: &Order| None);
    let never = AtomicBool::new(false);
    let (expected, _) = walked(&plan, &mut undisturbed, &never, whole.path());
    // Wherever it is stopped, and in whichever trial.
    for stopped_in in 1..=8 {
        let stop = AtomicBool::new(false);
        let mut agent = Scripted::new(|trial, order: &Order| match order {
            Order::Arm { pass, .. } if trial == stopped_in => {
                stop.store(true, Relaxed);
                let broken = Some(TrialAbort::Stopped);
                Some(ran(empty(*pass), broken))
            }
            _ => None,
        });
        let (stopped, _) = walked(&plan, &mut agent, &stop, folder.path());
        assert_eq!(stopped.state, CampaignState::Interrupted);
        let (resumed, trials) = resumed(&plan, stopped.id, folder.path());
        assert_eq!(resumed.state, CampaignState::Complete);
        assert_eq!((resumed.runs, trials), (expected.runs.clone(), 9 - stopped_in));
    }
}

#[test]
fn stops_run_with_narrow_interval() {
    let folder = tempfile::tempdir().unwrap();
    let head = "name = \"t\"\ntrials = 9\nuntil = \"1%\"\nseed = 3\n";
    let text = "[[target]]\nname = \"d\"\npath = \"/d\"\n[[workload]]\nkind = \"stream\"\n\
                passes = \"write\"\nio_size = [\"64KiB\", \"1MiB\"]\n";
    let plan = campaign::plan(&format!("{head}{text}"));
    let mut io_size = 0;
    let mut agent = Scripted::new(|trial, order: &Order| match order {
        Order::Begin(assignment) => {
            io_size = assignment.spec.io_size_bytes;
            None
        }
        Order::Arm { pass, .. } => {
            // Small ops always take the same time, large ones do not.
            let wide = if io_size > 65_536 { trial as u64 % 3 } else { 0 };
            let mut result = empty(*pass);
            result.window_ns = 1_000_000_000 + wide * 400_000_000;
            result.kinds = vec![written(1 << 30)];
            Some(ran(result, None))
        }
        _ => None,
    });
    let (campaign, _) = walked(&plan, &mut agent, &AtomicBool::new(false), folder.path());
    let trials: Vec<usize> = campaign.runs.iter().map(|run| run.trials.len()).collect();
    assert_eq!(trials, [5, 9]);
    assert_eq!(campaign.state, CampaignState::Complete);
}

/// A second of writes, of which the hypervisor stole some thousandths.
fn stolen(pass: Pass, bytes: u64, steal: u64) -> PassResult {
    let mut result = PassResult { window_ns: 1_000_000_000, ..empty(pass) };
    result.kinds = vec![written(bytes)];
    result.scope.interference =
        Interference::default().with(InterferenceSource::Steal, Some(steal));
    result
}

/// Runs ten planned trials; `steal` is the stolen share of each, in thousandths.
fn walked_with_steal(
    head: &str,
    mut pass: impl FnMut(usize) -> (u64, u64),
) -> (Campaign, stats::Judged) {
    let folder = tempfile::tempdir().unwrap();
    let plan = campaign::plan(&format!(
        "name = \"t\"\ntrials = 10\nseed = 3\n{head}[[target]]\nname = \"d\"\npath = \"/d\"\n\
         [[workload]]\nkind = \"stream\"\npasses = \"write\"\n"
    ));
    let mut agent = Scripted::new(|trial, order: &Order| match order {
        Order::Arm { pass: kind, .. } => {
            let (bytes, steal) = pass(trial);
            Some(ran(stolen(*kind, bytes, steal), None))
        }
        _ => None,
    });
    let (campaign, _) = walked(&plan, &mut agent, &AtomicBool::new(false), folder.path());
    let judged = stats::judge::pass(&campaign.runs[0], Pass::Write);
    (campaign, judged)
}

#[test]
fn disturbed_trials_are_repeated() {
    for seed in 0..20 {
        let mut random = SplitMix64::new(seed);
        // Four of the first ten trials, and one in eight of their replacements.
        let mut disturbed = vec![false; 10];
        while disturbed.iter().filter(|it| **it).count() < 4 {
            disturbed[(random.next() % 10) as usize] = true;
        }
        disturbed.extend([(); 5].map(|()| random.next().is_multiple_of(8)));
        let (campaign, judged) = walked_with_steal("", |trial| {
            // The rate of a disturbed trial suffers, but the rule ignores it.
            let steal = if disturbed[trial - 1] { 300 } else { random.next() % 50 };
            ((1 << 30) * (1_000 - steal) / 1_000, steal)
        });
        let made = campaign.runs[0].trials.len();
        let planted = disturbed[..made].iter().filter(|it| **it).count();
        assert_eq!(judged.set_aside.len(), planted, "seed {seed}");
        // Each disturbed trial is repeated, up to half of the planned number.
        assert_eq!(made, 10 + planted.min(5), "seed {seed}");
        let rate = judged.rate.unwrap();
        assert_eq!(rate.n, made - planted);
        assert!(rate.min > 0.94 * f64::from(1 << 30), "seed {seed}: {rate:?}");
        // The file keeps all of them with their results.
        let stored = campaign.runs[0].trials.iter().map(|trial| {
            let found = &trial.passes[0].scope.interference;
            found.get(InterferenceSource::Steal).unwrap() == 300
        });
        assert_eq!(stored.collect::<Vec<_>>(), disturbed[..made]);
    }
}

#[test]
fn repeats_only_rare_disturbances() {
    // A target with two speeds, on a quiet machine.
    let two_speeds = |trial: usize| ((1 + trial as u64 % 2) << 30, 10);
    let (campaign, judged) = walked_with_steal("", two_speeds);
    assert_eq!((campaign.runs[0].trials.len(), judged.trials_used), (10, 10));
    // A machine that always loses time.
    let (campaign, judged) = walked_with_steal("", |_| (1 << 30, 300));
    assert_eq!((campaign.runs[0].trials.len(), judged.trials_used), (10, 10));
    let codes: Vec<_> = judged.caveats.iter().map(|caveat| caveat.code).collect();
    assert_eq!(codes, [CaveatCode::Interference]);
    // A plan that counts all trials.
    let some = |trial: usize| (1 << 30, if trial.is_multiple_of(3) { 300 } else { 0 });
    let (campaign, judged) = walked_with_steal("interference = \"keep\"\n", some);
    assert_eq!((campaign.runs[0].trials.len(), judged.trials_used), (10, 10));
    // With `until`, its number of trials is the limit.
    let (campaign, judged) = walked_with_steal("until = \"50%\"\n", some);
    assert_eq!((campaign.runs[0].trials.len(), judged.trials_used), (7, 5));
}

/// Writes of the given number of bytes in total.
fn written(bytes: u64) -> KindResult {
    let time = Histogram::new();
    KindResult {
        kind: OpKind::Write,
        issued: 1,
        done: 1,
        bytes,
        errors: Vec::new(),
        service_time: time.clone(),
        response_time: time,
    }
}

/// Returns the evidence of the note of each trial's pass, if the target is on a mount.
fn notes_of_results(point: &str) -> Vec<Option<(String, f64)>> {
    let plan =
        plan("[[workload]]\nkind = \"stream\"\nfile_size = \"1MiB\"\npasses = [\"write\"]\n");
    let folder = tempfile::tempdir().unwrap();
    let point = if point.is_empty() {
        lab::mounts::Mount::find_containing(folder.path()).unwrap().mount_point
    } else {
        point.to_owned()
    };
    let mut agent = Scripted::new(|_, order| match order {
        Order::Begin(_) => {
            let facts = vec![Fact::new("target", "mount point", &point, "/proc/self/mountinfo")];
            Some(Report::Begun(fleet::TrialSetup { facts, ..fleet::TrialSetup::default() }))
        }
        Order::Arm { pass, .. } => {
            Some(ran(PassResult { kinds: vec![written(1 << 20)], ..empty(*pass) }, None))
        }
        _ => None,
    });
    let (campaign, _) = walked(&plan, &mut agent, &AtomicBool::new(false), folder.path());
    let note = |trial: &Trial| {
        let caveats = &trial.passes[0].caveats;
        let found = caveats.iter().find(|caveat| caveat.code == CaveatCode::ResultsOnTarget)?;
        Some((found.evidence.clone(), found.data.as_ref()?.found))
    };
    campaign.runs[0].trials.iter().map(note).collect()
}

#[test]
fn notes_results_on_target() {
    let notes: Vec<_> = notes_of_results("").into_iter().map(Option::unwrap).collect();
    assert_eq!(notes.len(), 4);
    let (evidence, bytes) = &notes[0];
    assert!(evidence.contains("r.db and its journal"), "{evidence}");
    assert!(evidence.contains(" % of the 1 MiB"), "{evidence}");
    // The schema and the campaign's header; later, each previously stored trial.
    assert!(*bytes > 4096.0, "{evidence}");
    assert!(notes.is_sorted_by(|(_, one), (_, other)| one < other), "{notes:?}");
}

#[test]
fn results_elsewhere_are_not_noted() {
    assert_eq!(notes_of_results("/proc"), [None, None, None, None]);
    assert_eq!(notes_of_results("/no/such/mount"), [None, None, None, None]);
}

#[test]
fn never_retries_failed_run_on_resume() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan("[[workload]]\nkind = \"stream\"\n");
    let mut failing = Scripted::new(|_, order: &Order| {
        matches!(order, Order::Begin(_)).then(|| Report::Failed("no such luck".into()))
    });
    let never = AtomicBool::new(false);
    let (failed, _) = walked(&plan, &mut failing, &never, folder.path());
    let (resumed, trials) = resumed(&plan, failed.id, folder.path());
    assert_eq!((resumed.runs, trials), (failed.runs, 0));
}

#[test]
fn does_not_fail_interrupted_setup() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan("[[workload]]\nkind = \"mixed\"\n");
    let stop = AtomicBool::new(false);
    let mut agent = Scripted::new(|_, order: &Order| match order {
        Order::Arm { .. } => {
            stop.store(true, Relaxed);
            Some(Report::Failed("interrupted".into()))
        }
        _ => None,
    });
    let (campaign, _) = walked(&plan, &mut agent, &stop, folder.path());
    assert_eq!(campaign.runs[0].trials[0].state, TrialState::Interrupted);
}

#[test]
fn preflight_wants_one_target_that_works() {
    let plan = plan("[[workload]]\nkind = \"stream\"\nbackends = [\"posix\"]\n");
    for (works, expected) in [(true, None), (false, Some("no server"))] {
        let mut agent = Scripted::new(|_, order: &Order| match order {
            Order::Begin(_) if !works => Some(Report::Failed("no server".into())),
            _ => None,
        });
        let stop = AtomicBool::new(false);
        let mut ignore = |_: Event<'_>| {};
        let checked = runner(&plan, &mut agent, &stop, &mut ignore).preflight();
        match (checked, expected) {
            (Ok(()), None) => {}
            (Err(ControllerError::UnusableHere(reason)), Some(expected)) => {
                assert_eq!(reason, expected);
            }
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[test]
fn preflight_reports_interruption_as_such() {
    let plan = plan("[[workload]]\nkind = \"stream\"\nbackends = [\"posix\"]\n");
    let stop = AtomicBool::new(false);
    let mut agent = Scripted::new(|_, order: &Order| match order {
        Order::Begin(_) => {
            stop.store(true, Relaxed);
            Some(Report::Failed("MOUNT: interrupted".into()))
        }
        _ => None,
    });
    let mut ignore = |_: Event<'_>| {};
    let checked = runner(&plan, &mut agent, &stop, &mut ignore).preflight();
    assert!(matches!(checked, Err(ControllerError::Interrupted)));
}

#[test]
fn keeps_trials_of_dead_agent() {
    struct Mortal<T>(T, u32);
    impl<T: Transport> Transport for Mortal<T> {
        fn send(&mut self, order: Order) -> Result<(), PeerGone> {
            self.1 = self.1.checked_sub(1).ok_or_else(gone)?;
            self.0.send(order)
        }
        fn receive(&mut self) -> Result<Report, PeerGone> {
            self.0.receive()
        }
        fn try_receive(&mut self) -> Result<Option<Report>, PeerGone> {
            self.0.try_receive()
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let plan = plan("[[workload]]\nkind = \"stream\"\n");
    // A complete trial with two passes takes ten orders.
    let mut agent = Mortal(Scripted::new(|_, _: &Order| None), 13);
    let hosts = only_here(&mut agent, &stopped_clock);
    let never = AtomicBool::new(false);
    let ran = campaign::run(&plan, hosts, &never, &mut |_| (), folder.path());
    assert!(matches!(ran, Err(ControllerError::Gone(_))));
    let store = Store::open_existing(&folder.path().join("r.db")).unwrap();
    let id = store.latest().unwrap().unwrap();
    let kept = store.load(id).unwrap();
    assert_eq!((kept.runs[0].trials.len(), kept.state), (1, CampaignState::Interrupted));
}

#[test]
fn keeps_minimum_trials_after_budget() {
    let folder = tempfile::tempdir().unwrap();
    let plan = campaign::plan(
        "name = \"t\"\ntrials = 20\nbudget = \"1s\"\nseed = 3\n[[target]]\nname = \"d\"\n\
         path = \"/d\"\n[[workload]]\nkind = \"stream\"\n",
    );
    let mut agent = Scripted::new(|_, _: &Order| None);
    // Each reading of the clock is one minute after the previous one.
    let now_ns = AtomicU64::new(0);
    let clock = || ClockReading { mono_ns: 0, wall_ns: now_ns.fetch_add(60_000_000_000, Relaxed) };
    let never = AtomicBool::new(false);
    let hosts = only_here(&mut agent, &clock);
    let runs = campaign::run(&plan, hosts, &never, &mut |_| (), folder.path()).unwrap().runs;
    let needed = plan.trials_needed() as usize;
    assert!(needed > 1 && runs.iter().all(|run| run.trials.len() == needed), "{needed}");
}
