//! Palisade as a job of an interactive shell, and a shell as its guest.

use super::{
    fixture::{Fixture, cases},
    person::{PROMPT, Person},
};

cases![
    ctrl_z_stops_palisade_and_fg_goes_on,
    a_stopped_guest_goes_on_in_the_background,
    in_the_background_reading_stops,
    in_the_background_printing_does_not_stop,
    in_the_background_printing_stops_under_tostop,
    a_guest_that_stops_itself_is_a_stopped_job,
    a_guest_that_stops_itself_does_not_stop_a_script,
    without_a_shell_nothing_stops,
    a_stop_takes_a_whole_pipeline,
    a_shell_inside_has_job_control,
    a_shell_inside_gets_the_keys_from_a_pipeline,
];

fn ctrl_z_stops_palisade_and_fg_goes_on(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- perl -e '$| = 1; print qq(up\\n); print while <>; exit 4'\n")
        .sees("\nup\r\n");
    person.types("\x1a").sees("Stopped").sees(PROMPT);
    // The outer shell has its terminal back, cooked.
    person
        .types("stty -a | grep -o ' icanon'\n")
        .sees("\n icanon\r\n")
        .sees(PROMPT);
    person.types("fg\n").sees("$P run");
    person.types("again\n").sees("again\r\n").sees("again\r\n");
    person.types("\x04").sees(PROMPT);
    person.types("echo code $?\n").sees("code 4\r\n");
}

fn a_stopped_guest_goes_on_in_the_background(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    let script =
        "$| = 1; $SIG{CONT} = sub { print qq(continued\\n) }; print qq(up\\n); sleep 1; print <>";
    person
        .types(&format!("$P run -- perl -e '{script}'\n"))
        .sees("\nup\r\n");
    person.types("\x1a").sees("Stopped").sees(PROMPT);
    person.types("bg\n").sees("continued\r\n");
    // Then it reads.
    person
        .types("until jobs -s | grep -q .; do :; done; echo wa''its\n")
        .sees("waits\r\n")
        .sees(PROMPT);
    person.types("fg\n").sees("$P run");
    person.types("line\n\x04").sees("line\r\n").sees("line\r\n");
    person.sees(PROMPT);
}

fn in_the_background_reading_stops(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person.types("$P run -- cat &\n").sees(PROMPT);
    // The keys are the shell's.
    person
        .types("until jobs -s | grep -q .; do :; done; echo wa''its\n")
        .sees("waits\r\n")
        .sees(PROMPT);
    person.types("fg\n").sees("$P run");
    person.types("line\n").sees("line\r\n").sees("line\r\n");
    person.types("\x03").sees(PROMPT);
    person.types("echo code $?\n").sees("code 130\r\n");
}

fn in_the_background_printing_does_not_stop(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- sh -c 'echo pr''inted' & wait $!; echo code $?\n")
        .sees("\nprinted\r\n")
        .sees("code 0\r\n");
}

fn in_the_background_printing_stops_under_tostop(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("stty tostop; $P run -- sh -c 'echo pr''inted' &\n")
        .sees(PROMPT);
    person
        .types("until jobs -s | grep -q .; do :; done; echo wa''its\n")
        .sees("waits\r\n")
        .sees(PROMPT);
    assert!(!person.shown.contains("printed"), "{}", person.shown);
    person.types("fg\n").sees("\nprinted\r\n").sees(PROMPT);
}

/// `:stop` of an editor.
fn a_guest_that_stops_itself_is_a_stopped_job(fixture: &Fixture) {
    for signal in ["TSTP", "STOP"] {
        let mut person = Person::sit_down(fixture);
        person
            .types(&format!(
                "$P run -- sh -c 'kill -{signal} $$; echo over; exit 4'\n"
            ))
            .sees("Stopped")
            .sees(PROMPT);
        person.types("fg\n").sees("\nover\r\n").sees(PROMPT);
        person.types("echo code $?\n").sees("code 4\r\n");
    }
}

/// The script goes on once the guest is at its end. Somebody who does not want to wait presses Ctrl-Z.
fn a_guest_that_stops_itself_does_not_stop_a_script(fixture: &Fixture) {
    fixture.write(
        "script",
        "$P run --time 1 -- sh -c 'kill -STOP $$'\necho code $?\n",
    );
    let mut person = Person::sit_down(fixture);
    person
        .types("sh script\n")
        .sees("code 124\r\n")
        .sees(PROMPT);
    let guest = "$p = $$; if (!fork) { 1 until `cat /proc/$p/stat` =~ /\\) T/; print qq(up\\n); exit } \
         kill STOP => $$; print qq(over\\n)";
    fixture.write(
        "script",
        &format!("$P run -- perl -e '{guest}'\necho code $?\n"),
    );
    person.types("sh script\n").sees("\nup\r\n");
    person.types("\x1a").sees("Stopped").sees(PROMPT);
    person.types("fg\n").sees("over\r\n").sees("code 0\r\n");
}

/// `ssh -t host palisade run -- program`: nobody could continue it. The kernel ignores Ctrl-Z there.
fn without_a_shell_nothing_stops(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("script -qc \"$P run -- sh -c 'echo up; exec cat'\" /dev/null; echo code $?\n")
        .sees("\nup\r\n");
    person.types("\x1a");
    person.types("line\n").sees("line\r\n").sees("line\r\n");
    person.types("\x04").sees("code 0\r\n");
}

fn a_stop_takes_a_whole_pipeline(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- sh -c 'echo up; exec cat' | cat\n")
        .sees("\nup\r\n");
    person.types("\x1a").sees("Stopped").sees(PROMPT);
    person.types("fg\n").sees("$P run");
    person.types("line\n").sees("line\r\n").sees("line\r\n");
    person.types("\x03").sees(PROMPT);
}

fn a_shell_inside_has_job_control(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    // Another prompt than the one outside, which is waited for at the end.
    person
        .types("$P run --env 'PS1=i''n> ' -- bash --norc -i\n")
        .sees("in> ");
    person
        .types("seq 3 | sort -r | tr '\\n' -; echo\n")
        .sees("\n3-2-1-\r\n");
    person
        .types("sh -c 'echo u''p; exec cat' | cat\n")
        .sees("up\r\n");
    person.types("\x1a").sees("Stopped").sees("in> ");
    person.types("jobs\n").sees("Stopped").sees("in> ");
    person.types("fg\n").sees("sh -c");
    person.types("line\n").sees("line\r\n").sees("line\r\n");
    person.types("\x03").sees("in> ");
    person.types("exit 6\n").sees("exit").sees(PROMPT);
    person.types("echo code $?\n").sees("code 6\r\n");
}

fn a_shell_inside_gets_the_keys_from_a_pipeline(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run --env 'PS1=i''n> ' -- bash --norc -i | cat\n")
        .sees("in> ");
    person.types("echo in''side; exit\n").sees("inside\r\n");
    person.sees(PROMPT);
}
