use std::time::Duration;

use super::{Jitter, ReconnectDelays};

#[test]
fn delays_grow_to_a_limit_and_reset_after_a_lasting_link() {
    let mut delays = ReconnectDelays::new(Jitter::fixed(1.0));
    let lost: Vec<_> = (0..9).map(|_| delays.after_loss(Duration::ZERO).as_millis()).collect();
    assert_eq!(lost, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    assert_eq!(
        delays.after_loss(Duration::from_secs(29)).as_millis(),
        30_000,
        "too short to reset the delay"
    );
    assert_eq!(delays.after_loss(Duration::from_secs(30)).as_millis(), 500);
}

#[test]
fn first_delay_is_spread_over_the_whole_range() {
    let first = |number| ReconnectDelays::new(Jitter::fixed(number)).after_loss(Duration::ZERO).as_millis();
    assert_eq!((first(0.0), first(0.5), first(1.0)), (0, 250, 500));
}

#[test]
fn refused_node_retries_rarely() {
    let mut delays = ReconnectDelays::new(Jitter::fixed(1.0));
    let refused: Vec<_> = (0..7).map(|_| delays.after_refusal().as_secs()).collect();
    assert_eq!(refused, [10, 20, 40, 80, 160, 300, 300]);
}
