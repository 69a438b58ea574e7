use super::*;

fn args(files: serde_json::Value) -> Args {
    serde_json::from_value(json!({ "language": "python", "code": "pass", "files": files })).unwrap()
}

#[test]
fn file_names_must_stay_within_the_folder() {
    let fine = ["a", "a/b.txt", "données/été.csv", "-rf", ".hidden", "a..b", "...", "a b\nc", "C:\\x"];
    for name in fine {
        assert_eq!(check_name(name), Ok(()), "{name:?}");
    }
    let long = "x".repeat(256);
    let deep = "d/".repeat(600) + "x";
    let hostile = [
        "",
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        ".",
        "./a",
        "a/./b",
        "a//b",
        "a/",
        "/",
        "a\0b",
        &long,
        &deep,
    ];
    for name in hostile {
        assert!(check_name(name).is_err(), "{name:?}");
    }
}

#[test]
fn file_names_are_unique_and_have_one_content() {
    let mut fine = args(json!([{ "name": "b", "base64": "AP8=" }, { "name": "t/x", "text": "é" }]));
    let input_files = files(&mut fine, 100).unwrap();
    assert_eq!(input_files[1].content, [0, 255]);
    assert_eq!(
        (input_files[0].name.as_str(), input_files[2].content.as_slice()),
        ("main.py", "é".as_bytes())
    );
    for (wrong, says) in [
        (json!([{ "name": "a" }]), "either"),
        (json!([{ "name": "a", "text": "", "base64": "" }]), "either"),
        (json!([{ "name": "a", "base64": "%" }]), "invalid base64"),
        (json!([{ "name": "main.py", "text": "" }]), "the code itself"),
        (json!([{ "name": "a", "text": "" }, { "name": "a", "text": "" }]), "conflict"),
        (json!([{ "name": "a", "text": "" }, { "name": "a/b", "text": "" }]), "conflict"),
        (json!([{ "name": "main.py/b", "text": "" }]), "conflict"),
        (json!([{ "name": "a", "text": "x".repeat(97) }]), "101 bytes"),
    ] {
        let refused = files(&mut args(wrong.clone()), 100).unwrap_err();
        assert!(refused.text().contains(says), "{wrong}: {}", refused.text());
    }
}
