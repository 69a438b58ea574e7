//! Conformance rules for every database behind [`plexus_store::Store`], and SQLite-specific tests: files,
//! URLs, and tampering with a table.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports what it skipped"
)]

mod append;
mod archive;
mod audit;
mod audit_chain;
mod backend;
mod events;
mod journal;
mod nodes;
mod outbox;
mod postgres;
mod retention;
mod session_stats;
mod sessions;
mod sqlite;
mod state;
mod tokens;
mod upstream_pins;
mod writer;

/// One test per rule and database; a rule that is not listed here causes a dead-code warning.
macro_rules! conformance {
    ($name:ident, $backend:ty) => {
        mod $name {
            rules! { $backend;
                sessions {
                    owner_and_key_identify_one_session
                    keys_are_scoped_to_their_owner
                    lists_are_newest_first_and_paged
                    sessions_have_a_folder_and_a_title
                    lists_respect_every_filter
                    open_reports_whether_the_session_was_created
                }
                append {
                    appended_events_are_returned_as_stored
                    append_with_outdated_seq_changes_nothing
                    one_of_concurrent_conditional_appends_succeeds
                    known_external_id_returns_the_stored_event
                    append_to_unknown_session_fails
                }
                events {
                    event_numbers_are_gapless_from_one
                    interleaved_writers_keep_events_complete_and_separate
                    repeated_external_id_is_stored_once
                    external_id_twice_in_a_batch_is_stored_once
                    unknown_session_fails_only_its_own_caller
                    unknown_event_kind_is_preserved
                    events_of_all_sessions_have_one_order_and_an_owner
                    only_commits_with_events_send_a_hint
                }
                writer {
                    failed_unit_is_rolled_back_and_its_records_are_kept
                    failed_unit_does_not_affect_others_in_its_batch
                    database_error_in_a_unit_does_not_affect_others
                    panicking_unit_fails_alone
                    accepted_work_completes_without_its_caller
                    append_soon_precedes_later_requests
                    append_soon_is_committed_without_a_waiter
                    shutdown_finishes_accepted_requests_and_rejects_others
                    readers_cannot_write
                    reopened_store_contains_everything
                }
                journal {
                    acknowledged_records_are_visible_to_the_next_reader
                    unit_of_work_sees_earlier_acknowledged_records
                    archive_contains_unstored_journal_records
                    clean_shutdown_leaves_no_journal
                }
                tokens {
                    token_round_trips
                    revocation_includes_descendants_and_advances_the_epoch
                    revoking_a_holder_revokes_all_of_its_tokens
                    replaced_token_ends_with_renewals_and_passes_on_its_children
                    purge_reparents_children_to_the_nearest_ancestor
                    ancestry_is_resolved_at_any_depth
                    last_use_of_a_token_never_decreases
                    lists_are_newest_first_and_paged
                }
                state {
                    first_result_of_a_key_is_kept
                    only_old_results_are_purged
                    todos_are_managed_per_session
                    todo_numbers_are_never_reused
                    state_of_an_unknown_session_is_rejected
                    scratchpad_sections_are_managed_per_session
                    mcp_sessions_are_stored_ended_and_purged
                    task_ends_once_and_belongs_to_its_owner_until_it_expires
                    only_interrupted_tasks_of_the_hub_are_ended
                    task_limit_evicts_only_ended_tasks
                    server_credentials_are_stored_replaced_and_deleted
                }
                upstream_pins {
                    tool_pin_is_unique_replaceable_and_deleted_with_its_server
                }
                nodes {
                    node_names_are_unique_and_nodes_can_be_changed_and_removed
                    link_numbers_of_a_node_increase
                    certificates_are_barred_by_name_and_id
                    invitation_is_valid_once_until_it_expires
                    node_call_is_settled_once
                    node_call_can_be_withdrawn_only_before_it_is_sent
                    held_call_starts_once_and_keeps_its_first_outcome
                    store_id_is_stable
                }
                archive {
                    archive_round_trips_everything
                    archive_is_a_snapshot_despite_concurrent_writers
                }
                retention {
                    audit_verifies_after_old_entries_are_removed
                    known_breaks_outlive_their_entries
                    unsigned_audit_is_truncated_by_age_and_count
                    removing_old_events_keeps_the_numbers_of_others
                }
                session_stats {
                    events_are_counted_by_their_content
                }
                audit {
                    both_entries_of_a_call_are_listed_as_one
                    audited_calls_are_filtered_and_paged
                    audit_numbers_are_gapless_and_published_after_commit
                }
            }
        }
    };
}

macro_rules! rules {
    ($backend:ty; $($module:ident { $($rule:ident)* })*) => {$(
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $rule() {
                    crate::backend::bounded(async {
                        if let Some(database) = crate::backend::Database::<$backend>::fresh().await {
                            crate::$module::$rule(database).await;
                        }
                    })
                    .await;
                }
            )*
        }
    )*};
}

conformance!(on_sqlite, crate::backend::Sqlite);
conformance!(on_postgres, crate::postgres::Postgres);
