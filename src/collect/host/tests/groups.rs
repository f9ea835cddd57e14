//! Control groups of both versions: nested, in containers, and without a limit.

use super::{GIB, TWO, of, two};
use crate::collect::host::cgroup::Cgroup;
use crate::event::LimitedBy;
use crate::units::Bytes;
use std::fs;

const ONE: &str = "30 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                   31 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                   32 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

#[test]
fn version_2_says_what_counts_and_what_was_killed() {
    let root = of(TWO, two("/job", &(32 * GIB).to_string(), 30 * GIB, 3));
    let mut group = Cgroup::of(root.path(), "0::/job\n").unwrap();
    let found = group.tightest().unwrap();
    assert_eq!((found.used, found.limit), (Bytes::gib(29), Bytes::gib(32)));
    assert_eq!(
        (found.stat.cache, found.stat.shared),
        (Bytes::gib(1), Bytes::gib(1))
    );
    assert_eq!(group.kills(), Some((3, true)));
    assert_eq!(group.pressure(), Some(123));
    // The files are read again, not remembered.
    fs::write(
        root.path().join("sys/fs/cgroup/job/memory.events"),
        "oom_kill 4\n",
    )
    .unwrap();
    fs::write(
        root.path().join("sys/fs/cgroup/job/memory.current"),
        format!("{}\n", 31 * GIB),
    )
    .unwrap();
    assert_eq!(group.kills(), Some((4, true)));
    assert_eq!(group.tightest().unwrap().used, Bytes::gib(30));
}

#[test]
fn of_nested_limits_the_nearest_one_counts() {
    let mut files = two("/slurm/job_7", &(64 * GIB).to_string(), 20 * GIB, 0);
    files.extend(two("/slurm/job_7/step_0", "max", 12 * GIB, 5));
    files.extend(two("/slurm", &(22 * GIB).to_string(), 21 * GIB, 9));
    let root = of(TWO, files);
    let mut group = Cgroup::of(root.path(), "0::/slurm/job_7/step_0\n").unwrap();
    let found = group.tightest().unwrap();
    assert_eq!((found.limit, found.by), (Bytes::gib(22), LimitedBy::Slurm));
    assert_eq!(
        group.kills(),
        Some((5, true)),
        "its own, not its neighbours'"
    );
}

/// A leaf without the memory controller, as `cgroup.subtree_control` of its parent leaves it, and a threaded group: the parent
/// counts for it, and for its neighbours.
#[test]
fn a_group_without_memory_files_is_counted_in_the_one_above() {
    let mut files = two("/user/app", &(8 * GIB).to_string(), 5 * GIB, 2);
    files.push((
        "sys/fs/cgroup/user/app/run/cgroup.procs".into(),
        "7\n".into(),
    ));
    let root = of(TWO, files);
    let mut group = Cgroup::of(root.path(), "0::/user/app/run\n").unwrap();
    let found = group.tightest().unwrap();
    assert_eq!((found.used, found.limit), (Bytes::gib(4), Bytes::gib(8)));
    assert_eq!(group.kills(), Some((2, false)), "not only its own");
    assert_eq!(group.pressure(), Some(123));
}

/// systemd's MemoryHigh= alone: nothing is killed there, and nothing goes on above it.
#[test]
fn where_only_memory_high_is_set_that_is_the_limit() {
    for (max, high, limit) in [
        ("max", "8589934592", Some(8)),
        ("17179869184", "8589934592", Some(16)),
        ("17179869184", "max", Some(16)),
        ("max", "max", None),
    ] {
        let mut files = two("/system.slice/t.service", max, 6 * GIB, 0);
        let high_file = "sys/fs/cgroup/system.slice/t.service/memory.high";
        files.push((high_file.into(), format!("{high}\n")));
        let root = of(TWO, files);
        let mut group = Cgroup::of(root.path(), "0::/system.slice/t.service\n").unwrap();
        let found = group.tightest();
        assert_eq!(
            found.map(|found| found.limit),
            limit.map(Bytes::gib),
            "{max} {high}"
        );
        assert!(found.is_none_or(|found| found.by == LimitedBy::Systemd));
    }
}

