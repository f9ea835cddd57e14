//! Recordings that are replayed, for keys that need more than a program gives.

use oomph::units::Pid;
use std::fs;

/// A run that ended in an out-of-memory.
pub const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/replay/capacity.jsonl");

/// The recording, and after it the same once more as the second run.
pub fn two_runs() -> String {
    const LATER_US: u64 = 10_000_000;
    let first = fs::read_to_string(RECORDING).expect("a recording");
    let mut both = first.clone();
    for line in first
        .lines()
        .filter(|line| !line.contains("\"session_started\""))
    {
        let (number, rest) = line
            .strip_prefix("{\"at\":")
            .and_then(|line| line.split_once(','))
            .expect("a line begins with its time");
        let at = number.parse::<u64>().expect("microseconds") + LATER_US;
        let rest = rest.replace("\"run\":1", "\"run\":2");
        both.push_str(&format!("{{\"at\":{at},{rest}\n"));
    }
    both
}

/// Two steps of six events each: five lines hold memory at the peak, the third event.
pub fn traced(ran_out: bool) -> String {
    let command = r#""command":{"argv":["python","train.py"],"cwd":"/home/ada"}"#;
    let device = |index: u32| {
        format!(
            r#""event":"device","uuid":"made-up-{index}","index":{index},"name":"GPU","total":4294967296"#
        )
    };
    let origins: Vec<String> = (1..=5)
        .map(|line| format!(r#"{{"line":{{"file":"train.py","line":{line},"function":"main"}}}}"#))
        .collect();
    let step = |number: u32, of: &str| {
        let carried = if number == 5 {
            "950000000"
        } else {
            "900000000"
        };
        format!(
            r#""event":"step_trace","pid":71,"device":0,"step":{number},{of}"trace":"{carried} 800000000 | 500000000 400000000 300000000 -1 -2 -3","phases":[{{"phase":"forward","from":0}},{{"phase":"backward","from":3}}],"origins":[{}],"blocks":"1 2 3 4 5""#,
            origins.join(",")
        )
    };
    let lines = [
        format!(
            r#""event":"session_started","id":"a","wall":1795250331.7,"monotonic":1,"version":"0.1.0",{command},"probe":true,"nvml":true"#
        ),
        format!(r#""event":"started","run":1,"pid":71,{command}"#),
        device(0),
        device(1),
        r#""event":"hello","pid":71,"run":1,"rank":1,"world_size":2,"python":"3.12","torch":"2.11.0","devices":[{"ordinal":0,"uuid":"made-up-0","name":"GPU","total":4294967296}]"#.into(),
        r#""event":"sample","pid":71,"device":0,"allocated":1700000000,"reserved":3000000000,"allocated_peak":2900000000,"reserved_peak":3000000000"#.into(),
        step(3, ""),
        step(5, ""),
        step(7, ""),
    ];
    let failed = ran_out.then(|| step(9, r#""failed":true,"#));
    let exited = r#""event":"exited","run":1,"exit":{"code":0},"left":[]"#.to_string();
    let lines = lines.into_iter().chain(failed).chain([exited]);
    let at = |(n, line): (usize, String)| format!("{{\"at\":{},{line}}}\n", n * 1_000);
    lines.enumerate().map(at).collect()
}

/// The same where memory ran out in the last traced step.
pub fn ran_out() -> String {
    let sample = r#""sample":{"pid":71,"device":0,"allocated":2900000000,"reserved":3000000000,"allocated_peak":2900000000,"reserved_peak":3000000000}"#;
    let oom = format!(
        r#"{{"at":9500,"event":"oom","pid":71,"device":0,"requested":2000000000,"total":4294967296,"free":100000000,{sample},"phase":"backward","step":8}}"#
    );
    let told = traced(true).replace(r#""exit":{"code":0}"#, r#""exit":{"code":1}"#);
    let (before, exited) = told.trim_end().rsplit_once('\n').expect("an end");
    format!("{before}\n{oom}\n{exited}\n")
}

/// Four ranks on two nodes with a device each.
pub fn on_two_nodes() -> String {
    const GIB: u64 = 1 << 30;
    let command = r#""command":{"argv":["srun","-N2","python","train.py"],"cwd":"/home/ada"}"#;
    let far = |pid| Pid::elsewhere(1, pid).expect("a number in range");
    let mut lines = vec![
        format!(
            r#""event":"session_started","id":"a","wall":1795250331.7,"monotonic":1,"version":"0.2.0",{command},"probe":true,"nvml":false"#
        ),
        format!(r#""event":"started","run":1,"pid":70,{command}"#),
    ];
    let ranks = [
        (Pid(71), "a"),
        (Pid(72), "a"),
        (far(71), "b"),
        (far(72), "b"),
    ];
    for (rank, (Pid(pid), node)) in ranks.into_iter().enumerate() {
        let reserved = if rank == 2 { 7 * GIB } else { 4 * GIB };
        lines.push(format!(
            r#""event":"hello","pid":{pid},"run":1,"rank":{rank},"world_size":4,"nodes":2,"node":"{node}","python":"3.12","torch":"2.11.0","devices":[{{"ordinal":0,"uuid":"made-up-{rank}","name":"GPU","total":{}}}]"#,
            8 * GIB
        ));
        lines.push(format!(
            r#""event":"sample","pid":{pid},"device":0,"allocated":{GIB},"reserved":{reserved},"allocated_peak":{GIB},"reserved_peak":{reserved}"#
        ));
    }
    lines.push(r#""event":"exited","run":1,"exit":{"code":0},"left":[]"#.into());
    let at = |(n, line): (usize, String)| format!("{{\"at\":{},{line}}}\n", n * 1_000);
    lines.into_iter().enumerate().map(at).collect()
}
