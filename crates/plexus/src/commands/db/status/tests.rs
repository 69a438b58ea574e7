use super::size;

#[test]
fn sizes_use_largest_fitting_unit() {
    let shown = [0, 1023, 1024, 1536, 5 << 20, (3 << 40) + 1].map(size);
    assert_eq!(shown, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3072.0 GiB"]);
}
