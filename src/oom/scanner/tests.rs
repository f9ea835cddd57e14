//! How messages arrive: coloured, wrapped, glued, prefixed, repeated, cut over reads.

use super::*;
use crate::oom::tests::{none, one, reports, reports_in_chunks, size};
use crate::oom::{OomKind, OomOutcome, OtherProcess, TracedCall, Transcript, read};
use crate::units::{Bytes, Pid, Rank};
use proptest::prelude::*;

const MESSAGE: &str = "CUDA out of memory. Tried to allocate 640.00 MiB. GPU 1 has a total capacity of 23.50 GiB of which 96.75 MiB is free. Process 4711 has 1.25 GiB memory in use. Including non-PyTorch memory, this process has 22.00 GiB memory in use. Of the allocated memory 19.50 GiB is allocated by PyTorch, and 2.25 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

fn expected(rank: Option<u32>) -> OomReport {
    OomReport {
        kind: OomKind::CudaOom,
        rank: rank.map(Rank),
        device: Some(1),
        requested: size("640.00 MiB"),
        total: size("23.50 GiB"),
        free: size("96.75 MiB"),
        allocated: size("19.50 GiB"),
        unallocated: size("2.25 GiB"),
        reserved: size("21.75 GiB"),
        process_used: size("22.00 GiB"),
        others: vec![OtherProcess {
            pid: Pid(4711),
            used: size("1.25 GiB"),
        }],
        ..OomReport::default()
    }
}

#[test]
fn colours_of_python_3_13_stand_between_class_and_colon() {
    let text = format!(
        "Traceback (most recent call last):\r\n  File \x1b[35m\"x.py\"\x1b[0m, line \x1b[35m5\x1b[0m\r\n\x1b[1;35mtorch.OutOfMemoryError\x1b[0m: \x1b[35m{MESSAGE}\x1b[0m\r\n"
    );
    let stack = vec![TracedCall {
        file: "x.py".into(),
        line: 5,
        function: "<module>".into(),
        code: String::new(),
    }];
    let expected = OomReport {
        stack,
        ..expected(None)
    };
    assert_eq!(one(&text), expected);
}

#[test]
fn escapes_within_the_words_hide_nothing() {
    for text in [
        MESSAGE.replace("640.00", "\x1b[1;36m640.00\x1b[0m"),
        MESSAGE.replace("out of memory", "out \x1b[1mof\x1b[0m memory"),
        MESSAGE.replace(' ', "\x1b[1C"),
        MESSAGE.replace("GPU", "\x1b]8;;file:///x\x1b\\GPU\x1b]8;;\x1b\\"),
        format!("\x1b]0;an unclosed title {MESSAGE}"),
        format!("[1;31m{MESSAGE}[0m"),
        format!("\\x1b[31m{MESSAGE}\\x1b[0m"),
    ] {
        assert_eq!(one(&text), expected(None), "{text}");
    }
}

#[test]
fn a_progress_bar_may_stand_in_front() {
    for text in [
        format!("\r 16%|█▌  | 32/200 [01:17<06:47,  2.43s/it]{MESSAGE}\n"),
        format!(
            "\r 15%|█▌  | 31/200 [01:17<06:47]\r 16%|█▌  | 32/200 [01:17<06:47,  2.43s/it, loss=9.1]torch.OutOfMemoryError: {MESSAGE}\n"
        ),
    ] {
        assert_eq!(one(&text), expected(None), "{text}");
    }
}

#[test]
fn prefixes_name_the_rank_or_nothing() {
    for (prefix, rank) in [
        ("[rank3]: torch.OutOfMemoryError: ", Some(3)),
        ("[default3]:torch.OutOfMemoryError: ", Some(3)),
        ("[default0]:[rank3]: torch.OutOfMemoryError: ", Some(3)),
        ("2026-05-01T10:00:00Z [rank3]: RuntimeError: ", Some(3)),
        ("[1,3]<stderr>:RuntimeError: ", Some(3)),
        (
            "(VllmWorker rank=3 pid=71) ERROR 05-01 10:00:00 [x.py:1] ",
            Some(3),
        ),
        (
            "\x1b[36m(TaskRunner pid=71)\x1b[0m torch.OutOfMemoryError: ",
            None,
        ),
        ("[36m(TaskRunner pid=71, ip=10.0.0.7)[0m ", None),
        ("trainer-1  | torch.OutOfMemoryError: ", None),
        ("> ", None),
        ("2026-05-01 10:00:00,123 ERROR trainer: ", None),
    ] {
        assert_eq!(
            one(&format!("{prefix}{MESSAGE}\n")),
            expected(rank),
            "{prefix}"
        );
    }
}

