//! See `plexus_testkit::fuzz::TokenTarget`.
#![no_main]

plexus_fuzz::target!(TokenTarget);
