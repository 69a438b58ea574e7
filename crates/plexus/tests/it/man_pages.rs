//! Shell completions and manual pages, which are generated from the help texts.

/// The commands in the help of the program.
async fn commands() -> Vec<String> {
    let plexus = crate::plexus();
    let help = plexus.run(&["--help"]).await;
    let (_, list) = help.ok().split_once("Commands:\n").expect("commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let names: Vec<_> = names.map(str::to_owned).collect();
    assert!(names.len() >= 10, "{names:?}");
    names
}

#[tokio::test]
async fn completions_of_every_shell_name_every_command() {
    let (plexus, commands) = (crate::plexus(), commands().await);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = plexus.run(&["completions", shell]).await;
        for command in &commands {
            assert!(output.ok().contains(command.as_str()), "{shell} does not know {command}");
        }
    }
    let script = plexus.home().join("completion.bash");
    std::fs::write(&script, plexus.run(&["completions", "bash"]).await.ok()).expect("a file");
    let line = format!(
        "bash -c 'source {} && COMP_WORDS=(plexus doc) COMP_CWORD=1 && _plexus plexus doc plexus && echo $COMPREPLY'",
        script.display()
    );
    assert_eq!(plexus.shell(&line).await.ok(), "doctor\n");
}

#[tokio::test]
async fn every_command_has_a_manual_page() {
    let (plexus, commands) = (crate::plexus(), commands().await);
    let main = plexus.run(&["man"]).await;
    assert!(main.ok().contains(".TH plexus 1"), "{main:?}");
    for command in &commands {
        assert!(main.ok().contains(&format!("plexus\\-{command}")), "{command} is not in the page");
    }
    let folder = plexus.home().join("man/man1");
    let written = plexus.run(&["man", "--dir", folder.to_str().expect("UTF-8")]).await;
    let pages = std::fs::read_dir(&folder).expect("the folder").count();
    assert_eq!(written.ok(), format!("{pages} pages in {}\n", folder.display()));
    let page =
        |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(page("plexus.1"), main.stdout);
    for command in &commands {
        assert!(
            page(&format!("plexus-{command}.1")).contains(&format!(".TH plexus-{command} 1")),
            "{command}"
        );
    }
    assert!(page("plexus-token-create.1").contains("\\-\\-kind"));
}
