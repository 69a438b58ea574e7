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
