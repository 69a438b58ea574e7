//! Files of this machine: which one it is, its hash, and the part of one that is on its way here.

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

const BLOCK: usize = 1 << 20;

/// Which file it is, and which content it has.
pub(super) fn identity(about: &Metadata) -> [i64; 6] {
    let number = |number: u64| number.cast_signed();
    [
        number(about.ino()),
        number(about.len()),
        about.mtime(),
        about.mtime_nsec(),
        about.ctime(),
        about.ctime_nsec(),
    ]
}

/// When it was changed last, in nanoseconds since 1970.
pub(super) fn modified(about: &Metadata) -> String {
    (i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec())).max(0).to_string()
}

/// Adds what is left of a file to a hash.
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

/// The hash of a file.
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
    tokio::task::spawn_blocking(work).await.context("work on a file was stopped")?
}

/// A file on its way to its place here: beside it, under a name that follows from what it is, so that it is found again.
pub(super) struct Partial {
    pub(super) file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Partial {
    /// `source` says which file it is, and of which content.
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
            .hint("let that end first")
            .into());
        }
        Ok(Self { file, path, target: target.to_owned() })
    }

    /// Gives up what has arrived.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Puts it in its place, where it survives a power cut; without `replace` only where nothing is.
    pub(super) fn put(&self, mode: u32, modified: &str, replace: bool) -> anyhow::Result<()> {
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
            false => rename_to_nothing(&self.path, &self.target).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => exists(&self.target.display().to_string()),
                _ => anyhow::Error::new(error).context(failed()),
            })?,
        }
        if let Some(folder) = self.target.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::CWD;
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not know how.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        renamed => Ok(renamed?),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

/// What is there stays.
pub(super) fn exists(target: &str) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("{target} is there already, and is another file"))
        .hint("nothing was changed; --force replaces it")
        .into()
}
