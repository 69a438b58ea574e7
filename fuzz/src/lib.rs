//! Exposes a fuzz target of the testkit to libFuzzer.

pub use libfuzzer_sys;
pub use plexus_testkit;

/// Defines the entry point of a fuzz target. The target keeps its state from one input to the next.
#[macro_export]
macro_rules! target {
    ($target:ident) => {
        std::thread_local! {
            static TARGET: std::cell::RefCell<$crate::plexus_testkit::fuzz::$target> =
                std::cell::RefCell::new(<$crate::plexus_testkit::fuzz::$target as $crate::plexus_testkit::fuzz::Target>::start());
        }

        $crate::libfuzzer_sys::fuzz_target!(|input: &[u8]| {
            use $crate::plexus_testkit::fuzz::Target as _;
            TARGET.with_borrow_mut(|target| target.run(input));
        });
    };
}
