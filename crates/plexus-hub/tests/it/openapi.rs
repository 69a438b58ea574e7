//! The OpenAPI document: committed, served, and complete.

use std::path::Path;

use plexus_testkit::TestHub;
use serde_json::Value;

#[test]
fn committed_document_matches_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let current = plexus_hub::openapi().unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == current,
        "docs/openapi.json does not match the routes; review the change after\n  \
         make generated"
    );
}

#[tokio::test]
async fn document_is_public_and_cached_by_tag() {
    let hub = TestHub::start().await;
    let get = || hub.http().get(hub.url("/api/v1/openapi.json"));
    let served = get().send().await.unwrap();
    assert_eq!(
        (served.status().as_u16(), &served.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let tag = served.headers()["etag"].clone();
    assert_eq!(served.text().await.unwrap(), plexus_hub::openapi().unwrap());
    let again = get().header("if-none-match", tag).send().await.unwrap();
    assert_eq!((again.status().as_u16(), again.text().await.unwrap().as_str()), (304, ""));
}

/// Requirements of client generators.
#[test]
fn every_operation_is_described_completely() {
    let document: Value = serde_json::from_str(&plexus_hub::openapi().unwrap()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        assert!(path.starts_with("/api/v1/"), "{path}");
        for (method, operation) in item.as_object().unwrap() {
            let what = format!("{method} {path}");
            ids.push(operation["operationId"].as_str().unwrap_or_else(|| panic!("{what}: no id")).to_owned());
            assert!(operation["summary"].is_string(), "{what}");
            assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{what}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let refused = status.parse::<u16>().unwrap() >= 400;
                assert_eq!(response["$ref"].is_string(), refused, "{what}: {status}");
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["description"].is_string(), "{what}: {parameter}");
            }
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "an operation id is used twice: {ids:?}");
}
