//! The launcher as a separate program, for tests. An installed `plexus` contains it.

use std::process::ExitCode;

fn main() -> ExitCode {
    plexus_machine::launch::main(std::env::args_os().skip(2))
}
