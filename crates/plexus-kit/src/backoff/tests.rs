use super::*;

#[test]
fn delays_double_up_to_the_limit() {
    let (first, longest) = (Duration::from_secs(1), Duration::from_secs(60));
    let pauses: Vec<_> = (0..8).map(|n| doubled(first, n, longest).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(doubled(first, u32::MAX, longest), longest);
    assert_eq!(doubled(Duration::MAX, u32::MAX, longest), longest);
}

#[test]
fn jitter_shortens_a_delay_by_up_to_half() {
    for (number, millis) in [(0.0, 500), (0.5, 750), (1.0, 1_000), (7.0, 1_000), (-1.0, 500)] {
        assert_eq!(Jitter::fixed(number).shorten(Duration::from_secs(1)).as_millis(), millis);
    }
}
