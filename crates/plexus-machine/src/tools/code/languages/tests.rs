use super::*;

#[test]
fn modules_are_distinguished_from_scripts() {
    for code in ["import fs from 'fs'", "import{a}from'b'", "// x\nexport default 1", "import 'x'"] {
        assert_eq!(Language::Node.script(code), "main.mjs", "{code}");
    }
    for code in ["const fs = require('fs')", "import('fs').then(f)", "important = 1", "  // import x"] {
        assert_eq!(Language::Node.script(code), "main.js", "{code}");
    }
}

#[test]
fn missing_interpreter_error_lists_available_languages() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("sh");
    std::fs::write(&program, "").unwrap();
    let environment: Environment =
        [("PATH".to_owned(), format!("relative:{}", folder.path().display()))].into_iter().collect();
    let refused = Language::Shell.interpreter(&environment).unwrap_err();
    assert!(refused.text().contains("none of the languages"), "it cannot be executed: {}", refused.text());
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(Language::Shell.interpreter(&environment).unwrap(), program);
    let refused = Language::Python.interpreter(&environment).unwrap_err();
    assert!(
        refused.text().contains("python3 is not on") && refused.text().contains("supports: shell."),
        "{}",
        refused.text()
    );
}
