//! `plexus man`: the manual, generated from the texts of `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::Cli;
use crate::failure::Exit;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  plexus man | man -l -\n  plexus man --dir ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write one page for plexus and one per command into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: ManArgs) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command();
    command.build();
    match args.dir {
        None => output::write_bytes(&page(&command)?)?,
        Some(folder) => {
            fs_err::create_dir_all(&folder)?;
            let pages = write_pages(&command, &folder)?;
            output::write_bytes(format!("{pages} pages in {}\n", folder.display()).as_bytes())?;
        }
    }
    Ok(Exit::Ok.into())
}

/// Writes a page for the command and one for each of its subcommands; returns their number.
fn write_pages(command: &Command, folder: &Path) -> anyhow::Result<usize> {
    // The page of `plexus token create` is `plexus-token-create`.
    let name = command.get_bin_name().unwrap_or(command.get_name()).replace(' ', "-");
    fs_err::write(folder.join(format!("{name}.1")), page(&command.clone().display_name(name))?)?;
    let subcommands = command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help");
    subcommands.into_iter().try_fold(1, |pages, subcommand| Ok(pages + write_pages(subcommand, folder)?))
}

fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
