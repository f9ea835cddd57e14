//! The socket against garbage, floods, lines without an end, and silence.

use super::*;
use crate::collect::probe_socket::LONGEST_LINE;
use crate::event::{Dropped, ProbeGone};
use crate::units::Pid;
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{Receiver, channel};

/// Long enough for a loaded machine; no test takes that long when it passes.
const PATIENCE: Duration = Duration::from_secs(30);

struct Served {
    requests: ProbeRequests,
    directory: tempfile::TempDir,
    events: Receiver<Event>,
    server: tokio::task::JoinHandle<()>,
}

impl Served {
    fn with_room_for(events: usize) -> Served {
        Served::start(events, HELLO_WITHIN)
    }

    fn start(events: usize, hello_within: Duration) -> Served {
        let directory = tempfile::tempdir().unwrap();
        let listener = bind(&directory.path().join("socket")).unwrap();
        let (sender, receiver) = channel(events);
        let requests = ProbeRequests::default();
        let serving = serve_within(
            listener,
            Clock::start(),
            requests.clone(),
            sender,
            hello_within,
        );
        let server = tokio::spawn(serving);
        Served {
            requests,
            directory,
            events: receiver,
            server,
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.path()).await.unwrap()
    }

    async fn next(&mut self) -> EventKind {
        let next = tokio::time::timeout(PATIENCE, self.events.recv());
        next.await.expect("an event in time").unwrap().what
    }
}