#[test]
fn wrapped_messages_are_joined_at_any_width() {
    let text = format!("torch.OutOfMemoryError: {MESSAGE}");
    for width in 40..200 {
        let words = wrap_at_words(&text, width);
        assert_eq!(one(&words), expected(None), "words at {width}\n{words}");
        let columns = wrap_at_columns(&text, width);
        assert_eq!(
            one(&columns),
            expected(None),
            "columns at {width}\n{columns}"
        );
        let ended = format!("{columns}\nSteps: 0% 0/9 [00:02<?, ?it/s]\n");
        assert_eq!(one(&ended), expected(None), "columns at {width}");
    }
}

#[test]
fn messages_of_other_families_are_joined_as_well() {
    for text in [
        "RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":963, please report a bug to PyTorch. ",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 1073741824 bytes. Error code 12 (Cannot allocate memory)",
        "ResourceExhaustedError: OOM when allocating tensor with shape[32,3,1024,1024] and type float on /job:localhost/replica:0/task:0/device:GPU:2 by allocator GPU_2_bfc",
        "OP_REQUIRES failed at x.h:1 : Resource exhausted: OOM when allocating tensor with shape[2,3] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6442450944 bytes.",
        "node7:811:902 [5] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\nnode7:811:902 [5] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 10485760 bytes",
        "RuntimeError: MPS backend out of memory (MPS allocated: 6.25 GB, other allocations: 11.50 GB, max allowed: 18.13 GB). Tried to allocate 192.25 MB on private pool.",
    ] {
        let whole = one(text);
        for width in [80, 100, 120, 132] {
            let lines: Vec<String> = text
                .lines()
                .map(|line| wrap_at_words(line, width))
                .collect();
            assert_eq!(one(&lines.join("\n")), whole, "{width}\n{text}");
        }
    }
}

#[test]
fn loggers_repeat_their_prefix_on_every_line() {
    let wrapped = wrap_at_words(&format!("torch.OutOfMemoryError: {MESSAGE}"), 61);
    let lines: Vec<String> = wrapped
        .lines()
        .zip(10..)
        .map(|(line, second)| format!("2026-05-01 10:00:{second},250 ERROR [trainer.py:7] {line}"))
        .collect();
    assert_eq!(one(&lines.join("\n")), expected(None));
}

#[test]
fn wrapped_messages_with_prefixes_are_joined() {
    let wrapped = wrap_at_words(&format!("torch.OutOfMemoryError: {MESSAGE}"), 72);
    let ranked = wrapped.replace('\n', "\n[rank6]: ");
    assert_eq!(one(&format!("[rank6]: {ranked}")), expected(Some(6)));
    let first_only = format!("[rank6]: {wrapped}");
    assert_eq!(one(&first_only), expected(Some(6)));
}

#[test]
fn another_ranks_lines_do_not_cut_a_message() {
    let wrapped = wrap_at_words(&format!("torch.OutOfMemoryError: {MESSAGE}"), 80);
    let mut lines = Vec::new();
    for (number, line) in wrapped.lines().enumerate() {
        lines.push(format!("[rank6]: {line}"));
        lines.push(format!("[rank7]: frame {number}"));
    }
    assert_eq!(one(&lines.join("\n")), expected(Some(6)));
}

#[test]
fn glued_chunks_of_two_ranks_are_two_messages() {
    let text =
        format!("[default0]:7/9 [94.70it/s][default1]:E: {MESSAGE}[default2]:E: {MESSAGE}\n");
    let ranks: Vec<_> = reports(&text)
        .into_iter()
        .map(|report| report.rank)
        .collect();
    assert_eq!(ranks, [Some(Rank(1)), Some(Rank(2))]);
}

#[test]
fn repetitions_are_one_event_and_ranks_are_not() {
    let text = format!(
        "ERROR engine: OutOfMemoryError('{MESSAGE}')\nTraceback (most recent call last):\ntorch.OutOfMemoryError: {MESSAGE}\n\nThe above exception was the direct cause of the following exception:\n[rank0]: torch.OutOfMemoryError: {MESSAGE}\n"
    );
    assert_eq!(reports(&text).len(), 1);
    let ranks = format!("[rank0]: E: {MESSAGE}\n[rank1]: E: {MESSAGE}\n");
    assert_eq!(reports(&ranks).len(), 2);
}

