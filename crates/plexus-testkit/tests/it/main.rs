#![expect(clippy::expect_used, clippy::print_stdout, reason = "a test that cannot go on should fail")]

mod bench;
