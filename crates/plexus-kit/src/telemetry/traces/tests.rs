use super::{address, without_url};

#[test]
fn export_error_omits_the_url() {
    let error = "sending failed for url (https://ann:hunter2@otel.example/v1/traces?key=hunter3): refused";
    let told = without_url(error, "https://***@otel.example?***");
    assert_eq!(told, "sending failed for url (https://***@otel.example?*** …");
    assert_eq!(without_url("status 503", "x"), "status 503");
}

#[test]
fn collector_url_is_accepted_with_or_without_the_path() {
    for endpoint in ["http://127.0.0.1:4318", "http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"] {
        assert_eq!(address(endpoint).unwrap(), "http://127.0.0.1:4318/v1/traces");
    }
    assert_eq!(address("https://otel.example/base/").unwrap(), "https://otel.example/base/v1/traces");
    assert_eq!(address("https://otel.example?key=x").unwrap(), "https://otel.example/v1/traces?key=x");
    for wrong in ["", "127.0.0.1:4318", "http://", "grpc://host"] {
        assert!(address(wrong).is_err(), "{wrong}");
    }
}
