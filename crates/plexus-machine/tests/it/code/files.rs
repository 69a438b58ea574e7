//! Input files, returned files, and files that must not be returned.

use serde_json::json;

use super::{nothing_is_left, python, small};

#[tokio::test]
async fn files_round_trip_unchanged() {
    let bench = small().await;
    let files = json!([
        { "name": "daten/größe 1.csv", "text": "a,b\r\n1,2\r\n" },
        { "name": "raw.bin", "base64": "AAECA//+" },
        { "name": "empty", "text": "" },
        { "name": "-rf", "text": "an option?" },
    ]);
    let code = "
import os, shutil
for folder, _, names in list(os.walk('.')):
    for name in names:
        if name != 'main.py':
            path = os.path.relpath(os.path.join(folder, name))
            os.makedirs(os.path.join('out', os.path.dirname(path)), exist_ok=True)
            shutil.copyfile(path, os.path.join('out', path))
os.unlink('empty')
";
    let answer = bench.code(json!({ "language": "python", "code": code, "files": files })).await.unwrap();
    assert_eq!(answer["exit_code"], 0, "{answer}");
    let expected = json!([
        { "name": "out/-rf", "bytes": 10, "text": "an option?" },
        { "name": "out/daten/größe 1.csv", "bytes": 10, "text": "a,b\r\n1,2\r\n" },
        { "name": "out/empty", "bytes": 0, "text": "" },
        { "name": "out/raw.bin", "bytes": 6, "base64": "AAECA//+" },
    ]);
    assert_eq!(answer["files"], expected);
    // Input files can be requested as well, by name.
    let code = "open('b.txt', 'w').write('b'); open('c.log', 'w').write('c')";
    let files = json!([{ "name": "a.txt", "text": "a" }]);
    let arguments = json!({ "language": "python", "code": code, "files": files, "collect": ["*.txt"] });
    let answer = bench.code(arguments).await.unwrap();
    let names: Vec<_> = answer["files"].as_array().unwrap().iter().map(|file| &file["name"]).collect();
    assert_eq!(names, ["a.txt", "b.txt"]);
    nothing_is_left(&bench);
}

/// Links created in the folder are not followed, neither when it is read nor when it is removed.
#[tokio::test]
async fn links_and_special_files_are_reported_but_not_read() {
    let bench = small().await;
    let ssh = bench.home().join(".ssh");
    std::fs::create_dir(&ssh).unwrap();
    std::fs::write(ssh.join("id_test"), "nobody is to read this").unwrap();
    let code = "
import os, sys
ssh = sys.argv[1]
os.symlink(ssh, 'folder')
os.symlink(ssh + '/id_test', 'file')
os.symlink('/proc/self/environ', 'environ')
os.mkfifo('pipe')
with open('sparse', 'wb') as f: f.truncate(4 << 20)
os.mkdir('shut'); os.mkdir('shut/in'); os.chmod('shut', 0)
os.rename('main.py', 'moved.py')
";
    let arguments = json!({ "language": "python", "code": code, "args": [ssh] });
    let answer = bench.code(arguments).await.unwrap();
    assert_eq!(answer["exit_code"], 0, "{answer}");
    let left: Vec<_> =
        answer["files_left_out"].as_array().unwrap().iter().map(|f| (&f["name"], &f["why"])).collect();
    let (link, special, large) = (json!("link"), json!("special"), json!("too_large"));
    let expected = [
        (&json!("environ"), &link),
        (&json!("file"), &link),
        (&json!("folder"), &link),
        (&json!("pipe"), &special),
        (&json!("sparse"), &large),
    ];
    assert_eq!(left, expected, "{answer}");
    assert_eq!(answer["files"][0]["name"], "moved.py");
    assert!(!answer.to_string().contains("nobody is to read this"));
    nothing_is_left(&bench);
    assert!(ssh.join("id_test").exists(), "the target of a symlink is not removed with it");
}

#[tokio::test]
async fn code_may_remove_its_own_folder() {
    let bench = small().await;
    let answer = python(&bench, "import os, shutil\nshutil.rmtree(os.getcwd())\nprint('gone')").await;
    assert_eq!((&answer["stdout"]["text"], &answer["files"]), (&json!("gone\n"), &json!([])), "{answer}");
    nothing_is_left(&bench);
}

#[tokio::test]
async fn concurrent_snippets_have_separate_folders() {
    let bench = small().await;
    let code = "
import os, time
open('mine', 'w').write(os.environ['WHO'])
time.sleep(0.3)
print(open('mine').read())
";
    let run = |who: &str| bench.code(json!({ "language": "python", "code": code, "env": { "WHO": who } }));
    let (one, other) = tokio::join!(run("one"), run("other"));
    assert_eq!(
        (&one.unwrap()["stdout"]["text"], &other.unwrap()["stdout"]["text"]),
        (&json!("one\n"), &json!("other\n"))
    );
    nothing_is_left(&bench);
}
