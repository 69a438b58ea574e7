//! See `plexus_testkit::fuzz::JsonRpcTarget`.
#![no_main]

plexus_fuzz::target!(JsonRpcTarget);
