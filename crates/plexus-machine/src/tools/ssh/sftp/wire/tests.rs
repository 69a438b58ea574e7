use super::*;

#[test]
fn packets_round_trip() {
    let packet = Writer::new(OPEN).u32(7).bytes(b"name").u64(1 << 40).mode(Some(0o644)).packet();
    let (length, rest) = packet.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, rest.len());
    let mut reader = Reader(rest);
    assert_eq!((reader.u8(), reader.u32()), (Some(OPEN), Some(7)));
    assert_eq!((reader.bytes(), reader.u64()), (Some(&b"name"[..]), Some(1 << 40)));
    assert_eq!(reader.attributes(), Some(Attributes { size: None, mode: Some(0o644), modified: None }));
    assert!(reader.0.is_empty());
}

#[test]
fn packets_with_excessive_lengths_are_rejected() {
    let whole = [&[0, 0, 0, 15][..], &8_u64.to_be_bytes(), &[0; 8], &[0; 4], &[0; 8]].concat();
    assert!(Reader(&whole).attributes().is_some());
    for cut in 0..whole.len() {
        assert_eq!(Reader(&whole[..cut]).attributes(), None, "{cut}");
    }
    assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 1]).bytes(), None);
}
