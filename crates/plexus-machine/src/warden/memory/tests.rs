use super::*;

#[test]
fn exact_memory_does_not_exceed_the_sum() {
    let own = [Stat::of(std::process::id()).unwrap()];
    let (bound, exact) = (upper_bound(&own), exact(&own));
    // Memory may have grown between the two measurements.
    assert!(exact > 0 && exact <= bound + (16 << 20), "{exact} of {bound}");
}
