use super::ErrorCode;

#[test]
fn error_code_text_matches_its_json_form() {
    for code in [ErrorCode::InvalidArguments, ErrorCode::DeadlineExceeded, ErrorCode::Internal] {
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
    }
}
