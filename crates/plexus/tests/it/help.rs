//! Snapshots of all help texts, so that a review shows changes of the command line.

/// The help of a command and of its subcommands.
async fn help(command: &[&str], subcommands: &[&str]) -> String {
    let plexus = crate::plexus();
    let mut text = String::new();
    for subcommand in [None].into_iter().chain(subcommands.iter().map(Some)) {
        let args: Vec<&str> = command.iter().chain(subcommand).copied().chain(["--help"]).collect();
        let ran = plexus.run(&args).await;
        assert_eq!(ran.stderr, "", "{ran:?}");
        text.push_str(&format!("$ plexus {}\n{}\n", args.join(" "), ran.ok()));
    }
    text
}

#[tokio::test]
async fn help_of_the_program() {
    insta::assert_snapshot!(help(&[], &[]).await);
}

#[tokio::test]
async fn help_of_up() {
    insta::assert_snapshot!(help(&["up"], &[]).await);
}

#[tokio::test]
async fn help_of_down() {
    insta::assert_snapshot!(help(&["down"], &[]).await);
}

#[tokio::test]
async fn help_of_service() {
    insta::assert_snapshot!(help(&["service"], &["install", "uninstall"]).await);
}

#[tokio::test]
async fn help_of_token() {
    insta::assert_snapshot!(help(&["token"], &["create", "list", "show", "rotate", "renew", "revoke"]).await);
}

#[tokio::test]
async fn help_of_profile() {
    insta::assert_snapshot!(help(&["profile"], &["list", "show"]).await);
}

#[tokio::test]
async fn help_of_keys() {
    insta::assert_snapshot!(help(&["keys"], &["list", "rotate", "retire"]).await);
}

#[tokio::test]
async fn help_of_tools() {
    insta::assert_snapshot!(
        help(&["tools"], &["list", "show", "cost", "new", "test", "enable", "disable", "call"]).await
    );
}

#[tokio::test]
async fn help_of_upstream() {
    let subcommands = [
        "list", "show", "add", "remove", "enable", "disable", "test", "restart", "approve", "logs", "import",
        "reload",
    ];
    insta::assert_snapshot!(help(&["upstream"], &subcommands).await);
}

#[tokio::test]
async fn help_of_connect_disconnect_and_sync() {
    for command in ["connect", "disconnect", "sync"] {
        insta::assert_snapshot!(format!("help_of_{command}"), help(&[command], &[]).await);
    }
}

#[tokio::test]
async fn help_of_mcp() {
    insta::assert_snapshot!(help(&["mcp"], &[]).await);
}

#[tokio::test]
async fn help_of_run_ps_and_stop() {
    let texts = [help(&["run"], &[]).await, help(&["ps"], &[]).await, help(&["stop"], &[]).await];
    insta::assert_snapshot!(texts.concat());
}

#[tokio::test]
async fn help_of_cp_exec_and_shell() {
    let texts = [help(&["cp"], &[]).await, help(&["exec"], &[]).await, help(&["shell"], &[]).await];
    insta::assert_snapshot!(texts.concat());
}

#[tokio::test]
async fn help_of_node() {
    let subcommands = [
        "join",
        "run",
        "install",
        "uninstall",
        "invite",
        "invites",
        "uninvite",
        "list",
        "show",
        "drain",
        "remove",
        "label",
        "rename",
    ];
    insta::assert_snapshot!(help(&["node"], &subcommands).await);
}

#[tokio::test]
async fn help_of_sessions() {
    insta::assert_snapshot!(help(&["sessions"], &["list", "show", "stats", "tail"]).await);
}

#[tokio::test]
async fn help_of_outbox() {
    insta::assert_snapshot!(help(&["outbox"], &["list", "show", "retry", "drop"]).await);
}

#[tokio::test]
async fn help_of_events() {
    insta::assert_snapshot!(help(&["events"], &[]).await);
}

#[tokio::test]
async fn help_of_audit() {
    insta::assert_snapshot!(help(&["audit"], &["list", "show", "verify"]).await);
}

#[tokio::test]
async fn help_of_status() {
    insta::assert_snapshot!(help(&["status"], &[]).await);
}

#[tokio::test]
async fn help_of_doctor() {
    insta::assert_snapshot!(help(&["doctor"], &[]).await);
}

#[tokio::test]
async fn help_of_config() {
    insta::assert_snapshot!(help(&["config"], &["show", "check", "default"]).await);
}

#[tokio::test]
async fn help_of_db() {
    insta::assert_snapshot!(help(&["db"], &["status", "migrate", "backup", "export", "restore"]).await);
}

#[tokio::test]
async fn help_of_completions() {
    insta::assert_snapshot!(help(&["completions"], &[]).await);
}

#[tokio::test]
async fn help_of_man() {
    insta::assert_snapshot!(help(&["man"], &[]).await);
}

/// The examples of `tools call` need only a hub.
#[tokio::test]
async fn examples_of_tools_call_work() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let help = plexus.run(&["tools", "call", "--help"]).await;
    let (_, examples) = help.ok().split_once("Example:\n").expect("examples");
    for example in examples.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let ran = plexus.shell(example).await;
        assert_eq!(ran.code, Some(0), "{example}: {ran:?}");
    }
}
