//! Work that the loop must not wait for, because a disk may hang or a prediction takes seconds: it runs on a
//! thread of its own, and its result comes back as a message; so does what other threads have to say. What a task is
//! told was true when it began;
//! whoever takes the result asks whether it still is.
//!
//! Each has its own thread: one behind a dead disk holds up no other, and nothing waits for it at the end.
//! tokio's blocking pool would do the same, but panics where the system gives no thread.

use super::heap;
use super::session::earlier;
use super::session::inputs::SessionInputs;
use super::session::source::LinesRead;
use crate::collect::scheduler::SlurmJob;
use crate::forecast::TracedHint;
use crate::recognize::text::ProgramText;
use crate::remedy::{EditedNeed, Remedy};
use std::fmt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Tells one task from all others of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskId(u64);

/// Gives tasks their ids.
#[derive(Debug, Default)]
pub(crate) struct TaskIds(u64);

impl TaskIds {
    pub(crate) fn next(&mut self) -> TaskId {
        self.0 += 1;
        TaskId(self.0)
    }
}

/// What came of a task.
#[derive(Debug)]
pub(crate) enum TaskResult {
    /// Earlier sessions were read.
    Earlier(earlier::Earlier),
    /// A hint was searched for in a traced step.
    Hint(TracedHint),
    /// Config files, checkpoints and leftover processes were looked up.
    LookedUp(Box<SessionInputs>),
    Remedies(Vec<Remedy>),
    /// The program's text was read; `None` where there is none.
    Text(Option<Box<ProgramText>>),
    /// What the command in the editor would need.
    Foreseen(Box<EditedNeed>),
    /// Lines of source were read.
    Source(LinesRead),
    /// SLURM was asked for its job.
    Job(Result<SlurmJob, String>),
    /// What was learned of the program's numbers was written down.
    Learned(Result<(), String>),
    /// What came of the session's report, in words.
    Report(String),
    /// The edited files of the next run were written.
    Copies(Result<(), String>),
}

/// Work that is to begin.
pub(crate) struct BackgroundTask {
    pub id: TaskId,
    /// Its thread's.
    name: &'static str,
    work: Box<dyn FnOnce() -> TaskResult + Send>,
}

impl BackgroundTask {
    pub(crate) fn new(
        id: TaskId,
        name: &'static str,
        work: impl FnOnce() -> TaskResult + Send + 'static,
    ) -> BackgroundTask {
        let work = Box::new(work);
        BackgroundTask { id, name, work }
    }

    /// Its result, without a thread.
    #[cfg(test)]
    pub(crate) fn done_here(self) -> TaskResult {
        (self.work)()
    }
}

impl fmt::Debug for BackgroundTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackgroundTask({}, {})", self.id.0, self.name)
    }
}

/// A task that is over; `None` where it panicked, or no thread could be had for it.
pub(crate) type Finished = (TaskId, Option<TaskResult>);

/// What a thread beside the loop has to say.
#[derive(Debug)]
pub(crate) enum ThreadReport {
    Finished(Finished),
    /// A warning.
    Problem(String),
    /// A warning that is also printed at once.
    Aloud(String),
}

/// Starts tasks, each on a thread, and hears of others.
pub(crate) struct TaskThreads(UnboundedSender<ThreadReport>);

impl TaskThreads {
    /// Also returns where reports arrive.
    pub(crate) fn new() -> (TaskThreads, UnboundedReceiver<ThreadReport>) {
        let (sender, receiver) = unbounded_channel();
        (TaskThreads(sender), receiver)
    }

    /// Where a thread of another room tells its words, made a report by `report`.
    pub(crate) fn listener(
        &self,
        report: fn(String) -> ThreadReport,
    ) -> impl Fn(String) + Send + Sync + 'static {
        let to = self.0.clone();
        // Where the session has ended nobody takes it.
        move |words| drop(to.send(report(words)))
    }

    pub(crate) fn begin(&self, task: BackgroundTask) {
        let answer = TaskAnswer {
            id: task.id,
            result: None,
            to: self.0.clone(),
        };
        let work = task.work;
        let thread = std::thread::Builder::new().name(task.name.into());
        // Where no thread can be had the answer is dropped with the closure, and so given.
        let _ = thread.spawn(move || {
            let mut answer = answer;
            answer.result = Some(work());
            drop(answer);
            heap::give_back();
        });
    }
}

/// Given when it is dropped, so that a panic is an answer as well.
struct TaskAnswer {
    id: TaskId,
    result: Option<TaskResult>,
    to: UnboundedSender<ThreadReport>,
}

impl Drop for TaskAnswer {
    fn drop(&mut self) {
        // The session may have ended: then nobody takes it.
        let finished = (self.id, self.result.take());
        let _ = self.to.send(ThreadReport::Finished(finished));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn next(reports: &mut UnboundedReceiver<ThreadReport>) -> Finished {
        match reports.blocking_recv() {
            Some(ThreadReport::Finished(finished)) => finished,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_result_arrives_once_it_is_there_and_a_task_that_hangs_holds_up_no_other() {
        let (threads, mut finished) = TaskThreads::new();
        let mut ids = TaskIds::default();
        let (hung, other) = (ids.next(), ids.next());
        let (go_on, wait) = sync_channel::<()>(0);
        threads.begin(BackgroundTask::new(hung, "hung", move || {
            wait.recv().unwrap();
            TaskResult::Remedies(Vec::new())
        }));
        threads.begin(BackgroundTask::new(other, "other", || {
            TaskResult::Copies(Ok(()))
        }));
        let (first, result) = next(&mut finished);
        assert_eq!(first, other);
        assert!(matches!(result, Some(TaskResult::Copies(Ok(())))));
        go_on.send(()).unwrap();
        let (second, result) = next(&mut finished);
        assert_eq!(second, hung);
        assert!(matches!(result, Some(TaskResult::Remedies(_))));
    }

    #[test]
    fn work_that_panics_ends_without_a_result() {
        let (threads, mut finished) = TaskThreads::new();
        let id = TaskIds::default().next();
        threads.begin(BackgroundTask::new(id, "panics", || panic!("on purpose")));
        let (ended, result) = next(&mut finished);
        assert!(ended == id && result.is_none());
    }
}
