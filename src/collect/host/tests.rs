//! Made-up trees of files, and a watcher over them.

mod groups;

use super::cgroup::{Cgroup, pressure};
use super::files::value_of;
use super::machine::Machine;
use super::tree::{RunTree, role};
use super::*;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};

const GIB: u64 = 1 << 30;

/// A child of this process; it ends with the test, however that ends.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid(self.0.id() as i32)
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// A root with these files.
fn system(files: &[(&str, String)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

const TWO: &str = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

fn two(path: &str, limit: &str, current: u64, kills: u64) -> Vec<(String, String)> {
    let file = |name: &str| format!("sys/fs/cgroup{path}/{name}");
    let stat =
        format!("anon 1\nshmem {GIB}\ninactive_file {GIB}\nactive_file 0\nslab_reclaimable 0\n");
    vec![
        (file("memory.max"), format!("{limit}\n")),
        (file("memory.current"), format!("{current}\n")),
        (file("memory.stat"), stat),
        (
            file("memory.events"),
            format!("low 0\nhigh 0\nmax 7\noom 1\noom_kill {kills}\n"),
        ),
        (
            file("memory.pressure"),
            "some avg10=12.34 avg60=0.00 avg300=0.00 total=0\n".into(),
        ),
    ]
}

fn of(mounts: &str, files: Vec<(String, String)>) -> tempfile::TempDir {
    let mut all = files;
    all.push(("proc/self/mountinfo".into(), mounts.into()));
    let all: Vec<(&str, String)> = all
        .iter()
        .map(|(path, text)| (path.as_str(), text.clone()))
        .collect();
    system(&all)
}

#[test]
fn without_files_nothing_is_made_up() {
    assert!(Cgroup::of(Path::new("/nonexistent"), "0::/\n").is_none());
    let root = of(TWO, Vec::new());
    assert!(
        Cgroup::of(root.path(), "0::/\n").is_none(),
        "no memory controller"
    );
    assert!(Cgroup::of(root.path(), "").is_none());
    let root = of(TWO, two("/job", "max", GIB, 0));
    let mut group = Cgroup::of(root.path(), "0::/job\n").unwrap();
    assert_eq!(group.tightest(), None, "no limit");
    assert_eq!(pressure("full avg10=1.00\n"), None);
    assert_eq!(
        value_of("oom_kill_disable 0\noom_kill 2\n", "oom_kill"),
        Some(2)
    );
    assert_eq!(Machine::of(root.path()).used(), None);
}

const MEMINFO: &str = "MemTotal: 16777216 kB\nMemFree: 100 kB\nMemAvailable: 8388608 kB\nCached: 2097152 kB\nShmem: 1048576 kB\nSwapTotal: 10 kB\nSwapFree: 6 kB\n";

#[test]
fn the_machine_has_what_is_available_and_no_more() {
    let root = system(&[("proc/meminfo", MEMINFO.into())]);
    let machine = Machine::of(root.path()).used().unwrap();
    assert_eq!(
        (machine.total, machine.used),
        (Bytes::gib(16), Bytes::gib(8))
    );
    assert_eq!(
        (machine.cache, machine.shared),
        (Some(Bytes::gib(1)), Some(Bytes::gib(1)))
    );
    assert_eq!(machine.swap, Some(Bytes(4_096)));
}

#[test]
fn what_a_process_is_there_for_is_told_by_its_words_and_its_parent() {
    let train = b"python3\0train.py\0".as_slice();
    let main = Some((train, HostRole::Main));
    for (name, words, parent, expected) in [
        ("python3", train, None, HostRole::Main),
        ("python3", train, main, HostRole::Worker),
        ("pt_data_worker", train, main, HostRole::LoaderWorker),
        (
            "python3",
            b"/env/bin/python\0-c\0from multiprocessing.spawn import spawn_main\0".as_slice(),
            main,
            HostRole::Worker,
        ),
        (
            "python3",
            b"python\0-c\0from multiprocessing.resource_tracker import main\0".as_slice(),
            main,
            HostRole::Other,
        ),
        (
            "python3",
            b"python\0/torch/_inductor/compile_worker/__main__.py\0".as_slice(),
            main,
            HostRole::CompileWorker,
        ),
        (
            "python3",
            b"python3\0-u\0other.py\0".as_slice(),
            main,
            HostRole::Main,
        ),
        ("tee", b"tee\0log\0".as_slice(), main, HostRole::Other),
        ("oomph-session", train, None, HostRole::Other),
    ] {
        assert_eq!(role(name, words, parent), expected, "{name}");
    }
}

/// A real process below this one: found, read, and told when it has ended.
#[test]
fn the_processes_below_are_read_and_their_end_is_seen() {
    let mut child = Sleeper::new();
    let pid = child.pid();
    let mut tree = RunTree::new("/proc".into(), std::process::id() as i32, Vec::new());
    // Other tests of this process have children too.
    let known = |tree: &RunTree| {
        tree.processes()
            .into_iter()
            .find(|process| process.pid == pid)
    };
    tree.find(None);
    tree.read();
    let process = known(&tree).expect("it is a child");
    assert!(process.resident > Bytes::ZERO, "{process:?}");
    child.0.kill().unwrap();
    let gone = loop {
        let gone = tree.read();
        if let Some(gone) = gone.into_iter().find(|process| process.pid == pid) {
            break gone;
        }
        std::thread::yield_now();
    };
    assert!(gone.resident > Bytes::ZERO, "as it was before");
    assert_eq!(known(&tree), None);
    child.end();
}

/// A watcher over a made-up machine; the run is this process's children, of which there is one at least.
fn watcher(files: Vec<(String, String)>) -> (tempfile::TempDir, Watcher, Sleeper) {
    let child = Sleeper::new();
    let mut files = files;
    files.push(("proc/meminfo".into(), MEMINFO.into()));
    files.push(("proc/self/cgroup".into(), "0::/job\n".into()));
    let root = of(TWO, files);
    let options = HostOptions {
        system: root.path().to_path_buf(),
        root: std::process::id() as i32,
        but: Vec::new(),
        interval: Duration::from_secs(1),
        earlier: None,
    };
    (root, Watcher::new(options), child)
}

#[test]
fn a_kill_is_told_with_the_figures_before_it() {
    let (root, mut watcher, mut child) = watcher(two("/job", &(4 * GIB).to_string(), 3 * GIB, 7));
    let found = watcher.look(false);
    let [EventKind::HostMemory(memory)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((memory.used, memory.limit), (Bytes::gib(2), Bytes::gib(4)));
    assert_eq!(memory.unseen, []);
    assert_eq!(memory.machine, Some(Bytes::gib(16)), "told once");
    assert!(!memory.roles.is_empty());
    assert_eq!(watcher.look(false), [], "nothing has changed");
    // The kernel counts first and kills then.
    fs::write(
        root.path().join("sys/fs/cgroup/job/memory.events"),
        "oom_kill 8\n",
    )
    .unwrap();
    child.end();
    let found = watcher.look(true);
    let [EventKind::HostKill(kill)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((kill.count, kill.total, kill.of_machine), (1, 8, false));
    let found = watcher.look(true);
    let [EventKind::HostKill(again)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((again.count, again.total), (1, 8), "the same one");
}

#[test]
fn what_cannot_be_seen_is_said_once() {
    let (_root, mut watcher, _child) = watcher(Vec::new());
    let found = watcher.look(false);
    let [EventKind::HostMemory(memory)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (memory.limited_by, memory.limit),
        (LimitedBy::Machine, Bytes::gib(16))
    );
    assert_eq!(memory.unseen, [HostUnseen::CgroupLimit, HostUnseen::Kills]);
    watcher.told = watcher.told.map(|(at, told)| {
        (
            at,
            HostMemory {
                used: Bytes::ZERO,
                ..told
            },
        )
    });
    let found = watcher.look(false);
    let [EventKind::HostMemory(memory)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(memory.unseen, []);
}

/// A machine on which /proc lists the run's processes and shows nothing of them.
#[test]
fn processes_that_proc_hides_are_said_to_be_unseen() {
    let listed = |pid: i32| {
        vec![(
            format!("{pid}/task/{pid}/children"),
            "4711 4712\n".to_string(),
        )]
    };
    let files = listed(7);
    let files: Vec<(&str, String)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.clone()))
        .collect();
    let proc = system(&files);
    let mut tree = RunTree::new(proc.path().into(), 7, Vec::new());
    for _ in 0..3 {
        assert!(!tree.is_hidden(), "they may just have ended");
        tree.find(None);
        tree.read();
    }
    assert!(tree.is_hidden() && tree.is_empty());
    let (_root, mut watcher, _child) = watcher(two("/job", &(4 * GIB).to_string(), 3 * GIB, 0));
    watcher.tree = tree;
    let found = watcher.look(false);
    let [EventKind::HostMemory(memory)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(memory.unseen, [HostUnseen::Processes]);
    assert_eq!(memory.used, Bytes::gib(2), "the limit is seen all the same");
    assert_eq!(memory.roles, []);
    // Once one of them shows, they are not hidden.
    let statm = proc.path().join("4711/statm");
    fs::create_dir_all(statm.parent().unwrap()).unwrap();
    fs::write(&statm, "100 50 10 0 0 0 0\n").unwrap();
    watcher.tree.find(None);
    watcher.tree.read();
    assert!(!watcher.tree.is_hidden());
}

#[test]
fn what_a_probe_says_of_a_process_counts_before_its_words() {
    let child = Sleeper::new();
    let pid = child.pid();
    let mut tree = RunTree::new("/proc".into(), std::process::id() as i32, Vec::new());
    let role = |tree: &RunTree| {
        let mut all = tree.processes().into_iter();
        all.find(|process| process.pid == pid).map(|one| one.role)
    };
    tree.take_told(&mut vec![(pid, HostRole::Rank)]);
    for _ in 0..6 {
        tree.find(None);
        tree.read();
        assert_eq!(role(&tree), Some(HostRole::Rank));
    }
    tree.take_told(&mut vec![(pid, HostRole::LoaderWorker)]);
    assert_eq!(role(&tree), Some(HostRole::LoaderWorker));
}

/// systemd-run, and what starts a container: the group that counts is that of the program, which is the largest process.
#[test]
fn a_run_that_is_moved_or_starts_its_program_elsewhere_is_found_there() {
    let process = |pid: i32, resident: u64, group: &str| {
        vec![
            (format!("proc/{pid}/statm"), statm(resident)),
            (format!("proc/{pid}/comm"), "python3\n".to_string()),
            (format!("proc/{pid}/cgroup"), format!("0::{group}\n")),
        ]
    };
    let mut files = two("/session.scope", "max", GIB, 0);
    files.extend(two("/run-u7.scope", &(4 * GIB).to_string(), 3 * GIB, 0));
    files.extend(process(100, 10, "/session.scope"));
    files.push(("proc/7/task/7/children".into(), "100\n".into()));
    files.push(("proc/meminfo".into(), MEMINFO.into()));
    files.push(("proc/self/cgroup".into(), "0::/session.scope\n".into()));
    let root = of(TWO, files);
    let mut watcher = Watcher::new(HostOptions {
        system: root.path().to_path_buf(),
        root: 7,
        but: Vec::new(),
        interval: Duration::from_secs(1),
        earlier: None,
    });
    watcher.tree = RunTree::new(root.path().join("proc"), 7, Vec::new());
    let limit = |watcher: &mut Watcher| {
        watcher.look(false);
        let machine = watcher.machine.used().unwrap();
        let reading = watcher.measured(&machine);
        (reading.limited_by, reading.limit)
    };
    let of_machine = (LimitedBy::Machine, Bytes::gib(16));
    let of_scope = (LimitedBy::Systemd, Bytes::gib(4));
    assert_eq!(limit(&mut watcher), of_machine);
    // It moves itself, and has become the program.
    let own = root.path().join("proc/100/cgroup");
    fs::write(&own, "0::/run-u7.scope\n").unwrap();
    assert_eq!(limit(&mut watcher), of_scope);
    // Or it stays where it is, and a child of it is the program.
    fs::write(&own, "0::/session.scope\n").unwrap();
    assert_eq!(limit(&mut watcher), of_machine);
    for (path, text) in process(101, 9_000, "/run-u7.scope") {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let children = root.path().join("proc/7/task/7/children");
    fs::write(children, "100 101\n").unwrap();
    watcher.look(false);
    watcher.look(false);
    assert_eq!(limit(&mut watcher), of_scope);
}

#[test]
fn what_grows_fast_is_looked_at_more_often() {
    let file = |current: u64| two("/job", &(4 * GIB).to_string(), current, 0);
    let (root, mut watcher, _child) = watcher(file(2 * GIB));
    watcher.look(false);
    assert_eq!(watcher.closeness(), 1);
    let now_used = |bytes: u64| {
        let path = root.path().join("sys/fs/cgroup/job/memory.current");
        fs::write(path, format!("{bytes}\n")).unwrap();
    };
    // A GiB more within less than a second.
    now_used(3 * GIB);
    watcher.look(false);
    assert_eq!(watcher.closeness(), FAST_FACTOR);
    watcher.look(false);
    assert_eq!(watcher.closeness(), 1, "it has stopped");
    now_used(4 * GIB);
    watcher.look(false);
    watcher.look(false);
    assert_eq!(watcher.closeness(), NEAR_FACTOR);
    // Near the end every change counts, however small.
    now_used(5 * GIB - (100 << 20));
    assert_eq!(watcher.look(false).len(), 1);
    now_used(5 * GIB - (99 << 20));
    assert_eq!(watcher.look(false).len(), 1);
}

/// A worker shares what its parent has read until one of them writes to it: that counts as the parent's, once.
#[test]
fn of_what_a_fork_holds_its_parents_memory_is_not_its_own() {
    let child = |pid: i32, resident: u64| {
        [
            (format!("{pid}/comm"), "pt_data_worker\n".to_string()),
            (format!("{pid}/cmdline"), "python\0train.py\0".to_string()),
            (format!("{pid}/statm"), statm(resident)),
        ]
    };
    let mut files = vec![
        ("7/task/7/children".to_string(), "100\n".to_string()),
        ("100/task/100/children".into(), "201 202\n".into()),
        ("100/comm".into(), "python\n".into()),
        ("100/cmdline".into(), "python\0train.py\0".into()),
        ("100/statm".into(), statm(1_000)),
    ];
    files.extend(child(201, 1_000));
    // By the time that it is met it has grown.
    files.extend(child(202, 1_250));
    let files: Vec<(&str, String)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.clone()))
        .collect();
    let proc = system(&files);
    let mut tree = RunTree::new(proc.path().into(), 7, Vec::new());
    tree.find(None);
    tree.read();
    let own = |tree: &RunTree, pid| {
        let all = tree.processes();
        let known = all.iter().find(|process| process.pid == Pid(pid));
        known.unwrap().own.map(|own| own.0 / page())
    };
    assert_eq!(
        (own(&tree, 100), own(&tree, 201), own(&tree, 202)),
        (None, Some(0), Some(250))
    );
    fs::write(proc.path().join("201/statm"), statm(3_000)).unwrap();
    fs::write(proc.path().join("100/statm"), statm(4_000)).unwrap();
    tree.read();
    assert_eq!(
        own(&tree, 201),
        Some(2_000),
        "what it came with stays its parent's"
    );
    // Near the limit the kernel says what no other process has.
    let rollup = format!(
        "Private_Dirty: {} kB\nAnonymous: {} kB\n",
        2_100 * page() / 1_024,
        3_000 * page() / 1_024
    );
    fs::write(proc.path().join("201/smaps_rollup"), rollup).unwrap();
    let (found, cost) = tree.close_look().expect("it is time").take();
    tree.looked_closely(found, cost);
    assert_eq!(
        own(&tree, 201),
        Some(2_100),
        "with the pages that it has copied"
    );
    assert_eq!(own(&tree, 202), Some(250), "unread");
}

#[test]
fn what_a_waiting_batch_takes_is_told_by_the_workers_open_files() {
    let proc = system(&[
        ("7/task/7/children", "201\n".into()),
        ("201/comm", "pt_data_worker\n".into()),
        ("201/cmdline", "python\0train.py\0".into()),
        ("201/statm", statm(1_000)),
    ]);
    let open = |number: u32, name: &str, size: u64| {
        let target = proc.path().join(name);
        fs::File::create(&target).unwrap().set_len(size).unwrap();
        let fd = proc.path().join("201/fd");
        fs::create_dir_all(&fd).unwrap();
        std::os::unix::fs::symlink(target, fd.join(number.to_string())).unwrap();
    };
    let mut tree = RunTree::new(proc.path().into(), 7, Vec::new());
    let batch = |tree: &mut RunTree| {
        tree.find(None);
        tree.read();
        let (found, cost) = tree.close_look().expect("it is time").take();
        tree.looked_closely(found, cost);
        tree.batch()
    };
    assert_eq!(batch(&mut tree), None);
    let mut tree = RunTree::new(proc.path().into(), 7, Vec::new());
    // Three batches of images with their labels; the last one has fewer samples.
    for (number, size) in [16 << 20, 16 << 20, 9 << 20].into_iter().enumerate() {
        open(number as u32, &format!("torch_201_{number}_1"), size);
        open(number as u32 + 10, &format!("torch_201_{number}_2"), 4_096);
    }
    open(30, "train.bin", 1 << 30);
    assert_eq!(batch(&mut tree), Some(Bytes(((41 << 20) + 3 * 4_096) / 3)));
}

/// What is read of a process that waits for memory comes late; the figures meanwhile do not.
#[test]
fn a_close_look_that_hangs_holds_nothing_up() {
    let proc = system(&[
        ("7/task/7/children", "100\n".into()),
        ("100/comm", "python\n".into()),
        ("100/cmdline", "python\0train.py\0".into()),
        ("100/statm", statm(1_000)),
    ]);
    let hangs = proc.path().join("100/smaps_rollup");
    nix::unistd::mkfifo(&hangs, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut tree = RunTree::new(proc.path().into(), 7, Vec::new());
    tree.find(None);
    tree.read();
    let look = tree.close_look().expect("it is time");
    let looking = std::thread::spawn(|| look.take());
    fs::write(proc.path().join("100/statm"), statm(5_000)).unwrap();
    tree.read();
    assert_eq!(
        tree.processes()[0].resident,
        Bytes(5_000 * page()),
        "read meanwhile"
    );
    assert!(tree.close_look().is_none(), "one at a time");
    fs::write(hangs, "Anonymous: 4 kB\n").unwrap();
    let (found, cost) = looking.join().unwrap();
    tree.looked_closely(found, cost);
    assert_eq!(tree.processes()[0].pid, Pid(100));
}

/// So many pages, none of them shared memory or files.
fn statm(resident: u64) -> String {
    format!("9999999 {resident} 0 1 0 1 0\n")
}

fn page() -> u64 {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    page.unwrap().unwrap() as u64
}

/// What was counted before is in the recording, and who was there then.
#[test]
fn a_front_after_one_that_was_killed_says_what_was_killed_with_it() {
    let (root, _, _child) = watcher(two("/job", &(4 * GIB).to_string(), 3 * GIB, 7));
    let process = |pid: i32| HostProcess {
        pid: Pid(pid),
        resident: Bytes::gib(1),
        ..HostProcess::default()
    };
    let look = |total, of_machine| {
        let kills = KillCount { total, of_machine };
        let options = HostOptions {
            system: root.path().to_path_buf(),
            root: std::process::id() as i32,
            but: Vec::new(),
            interval: Duration::from_secs(1),
            earlier: Some(HostEarlier {
                kills,
                // Nobody has this number.
                processes: vec![process(i32::MAX)],
            }),
        };
        let found = Watcher::new(options).look(false);
        found.into_iter().find_map(|what| match what {
            EventKind::HostKill(kill) => Some(kill),
            _ => None,
        })
    };
    let kill = look(5, false).expect("two more than before");
    assert_eq!((kill.count, kill.total), (2, 7));
    assert_eq!(kill.gone, [process(i32::MAX)]);
    assert_eq!(look(7, false), None, "nothing was killed since");
    assert_eq!(look(5, true), None, "the machine's count is another");
}

/// At the limit the sum stays as it is while the program takes what was the files' cache.
#[test]
fn at_the_limit_growth_at_the_cost_of_the_files_cache_is_seen() {
    for (high, current) in [("max", 4 * GIB), ("3221225472", 3 * GIB)] {
        let mut files = two("/job", &(4 * GIB).to_string(), current, 0);
        files.push(("sys/fs/cgroup/job/memory.high".into(), format!("{high}\n")));
        let (root, mut watcher, _child) = watcher(files);
        let used = |found: &[EventKind]| match found {
            [EventKind::HostMemory(memory)] => memory.used.0,
            _ => panic!("{found:?}"),
        };
        assert_eq!(used(&watcher.look(false)), current - GIB);
        let stat = "anon 1\nshmem 0\ninactive_file 4096\nactive_file 0\nslab_reclaimable 0\n";
        fs::write(root.path().join("sys/fs/cgroup/job/memory.stat"), stat).unwrap();
        assert_eq!(used(&watcher.look(false)), current - 4_096);
    }
}

/// Version 1 says `/` of a process as soon as it is ending.
#[test]
fn a_process_that_is_ending_says_nothing_of_its_groups() {
    let of = |flags: u64| {
        let root = system(&[
            ("proc/7/cgroup", "4:memory:/job\n".into()),
            ("proc/7/stat", format!("7 (a) b) R 1 7 7 0 -1 {flags} 0\n")),
        ]);
        cgroup::of_process(root.path(), 7)
    };
    assert_eq!(of(0x40_0040).as_deref(), Some("4:memory:/job\n"));
    assert_eq!(of(0x40_0044), None);
}

#[test]
fn a_count_that_could_not_be_read_is_read_the_next_time() {
    let (root, mut watcher, mut child) = watcher(two("/job", &(4 * GIB).to_string(), 3 * GIB, 7));
    watcher.look(false);
    let events = root.path().join("sys/fs/cgroup/job/memory.events");
    fs::write(root.path().join("proc/vmstat"), "oom_kill 90\n").unwrap();
    fs::write(&events, "").unwrap();
    watcher.look(false);
    fs::write(&events, "oom_kill 8\n").unwrap();
    child.end();
    let found = watcher.look(true);
    let [EventKind::HostKill(kill)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((kill.count, kill.total, kill.of_machine), (1, 8, false));
}
