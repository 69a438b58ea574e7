//! Escape sequences of the terminal, as in ssh: `~.` at the start of a line leaves, `~~` sends one `~`.

/// The position in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Position {
    #[default]
    LineStart,
    Middle,
    /// After a `~` at the start of a line, which is held back.
    Escape,
}

#[derive(Debug, Default)]
pub(crate) struct EscapeFilter(Position);

impl EscapeFilter {
    /// Returns the bytes to send, and whether to leave after sending them.
    pub(crate) fn filter(&mut self, keys: &[u8]) -> (Vec<u8>, bool) {
        let mut passed = Vec::with_capacity(keys.len());
        for key in keys {
            match (self.0, key) {
                (Position::LineStart, b'~') => self.0 = Position::Escape,
                (Position::Escape, b'.') => return (passed, true),
                (Position::Escape, b'~') => {
                    passed.push(b'~');
                    self.0 = Position::Middle;
                }
                (position, key) => {
                    if position == Position::Escape {
                        passed.push(b'~');
                    }
                    passed.push(*key);
                    self.0 =
                        if matches!(key, b'\r' | b'\n') { Position::LineStart } else { Position::Middle };
                }
            }
        }
        (passed, false)
    }
}
