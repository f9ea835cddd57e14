//! Programs that ask on `/dev/tty` though all three streams lead elsewhere, and what else is typed at that
//! terminal.

use crate::faults::staging::{Scene, Training, wait_for_beats};
use crate::harness::{Key, PATIENCE, processes, wait_until};
use nix::sys::signal::Signal::{SIGINT, SIGKILL};
use oomph::event::Exit;

const SUCCESS: Exit = Exit::Code(0);

/// Asks for a secret, then trains until it may end.
const ASKS: &str = "
import getpass, os, time
secret = getpass.getpass('secret? ')
open('got.new', 'w').write(secret)
os.rename('got.new', 'got')
while not os.path.exists('go'): time.sleep(0.01)
";

/// Whether the user's terminal shows nothing of what is typed.
fn hides(training: &mut Training) -> bool {
    let flags = training.terminal().settings().local_flags;
    !flags.contains(nix::sys::termios::LocalFlags::ECHO)
}

/// The made-up training at a terminal, with its streams elsewhere.
fn redirected(steps: &[&str]) -> Training {
    let scene = Scene::new().before("exec </dev/null >out 2>err");
    scene.screen(steps).elsewhere()
}

#[test]
fn fault_104_a_question_is_answered_and_other_keys_are_the_shells() {
    let shell = "\"$@\" </dev/null >out 2>err; echo $? >status; touch ended; read -r line </dev/tty; echo \"$line\" >typed; exit";
    let scene = Scene::new().before(shell).option("--no-probe");
    let mut training = scene.run_at_terminal(&["python3", "-c", ASKS]).elsewhere();
    training.terminal().wait_for("secret?", PATIENCE);
    wait_until("no echo", PATIENCE, || hides(&mut training));
    training.terminal().press(Key::Text("hush\n".into()));
    assert_eq!(training.file("got"), "hush");
    wait_until("the echo", PATIENCE, || !hides(&mut training));
    training
        .terminal()
        .press(Key::Text("for the shell\n".into()));
    training.terminal().wait_for("for the shell", PATIENCE);
    training.make("go");
    training.file("ended");
    wait_until("the shell's line", PATIENCE, || {
        std::fs::read_to_string(training.path("typed")).is_ok_and(|line| line.ends_with('\n'))
    });
    assert_eq!(training.file("typed"), "for the shell\n");
    assert_eq!(training.file("status"), "0\n");
    assert!(!training.terminal().screen().contains("hush"));
    assert_eq!(training.file("out"), "");
    assert_eq!(training.exit(), SUCCESS);
    assert!(training.terminal().left_behind().is_empty());
}

/// Reads keys as `less` does, each after others could have taken it.
const PAGER: &str = "
import os, select, sys, termios, time, tty
terminal = os.open('/dev/tty', os.O_RDWR)
before = termios.tcgetattr(terminal)
tty.setcbreak(terminal)
open('reads', 'w').close()
got = b''
while len(got) < 3:
    select.select([terminal], [], [])
    time.sleep(0.02)
    got += os.read(terminal, 1)
with open('got.new', 'wb') as file:
    file.write(got)
os.rename('got.new', 'got')
sys.stdin.read()
termios.tcsetattr(terminal, termios.TCSADRAIN, before)
";

/// `oomph … | less`: the program's standard input is the terminal, and it reads nothing.
#[test]
fn fault_104_what_is_typed_for_a_pager_is_the_pagers() {
    let scene = Scene::new().before("\"$@\" | python3 pager.py; exit");
    std::fs::write(scene.path("pager.py"), PAGER).expect("a program");
    let mut training = scene.screen(&["until:go"]).elsewhere();
    training.file("reads");
    training.terminal().press(Key::Text("abc".into()));
    assert_eq!(training.file("got"), "abc");
    training.make("go");
    assert_eq!(training.exit(), SUCCESS);
    assert!(training.terminal().left_behind().is_empty());
}

