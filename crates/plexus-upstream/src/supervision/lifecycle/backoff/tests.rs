use super::*;
use plexus_kit::backoff::Jitter;

fn timing() -> Timing {
    Timing { jitter: Jitter::fixed(1.0), ..Timing::default() }
}

#[test]
fn pauses_double_up_to_the_limit_and_reset_after_a_long_run() {
    let mut backoff = Backoff::new(timing(), false);
    let mut now = Instant::now();
    let mut fail = |uptime: u64| {
        now += Duration::from_secs(100);
        match backoff.failed(now, Duration::from_secs(uptime)) {
            NextAttempt::Retry(pause) => pause.as_millis(),
            NextAttempt::GiveUp(_) => panic!("a remote server is never given up"),
        }
    };
    let pauses: Vec<_> = (0..10).map(|_| fail(0)).collect();
    assert_eq!(pauses, [0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    assert_eq!(fail(59), 60_000, "a run that was too short");
    assert_eq!(fail(60), 0);
    assert_eq!(fail(0), 500);
}

#[test]
fn jitter_shortens_a_pause_by_up_to_half() {
    for (number, pause) in [(0.0, 250), (0.5, 375), (1.0, 500)] {
        let timing = Timing { jitter: Jitter::fixed(number), ..Timing::default() };
        let mut backoff = Backoff::new(timing, true);
        backoff.failed(Instant::now(), Duration::ZERO);
        let next = backoff.failed(Instant::now(), Duration::ZERO);
        assert_eq!(next, NextAttempt::Retry(Duration::from_millis(pause)));
    }
}

#[test]
fn crash_loop_is_given_up_until_a_run_lasts() {
    let mut backoff = Backoff::new(timing(), true);
    let now = Instant::now();
    for n in 1..8 {
        assert!(matches!(backoff.failed(now, Duration::ZERO), NextAttempt::Retry(_)), "failure {n}");
    }
    let given_up = NextAttempt::GiveUp(Duration::from_secs(600));
    assert_eq!(backoff.failed(now, Duration::ZERO), given_up);
    // The slow retry fails too, long after the others.
    let later = now + Duration::from_secs(700);
    assert_eq!(backoff.failed(later, Duration::ZERO), given_up);
    assert_eq!(backoff.failed(later, Duration::from_secs(60)), NextAttempt::Retry(Duration::ZERO));
}

#[test]
fn infrequent_failures_do_not_give_up() {
    let mut backoff = Backoff::new(timing(), true);
    let mut now = Instant::now();
    for _ in 0..100 {
        now += Duration::from_secs(100);
        assert!(matches!(backoff.failed(now, Duration::from_secs(30)), NextAttempt::Retry(_)));
    }
}
