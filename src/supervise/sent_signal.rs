//! A signal that somebody sent to oomph and that is meant for the training: its number, what sigqueue(3)
//! sent with it, and whether the training has had it already.

use crate::units::Pid;
use nix::libc::{self, signalfd_siginfo};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;

/// Written as a number where it is no more than that, so that earlier versions read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SentSignal {
    Plain(i32),
    Queued {
        number: i32,
        value: u64,
        /// Whose it is: the program's handler may look.
        pid: i32,
        uid: u32,
    },
}

/// Signals that a processor raises. One that it raised in oomph itself ends oomph even where it is
/// blocked, by the kernel's own rule, so those that are read were sent by somebody.
const OF_THE_PROCESSOR: [i32; 6] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
];

/// Whether a signal that somebody sends to oomph is meant for the training. Not those that stop a job, which stop the
/// front as a shell expects it; the one that continues it is the training's as well, which may have a handler.
pub fn is_passed_on(number: i32) -> bool {
    const MEANT: [i32; 18] = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGABRT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGTERM,
        libc::SIGSTKFLT,
        libc::SIGURG,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
        libc::SIGCONT,
    ];
    // The C library keeps the two below SIGRTMIN for itself.
    MEANT.contains(&number)
        || OF_THE_PROCESSOR.contains(&number)
        || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number)
}

/// Whether a signal that came from `sender` to the process `own` is meant for the training. A timer that was set before oomph was
/// started, and keys, are meant for the training; what the kernel says of this process's own limits,
/// descriptors and writes is not.
pub fn is_meant(number: i32, sender: Sender, own: Pid) -> bool {
    match sender {
        Sender::Process(pid) => pid != own,
        Sender::Kernel => {
            let is_of_this_process = matches!(
                number,
                libc::SIGPIPE
                    | libc::SIGURG
                    | libc::SIGXCPU
                    | libc::SIGXFSZ
                    | libc::SIGVTALRM
                    | libc::SIGPROF
                    | libc::SIGIO
            );
            !is_of_this_process && !OF_THE_PROCESSOR.contains(&number)
        }
    }
}

/// Who sent a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A key at the terminal, a timer, a limit.
    Kernel,
    /// A process; 0 where it is in another PID namespace.
    Process(Pid),
}

impl Sender {
    /// Whether it is what manages services or the whole machine: it stops a unit, a login or everything by a signal to
    /// each process.
    pub fn is_service_manager(self) -> bool {
        match self {
            Sender::Kernel => false,
            Sender::Process(Pid(1)) => true,
            // The user's own, for `systemd-run --user` and the end of a login.
            Sender::Process(Pid(pid)) => {
                std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"systemd\n")
            }
        }
    }
}

impl SentSignal {
    /// What came, and who sent it.
    pub fn read(info: &signalfd_siginfo) -> (SentSignal, Sender) {
        let (number, pid) = (info.ssi_signo as i32, info.ssi_pid as i32);
        let sender = match info.ssi_code {
            libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL => Sender::Process(Pid(pid)),
            _ => Sender::Kernel,
        };
        let sent = match info.ssi_code {
            libc::SI_QUEUE => SentSignal::Queued {
                number,
                value: info.ssi_ptr,
                pid,
                uid: info.ssi_uid,
            },
            _ => SentSignal::Plain(number),
        };
        (sent, sender)
    }

    pub fn number(self) -> i32 {
        match self {
            SentSignal::Plain(number) | SentSignal::Queued { number, .. } => number,
        }
    }

    /// Sends it to a child of ours, whose PID can't be used again before we reap it.
    pub(super) fn send_to(self, pid: i32) {
        if pid <= 1 {
            return;
        }
        match self.info() {
            // SAFETY: no memory is involved.
            None => unsafe {
                libc::kill(pid, self.number());
            },
            // SAFETY: the kernel reads the structure, which lives on this stack.
            Some(info) => unsafe {
                libc::syscall(libc::SYS_rt_sigqueueinfo, pid, self.number(), &info);
            },
        }
    }

    /// Sends it to the process that a pidfd names.
    pub(super) fn send_to_pidfd(self, pidfd: libc::c_int) {
        let info = self.info();
        let info = info.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the kernel reads the structure, if any, which lives on this stack.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                pidfd,
                self.number(),
                info,
                0 as libc::c_uint,
            );
        }
    }

    fn info(self) -> Option<QueuedInfo> {
        match self {
            SentSignal::Plain(_) => None,
            SentSignal::Queued {
                number,
                value,
                pid,
                uid,
            } => Some(QueuedInfo {
                number,
                errno: 0,
                code: libc::SI_QUEUE,
                padding: 0,
                pid,
                uid,
                value,
                rest: [0; 12],
            }),
        }
    }
}

