use std::path::Path;

use clap::{CommandFactory, Parser};

use super::{Cli, Command};

#[test]
fn command_definitions_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn global_flags_are_accepted_before_and_after_the_command() {
    for line in [["plexus", "--data-dir", "/d", "up"], ["plexus", "up", "--data-dir", "/d"]] {
        let cli = Cli::try_parse_from(line).unwrap();
        let Command::Up(up) = cli.command else { panic!("{line:?}") };
        assert_eq!(up.data_dir.as_deref(), Some(Path::new("/d")), "{line:?}");
    }
    let cli = Cli::try_parse_from(["plexus", "tools", "list", "--json", "--hub", "http://h:1"]).unwrap();
    assert!(cli.global.json);
    assert_eq!(cli.global.hub.as_deref(), Some("http://h:1"));
}

#[test]
fn every_command_has_help_with_an_example() {
    fn check(command: &clap::Command, path: &str) {
        let mut leaves = 0;
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            check(sub, &format!("{path} {}", sub.get_name()));
            leaves += 1;
        }
        assert!(command.get_about().is_some(), "{path} has no description");
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(leaves > 0 || after.contains("Example"), "{path} has no example");
    }
    check(&Cli::command(), "plexus");
}
