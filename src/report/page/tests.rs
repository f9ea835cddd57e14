//! Pages of real recordings, and of recordings that want to be more than text.

use super::*;
use crate::anatomy::{GrownLine, StepGrowth};
use crate::event::{
    BlockOrigin, Event, EventKind, Exit, Exited, Note, Retainer, RetainerKind, Retainers,
    SourceLine, StepTrace,
};
use crate::report::recorded;
use crate::units::{Bytes, Pid, RunNumber};
use proptest::prelude::*;

fn story(name: &str) -> SessionStory {
    SessionStory::new(recorded(name))
}

fn page_of(story: &SessionStory) -> String {
    let options = PageOptions {
        name: "20260301-233000-python3",
        ..PageOptions::default()
    };
    html(story, &options)
}

#[test]
fn a_page_says_what_happened() {
    let page = page_of(&story("capacity"));
    for part in [
        "ran out of memory in the",
        "id=\"memory\"",
        "Out of memory in the",
        "class=\"evidence\"",
        "Lines that held the memory",
        "NVIDIA H200 (139.8 GiB)",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.len() < 400_000, "{}", page.len());
}

#[test]
fn who_kept_the_memory_and_what_grew_are_tables() {
    let mut story = story("leak");
    let oom = story.ooms.last_mut().expect("an OOM");
    oom.retainers = Some(Retainers {
        retainers: vec![Retainer {
            name: "<losses>".into(),
            kind: RetainerKind::Local,
            class: "list".into(),
            length: Some(18),
            bytes: Bytes::gib(2),
            graph: Bytes::gib(1),
            ..Retainer::default()
        }],
        ..Retainers::default()
    });
    oom.growth = Some(StepGrowth {
        from: 3,
        to: 7,
        lines: vec![GrownLine {
            line: None,
            bytes: Bytes::mib(40),
        }],
        modules: Vec::new(),
    });
    let page = page_of(&story);
    for part in [
        "<h4>Kept alive by</h4>",
        "<code>&lt;losses&gt;: list of 18</code> <span class=\"dim\">1.00 GiB of it in autograd graphs</span>",
        "<h4>Grew from step 3 to step 7</h4>",
        "+10 MiB a step</td><td><code>line not known</code></td>",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn what_grew_in_a_run_that_ended_before_memory_ran_out_has_a_section() {
    let mut events = recorded("leak");
    let ran_out = events
        .iter()
        .position(|event| matches!(event.what, EventKind::Oom(_)));
    events.truncate(ran_out.expect("an OOM"));
    let (at, run) = (events.last().expect("an event").at, RunNumber(1));
    let exit = Exit::Code(0);
    let what = EventKind::Exited(Exited {
        run,
        exit,
        left: Vec::new(),
    });
    events.push(Event { at, what });
    let page = page_of(&SessionStory::new(events));
    assert!(page.contains("<h2>Memory grew from step to step</h2>"));
    assert!(page.contains("What is allocated after each step grew: +"));
    let page = page_of(&story("capacity"));
    assert!(!page.contains("<h2>Memory grew from step to step</h2>"));
}

#[test]
fn nothing_is_fetched() {
    let page = page_of(&story("two-ranks"));
    let own = page.replace(UPLOT, "").replace(UPLOT_STYLE, "");
    for fetching in [
        "src=", "href=", "url(", "@import", "http:", "https:", "fetch(",
    ] {
        assert!(!own.contains(fetching), "{fetching}");
    }
    assert!(own.contains("default-src 'none'"));
    let readme = include_str!("assets/uplot/README.md");
    assert!(UPLOT.contains("(v1.6.32)") && readme.contains("1.6.32"));
}

#[test]
fn a_day_of_eight_ranks_is_small() {
    let mut page = String::new();
    let mut story = story("two-ranks");
    let device = story.state.devices[0].clone();
    for number in 1..8 {
        let mut device = device.clone();
        device.index = number;
        story.state.devices.push(device);
    }
    story.state.now = crate::units::Moment::from_secs_f64(86_400.0);
    chart::section(&mut page, &story);
    assert!(page.len() < 2_500_000, "{}", page.len());
}

/// The scripts and styles of the page itself, cut out.
fn without_own_code(page: &str) -> String {
    let mut rest = page.to_string();
    for own in [UPLOT, UPLOT_STYLE, STYLE, SCRIPT] {
        rest = rest.replacen(own, "", 1);
    }
    rest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever a string holds, the page has the same elements as with a harmless one.
    #[test]
    fn strings_stay_text(text in hostile()) {
        let with = |text: &str| {
            let mut events = recorded("capacity");
            for event in &mut events {
                put_in(event, text);
            }
            let ran_out = events.iter().position(|event| matches!(event.what, EventKind::Oom(_)));
            let ran_out = ran_out.expect("an OOM");
            let before = [EventKind::StepTrace(Box::new(traced(text))), EventKind::Retainers(Box::new(kept(text)))];
            let at = events[ran_out].at;
            events.splice(ran_out..ran_out, before.map(|what| Event { at, what }));
            without_own_code(&page_of(&SessionStory::new(events)))
        };
        let (plain, hostile) = (with("x"), with(&text));
        prop_assert!(plain.contains("Modules at its peak") && plain.contains("Kept alive by"));
        let elements = |page: &str| page.matches('<').count();
        prop_assert_eq!(elements(&plain), elements(&hostile), "{}", text);
        let acts = |c: char| {
            c.is_control() && c != '\n' || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        prop_assert!(!hostile.contains(acts), "{:?}", text);
        prop_assert!(!hostile.contains("<img") && !hostile.contains("onerror=\""));
    }
}

/// Strings in all the places in which a recording has some that anybody may choose.
fn put_in(event: &mut Event, text: &str) {
    match &mut event.what {
        EventKind::SessionStarted(session) => session.id = text.into(),
        EventKind::Device(reading) => reading.name = text.into(),
        EventKind::Hello(hello) => {
            hello.torch = text.into();
            hello.alloc_conf = Some(format!("a{text}"));
            for device in &mut hello.devices {
                device.name = text.into();
            }
        }
        EventKind::Started(started) => {
            started.remedies = vec![text.into()];
            // A blank would end a word of the command, which is an element.
            let word = format!("--name={}", text.replace(' ', "_"));
            started.command.argv.push(word.as_str().into());
        }
        EventKind::Oom(record) => {
            for line in &mut record.lines {
                line.line.file = format!("a{text}");
                line.line.function = text.into();
            }
        }
        EventKind::Exited(_) => {
            event.what = EventKind::Note(Note::new(crate::event::Level::Warning, text));
        }
        _ => {}
    }
}

/// A step of the process of that recording, whose line, function and module have that name.
fn traced(text: &str) -> StepTrace {
    let line = SourceLine {
        file: format!("a{text}"),
        line: 3,
        function: text.into(),
    };
    StepTrace {
        pid: CAPACITY_PID,
        step: 1,
        failed: true,
        trace: "4096 | 1048576 2097152".into(),
        origins: vec![BlockOrigin {
            line: Some(line.clone()),
            inside: Some(line),
            kind: None,
        }],
        blocks: "1 1 1".into(),
        modules: vec![format!("a{text}")],
        block_modules: "1 1 1".into(),
        ..StepTrace::default()
    }
}

/// Who keeps its memory alive, by that name.
fn kept(text: &str) -> Retainers {
    let retainer = Retainer {
        name: format!("a{text}"),
        of: text.into(),
        class: format!("a{text}"),
        bytes: Bytes::gib(2),
        above: vec![text.into()],
        below: vec![text.into()],
        ..Retainer::default()
    };
    Retainers {
        pid: CAPACITY_PID,
        retainers: vec![retainer],
        ..Retainers::default()
    }
}

/// The training's process in `capacity.jsonl`.
const CAPACITY_PID: Pid = Pid(492);

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("</script><img src=x onerror=\"alert(1)\">".to_string()),
        Just("--><b>\u{1b}]52;c;eA==\u{7}\u{202e}".to_string()),
        Just("'\"><svg/onload=alert(1)>&lt;".to_string()),
        "[<>&'\"/a-z\u{1b}\u{0}-\u{1f}\u{7f}-\u{9f}\u{2028}\u{2029}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{feff}!\\]-]{0,40}",
    ]
}

#[test]
fn what_it_took_is_the_time_of_its_runs_and_waits_are_told_apart() {
    let mut story = story("capacity");
    let mut second = story.state.runs[0].clone();
    let (ended, exit) = second.ended.expect("an end");
    second.number = second.number.next();
    second.started = ended + std::time::Duration::from_secs(60);
    story.state.now = second.started + std::time::Duration::from_secs(5);
    second.ended = Some((story.state.now, exit));
    let first = story.state.runs[0].started;
    story.state.runs.push(second);
    let ran = clock_face(ended.since(first) + std::time::Duration::from_secs(5));
    let page = page_of(&story);
    let told = format!("<dt>took</dt><dd class=\"\">{ran} (1:");
    assert!(page.contains(&told), "{told}");
    assert!(page.contains("with waits between runs)"));
}
