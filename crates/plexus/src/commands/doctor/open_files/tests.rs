use super::super::Level;
use super::judge;

#[test]
fn low_limit_is_reported() {
    assert_eq!(judge(Some(1024)).level, Level::Warning);
    assert_eq!(judge(Some(8448)).level, Level::Ok);
    assert_eq!(judge(None).level, Level::Ok);
}
