//! The guest on a real terminal: its own one, with keys, settings and sizes as people know them.
//!
//! Where a key must have its effect the guest is one process. A shell that forks is none to test
//! with: dash 0.5.12 loses a Ctrl-C that arrives during its vfork, and a Ctrl-Z then stops its child
//! and not itself, behind palisade as without it.

use super::{
    fixture::{Fixture, cases, ends_soon, init_of, pidfd_of},
    person::{PROMPT, Person},
};
use rustix::process::{Pid, Signal};

cases![
    the_guest_has_a_terminal_of_its_own,
    programs_find_it_as_dev_tty,
    its_settings_are_those_outside,
    the_window_size_follows,
    a_storm_of_sizes_ends_with_the_last,
    ctrl_c_reaches_the_guest,
    ctrl_c_reaches_a_guest_in_raw_mode_as_a_byte,
    ctrl_c_ends_a_flood,
    ctrl_s_holds_a_flood_and_ctrl_q_lets_it_go_on,
    a_held_screen_keeps_no_key_from_the_guest,
    a_held_screen_keeps_palisade_from_no_end,
    end_of_file_by_ctrl_d,
    keys_typed_ahead_reach_the_guest,
    a_pipe_beside_the_terminal_is_left_alone,
    keys_are_left_to_a_pager,
    a_pager_as_guest_gets_the_keys,
    a_guest_may_close_its_terminal_and_open_it_again,
    keys_are_not_pushed_into_the_terminal_outside,
    the_terminal_is_as_before_afterwards,
    answers_to_a_guest_are_not_typed_into_the_shell,
    half_a_question_is_not_finished_by_the_shell,
    who_asks_nothing_is_not_waited_for,
    closing_the_window_ends_the_guest,
    closing_the_window_ends_a_guest_in_the_middle_of_a_fork,
    closing_the_window_ends_a_stopped_guest,
    closing_the_window_spares_who_ignores_it,
];

fn the_guest_has_a_terminal_of_its_own(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- tty\n")
        .sees("\n/dev/pts/0\r\n")
        .sees(PROMPT);
    person
        .types("$P run -- sh -c 'ls /dev/pts; exit 5'; echo code $?\n")
        .sees("\n0  ptmx\r\n")
        .sees("code 5\r\n");
}

fn programs_find_it_as_dev_tty(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("echo in | $P run -- sh -c 'echo seen > /dev/tty' | cat\n")
        .sees("\nseen\r\n");
}

fn its_settings_are_those_outside(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("stty susp ^y erase ^h -ixon\n")
        .sees(PROMPT)
        .types("$P run -- stty -a | tr ';' '\\n' | grep -E '^ ?(susp|erase) |-ixon'\n");
    for setting in ["erase = ^H\r\n", "susp = ^Y\r\n", " -ixon "] {
        person.sees(setting);
    }
    person.sees(PROMPT);
    person
        .types("$P run -- sh -c 'echo up; exec cat'\n")
        .sees("\nup\r\n");
    person.types("\x19").sees("Stopped").sees(PROMPT);
}

fn the_window_size_follows(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person.types("$P run -- bash --norc -i\n").sees("bash");
    person.types("stty size\n").sees("\n30 100\r\n");
    person.resizes(25, 90);
    person
        .types("until stty size | grep 25; do :; done\n")
        .sees("\n25 90\r\n");
}

fn a_storm_of_sizes_ends_with_the_last(fixture: &Fixture) {
    const STORM: &str = "$| = 1; $SIG{WINCH} = sub { $s = `stty size`; print $s; exit if $s eq qq(77 177\\n) }; \
         print qq(up\\n); sleep 1 while 1";
    let mut person = Person::sit_down(fixture);
    person
        .types(&format!("$P run -- perl -e '{STORM}'; echo code $?\n"))
        .sees("\nup\r\n");
    for step in 0..2000 {
        person.resizes(20 + step % 50, 80 + step % 90);
    }
    person.resizes(77, 177);
    person.sees("77 177\r\n").sees("code 0\r\n");
}

fn ctrl_c_reaches_the_guest(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- sh -c 'echo up; exec sleep 60'; echo code $?\n")
        .sees("\nup\r\n");
    person.types("\x03").sees("code 130\r\n");
}

fn ctrl_c_reaches_a_guest_in_raw_mode_as_a_byte(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- sh -c 'stty raw -echo; echo up; head -c 3 | od -An -tx1'; echo code $?\n")
        .sees("up\n");
    person
        .types("\x03\x1a\x1c")
        .sees("03 1a 1c")
        .sees("code 0\r\n");
}

