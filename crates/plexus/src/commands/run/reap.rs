//! Clears up after runs whose runner is gone: ends what is left of the agent, tells the hub, takes the token back and
//! removes the folder.

use std::time::{Duration, Instant};

use plexus_kit::process::Signal;
use plexus_proto::Timestamp;
use plexus_proxy::runner::{RunEvent, RunFolder, RunFolders, RunRecord, RunState};
use rustix::process::{Pid, kill_process, kill_process_group};

use super::journal;
use super::maker::Maker;

/// For the hub to answer.
const MOMENT: Duration = Duration::from_secs(3);
/// For an agent to end by itself.
const GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);
/// A token is over by then, and nobody waits for the news.
const FORGOTTEN: i64 = 30 * 24 * 60 * 60;

/// Clears up as far as the hub can be reached; the rest is left for the next time.
pub(crate) async fn all(runs: &RunFolders, maker: Option<&Maker>) {
    runs.remove_unfinished();
    let mut reachable = true;
    for found in runs.list() {
        let Some(scratch) = runs.lock_abandoned(&found.id) else { continue };
        let Some(mut record) = runs.read(&found.id) else { continue };
        if record.state != RunState::Ended {
            end_agent(&record).await;
            record.state = RunState::Ended;
            record.events.push(RunEvent { state: "crashed".to_owned(), at: Timestamp::now(), ending: None });
            let _ = scratch.save(&record);
        }
        scratch.remove_agent_files();
        let same_hub = maker.filter(|maker| reachable && maker.hub.url() == record.hub);
        if let Some(maker) = same_hub {
            reachable = settle(maker, None, &mut record).await;
        }
        release(scratch, &record);
    }
}

/// Tells the hub of a run and takes its token back. False: it does not answer, or not now.
pub(crate) async fn settle(
    maker: &Maker,
    token: Option<&plexus_kit::Secret>,
    record: &mut RunRecord,
) -> bool {
    let told = tokio::time::timeout(MOMENT, journal::tell(maker, token, record, true)).await;
    let told = match told {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => {
            tracing::debug!(%error, run = record.id, "the hub does not take what became of a run");
            false
        }
        Err(_) => return false,
    };
    if let Some(jti) = record.token {
        let revoked = tokio::time::timeout(MOMENT, maker.revoke(jti)).await;
        if matches!(revoked, Ok(Ok(()))) {
            record.token = None;
        }
    }
    told && record.token.is_none()
}

/// Removes the folder of a run, unless the hub has still to hear of it.
pub(crate) fn release(scratch: RunFolder, record: &RunRecord) {
    let age = Timestamp::now().as_second() - record.started_at.as_second();
    if record.is_settled() || age > FORGOTTEN {
        if let Err(error) = scratch.remove() {
            tracing::warn!(%error, run = record.id, "the folder of a run cannot be removed");
        }
        return;
    }
    scratch.remove_agent_files();
    if let Err(error) = scratch.save(record) {
        tracing::warn!(%error, run = record.id, "the record of a run cannot be written");
    }
}

/// Ends an agent that its runner has left behind, politely at first.
async fn end_agent(record: &RunRecord) {
    for signal in [Signal::TERM, Signal::KILL] {
        if !send(record, signal) {
            return;
        }
        send(record, Signal::CONT);
        let begun = Instant::now();
        while begun.elapsed() < GRACE && is_alive(record) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

pub(crate) fn is_alive(record: &RunRecord) -> bool {
    record.process.as_ref().is_some_and(plexus_proxy::runner::ProcessId::is_alive)
}

/// Signals the agent of a run, and its group where that is its own. False: it is not there any more.
pub(crate) fn send(record: &RunRecord, signal: Signal) -> bool {
    let Some(process) = record.process.as_ref().filter(|process| process.is_alive()) else { return false };
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return false };
    let sent = match record.own_group {
        true => kill_process_group(pid, signal),
        false => kill_process(pid, signal),
    };
    sent.is_ok()
}
