//! `plexus man`: the manual, made from the same texts as `--help`.

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
    /// Write a page for plexus and one for each command into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: ManArgs) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command();
    command.build();
    match args.dir {
        None => output::file(&page(&command)?)?,
        Some(folder) => {
            fs_err::create_dir_all(&folder)?;
            let pages = write_pages(&command, &folder)?;
            output::file(format!("{pages} pages in {}\n", folder.display()).as_bytes())?;
        }
    }
    Ok(Exit::Ok.into())
}

/// A page for the command and, beside it, for each command below it; how many that are.
fn write_pages(command: &Command, folder: &Path) -> anyhow::Result<usize> {
    // `plexus token create` is the page `plexus-token-create`.
    let name = command.get_bin_name().unwrap_or(command.get_name()).replace(' ', "-");
    fs_err::write(folder.join(format!("{name}.1")), page(&command.clone().display_name(name))?)?;
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    below.into_iter().try_fold(1, |pages, below| Ok(pages + write_pages(below, folder)?))
}

fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
