//! What every database behind [`plexus_store::Store`] must do, as rules that run on each of them,
//! and what only SQLite has: files, URLs and a table that can be tampered with from outside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it left out"
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

/// One test per rule for one database; a rule that is not listed here is dead code and warned about.
macro_rules! conformance {
    ($name:ident, $backend:ty) => {
        mod $name {
            rules! { $backend;
                sessions {
                    one_owner_and_key_is_one_session
                    the_same_key_of_another_owner_is_another_session
                    lists_are_newest_first_and_continue_where_the_page_ended
                    a_session_has_a_folder_and_a_title
                    lists_are_narrowed_by_every_filter
                    opening_tells_whether_the_session_was_made
                }
                append {
                    events_come_back_as_they_are_stored
                    a_session_that_has_gone_on_is_left_as_it_is
                    of_many_who_expect_the_same_number_one_appends
                    an_external_id_seen_before_gives_the_stored_event
                    a_session_that_does_not_exist_is_an_error_and_nothing_else
                }
                events {
                    numbers_run_from_one_without_a_gap
                    handles_and_sessions_interleave_without_gap_overwrite_or_wrong_actor
                    an_external_id_seen_again_is_one_row_and_no_gap
                    an_external_id_twice_in_one_batch_is_one_row_and_no_gap
                    an_unknown_session_fails_only_its_own_caller
                    an_unknown_kind_is_kept_as_it_came
                    events_of_all_sessions_have_one_order_and_an_owner
                    a_commit_with_events_is_hinted_after_it_and_one_without_is_not
                }
                writer {
                    a_failed_unit_is_undone_and_its_records_are_kept
                    a_failed_unit_leaves_its_neighbours_in_the_batch_alone
                    a_unit_that_fails_in_the_database_leaves_its_neighbours_alone
                    a_panicking_unit_fails_alone
                    accepted_work_is_done_although_its_caller_left
                    what_was_appended_soon_comes_before_what_is_awaited_later
                    what_was_appended_soon_is_committed_without_anyone_waiting
                    shutdown_finishes_what_was_accepted_and_refuses_the_rest
                    readers_cannot_write
                    everything_is_there_after_reopening
                }
                journal {
                    what_is_acknowledged_is_there_for_whoever_reads_next
                    a_unit_of_work_sees_what_was_acknowledged_before_it
                    an_archive_has_what_the_rows_do_not_have_yet
                    a_stop_leaves_no_journal_behind
                }
                tokens {
                    a_token_comes_back_as_it_was_stored
                    revoking_takes_the_family_and_moves_the_epoch
                    revoking_a_holder_takes_all_of_its_tokens
                    a_replaced_token_ends_with_its_renewals_and_leaves_its_children_to_the_new_one
                    purged_tokens_leave_their_children_to_the_nearest_ancestor
                    ancestry_is_known_however_far_up
                    the_last_use_of_a_token_never_goes_back
                    lists_are_newest_first_and_continue_where_the_page_ended
                }
                state {
                    the_first_result_of_a_key_stays
                    old_results_are_purged_and_newer_ones_kept
                    todos_are_numbered_changed_and_removed_per_session
                    a_todo_number_is_not_given_twice_while_the_list_lives
                    state_of_a_session_that_does_not_exist_is_refused
                    scratchpad_sections_are_replaced_measured_and_deleted_per_session
                    mcp_sessions_are_kept_ended_and_purged
                    a_task_ends_once_and_is_its_owners_until_it_expires
                    tasks_that_a_hub_left_are_given_an_end_and_others_are_not
                    an_owner_has_so_many_tasks_and_loses_only_those_that_ended
                    credentials_of_servers_are_kept_replaced_and_forgotten
                }
                upstream_pins {
                    a_tool_has_one_pin_which_is_replaced_and_forgotten_with_its_server
                }
                nodes {
                    a_node_has_a_name_of_its_own_and_is_changed_and_forgotten
                    each_link_of_a_node_has_a_greater_number
                    a_barred_certificate_is_known_by_name_and_id
                    an_invitation_is_used_once_before_it_expires
                    a_call_to_a_node_is_settled_once
                    a_call_is_withdrawn_only_before_it_is_sent
                    a_held_call_begins_once_and_keeps_its_first_end
                    a_store_keeps_its_id
                }
                archive {
                    everything_comes_back_from_an_archive
                    an_archive_is_one_state_although_writers_go_on
                }
                retention {
                    old_audit_entries_go_and_the_rest_still_verifies
                    what_was_known_of_breaks_outlives_their_entries
                    an_audit_that_nobody_signs_loses_what_is_too_old_or_too_much_and_goes_on
                    old_events_go_and_the_numbers_of_the_rest_stay
                }
                session_stats {
                    events_are_counted_by_what_they_say
                }
                audit {
                    the_two_entries_of_a_call_are_listed_as_one
                    calls_are_narrowed_by_every_filter_and_paged
                    entries_are_numbered_without_a_gap_and_published_after_the_commit
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