fn hello() -> Vec<u8> {
    line(r#""event":"hello","pid":1,"run":1,"python":"3.8.0","torch":"2.1.0","devices":[]"#)
}

fn sample(allocated: u64) -> Vec<u8> {
    line(&format!(
        r#""event":"sample","pid":1,"device":0,"allocated":{allocated},"reserved":9,"allocated_peak":9,"reserved_peak":9"#
    ))
}

fn step(count: u64) -> Vec<u8> {
    line(&format!(
        r#""event":"step","pid":1,"device":0,"count":{count},"before":{{"allocated":1,"reserved":2,"peak":3}},"after":{{"allocated":1,"reserved":2,"peak":3}}"#
    ))
}

fn line(said: &str) -> Vec<u8> {
    format!("{{\"ns\":1,{said}}}\n").into_bytes()
}

fn own_pid() -> Pid {
    Pid(std::process::id() as i32)
}

fn malformed() -> EventKind {
    EventKind::Dropped(Dropped {
        malformed: 1,
        ..Dropped::default()
    })
}

async fn is_closed(stream: &mut UnixStream) -> bool {
    let end = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
    end.expect("the connection to be closed in time").is_err()
}

#[tokio::test]
async fn a_probe_is_followed_from_hello_to_its_end() {
    let mut served = Served::with_room_for(8);
    let mut probe = served.connect().await;
    // A line may come in pieces, and several in one.
    let bytes = [hello(), sample(5), step(1)].concat();
    let (first, rest) = bytes.split_at(20);
    probe.write_all(first).await.unwrap();
    tokio::task::yield_now().await;
    probe.write_all(rest).await.unwrap();
    drop(probe);
    let EventKind::Hello(hello) = served.next().await else {
        panic!("the hello comes first")
    };
    assert_eq!(hello.pid, own_pid(), "the kernel's word, not the line's");
    assert!(matches!(served.next().await, EventKind::Sample(_)));
    assert!(matches!(served.next().await, EventKind::Step(_)));
    let gone = ProbeGone {
        pid: own_pid(),
        reason: None,
        said_end: false,
    };
    assert_eq!(served.next().await, EventKind::ProbeGone(gone));
}

#[tokio::test]
async fn garbage_closes_that_connection_alone() {
    let mut served = Served::with_room_for(8);
    let mut good = served.connect().await;
    good.write_all(&hello()).await.unwrap();
    assert!(matches!(served.next().await, EventKind::Hello(_)));
    for garbage in [
        b"garbage\n".to_vec(),
        vec![b'\n'],
        b"\x00\xff\xfe\n".to_vec(),
        sample(1),
        line(r#""event":"exited","run":1,"exit":{"code":0}"#),
    ] {
        let mut bad = served.connect().await;
        bad.write_all(&garbage).await.unwrap();
        assert!(is_closed(&mut bad).await, "{garbage:?}");
        assert_eq!(served.next().await, malformed(), "{garbage:?}");
    }
    good.write_all(&step(2)).await.unwrap();
    assert!(matches!(served.next().await, EventKind::Step(_)));
}

#[tokio::test]
async fn ten_megabytes_of_garbage_are_no_more_than_one_malformed_line() {
    let mut served = Served::with_room_for(8);
    let mut bad = served.connect().await;
    let garbage: Vec<u8> = (0..10 << 20).map(|n: u32| (n % 251) as u8).collect();
    // The other end closes long before the last byte.
    assert!(bad.write_all(&garbage).await.is_err());
    assert_eq!(served.next().await, malformed());
}

#[tokio::test]
async fn a_line_of_a_gibibyte_is_stopped_at_the_bound() {
    let mut served = Served::with_room_for(8);
    let mut bad = served.connect().await;
    bad.write_all(&hello()).await.unwrap();
    let piece = vec![b'x'; 64 << 10];
    let mut taken = 0;
    while taken < 1 << 30 {
        match bad.write(&piece).await {
            Ok(written) => taken += written,
            Err(_) => break,
        }
    }
    // In addition to the limit, what the kernel's buffers hold.
    assert!(taken < LONGEST_LINE + (4 << 20), "{taken} bytes were taken");
    assert!(matches!(served.next().await, EventKind::Hello(_)));
    assert_eq!(served.next().await, malformed());
    let EventKind::ProbeGone(gone) = served.next().await else {
        panic!("the end is told")
    };
    assert_eq!(
        gone.reason.as_deref(),
        Some("it sent a line that is too long")
    );
}

#[tokio::test]
async fn a_torn_line_at_the_end_is_counted() {
    let mut served = Served::with_room_for(8);
    let mut torn = served.connect().await;
    torn.write_all(&hello()).await.unwrap();
    torn.write_all(&sample(1)[..30]).await.unwrap();
    drop(torn);
    assert!(matches!(served.next().await, EventKind::Hello(_)));
    assert_eq!(served.next().await, malformed());
    assert!(matches!(served.next().await, EventKind::ProbeGone(_)));
}

#[tokio::test]
async fn a_second_hello_is_out_of_order() {
    let mut served = Served::with_room_for(8);
    let mut probe = served.connect().await;
    probe.write_all(&[hello(), hello()].concat()).await.unwrap();
    assert!(is_closed(&mut probe).await);
    assert!(matches!(served.next().await, EventKind::Hello(_)));
    assert_eq!(served.next().await, malformed());
}

/// A process that has not initialised CUDA says this one thing, and is no process that reports memory.
#[tokio::test]
async fn how_data_is_loaded_may_come_without_a_hello_and_nothing_else() {
    let mut served = Served::with_room_for(8);
    let said = line(r#""event":"process_host","pid":1,"loaders":[{"workers":8}]"#);
    let mut early = served.connect().await;
    early.write_all(&said).await.unwrap();
    drop(early);
    let EventKind::ProcessHost(said) = served.next().await else {
        panic!("how data is loaded");
    };
    assert_eq!(said.pid, own_pid(), "the kernel's word, not the line's");
    assert_eq!(said.loaders.map(|loaders| loaders[0].workers), Some(8));
    let mut stranger = served.connect().await;
    let bytes = [line(r#""event":"process_host","pid":1"#), sample(5)];
    stranger.write_all(&bytes.concat()).await.unwrap();
    assert!(matches!(served.next().await, EventKind::ProcessHost(_)));
    assert_eq!(
        served.next().await,
        malformed(),
        "no goodbye of the first one"
    );
    assert!(is_closed(&mut stranger).await);
}

#[tokio::test]
async fn silence_does_not_hold_a_place_for_ever() {
    let mut served = Served::start(8, Duration::from_millis(50));
    let mut silent = served.connect().await;
    silent.write_all(b"{").await.unwrap();
    assert!(is_closed(&mut silent).await);
    assert_eq!(served.next().await, malformed());
}

#[tokio::test]
async fn a_full_channel_costs_samples_alone_and_they_are_counted() {
    const SAMPLES: u64 = 500;
    const STEPS: u64 = 50;
    let mut served = Served::with_room_for(4);
    let mut probe = served.connect().await;
    probe.write_all(&hello()).await.unwrap();
    for count in 0..SAMPLES {
        probe.write_all(&sample(count)).await.unwrap();
    }
    // These wait, and so does their sender.
    let stepping = tokio::spawn(async move {
        for count in 0..STEPS {
            probe.write_all(&step(count)).await.unwrap();
        }
    });
    let (mut samples, mut lost, mut steps) = (0, 0, 0);
    loop {
        match served.next().await {
            EventKind::Sample(_) => samples += 1,
            EventKind::Dropped(dropped) => lost += dropped.samples,
            EventKind::Step(_) => steps += 1,
            EventKind::ProbeGone(_) => break,
            EventKind::Hello(_) => {}
            other => panic!("{other:?}"),
        }
    }
    stepping.await.unwrap();
    assert_eq!((samples + lost, steps), (SAMPLES, STEPS));
    assert!(lost > 0, "nobody received meanwhile");
}

#[tokio::test]
async fn more_than_the_most_connections_are_refused_and_said_once() {
    let mut served = Served::with_room_for(2 * MOST_CONNECTIONS);
    let mut open = Vec::new();
    for _ in 0..MOST_CONNECTIONS {
        let mut probe = served.connect().await;
        probe.write_all(&hello()).await.unwrap();
        assert!(matches!(served.next().await, EventKind::Hello(_)));
        open.push(probe);
    }
    for _ in 0..2 {
        assert!(is_closed(&mut served.connect().await).await);
    }
    assert!(matches!(served.next().await, EventKind::Note(_)));
    // A free slot is used for the next connection.
    drop(open.pop());
    assert!(matches!(served.next().await, EventKind::ProbeGone(_)));
    loop {
        let mut late = served.connect().await;
        // If rejected, the write may fail as well as the read.
        let _ = late.write_all(&hello()).await;
        tokio::select! {
            _ = late.read_u8() => continue,
            what = served.next() => break assert!(matches!(what, EventKind::Hello(_))),
        }
    }
}

#[tokio::test]
async fn it_ends_when_nobody_receives_any_more() {
    let served = Served::with_room_for(1);
    drop(served.events);
    let ended = tokio::time::timeout(PATIENCE, served.server).await;
    ended.expect("serve to end").unwrap();
}

#[tokio::test]
async fn the_socket_is_private_and_takes_the_place_of_a_dead_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let first = bind(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let taken = bind(&path).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse, "{taken}");
    drop(first);
    // A child of another test has it open for a moment, between its fork and its exec.
    let deadline = std::time::Instant::now() + PATIENCE;
    while let Err(error) = bind(&path) {
        assert!(std::time::Instant::now() < deadline, "{error}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_file_in_the_way_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    fs::write(&path, "precious").unwrap();
    let error = bind(&path).unwrap_err();
    assert!(error.to_string().contains("socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_path_that_is_too_long_is_refused_with_the_mend() {
    let directory = tempfile::tempdir().unwrap();
    let room = LONGEST_PATH - directory.path().as_os_str().len() - 1;
    let longest = directory.path().join("s".repeat(room));
    assert!(fits(&longest));
    bind(&longest).unwrap();
    let too_long = directory.path().join("s".repeat(room + 1));
    assert!(!fits(&too_long));
    let error = bind(&too_long).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("XDG_RUNTIME_DIR"), "{error}");
}

#[tokio::test]
async fn a_request_reaches_the_process_that_it_is_for() {
    let mut served = Served::with_room_for(8);
    let mut probe = served.connect().await;
    probe.write_all(&hello()).await.unwrap();
    assert!(matches!(served.next().await, EventKind::Hello(_)));
    let stranger = Pid(own_pid().0 + 1);
    served.requests.ask(stranger, ProbeRequest::Retainers);
    let directory = "/tmp/a place".into();
    served
        .requests
        .ask(own_pid(), ProbeRequest::Snapshot { directory });
    served.requests.ask(own_pid(), ProbeRequest::Retainers);
    let wanted = concat!(
        r#"{"request":"snapshot","directory":"/tmp/a place"}"#,
        "\n",
        r#"{"request":"retainers"}"#,
        "\n"
    );
    let mut got = vec![0; wanted.len()];
    let read = tokio::time::timeout(PATIENCE, probe.read_exact(&mut got));
    read.await.expect("in time").unwrap();
    assert_eq!(String::from_utf8_lossy(&got), wanted);
    // What it says meanwhile still arrives.
    probe.write_all(&sample(7)).await.unwrap();
    assert!(matches!(served.next().await, EventKind::Sample(_)));
}

#[tokio::test]
async fn a_probe_that_does_not_read_is_still_heard() {
    let mut served = Served::with_room_for(8);
    let mut probe = served.connect().await;
    probe.write_all(&hello()).await.unwrap();
    assert!(matches!(served.next().await, EventKind::Hello(_)));
    for _ in 0..1_000 {
        let directory = "/tmp".repeat(1_000).into();
        served
            .requests
            .ask(own_pid(), ProbeRequest::Snapshot { directory });
        tokio::task::yield_now().await;
    }
    probe.write_all(&sample(7)).await.unwrap();
    assert!(matches!(served.next().await, EventKind::Sample(_)));
}

#[tokio::test]
async fn it_is_known_whether_a_probe_may_still_have_something_to_say() {
    let mut served = Served::with_room_for(8);
    let asked = served.requests.clone();
    assert!(!asked.is_connected());
    // It connects, says all and ends before anybody has looked.
    let mut blocking = BlockingStream::connect(served.path()).unwrap();
    std::io::Write::write_all(&mut blocking, &[hello(), step(1)].concat()).unwrap();
    drop(blocking);
    tokio::task::yield_now().await;
    assert!(asked.is_connected());
    while !matches!(served.next().await, EventKind::ProbeGone(_)) {}
    let closed = async {
        while asked.is_connected() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, closed)
        .await
        .expect("closed");
    served.server.abort();
    assert!(served.server.await.is_err());
    assert!(!asked.is_connected(), "nobody listens");
}
