//! A kernel mount whose server is gone: I/O on it ends, and a signal ends the campaign.
//!
//! The server is taken off the network until the campaign has ended, so that nothing is answered
//! and nothing refused: threads of the agent sleep in the kernel where no thread can join them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::plans::Plans;
use checks::ours::exit;
use checks::proc::Background;

/// Maximum time until a campaign ends after a signal: 15 s, and extra time for a busy machine.
const END_WITHIN: Duration = Duration::from_secs(30);

/// A signal ends a campaign whose mount doesn't answer, and its client is restored.
pub fn signalled(plans: &Plans<'_>) -> Result<()> {
    let mut controller = plans.start_long_campaign()?;
    plans.lab().unplug("server")?;
    // A connection that was cut off for long retransmits only much later.
    plans.lab().close_connection("server");
    let ended = end_by_signal(&mut controller);
    plans.lab().plug_in("server")?;
    ended?;
    plans.await_server()?;
    plans.await_restored()
}

/// Ends a campaign by a signal once its workers are waiting for the server.
fn end_by_signal(controller: &mut Background) -> Result<()> {
    // Once nothing has come from the server for a while, the workers are waiting.
    std::thread::sleep(Duration::from_secs(5));
    let begun = Instant::now();
    let id = i32::try_from(controller.id())?;
    kill_process(Pid::from_raw(id).context("a number above 0")?, Signal::TERM)?;
    let code = controller.await_end(END_WITHIN)?;
    ensure!(code == Some(exit::INVALID), "{code:?} after {:?}", begun.elapsed());
    Ok(())
}
