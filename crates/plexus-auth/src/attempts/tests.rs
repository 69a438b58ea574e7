use std::net::IpAddr;
use std::time::Duration;

use plexus_kit::Clock;
use plexus_proto::Timestamp;

use super::{FailedAttempts, MAX_SOURCES};

fn attempts(limit: u32) -> (FailedAttempts, Clock) {
    let clock = Clock::manual("2026-11-01T00:00:00Z".parse::<Timestamp>().unwrap());
    (FailedAttempts::new(limit, clock.clone()), clock)
}

fn address(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

#[test]
fn address_over_the_limit_waits_until_the_window_ends() {
    let (attempts, clock) = attempts(3);
    for number in 0..3 {
        assert_eq!(attempts.note(address("10.0.0.1"), Some(&format!("token {number}"))), Ok(()));
    }
    clock.advance(Duration::from_secs(20));
    assert_eq!(attempts.note(address("10.0.0.1"), None), Err(Duration::from_secs(40)));
    assert_eq!(attempts.note(address("10.0.0.2"), None), Ok(()), "another address");
    clock.advance(Duration::from_secs(40));
    assert_eq!(attempts.note(address("10.0.0.1"), None), Ok(()), "a new minute");
}

#[test]
fn token_over_the_limit_is_blocked_from_every_address() {
    let (attempts, _clock) = attempts(3);
    for number in 0..3 {
        assert_eq!(attempts.note(address(&format!("10.0.0.{number}")), Some("leaked")), Ok(()));
    }
    assert!(attempts.note(address("10.0.0.9"), Some("leaked")).is_err());
    assert_eq!(attempts.note(address("10.0.0.9"), Some("another")), Ok(()));
}

#[test]
fn ipv6_counts_per_network_and_mapped_addresses_as_ipv4() {
    let (attempts, _clock) = attempts(2);
    for text in ["2001:db8::1", "2001:db8::ffff:2"] {
        assert_eq!(attempts.note(address(text), None), Ok(()));
    }
    assert!(attempts.note(address("2001:db8::3"), None).is_err());
    assert_eq!(attempts.note(address("2001:db8:0:1::3"), None), Ok(()));
    for text in ["10.0.0.1", "::ffff:10.0.0.1"] {
        assert_eq!(attempts.note(address(text), None), Ok(()));
    }
    assert!(attempts.note(address("10.0.0.1"), None).is_err());
}

#[test]
fn new_sources_share_a_counter_while_the_table_is_full() {
    let (attempts, clock) = attempts(2);
    for number in 0..MAX_SOURCES {
        assert_eq!(attempts.note(None, Some(&format!("token {number}"))), Ok(()));
    }
    for number in 0..2 {
        assert_eq!(attempts.note(None, Some(&format!("newcomer {number}"))), Ok(()));
    }
    assert!(attempts.note(None, Some("newcomer 3")).is_err());
    assert_eq!(attempts.note(None, Some("token 1")), Ok(()), "sources in the table keep their own counter");
    assert!(attempts.table.lock().unwrap().windows.len() <= MAX_SOURCES + 1);
    clock.advance(Duration::from_secs(60));
    assert_eq!(attempts.note(None, Some("newcomer 3")), Ok(()));
    assert!(attempts.table.lock().unwrap().windows.len() < 5);
}

#[test]
fn blocked_address_does_not_fill_the_table_with_tokens() {
    let (attempts, _clock) = attempts(3);
    for number in 0..100 {
        let _ = attempts.note(address("10.0.0.1"), Some(&format!("token {number}")));
    }
    // The address itself, and the tokens that were counted before it was blocked.
    assert_eq!(attempts.table.lock().unwrap().windows.len(), 4);
}

#[test]
fn limit_of_zero_disables_counting() {
    let (attempts, _clock) = attempts(0);
    assert!((0..100).all(|_| attempts.note(address("10.0.0.1"), Some("a")).is_ok()));
    assert!(attempts.table.lock().unwrap().windows.is_empty());
}
