use super::*;

#[test]
fn every_pattern_compiles() {
    assert_eq!(COMPILED.len(), PATTERNS.len());
}
