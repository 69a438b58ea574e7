use super::parse_fingerprints;

#[test]
fn event_id_contains_a_hash_of_each_list() {
    assert_eq!(parse_fingerprints("g-00000000000000ff-1-a"), [Some(255), Some(1), Some(10)]);
    assert_eq!(parse_fingerprints("g-ff"), [Some(255), None, None], "an older form with tools only");
    assert_eq!(parse_fingerprints("anything"), [None; 3]);
}