fn ctrl_c_ends_a_flood(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- yes; echo code $?\n")
        .sees("\ny\r\ny\r\n");
    person.types("\x03").sees("code 130\r\n");
}

fn ctrl_s_holds_a_flood_and_ctrl_q_lets_it_go_on(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- seq 1000000 1100000; echo code $?\n")
        .sees("\n1000000\r\n");
    // Whatever was on its way is shown, and no more.
    person.types("\x13").sees_no_more();
    assert!(!person.shown.contains("1100000\r\n"), "nothing was held");
    person
        .types("\x11")
        .sees("\n1100000\r\n")
        .sees("code 0\r\n");
}

/// A guest that has read and printed a line since the screen is held.
fn hold_the_screen(fixture: &Fixture) -> Person {
    fixture.make_folder("w");
    fixture.make_fifo("w/told");
    let script = "echo up; read line; echo $line; echo printed > w/told; exec sleep 60";
    let mut person = Person::sit_down(fixture);
    person
        .types(&format!(
            "$P run --write w -- sh -c '{script}'; echo code $?\n"
        ))
        .sees("\nup\r\n");
    person.holds_the_screen();
    person.types("go\n");
    assert_eq!(fixture.read("w/told"), "printed\n");
    person
}

fn a_held_screen_keeps_no_key_from_the_guest(fixture: &Fixture) {
    let mut person = hold_the_screen(fixture);
    let init = pidfd_of(init_of(person.palisade()));
    person.types("\x03");
    assert!(ends_soon(&init));
    person.lets_the_screen_go_on();
    person.sees("go\r\n").sees("code 130\r\n");
}

fn a_held_screen_keeps_palisade_from_no_end(fixture: &Fixture) {
    let person = hold_the_screen(fixture);
    let palisade = person.palisade();
    let (pidfd, init) = (pidfd_of(palisade), pidfd_of(init_of(palisade)));
    let palisade = Pid::from_raw(palisade.try_into().unwrap()).unwrap();
    // The first ends the guest, the second says that nobody will see the rest.
    rustix::process::kill_process(palisade, Signal::TERM).unwrap();
    assert!(ends_soon(&init));
    rustix::process::kill_process(palisade, Signal::TERM).unwrap();
    assert!(ends_soon(&pidfd));
}

fn end_of_file_by_ctrl_d(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- sh -c 'echo up; wc -l'\n")
        .sees("\nup\r\n");
    person.types("a\nb\n\x04").sees("\n2\r\n");
}

/// Palisade takes over what the terminal outside has made lines of.
fn keys_typed_ahead_reach_the_guest(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("printf 'go\\n'; read line; $P run -- wc -l\n")
        .sees("\ngo\r\n");
    person.types("line\na\nb\n\x04").sees("\n2\r\n");
}

fn a_pipe_beside_the_terminal_is_left_alone(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- sh -c 'test -t 0 && test ! -t 1 && test -t 2 && echo as is' | cat\n")
        .sees("\nas is\r\n");
}

/// `palisade run -- program | less`.
fn keys_are_left_to_a_pager(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    let pager = "sh -c 'read line; echo $line; read key < /dev/tty; echo got $key'";
    person
        .types(&format!(
            "$P run -- sh -c 'echo up; exec sleep 60' | {pager}\n"
        ))
        .sees("\nup\r\n");
    person.types("k\n").sees("\ngot k\r\n");
    person.types("\x03").sees(PROMPT);
}

/// `program | palisade run -- less`.
fn a_pager_as_guest_gets_the_keys(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    let pager = "read line; echo $line; read key < /dev/tty; echo got $key";
    person
        .types(&format!(
            "echo u''p | $P run -- sh -c '{pager}'; echo code $?\n"
        ))
        .sees("\nup\r\n");
    person.types("k\n").sees("\ngot k\r\n").sees("code 0\r\n");
}

fn a_guest_may_close_its_terminal_and_open_it_again(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    let script = "exec < /dev/null > /dev/null 2>&1; exec < /dev/tty > /dev/tty; echo back; read l; echo got $l";
    person
        .types(&format!("$P run -- sh -c '{script}'; echo code $?\n"))
        .sees("\nback\r\n");
    person
        .types("line\n")
        .sees("\ngot line\r\n")
        .sees("code 0\r\n");
}

