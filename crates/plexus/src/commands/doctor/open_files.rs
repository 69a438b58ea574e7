//! Whether the system lets a hub have as many open files as it has use for.

use rustix::process::{Resource, getrlimit};

use super::Finding;

const CHECK: &str = "open files";
/// A hub takes this many connections and needs some files besides.
const WANTED: u64 = 8_192 + 256;

pub(super) fn check() -> Finding {
    // The hub raises its own limit to the most it may have.
    judge(getrlimit(Resource::Nofile).maximum)
}

fn judge(most: Option<u64>) -> Finding {
    match most {
        Some(most) if most < WANTED => {
            let message = format!(
                "a process may have {most}: the hub takes fewer connections than the {WANTED} files it could use"
            );
            Finding::warning(
                CHECK,
                message,
                format!(
                    "start it from a shell after `ulimit -n {WANTED}`, or with LimitNOFILE={WANTED} in its unit"
                ),
            )
        }
        Some(most) => Finding::ok(CHECK, format!("a process may have {most}")),
        None => Finding::ok(CHECK, "a process may have any number"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::judge;

    #[test]
    fn a_low_limit_is_found() {
        assert_eq!(judge(Some(1024)).level, Level::Warning);
        assert_eq!(judge(Some(8448)).level, Level::Ok);
        assert_eq!(judge(None).level, Level::Ok);
    }
}
