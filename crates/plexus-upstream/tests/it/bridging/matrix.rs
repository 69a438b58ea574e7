//! The expected behaviour of each direction, as the documentation states it.

use self::Expected::{Nothing, Passes, PassesAs, Refuses};
use super::{Direction, Era};

/// The expected outcome of a feature in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Passes,
    /// With the stated change.
    PassesAs(&'static str),
    /// With this code, for a reason that the protocol gives.
    Refuses {
        code: i64,
        why: &'static str,
    },
    /// Not applicable.
    Nothing(&'static str),
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    Passed,
    Refused(i64),
}

impl Expected {
    pub(super) fn is_applicable(self) -> bool {
        !matches!(self, Self::Nothing(_))
    }

    fn text(self) -> String {
        match self {
            Self::Passes => "passes".to_owned(),
            Self::PassesAs(change) => format!("passes: {change}"),
            Self::Refuses { code, why } => format!("**refused** ({code}): {why}"),
            Self::Nothing(why) => format!("– ({why})"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) feature: &'static str,
    /// The name of its test.
    test: &'static str,
    /// In the order of [`Direction::ALL`].
    outcomes: [Expected; 4],
}

impl Row {
    pub(super) fn of(feature: &str) -> &'static Self {
        MATRIX.iter().find(|row| row.feature == feature).unwrap_or_else(|| panic!("no row {feature:?}"))
    }

    pub(super) fn expected(&self, direction: Direction) -> Expected {
        let column = Direction::ALL.iter().position(|other| *other == direction).expect("one of the four");
        self.outcomes[column]
    }

    /// Asserts that an outcome is the one in the matrix.
    pub(super) fn check(&self, direction: Direction, outcome: &AttemptOutcome) {
        let expected = self.expected(direction);
        let right = match expected {
            Passes | PassesAs(_) => *outcome == AttemptOutcome::Passed,
            Refuses { code, .. } => *outcome == AttemptOutcome::Refused(code),
            Nothing(_) => false,
        };
        assert!(right, "{}, {direction:?}: {outcome:?}, and not {expected:?}", self.feature);
    }
}

/// The same outcome for both directions of one client era.
const fn by_client(session: Expected, stateless: Expected) -> [Expected; 4] {
    [session, session, stateless, stateless]
}

const REMOVED: Expected = Refuses {
    code: -32601,
    why: "2026-07-28 has no such method; its clients listen by `subscriptions/listen`",
};
const NO_PING: Expected = Refuses { code: -32601, why: "2026-07-28 has no ping" };
const PARKED: Expected = PassesAs("by a result that asks");
const NOT_ASKED: Expected = PassesAs("the server is told, and the tool fails and says what the client lacks");
const AMBIGUOUS_CALLER: Expected = Refuses {
    code: -32603,
    why: "on a shared connection nothing says whose call asks; with `\"per_session\": true` it passes",
};

pub(super) static MATRIX: &[Row] = &[
    Row {
        feature: "elicitation, a form",
        test: "bridging_a_form_is_filled_in",
        outcomes: [Passes, Passes, PARKED, PARKED],
    },
    Row {
        feature: "elicitation, an address",
        test: "bridging_a_person_is_sent_to_an_address",
        outcomes: [
            Passes,
            PassesAs("the hub makes the `elicitationId` that sessions want"),
            PassesAs("`elicitationId` is left out, 2026-07-28 has none"),
            PARKED,
        ],
    },
    Row {
        feature: "`notifications/elicitation/complete`",
        test: "bridging_the_end_of_an_address_is_told_to_those_who_can_hear_it",
        outcomes: by_client(
            PassesAs("sent by the hub when the call that asked ends"),
            Nothing("2026-07-28 has no such notification"),
        ),
    },
    Row {
        feature: "error -32042, \"go there first\"",
        test: "bridging_log_in_first_is_an_error_or_a_question",
        outcomes: [
            PassesAs("a question with the address, then the hub calls again; else as it is, to 2025-11-25"),
            Nothing("2026-07-28 has no such error; its servers ask"),
            PassesAs("a question with the address, then the hub calls again"),
            Nothing("2026-07-28 has no such error; its servers ask"),
        ],
    },
    Row {
        feature: "sampling",
        test: "bridging_the_clients_model_writes",
        outcomes: [Passes, Passes, PARKED, PARKED],
    },
    Row {
        feature: "sampling with tools",
        test: "bridging_the_clients_model_is_given_tools",
        outcomes: [Passes, Passes, PARKED, PARKED],
    },
    Row {
        feature: "roots",
        test: "bridging_the_clients_folders_are_told",
        outcomes: [Passes, Passes, PARKED, PARKED],
    },
    Row {
        feature: "several questions at once",
        test: "bridging_several_questions_are_asked_at_once",
        outcomes: [
            Passes,
            PassesAs("a request each, at the same time"),
            PassesAs("in the order in which they come, one or more in a result"),
            PassesAs("in one result, under the server's own keys"),
        ],
    },
    Row {
        feature: "questions in rounds",
        test: "bridging_a_call_asks_one_thing_after_the_other",
        outcomes: [Passes, Passes, PARKED, PARKED],
    },
    Row {
        feature: "a question of `prompts/get`",
        test: "bridging_a_prompt_asks_before_it_is_there",
        outcomes: [Passes, Passes, PARKED, PARKED],
    },
    Row {
        feature: "a question of `resources/read`",
        test: "bridging_a_resource_asks_before_it_is_read",
        outcomes: [Passes, Passes, PARKED, PARKED],
    },
    Row {
        feature: "a question to a client that cannot be asked",
        test: "bridging_a_client_that_cannot_be_asked_is_not",
        outcomes: by_client(
            NOT_ASKED,
            Refuses { code: -32021, why: "2026-07-28 has this code for it, with what the request lacks" },
        ),
    },
    Row {
        feature: "a question over stdio while calls of several callers run",
        test: "bridging_ambiguous_question_is_refused",
        outcomes: [AMBIGUOUS_CALLER, Passes, AMBIGUOUS_CALLER, PARKED],
    },
    Row {
        feature: "resources: lists, templates, reads",
        test: "bridging_resources_are_listed_and_read",
        outcomes: [Passes, Passes, Passes, Passes],
    },
    Row {
        feature: "the error of a resource that is not there",
        test: "bridging_an_unknown_resource_has_the_code_of_the_revision",
        outcomes: by_client(
            PassesAs("-32002, whatever the server says"),
            PassesAs("-32602, whatever the server says"),
        ),
    },
    Row {
        feature: "`cacheScope` and `ttlMs` of what is read",
        test: "bridging_read_resources_are_private",
        outcomes: by_client(
            Nothing("revisions before 2026-07-28 have no such hints"),
            PassesAs("`private` whatever the server says, and at most 30 s"),
        ),
    },
    Row {
        feature: "changes of a resource",
        test: "bridging_a_change_of_a_resource_is_told_to_those_who_watch_it",
        outcomes: [
            Passes,
            PassesAs("the hub listens"),
            PassesAs("the hub subscribes, the client listens"),
            Passes,
        ],
    },
    Row {
        feature: "`resources/subscribe` and `resources/unsubscribe`",
        test: "bridging_the_methods_that_subscribe_are_of_sessions",
        outcomes: by_client(Passes, REMOVED),
    },
    Row {
        feature: "prompts: list, get",
        test: "bridging_prompts_are_listed_and_got",
        outcomes: [Passes, Passes, Passes, Passes],
    },
    Row {
        feature: "completion",
        test: "bridging_arguments_are_completed",
        outcomes: [Passes, Passes, Passes, Passes],
    },
    Row {
        feature: "changes of the list of tools",
        test: "bridging_a_change_of_the_tools_is_told",
        outcomes: [Passes, Passes, Passes, Passes],
    },
    Row {
        feature: "changes of the list of prompts",
        test: "bridging_a_change_of_the_prompts_is_told",
        outcomes: [Passes, Passes, Passes, Passes],
    },
    Row {
        feature: "changes of the list of resources",
        test: "bridging_a_change_of_the_resources_is_told",
        outcomes: [Passes, Passes, Passes, Passes],
    },
    Row {
        feature: "log lines of a call",
        test: "bridging_log_lines_are_read_by_those_who_want_to",
        outcomes: by_client(
            PassesAs("from the level of `logging/setLevel` on"),
            PassesAs("only with `logLevel` in the request"),
        ),
    },
    Row {
        feature: "progress",
        test: "bridging_progress_is_told",
        outcomes: [Passes, Passes, Passes, Passes],
    },
    Row {
        feature: "cancelling a call",
        test: "bridging_a_cancelled_call_is_cancelled_at_its_server",
        outcomes: by_client(
            PassesAs("by `notifications/cancelled`"),
            PassesAs("by closing the connection; one that is parked goes on waiting"),
        ),
    },
    Row {
        feature: "the tasks extension",
        test: "bridging_a_long_call_is_a_task_to_those_who_know_tasks",
        outcomes: by_client(
            PassesAs("no task, the call is answered when it is done: tasks are declared with each request"),
            PassesAs("a task of the hub, for any tool that takes long"),
        ),
    },
    Row {
        feature: "a task of the server's own",
        test: "bridging_a_task_of_the_server_is_followed",
        outcomes: [
            Nothing("the extension is of 2026-07-28"),
            PassesAs("the hub follows it, and answers when it is done"),
            Nothing("the extension is of 2026-07-28"),
            PassesAs("the hub follows it, with a task of its own in front where it takes long"),
        ],
    },
    Row {
        feature: "`x-mcp-header`: arguments repeated in headers by the client",
        test: "bridging_arguments_in_headers_are_compared",
        outcomes: by_client(
            Nothing("2026-07-28 has them, sessions do not"),
            PassesAs("compared by the hub, whatever the server is; -32020 where they differ"),
        ),
    },
    Row {
        feature: "`x-mcp-header`: arguments repeated in headers to the server",
        test: "bridging_arguments_are_repeated_in_headers",
        outcomes: [
            Nothing("2026-07-28 has them, sessions do not"),
            Passes,
            Nothing("2026-07-28 has them, sessions do not"),
            Passes,
        ],
    },
    Row {
        feature: "ping",
        test: "bridging_a_ping_is_answered_by_the_hub",
        outcomes: by_client(PassesAs("answered by the hub"), NO_PING),
    },
];

/// The table in the documentation.
fn rendered() -> String {
    let era = |era: Era| match era {
        Era::Session => "session",
        Era::Stateless => "2026-07-28",
    };
    let heads: Vec<String> = Direction::ALL
        .iter()
        .map(|direction| format!("{} → {}", era(direction.client), era(direction.upstream)))
        .collect();
    let mut table = format!("| client → server | {} |\n|---|---|---|---|---|\n", heads.join(" | "));
    for row in MATRIX {
        let cells: Vec<String> = row.outcomes.iter().map(|expected| expected.text()).collect();
        table.push_str(&format!("| {} | {} |\n", row.feature, cells.join(" | ")));
    }
    table
}

const BEGIN: &str = "<!-- matrix -->\n";
const END: &str = "<!-- /matrix -->";

#[test]
fn bridging_the_matrix_in_the_docs_is_the_one_that_is_tested() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bridging.md");
    let text = std::fs::read_to_string(file).expect("docs/bridging.md");
    let (head, rest) = text.split_once(BEGIN).expect("the mark before the table");
    let (table, tail) = rest.split_once(END).expect("the mark behind the table");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, format!("{head}{BEGIN}{}{END}{tail}", rendered())).expect("docs/bridging.md");
        return;
    }
    assert_eq!(table, rendered(), "write it with UPDATE_DOCS=1");
}

#[test]
fn bridging_every_row_has_its_test_and_every_refusal_a_reason_of_the_protocol() {
    let sources = [
        include_str!("tasks.rs"),
        include_str!("resources_and_prompts.rs"),
        include_str!("questions.rs"),
        include_str!("shared.rs"),
        include_str!("notifications.rs"),
    ]
    .concat();
    for row in MATRIX {
        let test = format!("async fn {}()", row.test);
        assert!(row.test.starts_with("bridging_") && sources.contains(&test), "{}: {test}", row.feature);
        let named = format!("{:?}", row.feature);
        assert!(sources.contains(&named), "{} is not tried by {}", row.feature, row.test);
        for expected in row.outcomes {
            if let Refuses { why, .. } | Nothing(why) = expected {
                let names_a_rule = ["20", "connection", "request"].iter().any(|word| why.contains(word));
                assert!(names_a_rule && why.len() > 15, "{}: {why:?} is no reason", row.feature);
            }
        }
    }
}
