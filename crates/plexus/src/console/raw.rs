//! The terminal of whoever sits here, which passes every key on while a shell elsewhere has it.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Takes every key as it is. Dropped, the terminal is what it was before, also when something went wrong.
pub(crate) struct Raw(Termios);

impl Raw {
    pub(crate) fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Columns and rows of the window, within what a terminal elsewhere can have.
pub(crate) fn window() -> Option<(u16, u16)> {
    let size = [tcgetwinsize(io::stdout()), tcgetwinsize(io::stdin())].into_iter().flatten();
    let (cols, rows) =
        size.map(|size| (size.ws_col, size.ws_row)).find(|(cols, rows)| *cols > 0 && *rows > 0)?;
    Some((cols.min(1000), rows.min(1000)))
}
