use futures_util::FutureExt;

use super::*;

#[test]
fn timeout_without_any_message_makes_a_server_suspect() {
    let timeout = Duration::from_secs(5);
    assert!(!timed_out_in_silence(1_000, 2_000, 900, timeout), "it was cancelled early");
    assert!(!timed_out_in_silence(1_000, 6_000, 5_000, timeout), "the server was heard in the meantime");
    assert!(timed_out_in_silence(1_000, 6_000, 900, timeout));
}

/// A time in the past would make the monitor of a lazy server loop without a pause.
#[test]
fn no_idle_time_passes_while_a_call_is_in_flight() {
    let activity = Activity::new(Gauge::default());
    assert!(activity.idle_since().is_some());
    let (one, two) = (activity.begin(Duration::MAX), activity.begin(Duration::MAX));
    assert_eq!(activity.idle_since(), None);
    drop(one);
    activity.record_message();
    assert_eq!(activity.idle_since(), None);
    drop(two);
    assert!(activity.idle_since() >= Some(activity.last_message_at()));
}

#[test]
fn any_message_clears_the_suspicion() {
    let activity = Activity::new(Gauge::default());
    activity.last_message.store(0, Ordering::Relaxed);
    let mut silent = activity.begin(Duration::ZERO);
    silent.began = 1;
    drop(silent);
    assert!(activity.is_suspect());
    activity.record_message();
    assert!(!activity.is_suspect());
}

#[test]
fn quiet_resolves_when_the_last_running_call_ends() {
    let activity = Activity::new(Gauge::default());
    let _waiting = activity.begin(Duration::MAX);
    assert!(activity.wait_until_quiet().now_or_never().is_some());
    let (one, two) = (activity.run(), activity.run());
    assert_eq!((activity.in_flight(), activity.running()), (1, 2));
    let mut quiet = Box::pin(activity.wait_until_quiet());
    drop(one);
    assert!((&mut quiet).now_or_never().is_none());
    drop(two);
    assert!(quiet.now_or_never().is_some());
}
