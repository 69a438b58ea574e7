use super::*;

#[test]
fn only_text_between_the_markers_is_replaced() {
    let marks = DocMarkers::of("make bench");
    let DocMarkers { begin, end } = &marks;
    let page = format!("# Title\n\n{begin}\nold\n{end}\n\nRead it so.\n");
    let written = put_between(&page, &marks, "new\n").unwrap();
    assert_eq!(written, format!("# Title\n\n{begin}\n\nnew\n\n{end}\n\nRead it so.\n"));
    assert_eq!(put_between(&written, &marks, "new\n").unwrap(), written);
    assert!(put_between("# Title\n", &marks, "new").is_err());
}
