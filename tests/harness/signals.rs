//! The tests expect signals as at a shell's prompt, whatever they were started with: `nohup cargo test &`
//! ignores INT, HUP and QUIT, and what is ignored is inherited by every program that a test starts.
//!
//! Where one is ignored, the tests run in a child that has the usual ones, in a session of its own so that
//! what the user wanted ignored does not reach it either. This happens before `main`, since oomph's own code
//! notes in a function of the same kind how it found the signals; the child is a program started anew.

use nix::libc;

const USUAL: [libc::c_int; 3] = [libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

type Words = *const *const libc::c_char;

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn(libc::c_int, Words, Words) = begin;

extern "C" fn begin(_: libc::c_int, argv: Words, envp: Words) {
    // SAFETY: before `main` there is one thread; glibc passes the program's own arguments.
    unsafe {
        if !USUAL.iter().any(|signal| is_ignored(*signal)) {
            return;
        }
        match libc::fork() {
            -1 => {}
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::setsid();
                for signal in USUAL {
                    libc::signal(signal, libc::SIG_DFL);
                }
                libc::execve(c"/proc/self/exe".as_ptr(), argv, envp);
                libc::_exit(127);
            }
            child => {
                let mut status = 0;
                while libc::waitpid(child, &mut status, 0) == -1 {}
                libc::_exit(match libc::WIFEXITED(status) {
                    true => libc::WEXITSTATUS(status),
                    false => 1,
                });
            }
        }
    }
}

unsafe fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: only asks; the structure is plain data.
    unsafe {
        let mut found: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut found) == 0
            && found.sa_sigaction == libc::SIG_IGN
    }
}
