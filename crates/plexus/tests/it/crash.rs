//! Faults at random under full load, most of them `kill -9`: what was acknowledged is there, once,
//! and on record.
//!
//! The rounds share one data folder, so later ones start from what earlier crashes left behind.

mod journal;
mod logins;
mod nodes;
mod outage;
mod parked;
pub(crate) mod records;
mod scene;

use plexus_testkit::Plexus;
use plexus_testkit::faults::{Load, OnSilence, rounds};

use scene::{HubScene, Plan};

/// Writes of one client in one round: a to-do list holds 300, and every other write goes there.
const WRITES: usize = 550;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_crashes_under_load_lose_nothing() {
    interrupted(crate::plexus(), 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_crashes_under_load_lose_nothing_on_postgres() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        interrupted(plexus, 20).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_retry_through_crashes_and_cut_wires_write_everything_once() {
    persistent(crate::plexus(), 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_between_the_journal_and_the_database_lose_no_record() {
    journal::interrupted(crate::plexus(), 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_between_the_journal_and_the_database_lose_no_record_on_postgres() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        journal::interrupted(plexus, 6).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_while_access_to_a_server_is_renewed_end_in_a_state_that_is_told() {
    logins::interrupted(crate::plexus(), 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_while_calls_wait_for_answers_or_go_on_as_tasks_run_nothing_twice() {
    parked::interrupted(crate::plexus(), 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_on_a_node_end_once_through_crashes_and_cut_wires() {
    nodes::interrupted("ws", 12).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_on_a_node_that_polls_end_once_through_crashes_and_cut_wires() {
    nodes::interrupted("poll", 12).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_behind_a_proxy_ride_out_crashes_and_lost_answers() {
    outage::rode_out(outage::Plan { writes: 400, kills: 4 }, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn agents_behind_a_proxy_ride_out_twenty_rounds_of_twenty_crashes_and_lost_answers() {
    outage::rode_out(outage::Plan { writes: 5_000, kills: 20 }, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn commands_on_a_node_end_once_through_two_hundred_rounds_of_crashes() {
    nodes::interrupted("ws", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn commands_on_a_node_that_polls_end_once_through_two_hundred_rounds_of_crashes() {
    nodes::interrupted("poll", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn three_hundred_crashes_while_calls_wait_for_answers_or_go_on_as_tasks_run_nothing_twice() {
    parked::interrupted(crate::plexus(), 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn two_hundred_crashes_while_access_to_a_server_is_renewed_end_in_a_state_that_is_told() {
    logins::interrupted(crate::plexus(), 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn two_hundred_crashes_between_the_journal_and_the_database_lose_no_record() {
    journal::interrupted(crate::plexus(), 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn three_hundred_crashes_under_load_lose_nothing() {
    interrupted(crate::plexus(), 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn two_hundred_crashes_under_load_lose_nothing_on_postgres() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        interrupted(plexus, 200).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn clients_that_retry_through_a_hundred_rounds_of_crashes_write_everything_once() {
    persistent(crate::plexus(), 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for `make soak`"]
async fn clients_that_retry_through_fifty_rounds_of_crashes_write_everything_once_on_postgres() {
    if let Some(plexus) = crate::plexus_on_postgres().await {
        persistent(plexus, 50).await;
    }
}

/// One fault a round; what it interrupted is looked at before it is sent again.
async fn interrupted(plexus: Plexus, count: u64) {
    let mut scene = HubScene::new(plexus, Plan::OneFault).await;
    let load = Load { most: WRITES, on_silence: OnSilence::Stop };
    let tally = rounds(&mut scene, count, load).await;
    eprintln!("done, and nobody heard of it: {}", scene.done_unheard());
    if tally.rounds < count {
        return;
    }
    assert!(tally.acknowledged > tally.rounds as usize * 20, "hardly any load: {tally:?}");
    assert!(tally.unanswered > 0, "no write was ever interrupted: {tally:?}");
}

/// Several faults a round, to clients that try again until they are answered.
async fn persistent(plexus: Plexus, count: u64) {
    let mut scene = HubScene::new(plexus, Plan::ManyFaults).await;
    let load = Load { most: WRITES, on_silence: OnSilence::Retry };
    let tally = rounds(&mut scene, count, load).await;
    assert_eq!(tally.unanswered, 0, "{tally:?}");
    if tally.rounds < count {
        return;
    }
    assert!(tally.acknowledged > tally.rounds as usize * 20, "hardly any load: {tally:?}");
    assert!(tally.retries > 0, "nobody ever had to try again: {tally:?}");
}