#[test]
fn a_whole_message_is_reported_with_its_line() {
    let mut scanner = Scanner::new();
    let mut found = Vec::new();
    scanner.feed(b"one\ntwo\n", &mut |report| found.push(report));
    scanner.feed(MESSAGE.as_bytes(), &mut |report| found.push(report));
    assert!(found.is_empty(), "its line has not ended");
    scanner.feed(b"\n", &mut |report| found.push(report));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].line, 3);
    scanner.finish(&mut |report| found.push(report));
    assert_eq!(found.len(), 1);
}

#[test]
fn an_unfinished_message_is_reported_with_the_next_line_or_a_pause() {
    let text = b"RuntimeError: CUDA out of memory. Tried to allocate 96.00 MiB\n";
    let mut found = Vec::new();
    let mut scanner = Scanner::new();
    scanner.feed(text, &mut |report| found.push(report));
    assert!(found.is_empty());
    scanner.feed(b"Exiting.\n", &mut |report| found.push(report));
    assert_eq!(found.len(), 1);
    let mut scanner = Scanner::new();
    scanner.feed(text, &mut |report| found.push(report));
    scanner.pause(&mut |report| found.push(report));
    assert_eq!(found.len(), 2);
}

#[test]
fn an_endless_line_hides_no_message() {
    for padding in [60_000, 65_000, 65_536, 70_000, 200_000] {
        let text = format!("{} {MESSAGE} {}", "x".repeat(padding), "y".repeat(100_000));
        assert_eq!(one(&text), expected(None), "{padding}");
    }
}

#[test]
fn bytes_that_are_no_text_hide_no_message() {
    let mut bytes = b"\xff\xfe\x00\x80 torch.OutOfMemoryError: ".to_vec();
    bytes.extend_from_slice(MESSAGE.as_bytes());
    bytes.extend_from_slice(b"\xf0\x9f\n");
    let found = reports_in_chunks(&bytes, usize::MAX);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].requested, size("640.00 MiB"));
    none("\u{fffd}");
}

fn wrap_at_words(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        if column > 0 && column + 1 + word.len() > width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out
}

fn wrap_at_columns(text: &str, width: usize) -> String {
    let columns: Vec<char> = text.chars().collect();
    let lines: Vec<String> = columns
        .chunks(width)
        .map(|line| line.iter().collect())
        .collect();
    lines.join("\n")
}

/// The message is made of two lines, and the second has the head of a traceback.
#[test]
fn a_traceback_behind_a_message_that_began_before_it_does_no_harm() {
    let begun = "MPS backend out of memory (MPS allocated: 1.00 GB[rank1]: n:1:2 [3] alloc.h:1 NCCL WARN Cuda failure 'out of memory'";
    let text = format!("{begun}\n!\x1b{MESSAGE}Traceback (most recent call last):\n");
    let found = reports(&text);
    let requested = |report: &OomReport| report.requested == size("640.00 MiB");
    assert!(found.iter().any(requested), "{found:?}");
}

