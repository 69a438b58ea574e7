//! See `plexus_testkit::fuzz::UpstreamTarget`.
#![no_main]

plexus_fuzz::target!(UpstreamTarget);
