//! Commands that the owner of this machine has allowed MCP servers to be started with, beside the setting
//! `upstreams.commands`.
//!
//! They are kept in a private file of the data folder. Only those who can write there extend the list, and they can have the
//! hub run commands anyway, by writing files of servers. No request over the network does.

use std::io;
use std::path::Path;

use crate::private_file;

/// In the data folder.
pub const FILE: &str = "allowed-commands.json";

/// Those that were allowed. A file that others can read or that is damaged is an error.
pub fn read(data_dir: &Path) -> io::Result<Vec<String>> {
    let path = data_dir.join(FILE);
    let Some(content) = private_file::read(&path)? else { return Ok(Vec::new()) };
    serde_json::from_slice(&content).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: {error}", path.display()))
    })
}

/// Allows these commands too.
pub fn add(data_dir: &Path, commands: &[String]) -> io::Result<()> {
    let mut all = read(data_dir)?;
    for command in commands {
        if !all.contains(command) {
            all.push(command.clone());
        }
    }
    private_file::write(&data_dir.join(FILE), &serde_json::to_vec_pretty(&all)?)
}

#[cfg(test)]
mod tests;
