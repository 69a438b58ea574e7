//! See `plexus_testkit::fuzz::CursorTarget`.
#![no_main]

plexus_fuzz::target!(CursorTarget);
