//! Tests of a node with everything real: processes, files, links.

mod terminal;
mod workbench;
