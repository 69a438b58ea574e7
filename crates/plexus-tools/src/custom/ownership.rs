//! Ownership checks: other users must not be able to change files that the hub runs.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use fs_err as fs;

/// The problem, worded to follow the name of a field or file, and the remedy.
pub(super) type Wrong = (String, String);

/// Checks that only the hub's user or root can change a file or folder.
pub(super) fn ours(path: &Path) -> Result<(), Wrong> {
    let shown = path.display();
    let about = fs::metadata(path).map_err(|error| {
        let what = match error.kind() {
            std::io::ErrorKind::NotFound => "is not there".to_owned(),
            kind => format!("cannot be looked at ({kind})"),
        };
        (format!("names {shown}, which {what}"), "put it there".to_owned())
    })?;
    let owner = about.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        let what = format!("names {shown}, which belongs to another user");
        return Err((what, format!("run `chown` on {shown}")));
    }
    if about.permissions().mode() & 0o022 != 0 {
        let what = format!("names {shown}, which others may write to");
        return Err((what, format!("run `chmod go-w {shown}`")));
    }
    Ok(())
}

/// The same for a program and its folder: replacing a file does not require write access to the file itself.
pub(super) fn runnable(program: &Path) -> Result<(), Wrong> {
    ours(program)?;
    if let Some(folder) = program.parent() {
        ours(folder)?;
    }
    let shown = program.display();
    let about = fs::metadata(program).map_err(|error| (error.to_string(), "put it there".to_owned()))?;
    if !about.is_file() {
        return Err((format!("names {shown}, which is no file"), "name a program".to_owned()));
    }
    if about.permissions().mode() & 0o111 == 0 {
        return Err((format!("names {shown}, which cannot be run"), format!("run `chmod u+x {shown}`")));
    }
    Ok(())
}