/// SLURM's groups of version 2, a systemd scope, a pod with a namespace of its own, and a unified hierarchy beside version 1.
#[test]
fn whose_limit_it_is_is_told_by_the_path_or_by_what_marks_a_container() {
    let limit = (4 * GIB).to_string();
    let hybrid = "30 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                  32 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let step = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0";
    let scope = "/user.slice/user-1000.slice/user@1000.service/app.slice/run-u7.scope";
    for (mounts, path, mark, by) in [
        (TWO, step, None, LimitedBy::Slurm),
        (TWO, scope, None, LimitedBy::Systemd),
        (
            TWO,
            "/machine.slice/libpod-1a2b.scope",
            None,
            LimitedBy::Container,
        ),
        (TWO, "/", None, LimitedBy::Cgroup),
        (
            TWO,
            "/",
            Some("run/secrets/kubernetes.io/token"),
            LimitedBy::Container,
        ),
        (
            TWO,
            "/",
            Some("run/systemd/container"),
            LimitedBy::Container,
        ),
        (hybrid, "/unified-job", None, LimitedBy::Cgroup),
    ] {
        let below = if mounts == hybrid { "/unified" } else { "" };
        let own = path.trim_end_matches('/');
        let mut files = two(&format!("{below}{own}"), &limit, 3 * GIB, 1);
        files.extend(mark.map(|mark| (mark.to_string(), String::new())));
        let root = of(mounts, files);
        let membership = format!("3:cpu:{path}\n1:name=systemd:{path}\n0::{path}\n");
        let mut group = Cgroup::of(root.path(), &membership).unwrap();
        assert_eq!(group.tightest().map(|found| found.by), Some(by), "{path}");
        assert_eq!(group.kills(), Some((1, true)), "{path}");
    }
}

/// What a step of SLURM's has is bounded by its job's, and a pod's container by its pod; "max" is no limit.
#[test]
fn an_ancestors_limit_counts_where_the_own_one_is_max() {
    let mut files = two("/slurm/job_7/step_0/user/task_0", "max", 3 * GIB, 4);
    files.extend(two("/slurm/job_7/step_0/user", "max", 3 * GIB, 4));
    files.extend(two(
        "/slurm/job_7/step_0",
        &(16 * GIB).to_string(),
        3 * GIB,
        4,
    ));
    files.extend(two("/slurm/job_7", &(16 * GIB).to_string(), 13 * GIB, 4));
    let root = of(TWO, files);
    let mut group = Cgroup::of(root.path(), "0::/slurm/job_7/step_0/user/task_0\n").unwrap();
    let found = group.tightest().unwrap();
    assert_eq!((found.used, found.limit), (Bytes::gib(12), Bytes::gib(16)));
    // `scontrol update job`: the limit is another one now.
    let max = root.path().join("sys/fs/cgroup/slurm/job_7/memory.max");
    fs::write(&max, format!("{}\n", 20 * GIB)).unwrap();
    group.read_limits();
    assert_eq!(group.tightest().unwrap().limit, Bytes::gib(20));
}

/// Files that are there and say nothing that is known, or cannot be read.
#[test]
fn what_cannot_be_read_is_no_limit_and_no_count() {
    let mut files = two("/job", "", 3 * GIB, 0);
    files.retain(|(path, _)| !path.ends_with("memory.events"));
    let root = of(TWO, files);
    let mut group = Cgroup::of(root.path(), "0::/job\n").unwrap();
    assert_eq!(group.tightest(), None);
    assert_eq!(group.kills(), None);
    // In a namespace without a mount of its own: the mount's root lies above what the path is told from.
    let above = "31 23 0:28 /../../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    let root = of(above, two("/job", &GIB.to_string(), GIB / 2, 0));
    assert!(Cgroup::of(root.path(), "0::/\n").is_none());
    // A group that is gone.
    let root = of(TWO, two("/other", &GIB.to_string(), GIB / 2, 0));
    assert!(Cgroup::of(root.path(), "0::/job (deleted)\n").is_none());
}

#[test]
fn version_1_is_read_where_memory_is_its_own_hierarchy() {
    let file = |name: &str| format!("sys/fs/cgroup/memory/docker/abc/{name}");
    let none = 9_223_372_036_854_771_712_u64;
    let stat = format!(
        "cache {GIB}\nhierarchical_memory_limit {}\ntotal_inactive_file {GIB}\ntotal_active_file 0\ntotal_shmem 0\ntotal_swap 4096\n",
        8 * GIB
    );
    let root = of(
        ONE,
        vec![
            (file("memory.limit_in_bytes"), format!("{none}\n")),
            (file("memory.usage_in_bytes"), format!("{}\n", 7 * GIB)),
            (file("memory.stat"), stat),
            (
                file("memory.oom_control"),
                "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n".into(),
            ),
        ],
    );
    let membership = "5:cpu:/docker/abc\n4:memory:/docker/abc\n0::/\n";
    let mut group = Cgroup::of(root.path(), membership).unwrap();
    let found = group.tightest().unwrap();
    assert_eq!((found.used, found.limit), (Bytes::gib(6), Bytes::gib(8)));
    assert_eq!(
        (found.by, found.stat.swap),
        (LimitedBy::Container, Some(Bytes(4_096)))
    );
    assert_eq!(group.kills(), Some((2, true)));
}

#[test]
fn in_a_container_the_path_may_be_outside_of_what_is_mounted() {
    for membership in ["0::/../../kubepods/pod7\n", "0::/elsewhere\n", "0::/\n"] {
        let root = of(TWO, two("", &GIB.to_string(), GIB / 2, 0));
        let mut group = Cgroup::of(root.path(), membership).unwrap();
        assert_eq!(
            group.tightest().unwrap().limit,
            Bytes::gib(1),
            "{membership}"
        );
    }
}
