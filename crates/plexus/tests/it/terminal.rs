//! What a terminal gets and a pipe does not: colours, for those who want them, and progress.

use plexus_testkit::Plexus;

const ESCAPE: char = '\u{1b}';

/// What a line prints on a terminal, both streams together. `script` gives it one.
async fn on_a_terminal(plexus: &Plexus, line: &str) -> String {
    let ran = plexus.shell(&format!("script -qec '{line}' /dev/null < /dev/null")).await;
    ran.stdout
}

#[tokio::test]
async fn a_terminal_has_colours_and_a_pipe_has_none() {
    let plexus = crate::plexus();
    // The help of clap, a line of the log.
    for line in ["plexus --help", "PLEXUS_LOG=no=such=level plexus config check"] {
        let coloured = on_a_terminal(&plexus, &format!("TERM=xterm {line}")).await;
        assert!(coloured.contains(ESCAPE), "{line}: {coloured:?}");
        for wish in ["TERM=dumb", "TERM=xterm NO_COLOR=1"] {
            let plain = on_a_terminal(&plexus, &format!("{wish} {line}")).await;
            assert!(!plain.contains(ESCAPE) && plain.len() > 20, "{wish} {line}: {plain:?}");
        }
        let piped = plexus.shell(&format!("TERM=xterm {line} 2>&1 | cat")).await;
        assert!(!piped.stdout.contains(ESCAPE) && piped.stdout.len() > 20, "{piped:?}");
    }
}

#[tokio::test]
async fn progress_is_for_a_terminal_and_leaves_one_line() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let seen = on_a_terminal(&plexus, "TERM=dumb plexus audit verify").await;
    assert!(seen.contains("Verified the audit in ") && seen.contains("Intact: "), "{seen:?}");
    let piped = plexus.run(&["audit", "verify"]).await;
    assert!(piped.ok().starts_with("Intact: "), "{piped:?}");
    assert_eq!(piped.stderr, "");
}

#[tokio::test]
async fn a_table_breaks_no_word_on_a_narrow_terminal() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let token = hub.token("an-agent-with-a-long-name").await;
    hub.mcp(&token.token).tool("todo", serde_json::json!({ "action": "list" })).await;
    for command in ["token list", "audit list"] {
        let piped = plexus.shell(&format!("plexus {command}")).await;
        // Times are told in another form in a pipe.
        let is_time = |word: &&str| word.starts_with("20") || word.ends_with('Z');
        let words: Vec<&str> =
            piped.ok().split_whitespace().filter(|word| word.len() > 2 && !is_time(word)).collect();
        assert!(words.len() > 4, "{piped:?}");
        // The terminal of `script` has no width until somebody says one.
        for width in ["", "stty cols 80; ", "stty cols 20; "] {
            let seen = on_a_terminal(&plexus, &format!("{width}TERM=dumb plexus {command}")).await;
            let shown: Vec<&str> = seen.split_whitespace().collect();
            for word in &words {
                assert!(shown.contains(word), "{width}{command} breaks {word}: {seen}");
            }
        }
    }
}
