//! What commands can do at every level.

use plexus_machine::launch::SandboxLevel;
use serde_json::json;

use super::{LEVELS, is_available, policy_with_level};
use crate::workbench::{Workbench, poll_until};

/// A command, and its expected output.
const ORDINARY: &[(&str, &str)] = &[
    ("echo hello", "hello\n"),
    (
        "cd ~/work && echo text > a && cat a && mv a b && mkdir d && mv b d/c && cat d/c && rm -r d && ls",
        "text\ntext\n",
    ),
    ("ls -d ~ / /tmp /etc >/dev/null && echo listed", "listed\n"),
    ("f=$(mktemp) && echo x > $f && cat $f && rm $f", "x\n"),
    ("cat ~/.bashrc", "# mine\n"),
    ("echo to the error >&2; echo again >>/dev/stderr; echo out >>/dev/stdout", "out\n"),
    ("head -c 3 /dev/zero | od -An -tx1", " 00 00 00\n"),
    ("head -c 3 /dev/urandom | wc -c", "3\n"),
    ("echo gone >/dev/null && echo written", "written\n"),
    ("echo shared >/dev/shm/plexus-$$ && cat /dev/shm/plexus-$$ && rm /dev/shm/plexus-$$", "shared\n"),
    ("cat /proc/self/comm", "cat\n"),
    ("cat /proc/sys/kernel/ostype", "Linux\n"),
    ("cat /etc/passwd >/dev/null && id -u >/dev/null && echo known", "known\n"),
    ("mkfifo ~/work/p && (echo through > ~/work/p & cat ~/work/p) && rm ~/work/p", "through\n"),
    ("ln -s target ~/work/l && readlink ~/work/l && rm ~/work/l", "target\n"),
    ("(sleep 0.01 & wait) && echo waited", "waited\n"),
    ("pwd", "{HOME}/plexus-work\n"),
    ("echo $HOME $PLEXUS_NODE_KEY", "{HOME}\n"),
];

async fn bench(level: SandboxLevel, more: &str) -> Workbench {
    let bench = Workbench::with_launcher(&format!("{}{more}", policy_with_level(level))).await;
    std::fs::create_dir(bench.home().join("work")).unwrap();
    std::fs::write(bench.home().join(".bashrc"), "# mine\n").unwrap();
    bench
}

#[tokio::test]
async fn allowed_operations_work_at_every_level() {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let bench = bench(level, "").await;
        let home = bench.home().display().to_string();
        for (command, expected) in ORDINARY {
            let ran = bench.sh(command).await;
            let context = format!("{level}: {command}: {ran}");
            assert_eq!(ran["stdout"]["text"], expected.replace("{HOME}", &home), "{context}");
            assert_eq!(ran["exit_code"], 0, "{context}");
        }
    }
}

#[tokio::test]
async fn refused_write_is_explained_with_the_working_folder() {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let bench = bench(level, "").await;
        let ran = bench.sh("mkdir ~/new").await;
        let note = ran["note"].as_str().unwrap_or_default();
        assert!(note.contains(&level.to_string()) && note.contains("plexus-work"), "{level}: {ran}");
        assert!(bench.sh("mkdir ~/work/new").await.get("note").is_none());
    }
}

/// On a node whose home folder contains nothing of Plexus and nothing protected.
#[tokio::test]
async fn working_folder_allows_new_files_at_every_level() {
    for level in [SandboxLevel::None]
        .into_iter()
        .chain(LEVELS)
        .filter(|level| *level == SandboxLevel::None || is_available(*level))
    {
        let bench = Workbench::with_launcher(&policy_with_level(level)).await;
        let work = bench.home().join("plexus-work");
        let ran = bench
            .sh("mkdir inbox && echo text > inbox/a && mv inbox/a b && ln -s b l && git init -q . 2>/dev/null; cat l")
            .await;
        assert_eq!(
            (&ran["stdout"]["text"], &ran["exit_code"]),
            (&json!("text\n"), &json!(0)),
            "{level}: {ran}"
        );
        assert!(work.join("inbox").is_dir(), "{level}");
        let mode = std::os::unix::fs::PermissionsExt::mode(&work.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700, "{level}: it is private to its user");
        // File tools and commands resolve relative paths against the same folder.
        let written = json!({ "action": "write", "file_path": "inbox/note", "content": "noted\n" });
        bench.filesystem(written).await.unwrap();
        let ran =
            bench.terminal(json!({ "action": "run", "command": "cat note", "cwd": "inbox" })).await.unwrap();
        assert_eq!(ran["stdout"]["text"], "noted\n", "{level}: {ran}");
        // A removed working folder is created again.
        std::fs::remove_dir_all(&work).unwrap();
        assert_eq!(bench.sh("touch again").await["exit_code"], 0, "{level}");
    }
}

