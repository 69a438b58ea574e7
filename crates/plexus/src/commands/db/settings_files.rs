//! Files that users write into the data folder, as part of a copy: those of MCP servers and profiles.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use plexus_store::archive::{Content, MAX_SETTING, MAX_SETTINGS, PROFILES, SERVERS, is_setting};

/// The files, and the paths that the hub may use but the copy does not contain.
#[derive(Default)]
pub(super) struct SettingsFiles {
    pub(super) files: Vec<(String, Content)>,
    pub(super) left_out: Vec<PathBuf>,
}

impl SettingsFiles {
    /// Reads the files. `servers` is the hub's folder of servers, which may be outside the data folder; `tools` is the folder
    /// of user-defined tools, which are programs and not settings.
    pub(super) fn read(data_dir: &Path, servers: &Path, tools: &Path) -> io::Result<Self> {
        let mut settings = Self::default();
        for path in candidates(data_dir)? {
            let content = match content(&data_dir.join(&path)) {
                Ok(content) => content.filter(|_| settings.files.len() < MAX_SETTINGS),
                // Removed since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match (content, path.to_str()) {
                (Some(content), Some(name)) => {
                    settings.files.push((name.to_owned(), Content::Bytes(content)));
                }
                _ => settings.left_out.push(data_dir.join(path)),
            }
        }
        if servers != data_dir.join(SERVERS) && servers.exists() {
            settings.left_out.push(servers.to_owned());
        }
        if fs_err::read_dir(tools).is_ok_and(|mut files| files.next().is_some()) {
            settings.left_out.push(tools.to_owned());
        }
        Ok(settings)
    }
}

/// Paths that are settings by their name, relative to the data folder.
fn candidates(data_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = within(data_dir, Path::new(SERVERS))?;
    for profile in within(data_dir, Path::new(PROFILES))? {
        paths.extend(within(data_dir, &profile)?);
    }
    paths.retain(|path| is_setting(path));
    Ok(paths)
}

/// The entries of a folder, sorted, relative to the data folder; empty if there is no folder.
fn within(data_dir: &Path, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs_err::read_dir(data_dir.join(folder)) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(vec![]);
        }
        Err(error) => return Err(error),
    };
    let mut paths =
        entries.map(|entry| Ok(folder.join(entry?.file_name()))).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// The content of a file; none if it is not a regular file, or larger than a hub would read.
fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if !fs_err::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut content = Vec::new();
    fs_err::File::open(path)?.take(MAX_SETTING + 1).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= MAX_SETTING).then_some(content))
}