/// Streams made of what matters to the scanner, and of anything.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            MESSAGE,
            "torch.OutOfMemoryError: ",
            "RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 3.00 GiB total capacity;\n2.50 GiB already allocated; 1.00 MiB free; 2.75 GiB reserved in total by PyTorch)",
            "CUDA out of memory. Tried to allocate ",
            "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 1.00 GiB\nRequested               : 2.00 GiB\n",
            "MPS backend out of memory (MPS allocated: 1.00 GB",
            "n:1:2 [3] alloc.h:1 NCCL WARN Cuda failure 'out of memory'\n",
            "n:1:2 [3] alloc.h:2 NCCL WARN Failed to CUDA calloc 4096 bytes\n",
            "OOM when allocating tensor with shape[2,3] and type float on /device:GPU:0",
            "RuntimeError: CUDA error: out of memory",
            "exitcode  : -9 (pid: 7)",
            "Killed  ",
            "raise X(\"",
            "Traceback (most recent call last):\n",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        4 => prop::sample::select(vec![
            "\n", "\r", "\r\n", " ", "\x1b", "\x1b[", "\x1b[31m", "\x1b]0;", "\x07", "\x1b\\",
            "[rank1]: ", "[default0]:", "[", "&gt;", "\\n", "\\x1b[0m", "'", "\"", "(", ":", "é", "█", "GiB", "7.5", "bytes",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (1_usize..30_000).prop_map(|length| vec![b'x'; length]),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn however_the_stream_is_cut_the_answer_is_the_same(
        stream in stream(),
        lengths in prop::collection::vec(1_usize..5_000, 1..20),
        small in 1_usize..8,
    ) {
        let whole = reports_in_chunks(&stream, usize::MAX);
        let mut found = Vec::new();
        let mut scanner = Scanner::new();
        let mut rest = &stream[..];
        for length in lengths.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at((*length).min(rest.len()));
            scanner.feed(chunk, &mut |report| found.push(report));
            rest = after;
        }
        scanner.finish(&mut |report| found.push(report));
        prop_assert_eq!(&found, &whole);
        prop_assert_eq!(&reports_in_chunks(&stream, small), &whole);
        let settled = read(&stream);
        let mut transcript = Transcript::new();
        stream.chunks(lengths[0]).for_each(|chunk| transcript.feed(chunk));
        prop_assert_eq!(&transcript.finish(), &settled);
        prop_assert_eq!(settled.len(), whole.len());
    }

    #[test]
    fn a_message_is_found_wherever_it_stands_on_a_line_of_its_own(
        before in stream(),
        after in stream(),
    ) {
        let mut stream = before;
        stream.extend_from_slice(b"\n\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 654.25 MiB. GPU 7 has a total capacity of 23.50 GiB of which 96.75 MiB is free. Of the allocated memory 19.50 GiB is allocated by PyTorch, and 2.25 GiB is reserved by PyTorch but unallocated.\n");
        stream.extend_from_slice(&after);
        let found = reports_in_chunks(&stream, 4096);
        prop_assert!(found.iter().any(|report| report.requested == size("654.25 MiB") && report.device == Some(7)));
    }
}

#[test]
fn what_the_line_says_is_handled_is_caught() {
    let message = "CUDA out of memory. Tried to allocate 1.25 GiB (GPU 2; 31.50 GiB total capacity; 20.50 GiB already allocated; 640.00 MiB free; 29.25 GiB reserved in total by PyTorch)";
    for text in [
        format!("Runtime error during autotuning: \n{message}. \nIgnoring this choice."),
        format!("WARNING: {message}; skipping batch"),
        format!("attempting to recover from OOM: {message}"),
    ] {
        assert_eq!(one(&text).outcome, OomOutcome::Caught, "{text}");
    }
    assert_eq!(one(message).outcome, OomOutcome::Unknown);
}

fn report(line: u64, rank: Option<u32>, requested: Option<u64>) -> OomReport {
    OomReport {
        line,
        rank: rank.map(Rank),
        requested: requested.map(Bytes::mib),
        ..OomReport::default()
    }
}

#[test]
fn the_same_figures_are_one_message() {
    let mut seen = RecentReports::default();
    assert!(!seen.repeats(&report(1, None, Some(20))));
    assert!(seen.repeats(&report(2, None, Some(20))));
    assert!(
        seen.repeats(&report(3, Some(0), Some(20))),
        "the launcher's copy"
    );
    assert!(seen.repeats(&report(4, None, None)), "the class alone");
    assert!(!seen.repeats(&report(5, None, Some(22))));
    let other = OomReport {
        kind: OomKind::Nccl,
        ..report(6, None, None)
    };
    assert!(!seen.repeats(&other));
}

#[test]
fn two_ranks_are_two_messages() {
    let mut seen = RecentReports::default();
    assert!(!seen.repeats(&report(1, Some(0), Some(20))));
    assert!(!seen.repeats(&report(2, Some(1), Some(20))));
    assert!(seen.repeats(&report(3, Some(1), Some(20))));
    assert!(seen.repeats(&report(4, None, Some(20))));
}

#[test]
fn long_after_it_is_another_event() {
    let mut seen = RecentReports::default();
    assert!(!seen.repeats(&report(1, None, Some(20))));
    assert!(seen.repeats(&report(900, None, Some(20))));
    assert!(seen.repeats(&report(1_800, None, Some(20))));
    assert!(!seen.repeats(&report(2_801, None, Some(20))));
}

#[test]
fn memory_is_bounded() {
    let mut seen = RecentReports::default();
    for size in 0..10_000 {
        seen.repeats(&report(1, None, Some(size)));
    }
    assert_eq!(seen.reports.len(), MOST);
}