#[tokio::test]
async fn terminal_shell_ends_with_its_job_at_every_level() {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let bench = bench(level, "").await;
        let start = json!({ "action": "start", "command": "exec sh -i", "pty": true });
        let job = bench.terminal(start).await.unwrap()["job"].clone();
        let typed = json!({ "action": "write", "job": job, "text": "sleep 1000 & echo be\"gun\"\n" });
        bench.terminal(typed).await.unwrap();
        poll_until(async || {
            let shown = bench.terminal(json!({ "action": "read", "job": job })).await.unwrap();
            shown["text"].as_str().unwrap().contains("begun").then_some(())
        })
        .await;
        // A shell restores the terminal at its end, which requires that it can see the owning process group.
        let ends = json!({ "action": "run", "command": "sh -i -c 'exit 7'", "pty": true });
        assert_eq!(bench.terminal(ends).await.unwrap()["exit_code"], 7, "{level}");
        let hung_up = json!({ "action": "kill", "job": job, "signal": "HUP" });
        bench.terminal(hung_up).await.unwrap();
        let ended =
            bench.terminal(json!({ "action": "wait", "job": job, "timeout_seconds": 20 })).await.unwrap();
        assert_eq!(ended["running"], false, "{level}: {ended}");
    }
}

#[tokio::test]
async fn terminal_works_at_every_level() {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let bench = bench(level, "").await;
        let command = "test -t 0 && test -t 1 && stty size && echo typed >/dev/tty && exit 4";
        let ran = bench
            .terminal(json!({ "action": "run", "command": command, "pty": true, "cols": 91, "rows": 17 }))
            .await
            .unwrap();
        assert_eq!(ran["stdout"]["text"], "17 91\r\ntyped\r\n", "{level}: {ran}");
        assert_eq!(ran["exit_code"], 4, "{level}: {ran}");
    }
}

#[tokio::test]
async fn variables_reach_the_command_unchanged() {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let bench = bench(level, "").await;
        let env =
            json!({ "GREETING": "a=b\nc", "with.dot": "x", "PATH": "/usr/bin:/bin", "LD_DEBUG_NONE": "" });
        let ran =
            bench.terminal(json!({ "action": "run", "argv": ["env", "-0"], "env": env })).await.unwrap();
        let text = ran["stdout"]["text"].as_str().unwrap();
        let variables: Vec<&str> = text.split('\0').collect();
        for expected in ["GREETING=a=b\nc", "with.dot=x", "PATH=/usr/bin:/bin", "LD_DEBUG_NONE="] {
            assert!(variables.contains(&expected), "{level}: {expected}: {text:?}");
        }
        assert!(!text.contains("PLEXUS_LAUNCH") && !text.contains("PLEXUS_NODE_KEY"), "{level}: {text:?}");
    }
}

#[tokio::test]
async fn command_without_a_working_folder_starts_in_the_home_folder_or_in_root() {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        for (read, is_home) in [("'~'", true), ("'~/given'", false)] {
            let bench = bench(level, &format!("[files]\nread = [{read}]\nwrite = []\n")).await;
            let home = bench.home().canonicalize().unwrap();
            std::fs::create_dir_all(home.join("given")).unwrap();
            let folder = if is_home { home.display().to_string() } else { "/".to_owned() };
            assert_eq!(bench.sh("pwd -P").await["stdout"]["text"], format!("{folder}\n"), "{level}: {read}");
            assert!(!home.join("plexus-work").exists(), "{level}: {read}");
        }
    }
}

#[tokio::test]
async fn narrow_policy_allows_programs_and_named_folders() {
    let files = "[files]\nread = ['~/given']\nwrite = ['~/work']\n";
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let bench = bench(level, files).await;
        let home = bench.home();
        for (name, text) in [("given/a", "a\n"), ("private/b", "b\n")] {
            std::fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
            std::fs::write(home.join(name), text).unwrap();
        }
        let command =
            "cat ~/given/a; echo w > ~/work/w && cat ~/work/w; cat ~/private/b ~/.bashrc; echo x > ~/given/x";
        let ran =
            bench.terminal(json!({ "action": "run", "command": command, "cwd": "~/work" })).await.unwrap();
        assert_eq!(ran["stdout"]["text"], "a\nw\n", "{level}: {ran}");
        assert!(!home.join("given/x").exists(), "{level}");
        let refused = bench
            .terminal(json!({ "action": "run", "command": "pwd", "cwd": "~/private" }))
            .await
            .unwrap_err();
        assert!(refused.message.contains("does not allow commands to read"), "{level}: {refused:?}");
        // The working folder is within the folders that this policy allows to write.
        let work = format!("{}/work\n", home.display());
        assert_eq!(bench.sh("pwd").await["stdout"]["text"], work, "{level}");
    }
}

#[tokio::test]
async fn unavailable_level_refuses_all_commands() {
    // A machine without `bwrap`.
    let bench =
        Workbench::with_launcher_and_path(&policy_with_level(SandboxLevel::Bubblewrap), "/nowhere").await;
    let command = format!("/usr/bin/touch {}/ran", bench.home().display());
    let refused = bench.terminal(json!({ "action": "run", "command": command })).await.unwrap_err();
    assert!(refused.message.contains("`bubblewrap`") && refused.message.contains("bwrap"), "{refused:?}");
    assert!(refused.hint.as_deref().unwrap_or_default().contains("plexus node policy"), "{refused:?}");
    assert!(!bench.home().join("ran").exists());
    assert!(!bench.folder().join("jobs").read_dir().unwrap().any(|_| true), "no job was created");
}
