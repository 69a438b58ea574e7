//! Local files: their identity and hash, and files that are being downloaded.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use aws_lc_rs::digest::{Context, SHA256, digest};
use fs_err as fs;
use plexus_kit::hex;
use rustix::fs::FlockOperation;
#[cfg(target_os = "linux")]
use rustix::fs::RenameFlags;

use crate::failure::{Exit, Failure};

/// Bytes read at a time.
const BLOCK: usize = 1 << 20;

/// Identifies a file and its content; changes when the file is written to.
pub(super) fn identity(metadata: &Metadata) -> [i64; 6] {
    let number = |number: u64| number.cast_signed();
    [
        number(metadata.ino()),
        number(metadata.len()),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ]
}

/// The modification time, in nanoseconds since 1970.
pub(super) fn modified(metadata: &Metadata) -> String {
    (i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())).max(0).to_string()
}

/// Adds the rest of a file to a hash and returns its length.
pub(super) fn add(context: &mut Context, file: &mut File) -> io::Result<u64> {
    let (mut block, mut length) = (vec![0; BLOCK], 0);
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(length),
            Ok(read) => {
                context.update(&block[..read]);
                length += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The SHA-256 hash of a file.
pub(super) async fn hash(path: &Path) -> anyhow::Result<String> {
    let path = path.to_owned();
    blocking(move || {
        let (mut context, mut file) = (Context::new(&SHA256), fs::File::open(&path)?.into_file());
        add(&mut context, &mut file).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(hex::encode(context.finish().as_ref()))
    })
    .await
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("a file operation was aborted")?
}

/// A file that is being downloaded, beside its target. Its name is derived from source and target, so that a later run finds it.
pub(super) struct PartialFile {
    pub(super) file: File,
    path: PathBuf,
    target: PathBuf,
}

impl PartialFile {
    /// `source` identifies the source file and its content.
    pub(super) fn open(target: &Path, source: &str) -> anyhow::Result<Self> {
        let id = hex::encode(
            &digest(&SHA256, format!("{source}\0{}", target.display()).as_bytes()).as_ref()[..16],
        );
        let folder = target.parent().unwrap_or(Path::new("/"));
        let path = folder.join(format!(".plexus-{id}.part"));
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        std::os::unix::fs::OpenOptionsExt::mode(options.options_mut(), 0o600);
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            options.options_mut(),
            rustix::fs::OFlags::NOFOLLOW.bits().cast_signed(),
        );
        let file = options.open(&path)?.into_file();
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Failure::new(
                Exit::Failed,
                format!("{} is being copied by another process", target.display()),
            )
            .hint("wait until it has finished")
            .into());
        }
        Ok(Self { file, path, target: target.to_owned() })
    }

    /// Discards the partial file.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Renames the complete file to its target and syncs it to disk. Without `replace`, an existing target is an error.
    pub(super) fn commit(&self, mode: u32, modified: &str, replace: bool) -> anyhow::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let failed = || format!("cannot finish {}", self.target.display());
        self.file.set_permissions(std::fs::Permissions::from_mode(mode & 0o777)).with_context(failed)?;
        if let Ok(modified) = modified.parse() {
            let modified = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(modified);
            self.file.set_modified(modified).with_context(failed)?;
        }
        self.file.sync_all().with_context(failed)?;
        match replace {
            true => fs::rename(&self.path, &self.target)?,
            false => {
                rename_without_replacing(&self.path, &self.target).map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => already_exists(&self.target.display().to_string()),
                    _ => anyhow::Error::new(error).context(failed()),
                })?
            }
        }
        if let Some(folder) = self.target.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::CWD;
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not support this flag.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        renamed => Ok(renamed?),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

/// The error for an existing target that is not replaced.
pub(super) fn already_exists(target: &str) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("{target} already exists with different content"))
        .hint("nothing was changed; --force replaces it")
        .into()
}
