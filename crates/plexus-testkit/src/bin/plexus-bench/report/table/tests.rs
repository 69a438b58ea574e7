use super::*;

#[test]
fn numbers_have_three_significant_digits() {
    let written = [0.0312, 0.9996, 1.256, 15.25, 99.97, 241.6, 1234.5, 1_234_567.0].map(Some).map(number);
    assert_eq!(written, ["0.031", "1.00", "1.26", "15.2", "100", "242", "1,234", "1,234,567"]);
    assert_eq!(number(None), "–");
}

#[test]
fn table_is_as_wide_as_its_widest_cell() {
    let mut table = Table::new(&["what", "ms"]);
    table.add(["a longer name".to_owned(), "1".to_owned()]);
    assert_eq!(table.render(), "| what          |  ms |\n| ------------- | --: |\n| a longer name |   1 |\n");
}
