use super::*;

/// The result does not depend on how the output is split into blocks.
#[test]
fn head_and_tail_are_retained_and_the_middle_is_counted() {
    let all: Vec<u8> = (0..1000_u32).map(|n| b'a' + (n % 26) as u8).collect();
    for piece in [1, 7, 64, 99, 1000] {
        let mut retained = HeadAndTail::new(100);
        all.chunks(piece).for_each(|piece| retained.push(piece));
        assert_eq!(retained.size(), 1000);
        let ends = retained.ends(100);
        assert_eq!((ends.first.as_slice(), ends.last.as_deref()), (&all[..50], Some(&all[950..])), "{piece}");
        assert_eq!(ends.left_out, 900);
        let fewer = retained.ends(40);
        assert_eq!((fewer.first.as_slice(), fewer.last.as_deref()), (&all[..20], Some(&all[980..])));
        assert_eq!(retained.part(10, 5), (10, all[10..15].to_vec()));
        assert_eq!(retained.part(60, 5), (950, all[950..955].to_vec()), "from the first retained byte");
        assert_eq!(retained.part(2000, 5), (1000, vec![]));
    }
}

#[test]
fn output_within_the_limit_is_complete() {
    for size in [0, 1, 49, 50, 51, 99, 100] {
        let all = vec![b'x'; size];
        let mut retained = HeadAndTail::new(100);
        retained.push(&all);
        assert_eq!(retained.ends(100), Ends { first: all.clone(), last: None, left_out: 0 }, "{size}");
        let cut = retained.ends(10);
        let shown = cut.first.len() + cut.last.as_ref().map_or(0, Vec::len);
        assert_eq!(shown as u64 + cut.left_out, size as u64, "{size}");
        assert!(shown <= 10, "{size}");
    }
}

#[test]
fn characters_are_never_split() {
    let all = "€".repeat(100);
    let mut retained = HeadAndTail::new(50);
    retained.push(all.as_bytes());
    let ends = retained.ends(50);
    assert!(std::str::from_utf8(&ends.first).is_ok() && std::str::from_utf8(&ends.last.unwrap()).is_ok());
}
