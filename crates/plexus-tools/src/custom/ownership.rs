//! Ownership checks: other users must not be able to change files that the hub runs.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use fs_err as fs;

/// The problem, worded to follow the name of a field or file, and the remedy.
pub(super) type OwnershipProblem = (String, String);

/// Checks that only the hub's user or root can change a file or folder.
pub(super) fn check_ownership(path: &Path) -> Result<(), OwnershipProblem> {
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|error| {
        let problem = match error.kind() {
            std::io::ErrorKind::NotFound => "is not there".to_owned(),
            kind => format!("cannot be looked at ({kind})"),
        };
        (format!("names {shown}, which {problem}"), "put it there".to_owned())
    })?;
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        let problem = format!("names {shown}, which belongs to another user");
        return Err((problem, format!("run `chown` on {shown}")));
    }
    if metadata.permissions().mode() & 0o022 != 0 {
        let problem = format!("names {shown}, which others may write to");
        return Err((problem, format!("run `chmod go-w {shown}`")));
    }
    Ok(())
}

/// The same for a program and its folder: replacing a file does not require write access to the file itself.
pub(super) fn check_program(program: &Path) -> Result<(), OwnershipProblem> {
    check_ownership(program)?;
    if let Some(folder) = program.parent() {
        check_ownership(folder)?;
    }
    let shown = program.display();
    let metadata = fs::metadata(program).map_err(|error| (error.to_string(), "put it there".to_owned()))?;
    if !metadata.is_file() {
        return Err((format!("names {shown}, which is no file"), "name a program".to_owned()));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err((format!("names {shown}, which cannot be run"), format!("run `chmod u+x {shown}`")));
    }
    Ok(())
}
