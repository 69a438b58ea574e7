//! Writing, copying, moving and deleting files.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use plexus_proto::ErrorCode;
use serde_json::{Value, json};

use crate::workbench::Workbench;

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn write_modes_create_replace_and_append() {
    let bench = Workbench::new().await;
    let path = bench.home().join("new/deep/file");
    let write = |more: Value| {
        let mut call = json!({ "action": "write", "path": path, "text": "one\n" });
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    let error = bench.filesystem(write(json!({}))).await.unwrap_err();
    assert!(error.text().contains("create_dirs"), "{}", error.text());
    let made = bench.filesystem(write(json!({ "create_dirs": true }))).await.unwrap();
    assert_eq!((read(&path), &made["changes"][0]["what"]), ("one\n".to_owned(), &json!("created")));
    let error = bench.filesystem(write(json!({ "mode": "create", "text": "x" }))).await.unwrap_err();
    assert_eq!((error.code, read(&path)), (ErrorCode::Conflict, "one\n".to_owned()));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    bench.filesystem(write(json!({ "mode": "append", "text": "two\n" }))).await.unwrap();
    assert_eq!(read(&path), "one\ntwo\n");
    let hash = bench.filesystem(json!({ "action": "hash", "path": path })).await.unwrap()["sha256"].clone();
    let wrong = bench.filesystem(write(json!({ "if_sha256": "0".repeat(64) }))).await.unwrap_err();
    assert_eq!((wrong.code, read(&path)), (ErrorCode::Conflict, "one\ntwo\n".to_owned()));
    let bytes = json!({ "action": "write", "path": path, "base64": "AP8=", "if_sha256": hash });
    bench.filesystem(bytes).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [0, 255]);
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o640,
        "its mode is preserved"
    );
    let link = bench.home().join("link");
    symlink(&path, &link).unwrap();
    bench.filesystem(json!({ "action": "write", "path": link, "text": "by a link" })).await.unwrap();
    assert!(link.is_symlink() && read(&path) == "by a link");
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no other file remains");
}

#[tokio::test]
async fn deleted_files_can_be_restored_from_the_trash() {
    let bench = Workbench::new().await;
    let home = bench.home().canonicalize().unwrap();
    std::fs::create_dir_all(home.join("w/ö folder/sub")).unwrap();
    std::fs::write(home.join("w/ö folder/sub/x"), "kept").unwrap();
    for n in 0..3 {
        std::fs::write(home.join("w/a.txt"), format!("{n}")).unwrap();
        let done =
            bench.filesystem(json!({ "action": "delete", "path": home.join("w/a.txt") })).await.unwrap();
        let other = done["changes"][0]["other"].as_str().unwrap().to_owned();
        assert_eq!((read(&other), home.join("w/a.txt").exists()), (n.to_string(), false));
        assert!(Path::new(&other).starts_with(home.join(".local/share/Trash/files")), "{other}");
    }
    let call = json!({ "action": "delete", "path": home.join("w/ö folder") });
    let done = bench.filesystem(call).await.unwrap();
    let other = done["changes"][0]["other"].as_str().unwrap().to_owned();
    let info = read(home.join(".local/share/Trash/info/ö folder.trashinfo"));
    assert!(
        info.starts_with("[Trash Info]\nPath=/") && info.contains("/w/%C3%B6%20folder\nDeletionDate=20"),
        "{info}"
    );
    let back = json!({ "action": "move", "path": other, "to": home.join("w/back") });
    bench.filesystem(back).await.unwrap();
    assert_eq!(read(home.join("w/back/sub/x")), "kept");
    // A symlink itself is deleted, not its target.
    symlink(home.join("w/back"), home.join("w/link")).unwrap();
    bench
        .filesystem(json!({ "action": "delete", "path": home.join("w/link"), "permanent": true }))
        .await
        .unwrap();
    assert!(home.join("w/back/sub/x").exists() && !home.join("w/link").is_symlink());
    bench
        .filesystem(json!({ "action": "delete", "path": home.join("w/back"), "permanent": true }))
        .await
        .unwrap();
    assert!(!home.join("w/back").exists());
    let missing_error =
        bench.filesystem(json!({ "action": "delete", "path": home.join("w/back") })).await.unwrap_err();
    assert_eq!(missing_error.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn files_and_folders_are_copied_and_moved_as_a_whole() {
    let bench = Workbench::new().await;
    let home = bench.home().canonicalize().unwrap();
    std::fs::create_dir_all(home.join("a/sub")).unwrap();
    std::fs::write(home.join("a/sub/x"), "x").unwrap();
    std::fs::write(home.join("a/run"), "#!").unwrap();
    std::fs::set_permissions(home.join("a/run"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::hard_link(home.join("a/run"), home.join("a/same")).unwrap();
    symlink("sub/x", home.join("a/link")).unwrap();
    let call = |action: &str, from: &str, to: &str, overwrite: bool| json!({ "action": action, "path": home.join(from), "to": home.join(to), "overwrite": overwrite });
    bench.filesystem(call("copy", "a", "b", false)).await.unwrap();
    assert_eq!((read(home.join("b/sub/x")), read(home.join("b/same"))), ("x".to_owned(), "#!".to_owned()));
    assert_eq!(std::fs::read_link(home.join("b/link")).unwrap(), Path::new("sub/x"));
    assert_eq!(std::fs::metadata(home.join("b/run")).unwrap().permissions().mode() & 0o777, 0o755);
    for (action, from, to) in
        [("copy", "a", "b"), ("copy", "a", "a/sub/in"), ("move", "a", "a/sub/in"), ("move", "a", "b")]
    {
        assert!(bench.filesystem(call(action, from, to, true)).await.is_err(), "{action} {from} {to}");
    }
    assert!(bench.filesystem(call("copy", "a/run", "b/sub/x", false)).await.is_err());
    assert_eq!(read(home.join("b/sub/x")), "x");
    bench.filesystem(call("copy", "a/run", "b/sub/x", true)).await.unwrap();
    assert_eq!(read(home.join("b/sub/x")), "#!");
    bench.filesystem(call("move", "b", "c", false)).await.unwrap();
    assert!(home.join("c/sub/x").exists() && !home.join("b").exists());
    bench.filesystem(call("move", "c/run", "c/sub/x", true)).await.unwrap();
    assert!(bench.filesystem(call("move", "c/same", "c/sub/x", false)).await.is_err());
    let deep =
        json!({ "action": "move", "path": home.join("c"), "to": home.join("n/m/c"), "create_dirs": true });
    bench.filesystem(deep).await.unwrap();
    assert!(home.join("n/m/c/sub/x").exists());
    let made = bench.filesystem(json!({ "action": "mkdir", "path": home.join("q/r") })).await.unwrap();
    assert_eq!(made["changes"].as_array().unwrap().len(), 2);
    assert!(bench.filesystem(json!({ "action": "mkdir", "path": home.join("q/r") })).await.is_ok());
    assert!(bench.filesystem(json!({ "action": "mkdir", "path": home.join("a/run/x") })).await.is_err());
}
