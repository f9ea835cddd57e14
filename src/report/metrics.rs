//! The present state for Prometheus: its text format, names and units by OpenMetrics' rules.

use crate::command;
use crate::state::{RankState, RunOutcome, State};
use crate::units::Bytes;
use std::fmt::{Display, Write};

/// A family of samples.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Vec<(String, String)>,
}

impl Family {
    fn gauge(name: &'static str, help: &'static str) -> Family {
        Family::new("gauge", name, help)
    }

    fn counter(name: &'static str, help: &'static str) -> Family {
        Family::new("counter", name, help)
    }

    fn new(kind: &'static str, name: &'static str, help: &'static str) -> Family {
        Family {
            name,
            kind,
            help,
            samples: Vec::new(),
        }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = (labels.iter())
            .map(|(name, value)| format!("{name}=\"{}\"", label(value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        self.samples.push((labels, value.to_string()));
    }

    fn add_bytes(&mut self, labels: &[(&str, &str)], bytes: Option<Bytes>) {
        if let Some(bytes) = bytes {
            self.add(labels, bytes.0);
        }
    }
}

/// The metrics of a session, of its current run.
pub fn metrics(state: &State) -> String {
    let mut families = session(state);
    families.extend(devices(state));
    families.extend(ranks(state));
    families.extend(host(state));
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let name = family.name;
        let _ = writeln!(text, "# HELP {name} {}", family.help);
        let _ = writeln!(text, "# TYPE {name} {}", family.kind);
        for (labels, value) in &family.samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
    text
}

fn session(state: &State) -> Vec<Family> {
    let mut info = Family::gauge(
        "oomph_session_info",
        "The session that these metrics are of; always 1.",
    );
    if let Some(header) = &state.session {
        info.add(&[("id", &header.id), ("version", &header.version)], 1);
    }
    let mut started = Family::gauge(
        "oomph_session_start_time_seconds",
        "When the session began, in seconds since 1970.",
    );
    let wall = state.session.as_ref().map(|header| header.wall);
    if let Some(wall) = wall {
        started.add(&[], wall);
    }
    let mut updated = Family::gauge(
        "oomph_last_update_time_seconds",
        "When these metrics were written, in seconds since 1970.",
    );
    if let Some(wall) = wall {
        updated.add(&[], format!("{:.3}", wall + state.now.as_secs_f64()));
    }
    let mut run = Family::gauge("oomph_run", "The number of the current run.");
    let mut running = Family::gauge("oomph_running", "Whether the current run goes on.");
    let mut ooms = Family::counter(
        "oomph_oom_total",
        "Out-of-memory errors of all runs, caught ones among them.",
    );
    if let Some(current) = state.run() {
        run.add(&[], current.number);
        running.add(&[], u8::from(current.outcome() == RunOutcome::Running));
        ooms.add(&[], state.runs.iter().map(|run| run.oom_count).sum::<u64>());
    }
    let mut predicted = Family::gauge(
        "oomph_predicted_peak_bytes",
        "The predicted peak of allocated memory of the current run.",
    );
    predicted.add_bytes(&[], state.run().and_then(|run| run.predicted_peak));
    vec![info, started, updated, run, running, ooms, predicted]
}

fn devices(state: &State) -> Vec<Family> {
    let mut capacity = Family::gauge(
        "oomph_device_capacity_bytes",
        "Memory of the GPU for processes.",
    );
    let mut used = Family::gauge(
        "oomph_device_used_bytes",
        "Memory of the GPU in use, by NVML.",
    );
    for device in &state.devices {
        let index = device.index.to_string();
        let labels = [
            ("gpu", index.as_str()),
            ("uuid", device.uuid.as_str()),
            ("name", device.name.as_str()),
        ];
        capacity.add_bytes(&labels, device.capacity);
        used.add_bytes(&labels, device.used.current());
    }
    vec![capacity, used]
}

fn ranks(state: &State) -> Vec<Family> {
    let mut allocated = Family::gauge("oomph_allocated_bytes", "Memory in live tensors' blocks.");
    let mut reserved = Family::gauge(
        "oomph_reserved_bytes",
        "Memory held by PyTorch's caching allocator.",
    );
    let mut peak = Family::gauge(
        "oomph_allocated_peak_bytes",
        "The largest allocated memory of the run.",
    );
    let mut reserved_peak = Family::gauge(
        "oomph_reserved_peak_bytes",
        "The largest reserved memory of the run.",
    );
    let mut retries = Family::counter(
        "oomph_alloc_retries_total",
        "Times that the allocator flushed its cache and retried.",
    );
    let mut steps = Family::counter("oomph_steps_total", "Optimizer steps of the run.");
    let ranks = state.run().map_or(&[][..], |run| &run.ranks);
    for rank in ranks {
        let (number, pid) = (number(rank), rank.hello.pid.to_string());
        let labels = [("rank", number.as_str()), ("pid", pid.as_str())];
        let alive = rank.disconnected.is_none();
        for usage in rank.usages.iter().filter(|_| alive) {
            let index = state.device(&usage.device).map(|device| device.index);
            let index = index.map_or(String::new(), |index| index.to_string());
            let labels = [labels[0], labels[1], ("gpu", index.as_str())];
            allocated.add(&labels, usage.sample.allocated.0);
            reserved.add(&labels, usage.sample.reserved.0);
        }
        peak.add(&labels, rank.allocated_peak.0);
        reserved_peak.add(&labels, rank.reserved_peak.0);
        let retried = rank.usages.iter().map(|usage| usage.sample.alloc_retries);
        retries.add(&labels, retried.sum::<u64>());
        steps.add(&labels, rank.steps.count);
    }
    vec![allocated, reserved, peak, reserved_peak, retries, steps]
}

fn host(state: &State) -> Vec<Family> {
    let mut used = Family::gauge(
        "oomph_host_used_bytes",
        "Memory of the host that counts against its limit, without the cache of files.",
    );
    let mut limit = Family::gauge(
        "oomph_host_limit_bytes",
        "What the host or the control group allows.",
    );
    let mut held = Family::gauge(
        "oomph_host_held_bytes",
        "Memory of the host held by the run's processes, by what they are there for; shared pages may count in each.",
    );
    let mut shm = Family::gauge("oomph_host_shm_used_bytes", "Memory in /dev/shm.");
    let mut shm_size = Family::gauge("oomph_host_shm_size_bytes", "The size of /dev/shm.");
    let mut cache = Family::gauge(
        "oomph_host_cache_bytes",
        "The cache of files, which the kernel gives back when memory is short.",
    );
    let mut shared = Family::gauge(
        "oomph_host_shared_bytes",
        "Shared memory and tmpfs that counts against the limit: batches that workers pass on, among others.",
    );
    let mut swap = Family::gauge("oomph_host_swap_bytes", "Memory in swap.");
    let mut pinned = Family::gauge(
        "oomph_host_pinned_bytes",
        "Pinned memory that torch's allocator of it holds, of all processes.",
    );
    let mut processes = Family::gauge(
        "oomph_host_processes",
        "The run's processes, by what they are there for.",
    );
    let mut kills = Family::counter(
        "oomph_host_oom_kills_total",
        "Processes that the kernel has killed for memory, in the run's control group or, without one, on this machine.",
    );
    if let Some(known) = state.host.kills() {
        kills.add(&[], known.total);
    }
    pinned.add_bytes(&[], state.pinned());
    if let Some((_, memory)) = state.host.latest() {
        cache.add_bytes(&[], memory.cache);
        shared.add_bytes(&[], memory.shared);
        swap.add_bytes(&[], memory.swap);
        used.add(&[], memory.used.0);
        limit.add(&[], memory.limit.0);
        shm.add_bytes(&[], memory.shm.map(|shm| shm.used));
        shm_size.add_bytes(&[], memory.shm.map(|shm| shm.size));
        for role in &memory.roles {
            held.add(&[("role", role.role.name())], role.held.0);
            processes.add(&[("role", role.role.name())], u64::from(role.count));
        }
    }
    vec![
        used, limit, held, shm, shm_size, cache, shared, swap, pinned, processes, kills,
    ]
}

fn number(rank: &RankState) -> String {
    let number = rank.hello.rank.map(|number| number.to_string());
    number.unwrap_or_default()
}

/// A label's value, its quotes, backslashes and line breaks escaped.
fn label(value: &str) -> String {
    let value = command::without_secrets(value);
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if c.is_control() => text.push(' '),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::recorded;

    #[test]
    fn names_units_and_labels_are_as_prometheus_wants_them() {
        let mut state = State::default();
        for event in recorded("two-ranks") {
            state.apply(&event);
        }
        let text = metrics(&state);
        assert!(
            text.contains("oomph_allocated_peak_bytes{rank=\"1\",pid="),
            "{text}"
        );
        assert!(
            text.contains("oomph_device_capacity_bytes{gpu=\"0\","),
            "{text}"
        );
        assert!(text.contains("oomph_running 0\n"), "{text}");
        for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
            let name = line.split(' ').nth(2).unwrap();
            assert_eq!(
                name.ends_with("_total"),
                line.ends_with("counter"),
                "{line}"
            );
        }
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        assert_eq!(metrics(&State::default()), "");
    }
}
