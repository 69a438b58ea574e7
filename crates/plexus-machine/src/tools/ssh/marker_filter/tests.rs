use super::*;

/// Reads in blocks of the given size.
fn read(output: &[u8], size: usize) -> (Option<u32>, Vec<u8>, Option<MarkedEnd>) {
    let (mut marker_filter, mut seen, mut number) = (MarkerFilter::new("n0nce"), Vec::new(), None);
    for block in output.chunks(size) {
        match number {
            None => number = marker_filter.read_opening(block, &mut |bytes| seen.extend_from_slice(bytes)),
            Some(_) => marker_filter.read_closing(block, &mut |bytes| seen.extend_from_slice(bytes)),
        }
    }
    // Output in the same block as the opening marker is processed with the next block.
    marker_filter.read_closing(b"", &mut |bytes| seen.extend_from_slice(bytes));
    marker_filter.flush(&mut |bytes| seen.extend_from_slice(bytes));
    (number, seen, marker_filter.ended())
}

#[test]
fn markers_are_removed_for_any_block_size() {
    let output = b"motd\nplexus-ready 4711\nerr\n\nn0nc\nno newline\nn0nce 3\nfrom behind";
    for size in 1..output.len() {
        let (number, seen, ended) = read(output, size);
        assert_eq!(number, Some(4711), "{size}");
        assert_eq!(String::from_utf8_lossy(&seen), "motd\nerr\n\nn0nc\nno newlinefrom behind", "{size}");
        assert_eq!(ended, Some(MarkedEnd::Code(3)), "{size}");
    }
}

#[test]
fn output_without_markers_is_unchanged() {
    for size in 1..20 {
        assert_eq!(
            read(b"This account is closed.\nplexus-read", size).1,
            b"This account is closed.\nplexus-read"
        );
    }
    let (number, seen, ended) = read(b"plexus-ready 7\n\nn0nce cwd\n", 5);
    assert_eq!((number, seen.as_slice(), ended), (Some(7), &b""[..], Some(MarkedEnd::NoFolder)));
}
