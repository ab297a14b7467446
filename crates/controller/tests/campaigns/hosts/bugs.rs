//! Answers that no agent should give, and a controller that panics: a trial fails and gives the
//! reason, hosts are restored, and the campaign continues.

use model::{CampaignState, Invalidation, LabSpec, TrialState};

use super::network;
use super::scripted_hosts::{Script, ScriptedHosts};

#[test]
fn drops_host_after_wrong_answer() {
    for (host, order) in [
        ("c", "Facts"),
        ("c", "Open"),
        ("s", "Apply"),
        ("c", "Clock"),
        ("c", "Begin"),
        ("c", "Prepare"),
        ("s", "Watch"),
        ("c", "Arm"),
        ("c", "Go"),
        ("c", "Account"),
        ("s", "Unwatch"),
        ("s", "Invalidate"),
        ("c", "End"),
    ] {
        let hosts = ScriptedHosts::new(Script { wrong: Some((host, order)), ..Script::default() });
        let lab = LabSpec { invalidation: Invalidation::Caches, ..network(8) };
        let (campaign, _) = hosts.run(&[lab]);
        assert_eq!(campaign.state, CampaignState::Complete, "{order}");
        let TrialState::Failed(why) = &campaign.runs[0].trials[0].state else {
            panic!("{order}: {:?}", campaign.runs[0].trials[0].state)
        };
        let sentence = format!("host {host} answered Disarmed to {order} (hint: ");
        assert!(why.contains(&sentence), "{order}: {why}");
        // A host that is abandoned undoes its own changes.
        let log = hosts.log();
        for (of, action) in [("s", "nfsd"), ("s", "export"), ("c", "nfs-mount")] {
            let count = |sign: &str| {
                let line = format!("{of} {sign} {action}");
                log.iter().filter(|noted| **noted == line).count()
            };
            let is_undone = count("+") == count("-") || log.contains(&format!("{of} left"));
            assert!(is_undone, "{order}: {of} {action}: {log:?}");
        }
    }
}

#[test]
fn reports_wrong_answer_to_undo() {
    let hosts = ScriptedHosts::new(Script { wrong: Some(("c", "UndoLast")), ..Script::default() });
    let (campaign, left) = hosts.run(&[network(8)]);
    assert_eq!(campaign.runs[0].trials[0].state, TrialState::Done);
    assert!(left.iter().any(|why| why.contains("answered Disarmed to UndoLast")), "{left:?}");
    assert!(hosts.log().contains(&"c left".to_owned()), "{:?}", hosts.log());
}

#[test]
fn restores_hosts_after_controller_panic() {
    let hosts = ScriptedHosts::new(Script { panics: 1, ..Script::default() });
    let (campaign, left) = hosts.run(&[network(8), network(8)]);
    assert_eq!(left, [""; 0]);
    assert_eq!(campaign.state, CampaignState::Complete);
    let TrialState::Failed(why) = &campaign.runs[0].trials[0].state else {
        panic!("{:?}", campaign.runs[0].trials[0].state)
    };
    assert!(why.starts_with("panicked: no write today"), "{why}");
    assert!(why.contains("hint: report it"), "{why}");
    assert_eq!(campaign.runs[1].trials[0].state, TrialState::Done);
    let applied = ["s + nfsd", "s + export", "c + nfs-mount", "c trial"];
    let undone = ["c - nfs-mount", "s - export", "s - nfsd"];
    let all = [&["s open", "c open"][..], &applied, &undone, &applied, &undone].concat();
    assert_eq!(hosts.log(), all);
}
