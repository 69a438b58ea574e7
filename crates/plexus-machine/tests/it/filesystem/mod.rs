//! The tool for files, on real ones.

mod crash;
mod edits;
mod hostile;
mod patches;
mod reading;
mod searching;
mod swaps;
mod writing;
