//! The policies, with destinations that are slow, failing or gone.

use super::queue::Unit;
use super::*;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const LIMIT: Duration = Duration::from_secs(20);

/// Each write waits for its outcome: how much of it is written, and whether it fails.
struct Directed {
    outcomes: Receiver<Option<usize>>,
    written: SyncSender<Vec<u8>>,
}

impl Destination for Directed {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteFailure> {
        let outcome = self.outcomes.recv().unwrap_or(None);
        let written = outcome.unwrap_or(bytes.len());
        let _ = self.written.send(bytes[..written].to_vec());
        match outcome {
            None => Ok(()),
            Some(_) => Err(WriteFailure {
                written,
                error: io::ErrorKind::StorageFull.into(),
                for_good: false,
            }),
        }
    }

    fn gap(&self, gap: &Gap) -> Vec<u8> {
        format!("<{} {}>", gap.lines, gap.bytes).into()
    }
}

fn directed(
    capacity: usize,
    policy: OverflowPolicy,
) -> (
    BackgroundWriter,
    SyncSender<Option<usize>>,
    Receiver<Vec<u8>>,
) {
    let (direct, outcomes) = sync_channel(100);
    let (written, seen) = sync_channel(100);
    let destination = Directed { outcomes, written };
    let writer = BackgroundWriter::start("test", capacity, policy, destination).unwrap();
    (writer, direct, seen)
}

fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_full_queue_leaves_a_counted_gap_in_its_place() {
    let mut queue = Queue::new(100);
    queue.push(Unit::Bytes, &[b'a'; 90]);
    queue.drop_unit(Unit::Bytes, 16, false);
    queue.drop_unit(Unit::Bytes, 1, false);
    queue.push(Unit::Bytes, b"after");
    let (_direct, outcomes) = sync_channel(1);
    let (written, _) = sync_channel(1);
    let mut piece = Vec::new();
    let taken = queue.take(&Directed { outcomes, written }, None, &mut piece);
    assert_eq!(piece, [&[b'a'; 90][..], b"<0 17>", b"after"].concat());
    assert!(taken.len() == 3 && queue.is_empty());
}

#[test]
fn dropping_goes_on_after_a_failure_and_says_what_is_missing() {
    let retry = Duration::from_millis(5);
    let (writer, direct, seen) = directed(1000, OverflowPolicy::Drop { retry });
    writer.push(b"0123456789");
    direct.send(Some(4)).unwrap();
    writer.nudge();
    let error = wait_for(|| writer.news().failed);
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    for outcome in [Some(0), Some(0), None] {
        direct.send(outcome).unwrap();
    }
    let gap = wait_for(|| writer.news().recovered);
    assert!(gap.bytes == 6 && gap.reason.is_some());
    writer.push(b"again");
    direct.send(None).unwrap();
    assert!(writer.close(LIMIT));
    let text: Vec<u8> = seen.try_iter().flatten().collect();
    assert_eq!(String::from_utf8(text).unwrap(), "0123<0 6>again");
}

#[test]
fn lines_that_must_be_kept_wait_for_the_next_try() {
    let retry = Duration::from_secs(3_600);
    let (writer, direct, seen) = directed(1000, OverflowPolicy::Retry { retry, kept: 12 });
    for (line, keep, at) in [
        ("kept 1\n", true, 1),
        ("lost\n", false, 2),
        ("kept\n", true, 3),
        ("too much\n", true, 4),
    ] {
        writer.push_line(line.as_bytes(), keep, Moment(at));
    }
    direct.send(Some(3)).unwrap();
    writer.nudge();
    let news = wait_for(|| Some(writer.news()).filter(|news| news.failed.is_some()));
    assert_eq!(news.dropped, 14);
    writer.push_line(b"lost too\n", false, Moment(5));
    direct.send(None).unwrap();
    assert!(writer.close(LIMIT), "the end is a last chance");
    let gap = writer.news().recovered.unwrap();
    assert_eq!((gap.lines, gap.from, gap.to), (3, Moment(2), Moment(5)));
    let text: Vec<u8> = seen.try_iter().flatten().collect();
    assert_eq!(String::from_utf8(text).unwrap(), "kep<3 23>kept 1\nkept\n");
}

#[test]
fn blocking_loses_nothing_and_wakes_the_loop() {
    // A pipe does for the loop's eventfd.
    let (woken, wake) = nix::unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK).unwrap();
    let (writer, direct, seen) = directed(1000, OverflowPolicy::Block { wake });
    let mut sent = Vec::new();
    for n in 0..50u8 {
        direct.send(None).unwrap();
        let room = wait_for(|| Some(writer.room()).filter(|room| *room > 0)).min(400);
        let bytes = vec![n; room];
        writer.push(&bytes);
        writer.nudge();
        sent.extend(bytes);
    }
    wait_for(|| writer.is_idle().then_some(()));
    wait_for(|| nix::unistd::read(&woken, &mut [0; 8]).ok());
    assert_eq!(seen.try_iter().flatten().collect::<Vec<u8>>(), sent);
    assert_eq!(writer.news().dropped, 0);
}