/// Asks, and hides what is typed much later, without another word.
const ASKS_FIRST: &str = "
import os, sys, termios, time
print('secret? ', end='', flush=True)
time.sleep(0.8)
before = termios.tcgetattr(0)
hidden = list(before)
hidden[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, hidden)
secret = sys.stdin.readline()
termios.tcsetattr(0, termios.TCSANOW, before)
open('got.new', 'w').write(secret.strip())
os.rename('got.new', 'got')
while not os.path.exists('go'): time.sleep(0.01)
";

#[test]
fn without_a_screen_a_secret_is_hidden_that_is_asked_for_before_the_echo_is_off() {
    let scene = Scene::new().option("--no-probe").option("--headless");
    let mut training = scene.run_at_terminal(&["python3", "-c", ASKS_FIRST]);
    training.terminal().wait_for("secret?", PATIENCE);
    wait_until("no echo", PATIENCE, || hides(&mut training));
    training.terminal().press(Key::Text("hush\n".into()));
    assert_eq!(training.file("got"), "hush");
    wait_until("the echo", PATIENCE, || !hides(&mut training));
    assert!(!training.terminal().screen().contains("hush"));
    training.make("go");
    assert_eq!(training.exit(), SUCCESS);
    assert!(training.terminal().left_behind().is_empty());
}

#[test]
fn fault_104_ctrl_c_reaches_the_training_once() {
    let mut training = redirected(&["catch:INT:count", "touch:ready", "until:go"]);
    training.file("ready");
    training.terminal().press(Key::Ctrl('c'));
    training.wait_count(SIGINT, 1);
    training.go();
    training.finish(SUCCESS);
    assert_eq!(training.count(SIGINT), 1);
}

#[test]
fn fault_104_the_terminal_that_goes_costs_nothing() {
    let mut training = redirected(&["touch:ready", "until:go", "touch:ended"]);
    training.file("ready");
    training.terminal().close();
    wait_for_beats(&training, 100_000);
    training.make("go");
    training.file("ended");
    training.marker().wait_gone(PATIENCE);
}

/// Without a question there is nothing on the terminal that the training could lose with the keeper.
#[test]
fn fault_104_a_keeper_that_is_killed_takes_no_training_along() {
    let training = redirected(&["touch:ready", "until:go", "touch:ended"]);
    training.file("ready");
    wait_until("the front knows the run", PATIENCE, || training.runs() == 1);
    processes::signal(training.keeper(), SIGKILL);
    training.wait_note("the training continues");
    wait_for_beats(&training, 100_000);
    training.make("go");
    training.file("ended");
    training.marker().wait_gone(PATIENCE);
}

/// Sets its terminal anew before it asks, as scripts do after a program that has left it in disorder.
const SANE: &str = "stty sane || echo refused; until stty -a | grep -q ' extproc'; do sleep 0.01; done; echo one; stty -echo; echo asked; read -r secret; stty echo; \
                    echo \"$secret\" >got.new; mv got.new got; while [ ! -e go ]; do sleep 0.01; done";

#[test]
fn without_a_screen_a_secret_is_hidden_after_the_terminal_was_set_anew() {
    let scene = Scene::new().option("--no-probe").option("--headless");
    let mut training = scene.run_at_terminal(&["bash", "-c", SANE]);
    training.terminal().wait_for("asked", PATIENCE);
    wait_until("no echo", PATIENCE, || hides(&mut training));
    training.terminal().press(Key::Text("hush\n".into()));
    assert_eq!(training.file("got"), "hush\n");
    training.make("go");
    assert_eq!(training.exit(), SUCCESS);
    let raw = String::from_utf8_lossy(&training.terminal().raw()).into_owned();
    assert!(!raw.contains("hush"), "{raw:?}");
    assert!(raw.contains("one\r\nasked\r\n"), "{raw:?}");
    assert!(!raw.contains("refused"), "{raw:?}");
    assert!(training.terminal().left_behind().is_empty());
}

/// Runs a shell on a terminal of its own with the settings of the one that it has, as `script` and `su --pty` do.
const COPIES: &str = "
import os, pty, select, sys, termios, tty
before = termios.tcgetattr(0)
master, slave = pty.openpty()
termios.tcsetattr(slave, termios.TCSANOW, before)
tty.setraw(0)
child = os.fork()
if child == 0:
    os.close(master)
    os.login_tty(slave) if hasattr(os, 'login_tty') else (os.setsid(), [os.dup2(slave, n) for n in range(3)], open(os.ttyname(0)).close())
    os.execvp(sys.argv[1], sys.argv[1:])