impl From<i32> for SentSignal {
    fn from(number: i32) -> SentSignal {
        SentSignal::Plain(number)
    }
}

/// `siginfo_t` of a signal with a value, as 64-bit Linux has it: libc's has no fields to fill.
#[repr(C)]
struct QueuedInfo {
    number: i32,
    errno: i32,
    code: i32,
    padding: i32,
    pid: i32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<QueuedInfo>() == size_of::<libc::siginfo_t>());

/// The step that is the batch script itself, `SLURM_BATCH_SCRIPT` in slurm.h.
const BATCH_STEP: u32 = 0xffff_fffb;

/// Whether we run inside an `srun` step, given `SLURM_STEP_ID`'s value.
///
/// slurmstepd signals every process of a step, so the trainer has already received what we received.
/// Passing it on would deliver it twice: Lightning's USR1 handler would checkpoint and requeue twice.
/// In the batch step only the script itself is signalled.
pub fn step_is_signalled(step_id: Option<&OsStr>) -> bool {
    step_id
        .and_then(OsStr::to_str)
        .and_then(|text| text.trim().parse::<u32>().ok())
        .is_some_and(|step| step != BATCH_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_without_a_value_is_a_number_as_it_was_in_earlier_versions() {
        let plain = SentSignal::Plain(15);
        assert_eq!(serde_json::to_string(&plain).unwrap(), "15");
        let queued = SentSignal::Queued {
            number: 35,
            value: u64::MAX,
            pid: 7,
            uid: 8,
        };
        for sent in [plain, queued] {
            let text = serde_json::to_string(&sent).unwrap();
            assert_eq!(serde_json::from_str::<SentSignal>(&text).unwrap(), sent);
        }
    }

    #[test]
    fn who_sent_it_is_told_by_its_code_and_not_by_its_pid() {
        // SAFETY: a structure of numbers.
        let mut info: signalfd_siginfo = unsafe { std::mem::zeroed() };
        info.ssi_signo = 15;
        info.ssi_code = libc::SI_USER;
        // From outside our PID namespace.
        let from = |info: &signalfd_siginfo| SentSignal::read(info).1;
        assert_eq!(from(&info), Sender::Process(Pid(0)));
        info.ssi_code = libc::SI_KERNEL;
        assert_eq!(from(&info), Sender::Kernel);
    }

    #[test]
    fn who_manages_services_is_no_shell_and_no_tool() {
        assert!(Sender::Process(Pid(1)).is_service_manager());
        for other in [std::process::id() as i32, 0, i32::MAX] {
            assert!(!Sender::Process(Pid(other)).is_service_manager());
        }
        assert!(!Sender::Kernel.is_service_manager());
    }

    #[test]
    fn what_is_about_this_process_stays_here() {
        let own = Pid(100);
        let other = Sender::Process(Pid(7));
        for number in [
            libc::SIGXCPU,
            libc::SIGPIPE,
            libc::SIGABRT,
            libc::SIGSEGV,
            libc::SIGSYS,
            libc::SIGRTMIN() + 3,
            libc::SIGCONT,
        ] {
            assert!(is_passed_on(number) && is_meant(number, other, own));
            assert!(!is_meant(number, Sender::Process(own), own));
        }
        assert!(!is_meant(libc::SIGXCPU, Sender::Kernel, own));
        assert!(!is_meant(libc::SIGTRAP, Sender::Kernel, own));
        assert!(
            is_meant(libc::SIGALRM, Sender::Kernel, own),
            "alarm(2) before exec"
        );
        assert!(is_meant(libc::SIGINT, Sender::Kernel, own), "a key");
        for number in [libc::SIGTSTP, libc::SIGSTOP, libc::SIGCHLD, 32] {
            assert!(!is_passed_on(number), "{number}");
        }
    }

    #[test]
    fn only_steps_of_srun_count() {
        for (value, expected) in [
            (None, false),
            (Some("0"), true),
            (Some("17"), true),
            (Some("4294967291"), false),
            (Some(""), false),
            (Some("batch"), false),
        ] {
            assert_eq!(
                step_is_signalled(value.map(OsStr::new)),
                expected,
                "{value:?}"
            );
        }
    }
}
