use super::*;

#[test]
fn only_unexpected_signals_count_as_crashes() {
    for (ending, code, crash) in [
        (AgentExit::Code(0), 0, false),
        (AgentExit::Code(3), 3, false),
        (AgentExit::Code(130), 130, false),
        (AgentExit::Code(139), 139, true),
        (AgentExit::Signal(2), 130, false),
        (AgentExit::Signal(15), 143, false),
        (AgentExit::Signal(9), 137, true),
        (AgentExit::Signal(11), 139, true),
    ] {
        assert_eq!((ending.exit_code(), ending.is_crash()), (code, crash), "{ending}");
    }
}
