//! Components that response requests, without a network between.

mod exchange;
mod faults;
mod fixture;
mod grants;
mod guests;
mod instances;
mod tasks;

use guests::Missing;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::{process::ExitCode, time::Duration};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);
/// More than a guest that only answers needs, however slow the machine.
const TURNS: usize = 100;

fn main() -> ExitCode {
    let trials = vec![
        calls(
            "hello",
            exchange::a_short_answer_is_whole_and_its_length_known,
        ),
        calls("request", exchange::a_guest_sees_its_request),
        calls("echo", exchange::bodies_stream_both_ways_with_trailers),
        calls("head-alone", exchange::a_head_alone_holds_no_instance),
        calls(
            "broken-body",
            exchange::a_body_that_breaks_off_starts_no_guest,
        ),
        calls("empty", exchange::an_answer_may_have_no_body),
        calls("missing", exchange::a_status_is_the_guests),
        calls("ignored-body", exchange::a_body_need_not_be_read),
        calls("back-pressure", exchange::a_guest_waits_for_its_reader),
        calls("large", exchange::a_large_answer_comes_whole),
        calls("gone", exchange::a_client_that_goes_ends_the_guest),
        calls("after", exchange::a_guest_may_go_on_when_it_has_answered),
        calls(
            "fresh",
            instances::nothing_of_one_request_is_left_for_another,
        ),
        calls("kept", instances::an_instance_is_kept_until_it_fails),
        calls(
            "many",
            instances::requests_at_one_time_have_instances_of_their_own,
        ),
        calls("share", instances::one_service_leaves_instances_to_others),
        calls("turn", instances::requests_wait_for_an_instance_in_order),
        calls("idle", instances::instances_that_wait_give_way),
        calls(
            "idle-elsewhere",
            instances::instances_of_another_thread_give_way,
        ),
        calls("busy", instances::who_waits_too_long_is_told_to_come_again),
        calls("full", instances::a_pool_that_is_full_is_no_fault_of_guests),
        calls("trap", faults::a_trap_is_an_error_with_its_backtrace),
        calls("late-trap", faults::a_body_breaks_off_with_its_guest),
        calls("loop", faults::a_loop_is_ended_in_time),
        calls("turns", faults::a_loop_gives_others_their_turn),
        calls("processor-time", faults::processor_time_has_its_limit),
        calls("sleep", faults::a_wait_is_ended_in_time),
        calls("slow-client", faults::a_slow_client_is_not_its_guests_fault),
        calls("slow-reader", faults::a_slow_reader_is_not_its_guests_fault),
        calls(
            "slow-guest",
            faults::a_slow_guest_is_at_fault_whatever_its_client_does,
        ),
        calls("grow", faults::memory_has_its_limit),
        calls("none", faults::a_guest_must_answer),
        calls("exit", faults::a_guest_that_exits_has_not_answered),
        calls("error", faults::an_error_code_has_a_status),
        calls("unfinished", faults::an_unfinished_body_breaks_off),
        calls("announced", faults::a_body_is_as_long_as_announced),
        calls("words", grants::words_go_to_the_log_by_lines),
        calls("flood", grants::output_has_its_limit),
        calls("environment", grants::variables_are_those_granted),
        calls("files", grants::files_are_those_granted),
        calls("special-files", grants::what_is_no_file_is_not_opened),
        calls("sockets", grants::there_are_no_sockets),
        calls("denied", grants::a_request_is_sent_only_where_granted),
        calls("sent", grants::a_request_is_sent_where_granted),
        calls("sends", grants::requests_under_way_have_their_limits),
        calls("memory", grants::memory_that_is_held_is_told),
        calls(
            "refused",
            grants::what_cannot_be_held_is_refused_when_loaded,
        ),
        tasks(
            "0.3/hello",
            exchange::a_short_answer_is_whole_and_its_length_known,
        ),
        tasks("0.3/large", exchange::a_large_answer_comes_whole),
        tasks("0.3/echo", tasks::a_new_body_streams_both_ways),
        tasks("0.3/request", tasks::a_new_guest_sees_its_request),
        tasks("0.3/ends", tasks::new_faults_are_told),
        tasks(
            "0.3/slow-client",
            faults::a_slow_client_is_not_its_guests_fault,
        ),
        tasks(
            "0.3/special-files",
            grants::what_is_no_file_is_not_opened_by_a_task,
        ),
        tasks("0.3/kept", instances::a_new_component_is_not_kept),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test of `guests/component/answers`.
fn calls(name: &str, test: fn(&wasmtime::component::Component)) -> Trial {
    trial(name, guests::answers, test)
}

/// A test of `guests/component/tasks`.
fn tasks(name: &str, test: fn(&wasmtime::component::Component)) -> Trial {
    trial(name, guests::tasks, test)
}

type Loaded = wasmtime::component::Component;

fn trial(name: &str, load: fn() -> Result<Loaded, Missing>, test: fn(&Loaded)) -> Trial {
    Trial::ignorable_test(format!("service/{name}"), move || {
        match load() {
            Ok(component) => test(&component),
            Err(Missing(reason)) => return Ok(Completion::ignored_with(reason)),
        }
        Ok::<_, Failed>(Completion::Completed)
    })
}
