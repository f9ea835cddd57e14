//! What is typed at the terminal of a run without a screen: it is read as without oomph, line by line and to its end.

use crate::faults::staging::{Scene, Training};
use crate::harness::{Key, PATIENCE};
use oomph::event::Exit;

const SUCCESS: Exit = Exit::Code(0);

/// A program at a terminal, without the screen.
fn at_terminal(program: &str) -> Training {
    let scene = Scene::new().option("--no-probe").option("--headless");
    scene.run_at_terminal(&["python3", "-c", program])
}

fn type_in(training: &mut Training, text: impl Into<String>) {
    training.terminal().press(Key::Text(text.into()));
}

/// Waits until all has been typed, then reads five times.
const READS: &str = "
import os, time
print('ready', flush=True)
while not os.path.exists('go'): time.sleep(0.01)
got = [os.read(0, 9999) for _ in range(5)]
open('got.new', 'w').write(repr(got))
os.rename('got.new', 'got')
";

#[test]
fn lines_that_were_typed_ahead_come_one_by_one_and_ctrl_d_is_the_end() {
    let mut training = at_terminal(READS);
    training.terminal().wait_for("ready", PATIENCE);
    type_in(&mut training, "one\ntwo\n\x04three\x04four\n");
    training.terminal().wait_for("four", PATIENCE);
    training.make("go");
    let got = "[b'one\\n', b'two\\n', b'', b'three', b'four\\n']";
    assert_eq!(training.file("got"), got);
    assert_eq!(training.exit(), SUCCESS);
    assert!(training.terminal().left_behind().is_empty());
}

/// Two programs share what was typed, each to its own end.
const TWO: &str = "
import os, subprocess, sys, time
print('ready', flush=True)
while not os.path.exists('go'): time.sleep(0.01)
read = [sys.executable, '-c', 'import sys; print(repr(sys.stdin.read()))']
open('got.new', 'w').write(repr([eval(subprocess.check_output(read)) for _ in range(2)]))
os.rename('got.new', 'got')
";

#[test]
fn each_of_two_programs_reads_to_its_own_end() {
    let mut training = at_terminal(TWO);
    training.terminal().wait_for("ready", PATIENCE);
    type_in(&mut training, "a\nb\n\x04c\n\x04");
    training.terminal().wait_for("c", PATIENCE);
    training.make("go");
    assert_eq!(training.file("got"), "['a\\nb\\n', 'c\\n']");
    assert_eq!(training.exit(), SUCCESS);
}

/// Reads two lines, of which the first is as long as a terminal allows.
const LONG: &str = "
import os, sys
print('ready', flush=True)
long, short = sys.stdin.readline(), sys.stdin.readline()
open('got.new', 'w').write(repr((len(long), set(long), short)))
os.rename('got.new', 'got')
";

#[test]
fn the_longest_line_that_a_terminal_takes_arrives_whole() {
    let mut training = at_terminal(LONG);
    training.terminal().wait_for("ready", PATIENCE);
    type_in(&mut training, "a".repeat(4094) + "\n");
    type_in(&mut training, "next\n");
    let got = training.file("got");
    assert!(
        got.starts_with("(4095, {") && got.ends_with(", 'next\\n')"),
        "{got}"
    );
    assert_eq!(training.exit(), SUCCESS);
}

/// Asks for a secret after something was typed.
const FLUSHES: &str = "
import getpass, os, time
print('ready', flush=True)
while not os.path.exists('go'): time.sleep(0.01)
secret = getpass.getpass('secret? ')
open('got.new', 'w').write(secret)
os.rename('got.new', 'got')
";

#[test]
fn what_a_program_throws_away_is_gone() {
    let mut training = at_terminal(FLUSHES);
    training.terminal().wait_for("ready", PATIENCE);
    type_in(&mut training, "not this\nnor that\n");
    training.terminal().wait_for("nor that", PATIENCE);
    training.make("go");
    training.terminal().wait_for("secret?", PATIENCE);
    type_in(&mut training, "hush\n");
    assert_eq!(training.file("got"), "hush");
    assert_eq!(training.exit(), SUCCESS);
}

/// Says that it runs, and with which settings; reads to the end of its input.
const READS_TO_ITS_END: &str = "
import os, sys, termios
local = termios.tcgetattr(0)[3]
open('up', 'w').write(repr([bool(local & flag) for flag in (termios.ICANON, termios.ECHO, termios.ISIG)]))
got = sys.stdin.read()
open('got.new', 'w').write(repr(got))
os.rename('got.new', 'got')
";

/// While the shell edits its line it has the terminal without echo and key by key, and whoever starts in the
/// background meets it so.
#[test]
fn what_began_in_the_background_reads_lines_and_their_end_in_front() {
    let shell = "set -m; stty -icanon -echo; \"$@\" & while [ ! -e up ]; do sleep 0.01; done; \
                 stty icanon echo; echo now in front; fg; exit";
    let scene = Scene::new().before(shell).option("--no-probe");
    let mut training =
        scene
            .option("--headless")
            .run_at_terminal(&["python3", "-c", READS_TO_ITS_END]);
    training.terminal().wait_for("now in front", PATIENCE);
    assert_eq!(training.file("up"), "[True, True, True]");
    type_in(&mut training, "a line\n\x04");
    assert_eq!(training.file("got"), "'a line\\n'");
    assert_eq!(training.exit(), SUCCESS);
    assert!(training.terminal().left_behind().is_empty());
}
