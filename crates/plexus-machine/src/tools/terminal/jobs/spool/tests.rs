use std::io::Write as _;

use super::*;

#[test]
fn trim_releases_the_middle_and_preserves_offsets() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::create(&folder.path().join("stdout")).unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(spool.path()).unwrap();
    let line = |n: u64| format!("{n:015}\n");
    let cap = 64 << 10;
    for round in 0..8_u64 {
        for n in round * 4096..(round + 1) * 4096 {
            file.write_all(line(n).as_bytes()).unwrap();
        }
        spool.trim(cap).unwrap();
    }
    let size = 8 * 4096 * 16;
    assert_eq!(spool.size(), size, "the length is the total output");
    assert!(spool.on_disk() <= cap + BLOCK, "{} bytes on the disk", spool.on_disk());
    let gap = spool.gap().unwrap();
    let first = spool.part(0, 1 << 20).unwrap();
    assert_eq!(first.bytes.len() as u64, gap.start);
    assert!(first.bytes.starts_with(line(0).as_bytes()));
    let rest = spool.part(gap.start, 1 << 20).unwrap();
    assert_eq!((rest.offset, rest.skipped), (gap.end, gap.end - gap.start));
    assert!(rest.bytes.starts_with(line(gap.end / 16).as_bytes()));
    assert!(rest.bytes.ends_with(line(8 * 4096 - 1).as_bytes()));
    assert_eq!(spool.part(size + 5, 10).unwrap().bytes, b"");
}