os.close(slave)
while True:
    ready, _, _ = select.select([0, master], [], [])
    try:
        read = os.read(master, 4096) if master in ready else b''
    except OSError:
        break
    os.write(1, read)
    if 0 in ready:
        os.write(master, os.read(0, 4096))
_, status = os.waitpid(child, 0)
termios.tcsetattr(0, termios.TCSADRAIN, before)
print('restored')
sys.exit(os.waitstatus_to_exitcode(status) % 256 if hasattr(os, 'waitstatus_to_exitcode') else status >> 8)
";

/// What is typed is edited and echoed, and Ctrl-C is one, in a terminal inside as well.
#[test]
fn without_a_screen_a_copied_terminal_works_as_its_original() {
    let scene = Scene::new().option("--no-probe").option("--headless");
    let shell = "echo one; trap 'echo caught; exit 7' INT; echo ready; read -r line; echo \"<$line>\"; sleep 60 & wait";
    let mut training = scene.run_at_terminal(&["python3", "-c", COPIES, "bash", "-c", shell]);
    training.terminal().wait_for("ready", PATIENCE);
    let output = |training: &mut Training| training.terminal().settings().output_flags;
    let is_processed = nix::sys::termios::OutputFlags::OPOST;
    wait_until("raw output", PATIENCE, || {
        !output(&mut training).contains(is_processed)
    });
    // The shell may have been there before its terminal was set right.
    wait_until("the copy is a terminal of its own", PATIENCE, || {
        is_complete(&training)
    });
    training.terminal().press(Key::Text("abx\u{7f}c\n".into()));
    training.terminal().wait_for("<abc>", PATIENCE);
    training.terminal().press(Key::Ctrl('c'));
    training.terminal().wait_for("restored", PATIENCE);
    assert_eq!(training.exit(), Exit::Code(7));
    let raw = String::from_utf8_lossy(&training.terminal().raw()).into_owned();
    // The kernel does not say between which bytes settings were changed: a line beside a change may get a second carriage
    // return, which shows nothing.
    let shown = raw.replace("\r\r\n", "\r\n");
    for line in [
        "one\r\nready\r\n",
        "abx\u{8} \u{8}c\r\n<abc>\r\n",
        "caught\r\nrestored\r\n",
    ] {
        assert!(shown.contains(line), "{raw:?}");
    }
    assert!(training.terminal().left_behind().is_empty());
}

/// Whether the shell's terminal edits its lines by itself.
fn is_complete(training: &Training) -> bool {
    let shell = training.find("the shell", |pid| {
        processes::command_line(pid).starts_with("bash")
    });
    let terminal = std::fs::File::open(format!("/proc/{shell}/fd/0")).expect("its terminal");
    let settings = nix::sys::termios::tcgetattr(&terminal).expect("settings");
    let extproc = nix::sys::termios::LocalFlags::EXTPROC;
    !settings.local_flags.contains(extproc)
}

/// Opens its terminal by its own name to read keys, as `less` does that has its text from a pipe.
const PAGES: &str = "
import os, sys, time
keys = os.open(os.ttyname(1), os.O_RDONLY)
sys.stdin.read()
print('page', flush=True)
key = os.read(keys, 80)
print('pressed', key, flush=True)
";

#[test]
fn a_program_whose_text_is_piped_has_the_keys_of_the_terminal_that_it_opens() {
    let scene = Scene::new().before("echo text >text; exec <text");
    let scene = scene.option("--no-probe").option("--headless");
    let mut training = scene.run_at_terminal(&["python3", "-c", PAGES]);
    training.terminal().wait_for("page", PATIENCE);
    training.terminal().press(Key::Text("next\n".into()));
    training.terminal().wait_for("pressed b'next\\n'", PATIENCE);
    assert_eq!(training.exit(), SUCCESS);
}
