//! Snapshots of all help texts, so that a review shows changes of the command line. The commands are read from the help of the
//! program, so a new one needs no entry here.

use std::collections::BTreeSet;
use std::path::Path;

/// The names in the section `Commands:` of a help text.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    lines
        .take_while(|line| !line.is_empty())
        // The other lines continue a description.
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

async fn help(command: &[String]) -> String {
    let args: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let output = crate::plexus().run(&args).await;
    assert_eq!(output.stderr, "", "{output:?}");
    output.ok().to_owned()
}

/// The help of a command and of everything below it.
async fn whole_help(command: Vec<String>) -> String {
    let (mut text, mut open) = (String::new(), vec![command]);
    while let Some(command) = open.pop() {
        let shown = help(&command).await;
        let below = subcommands(&shown);
        open.extend(below.into_iter().rev().map(|name| command.iter().cloned().chain([name]).collect()));
        text.push_str(&format!("$ plexus {} --help\n{shown}\n", command.join(" ")));
    }
    text
}

#[tokio::test]
async fn help_of_every_command_is_as_committed() {
    let program = help(&[]).await;
    let commands = subcommands(&program);
    assert!(commands.len() > 20, "the help of the program lists {commands:?}");
    insta::assert_snapshot!("help_of_the_program", program);
    for command in &commands {
        insta::assert_snapshot!(format!("help_of_{command}"), whole_help(vec![command.clone()]).await);
    }
    let expected = commands.iter().map(|name| format!("it__help__help_of_{name}.snap"));
    let expected: BTreeSet<String> =
        expected.chain(["it__help__help_of_the_program.snap".to_owned()]).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots");
    let files = folder.read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let committed: BTreeSet<String> =
        files.filter(|name| name.starts_with("it__help__") && name.ends_with(".snap")).collect();
    assert_eq!(committed, expected, "one snapshot for each command");
}

/// The examples of `tools call` need only a hub.
#[tokio::test]
async fn examples_of_tools_call_work() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let help = plexus.run(&["tools", "call", "--help"]).await;
    let (_, examples) = help.ok().split_once("Example:\n").expect("examples");
    for example in examples.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let output = plexus.shell(example).await;
        assert_eq!(output.code, Some(0), "{example}: {output:?}");
    }
}
