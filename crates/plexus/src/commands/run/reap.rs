//! Cleans up abandoned runs, whose runner has died: kills the agent, reports the end, revokes the token and removes the
//! folder.

use std::time::{Duration, Instant};

use plexus_kit::process::Signal;
use plexus_proto::Timestamp;
use plexus_proxy::runner::{RunEvent, RunFolder, RunFolders, RunRecord, RunState};
use rustix::process::{Pid, kill_process, kill_process_group};

use super::session_events;
use super::token_issuer::TokenIssuer;

/// Time limit for a request to the hub.
const HUB_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an agent has to end after a signal.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum age of a record in seconds. Older ones are removed without a report, because their tokens have expired.
const MAX_RECORD_AGE: i64 = 30 * 24 * 60 * 60;

/// Cleans up all abandoned runs. Without an issuer or a reachable hub, the hub's part is left for the next time.
pub(crate) async fn clean_up(runs: &RunFolders, issuer: Option<&TokenIssuer>) {
    runs.remove_unfinished();
    let mut reachable = true;
    for found in runs.list() {
        let Some(folder) = runs.lock_abandoned(&found.id) else { continue };
        let Some(mut record) = runs.read(&found.id) else { continue };
        if record.state != RunState::Ended {
            end_agent(&record).await;
            record.state = RunState::Ended;
            record.events.push(RunEvent { state: "crashed".to_owned(), at: Timestamp::now(), ending: None });
            let _ = folder.save(&record);
        }
        folder.remove_agent_files();
        let same_hub = issuer.filter(|issuer| reachable && issuer.hub.url() == record.hub);
        if let Some(issuer) = same_hub {
            reachable = settle(issuer, None, &mut record).await;
        }
        release(folder, &record);
    }
}

/// Reports the remaining events of a run and revokes its token. Returns false if the hub did not confirm both.
pub(crate) async fn settle(
    issuer: &TokenIssuer,
    token: Option<&plexus_kit::Secret>,
    record: &mut RunRecord,
) -> bool {
    let report = session_events::report(issuer, token, record, true);
    let reported = match tokio::time::timeout(HUB_TIMEOUT, report).await {
        Ok(Ok(reported)) => reported,
        Ok(Err(error)) => {
            tracing::debug!(%error, run = record.id, "cannot report the end of a run");
            false
        }
        Err(_) => return false,
    };
    if let Some(jti) = record.token {
        let revoked = tokio::time::timeout(HUB_TIMEOUT, issuer.revoke(jti)).await;
        if matches!(revoked, Ok(Ok(()))) {
            record.token = None;
        }
    }
    reported && record.token.is_none()
}

/// Removes the folder of a run, or stores its record if something still has to be reported to the hub.
pub(crate) fn release(folder: RunFolder, record: &RunRecord) {
    let age = Timestamp::now().as_second() - record.started_at.as_second();
    if record.is_settled() || age > MAX_RECORD_AGE {
        if let Err(error) = folder.remove() {
            tracing::warn!(%error, run = record.id, "cannot remove the folder of a run");
        }
        return;
    }
    folder.remove_agent_files();
    if let Err(error) = folder.save(record) {
        tracing::warn!(%error, run = record.id, "cannot write the record of a run");
    }
}

/// Ends the agent of an abandoned run: SIGTERM first, then SIGKILL.
async fn end_agent(record: &RunRecord) {
    for signal in [Signal::TERM, Signal::KILL] {
        if !send_signal(record, signal) {
            return;
        }
        // A suspended process handles the signal only when it continues.
        send_signal(record, Signal::CONT);
        let started = Instant::now();
        while started.elapsed() < SIGNAL_TIMEOUT && is_alive(record) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

pub(crate) fn is_alive(record: &RunRecord) -> bool {
    record.process.as_ref().is_some_and(plexus_proxy::runner::ProcessId::is_alive)
}

/// Sends a signal to the agent of a run, or to its process group if it has its own. Returns false if it has ended.
pub(crate) fn send_signal(record: &RunRecord, signal: Signal) -> bool {
    let Some(process) = record.process.as_ref().filter(|process| process.is_alive()) else { return false };
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return false };
    let sent = match record.own_group {
        true => kill_process_group(pid, signal),
        false => kill_process(pid, signal),
    };
    sent.is_ok()
}
