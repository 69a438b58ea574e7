//! The one thing that is not passed on: `~.` at the beginning of a line leaves, as with ssh. `~~` is a single `~`.

/// Where in a line the keys are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    #[default]
    Beginning,
    Middle,
    /// After a `~` at the beginning, which is held back.
    Escape,
}

#[derive(Debug, Default)]
pub(crate) struct Escapes(At);

impl Escapes {
    /// What is to be passed on of these keys, and whether to leave after it.
    pub(crate) fn pass(&mut self, keys: &[u8]) -> (Vec<u8>, bool) {
        let mut passed = Vec::with_capacity(keys.len());
        for key in keys {
            match (self.0, key) {
                (At::Beginning, b'~') => self.0 = At::Escape,
                (At::Escape, b'.') => return (passed, true),
                (At::Escape, b'~') => {
                    passed.push(b'~');
                    self.0 = At::Middle;
                }
                (at, key) => {
                    if at == At::Escape {
                        passed.push(b'~');
                    }
                    passed.push(*key);
                    self.0 = if matches!(key, b'\r' | b'\n') { At::Beginning } else { At::Middle };
                }
            }
        }
        (passed, false)
    }
}
