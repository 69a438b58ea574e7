//! Tests of the file tool with real files.

mod crash;
mod edits;
mod hostile;
mod patches;
mod reading;
mod searching;
mod swaps;
mod writing;
