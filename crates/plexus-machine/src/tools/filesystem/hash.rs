//! `hash`: computes the SHA-256 of a file of any size.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use aws_lc_rs::digest;
use plexus_tools::CallError;

use super::content::hex;
use super::report::{Answer, Output};
use super::{FileCall, failed};

const BLOCK: usize = 256 << 10;

impl FileCall {
    pub(super) fn hash(&self, path: &Path) -> Result<Answer, CallError> {
        let (handle, file) = self.files.read(path)?;
        let hash = self.digest(handle.path(), &file)?;
        let path = handle.path().display().to_string();
        Ok(Answer::new(format!("{hash}  {path}\n"), Output { path, sha256: Some(hash), ..Output::default() }))
    }

    /// The SHA-256 of everything from the current position.
    pub(super) fn digest(&self, path: &Path, mut file: &File) -> Result<String, CallError> {
        let mut context = digest::Context::new(&digest::SHA256);
        let mut block = vec![0; BLOCK];
        loop {
            self.check_cancelled()?;
            match file.read(&mut block).map_err(failed(path))? {
                0 => return Ok(hex(context.finish().as_ref())),
                read => context.update(&block[..read]),
            }
        }
    }
}
