use super::super::Level;
use super::{MIB, judge};

#[test]
fn low_disk_space_is_reported() {
    let level = |mib: u64| judge(mib * MIB, "/d".as_ref()).level;
    assert_eq!([99, 100, 1023, 1024].map(level), [Level::Problem, Level::Warning, Level::Warning, Level::Ok]);
}
