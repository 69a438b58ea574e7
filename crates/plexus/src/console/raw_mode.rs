//! Raw mode of the local terminal, in which every key is sent to the remote shell.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Raw mode while this exists. Dropping it restores the terminal, also after an error.
pub(crate) struct RawMode(Termios);

impl RawMode {
    pub(crate) fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Columns and rows of the terminal, within the limits of a remote terminal.
pub(crate) fn window_size() -> Option<(u16, u16)> {
    let size = [tcgetwinsize(io::stdout()), tcgetwinsize(io::stdin())].into_iter().flatten();
    let (cols, rows) =
        size.map(|size| (size.ws_col, size.ws_row)).find(|(cols, rows)| *cols > 0 && *rows > 0)?;
    Some((cols.min(1000), rows.min(1000)))
}