fn keys_are_not_pushed_into_the_terminal_outside(fixture: &Fixture) {
    const PUSH: &str =
        "import fcntl, termios\nfor key in 'echo pw''ned\\n': fcntl.ioctl(0, termios.TIOCSTI, key)";
    fixture.write("push.py", PUSH);
    let mut person = Person::sit_down(fixture);
    let file = fixture.text("push.py");
    person
        .types(&format!(
            "$P run --read {file} -- python3 {file}; echo af''ter\n"
        ))
        .sees("after\r\n");
    person.types("echo en''d\n").sees("end\r\n");
    assert!(!person.shown.contains("pwned"), "{}", person.shown);
}

fn the_terminal_is_as_before_afterwards(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("a=$(stty -g); $P run -- sh -c 'stty raw -echo; kill -9 $$'; b=$(stty -g)\n")
        .sees("SIGKILL")
        .sees(PROMPT);
    person
        .types("test \"$a\" = \"$b\" && echo sa''me\n")
        .sees("same\r\n");
}

/// What palisade asks last, and the mode in it.
fn own_question(person: &mut Person) -> String {
    person.sees("\x18\x1b[?").sees("$p");
    let asked = person.shown.rsplit("\x1b[?").next().unwrap();
    asked.trim_end_matches(char::is_control)[..5].to_owned()
}

/// A terminal that answers after the guest's end, with a line that a shell would run.
fn answers_to_a_guest_are_not_typed_into_the_shell(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    for question in ["\\033[6n", "\\033[21t", "\\033P$qm\\033\\\\", "\\005"] {
        person.types(&format!("$P run -- printf '{question}'\n"));
        let mode = own_question(&mut person);
        person.types("\x1b[1;1R\necho pw''ned\n");
        // What a guest could have guessed ends nothing.
        person.types("\x1b[?1;0$yecho pw''ned\n");
        person.types(&format!("\x1b[?{mode};0$y"));
        person.sees(PROMPT);
        person.types("echo en''d\n").sees("end\r\n").sees(PROMPT);
    }
    assert!(!person.shown.contains("pwned"), "{}", person.shown);
}

fn half_a_question_is_not_finished_by_the_shell(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person.types("$P run -- printf '\\033]52;c;'\n");
    let mode = own_question(&mut person);
    person.types(&format!("\x1b[?{mode};0$y")).sees(PROMPT);
}

fn who_asks_nothing_is_not_waited_for(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- printf '\\033[1mbo''ld\\033[0m\\033]0;title\\007'\n")
        .sees("bold")
        .sees(PROMPT);
    assert!(!person.shown.contains("$p"), "{}", person.shown);
}

fn closing_the_window_ends_the_guest(fixture: &Fixture) {
    for guest in [
        "sh -c 'echo up; exec sleep 60'",
        "sh -c 'echo up; exec cat' | cat",
    ] {
        let mut person = Person::sit_down(fixture);
        person
            .types(&format!("$P run -- {guest}\n"))
            .sees("\nup\r\n");
        assert!(ends_soon(&person.closes_the_window()));
    }
}

/// A parent that hears nothing while it waits for a child that is stopped, as a shell in vfork(2).
fn closing_the_window_ends_a_guest_in_the_middle_of_a_fork(fixture: &Fixture) {
    const FORK: &str = "use POSIX; $hup = POSIX::SigSet->new(SIGHUP); sigprocmask(SIG_BLOCK, $hup); \
         $child = fork; if (!$child) { kill STOP => $$; exit } \
         waitpid $child, WUNTRACED; syswrite STDOUT, qq(up\\n); waitpid $child, 0; \
         sigprocmask(SIG_UNBLOCK, $hup); sleep 60";
    let mut person = Person::sit_down(fixture);
    person
        .types(&format!("$P run -- perl -e '{FORK}'\n"))
        .sees("\nup\r\n");
    assert!(ends_soon(&person.closes_the_window()));
}

fn closing_the_window_ends_a_stopped_guest(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run -- sh -c 'echo up; exec sleep 60'\n")
        .sees("\nup\r\n");
    person.types("\x1a").sees("Stopped").sees(PROMPT);
    assert!(ends_soon(&person.closes_the_window()));
}

/// Who ignores SIGHUP lives on without a terminal, as outside, and palisade with it.
fn closing_the_window_spares_who_ignores_it(fixture: &Fixture) {
    fixture.make_folder("w");
    fixture.make_fifo("w/ask");
    let script = "trap \"\" HUP; echo up; read line < w/ask; echo $line > w/told";
    let mut person = Person::sit_down(fixture);
    person
        .types(&format!("$P run --write w -- sh -c '{script}'\n"))
        .sees("\nup\r\n");
    let palisade = person.closes_the_window();
    fixture.write("w/ask", "question\n");
    assert!(ends_soon(&palisade));
    assert_eq!(fixture.read("w/told"), "question\n");
}
