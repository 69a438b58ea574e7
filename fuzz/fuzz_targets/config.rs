//! See `plexus_testkit::fuzz::ConfigTarget`.
#![no_main]

plexus_fuzz::target!(ConfigTarget);
