//! See `plexus_testkit::fuzz::HeadersTarget`.
#![no_main]

plexus_fuzz::target!(HeadersTarget);
