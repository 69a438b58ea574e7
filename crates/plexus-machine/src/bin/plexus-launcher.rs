//! The launcher alone, for tests; who installs Plexus has it in `plexus`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plexus_machine::launch::main(std::env::args_os().skip(2))
}
