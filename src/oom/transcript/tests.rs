//! What follows a message, and what became of the program.

use super::*;

const MESSAGE: &str = "CUDA out of memory. Tried to allocate 640.00 MiB. GPU 1 has a total capacity of 23.50 GiB of which 96.75 MiB is free. Of the allocated memory 19.50 GiB is allocated by PyTorch, and 2.25 GiB is reserved by PyTorch but unallocated.";

fn traceback(prefix: &str) -> String {
    format!(
        "{prefix}Traceback (most recent call last):\n{prefix}  File \"train.py\", line 7, in <module>\n{prefix}    loss.backward()\n{prefix}torch.OutOfMemoryError: {MESSAGE}\n"
    )
}

#[track_caller]
fn check(text: &str, expected: &[OomOutcome]) {
    let outcomes: Vec<_> = read(text.as_bytes())
        .into_iter()
        .map(|report| report.outcome)
        .collect();
    assert_eq!(outcomes, expected, "{text}");
}

#[test]
fn a_traceback_that_ends_the_log_is_fatal() {
    let text = traceback("");
    check(&text, &[OomOutcome::Fatal]);
    check(&format!("step 1\nstep 2\n{text}\n\n"), &[OomOutcome::Fatal]);
    check(&traceback("[rank2]: "), &[OomOutcome::Fatal]);
    let bar = format!("{text} 16%|█▌  | 32/200 [01:17<06:47,  2.43s/it]\n");
    check(&bar, &[OomOutcome::Fatal]);
    let effects = format!(
        "{text}[rank0]:[W501 10:00:00.1 ProcessGroupNCCL.cpp:9] Warning: WARNING: process group has NOT been destroyed\nwandb: run ended\nsys:1: ResourceWarning: x\n"
    );
    check(&effects, &[OomOutcome::Fatal]);
}

#[test]
fn words_alone_prove_nothing() {
    check(MESSAGE, &[OomOutcome::Unknown]);
    check(
        &format!("torch.OutOfMemoryError: {MESSAGE}\n"),
        &[OomOutcome::Unknown],
    );
    check(
        &format!("{}Saved the mesh\n", traceback("")),
        &[OomOutcome::Unknown],
    );
}

#[test]
fn an_exit_status_tells() {
    for (end, outcome) in [
        (
            "E api:failed (exitcode: 1) local_rank: 0 (pid: 71) of binary: /usr/bin/python",
            OomOutcome::Fatal,
        ),
        ("Process finished with exit code 1", OomOutcome::Fatal),
        (
            "[launch.py:3] [INFO] ['python'] exits with return code = 1",
            OomOutcome::Fatal,
        ),
        ("Process finished with exit code 0", OomOutcome::Caught),
        ("  exitcode  : -15 (pid: 72)", OomOutcome::Unknown),
    ] {
        check(
            &format!("RuntimeError: {MESSAGE}\nclosing files\n{end}\n"),
            &[outcome],
        );
    }
}

#[test]
fn the_launcher_reports_every_rank_that_fell() {
    let text = format!(
        "{}{}============\ntrain.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 71)\n",
        traceback("[rank0]: "),
        traceback("[rank1]: ")
    );
    check(&text, &[OomOutcome::Fatal, OomOutcome::Fatal]);
}

#[test]
fn progress_afterwards_is_survival() {
    let bars = " 16%|█▌  | 33/200 [01:18<06:47]\r 17%|█▌  | 34/200 [01:19<06:47]\r 17%|█▌  | 35/200 [01:20<06:47]\n";
    check(&format!("{}{bars}", traceback("")), &[OomOutcome::Caught]);
    let steps = "step 11 loss 2.5\nstep 12 loss 2.4\nstep 13 loss 2.3\n";
    check(&format!("{}{steps}", traceback("")), &[OomOutcome::Caught]);
    check(
        &format!(
            "{}{steps}Process finished with exit code 1\n",
            traceback("")
        ),
        &[OomOutcome::Caught],
    );
    let again = MESSAGE.replace("640.00", "644.00");
    check(
        &format!(
            "ERROR: {MESSAGE}   | 1/90 [00:00<?, ?b/s]\nERROR: {again}   | 2/90 [00:01<00:53, 1.2s/b]\n"
        ),
        &[OomOutcome::Caught, OomOutcome::Caught],
    );
}

#[test]
fn what_a_logger_wrote_first_is_the_tracebacks_too() {
    let logged = format!("12:02:49 ERROR: {MESSAGE}\n");
    let text = format!("{logged}{}", traceback(""));
    check(&text, &[OomOutcome::Fatal]);
    let stack = &super::read(text.as_bytes())[0].stack;
    assert_eq!(stack.last().unwrap().function, "<module>");
    // `logger.exception`, and the program goes on.
    check(
        &format!("{text}saved what there was\n"),
        &[OomOutcome::Unknown],
    );
    let steps = "step 11 loss 2.5\nstep 12 loss 2.4\nstep 13 loss 2.3\n";
    check(&format!("{text}{steps}"), &[OomOutcome::Caught]);
}

#[test]
fn another_ranks_progress_is_no_survival() {
    let text = format!(
        "{}[rank0]: step 11\n[rank0]: step 12\n[rank0]: step 13\n",
        traceback("[rank1]: ")
    );
    check(&text, &[OomOutcome::Fatal]);
}

#[test]
fn a_program_that_says_so_goes_on() {
    for words in [
        "Skipping batch",
        "attempting to recover from OOM in forward/backward pass",
        "Got an OOM, unloading all loaded models.",
        "Decreasing batch size to: 16",
        "retrying with half the batch",
    ] {
        check(
            &format!("ERROR: {MESSAGE}\n{words}\n"),
            &[OomOutcome::Caught],
        );
    }
    check(
        &format!("ERROR: {MESSAGE}; skipping batch\n"),
        &[OomOutcome::Caught],
    );
    check(
        &format!("Runtime error during autotuning: \n{MESSAGE}. \nIgnoring this choice.\n"),
        &[OomOutcome::Caught],
    );
    let much_later = "output\n".repeat(100);
    check(
        &format!("ERROR: {MESSAGE}\n{much_later}retrying\n"),
        &[OomOutcome::Unknown],
    );
}

#[test]
fn a_warning_was_written_by_somebody_who_caught_it() {
    check(&format!("WARNING:root:{MESSAGE}\n"), &[OomOutcome::Caught]);
    check(
        &format!("WARNING:root:{MESSAGE}\nProcess finished with exit code 1\n"),
        &[OomOutcome::Fatal],
    );
}

#[test]
fn another_error_may_be_what_ended_it() {
    let text = format!(
        "{}Traceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'lr'\nProcess finished with exit code 1\n",
        traceback("")
    );
    check(&text, &[OomOutcome::Unknown]);
    let chained = format!(
        "{}\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"x.py\", line 1\nRuntimeError: training failed\n",
        traceback("")
    );
    check(&chained, &[OomOutcome::Fatal]);
}

#[test]
fn an_exit_far_behind_is_still_seen() {
    let filler = "output\n".repeat(NEAR_LINES as usize + 10);
    for end in [
        "Process finished with exit code 1",
        "srun: error: n7: task 0: Exited with exit code 1",
    ] {
        check(
            &format!("RuntimeError: {MESSAGE}\n{filler}{end}\n"),
            &[OomOutcome::Fatal],
        );
    }
}

#[test]
fn chunks_do_not_matter() {
    let text = format!(
        "step 1\n{}step 2\nstep 3\nstep 4\n{}exitcode  : 1 (pid: 7)\n",
        traceback("[rank0]: "),
        traceback("[rank1]: ")
    );
    let whole = read(text.as_bytes());
    for length in 1..80 {
        let mut transcript = Transcript::new();
        for chunk in text.as_bytes().chunks(length) {
            transcript.feed(chunk);
        }
        assert_eq!(transcript.finish(), whole);
    }
}

#[test]
fn a_text_full_of_them_is_bounded() {
    let mut transcript = Transcript::new();
    for size in 0..2_000 {
        let message = format!(
            "RuntimeError: {}\n",
            MESSAGE.replace("640.00", &format!("{size}.00"))
        );
        transcript.feed(message.as_bytes());
    }
    assert_eq!(transcript.finish().len(), MOST_REPORTS);
}

fn sign(line: &str) -> SurvivalSign {
    survival_sign(&CompactLine::new(line.to_owned(), ""))
}

#[test]
fn ends_are_read_from_whoever_reports_them() {
    let cases = [
        (
            "E ...api:failed (exitcode: 1) local_rank: 0 (pid: 71) of binary: /usr/bin/python",
            SurvivalSign::EndedBadly,
        ),
        ("  exitcode  : 1 (pid: 71)", SurvivalSign::EndedBadly),
        ("  exitcode  : -15 (pid: 72)", SurvivalSign::Nothing),
        ("Process finished with exit code 0", SurvivalSign::EndedWell),
        (
            "Process finished with exit code 1",
            SurvivalSign::EndedBadly,
        ),
        (
            "##[error]Process completed with exit code 137.",
            SurvivalSign::EndedBadly,
        ),
        (
            "[launch.py:3:sigkill_handler] ['python'] exits with return code = 1",
            SurvivalSign::EndedBadly,
        ),
        (
            "subprocess.CalledProcessError: Command '['x']' returned non-zero exit status 1.",
            SurvivalSign::EndedBadly,
        ),
        (
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            SurvivalSign::EndedBadly,
        ),
        (
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-02 ***",
            SurvivalSign::EndedBadly,
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(sign(line), expected, "{line}");
    }
}

#[test]
fn counters_are_read() {
    let cases = [
        (" 12%|██ | 7/60 [00:01<00:09,  5.1it/s]", Some((0, 7))),
        ("Epoch 3: loss 0.25", Some((4, 3))),
        ("epoch: [4][10/20] loss", Some((4, 4))),
        ("{'step': 120, 'loss': 1.5}", Some((3, 120))),
        ("iter=77 lr=0.1", Some((2, 77))),
        ("timestep 3", None),
        ("stepping over", None),
        ("step by step", None),
        ("files 3/ [a]", None),
    ];
    for (line, expected) in cases {
        let found = counters(line)
            .next()
            .map(|counter| (counter.of, counter.at));
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn tracebacks_say_nothing_and_output_does() {
    let cases = [
        ("    loss.backward()", SurvivalSign::Nothing),
        ("Traceback (most recent call last):", SurvivalSign::Nothing),
        (
            "During handling of the above exception, another exception occurred:",
            SurvivalSign::Chain,
        ),
        ("ValueError: cannot reshape", SurvivalSign::OtherException),
        ("KeyboardInterrupt", SurvivalSign::OtherException),
        ("wandb: run ended", SurvivalSign::Nothing),
        ("Saved the mesh", SurvivalSign::Output),
        ("skipping batch 3", SurvivalSign::Handled),
    ];
    for (line, expected) in cases {
        assert_eq!(sign(line), expected, "{line}");
    }
}

/// The last error of a log may be another one than its OOM.
#[test]
fn what_a_text_ends_with_is_told_beside_an_oom_that_was_caught() {
    let caught = "WARNING: batch 31 skipped: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.60 GiB of which 0.80 GiB is free. Of the allocated memory 21.90 GiB is allocated by PyTorch, and 0.40 GiB is reserved by PyTorch but unallocated.\nepoch 1 step 32 loss 1.2\nepoch 1 step 33 loss 1.1\n";
    let error = "Traceback (most recent call last):\n  File \"/srv/train.py\", line 90, in <module>\n    x = batch[\"image\"]\nKeyError: 'image'\n";
    let told = |text: String| {
        let reports = read(text.as_bytes());
        assert_eq!(reports.len(), 1);
        (reports[0].outcome, reports[0].later_error.clone())
    };
    assert_eq!(told(caught.into()), (OomOutcome::Caught, None));
    assert_eq!(
        told(format!("{caught}{error}")),
        (OomOutcome::Caught, Some("KeyError".into()))
    );
    assert_eq!(
        told(format!("{caught}{error}epoch 1 step 34 loss 1.1\n")),
        (OomOutcome::Caught, None)
    );
}

#[test]
fn the_same_figures_after_the_program_went_on_are_another_oom() {
    let message = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.60 GiB of which 0.80 GiB is free. Of the allocated memory 21.90 GiB is allocated by PyTorch, and 0.40 GiB is reserved by PyTorch but unallocated.";
    let fatal = format!(
        "Traceback (most recent call last):\n  File \"/srv/train.py\", line 64, in main\n    out = model(x)\ntorch.OutOfMemoryError: {message}\n"
    );
    let outcomes = |between: &str| -> Vec<OomOutcome> {
        let text = format!("epoch 2 step 38\n| WARNING | skipped: {message}\n{between}{fatal}");
        read(text.as_bytes())
            .iter()
            .map(|report| report.outcome)
            .collect()
    };
    assert_eq!(
        outcomes("epoch 2 step 39 loss 1.0\nepoch 2 step 40 loss 1.0\n"),
        [OomOutcome::Caught, OomOutcome::Fatal]
    );
    // A logger first, then the traceback.
    assert_eq!(outcomes(""), [OomOutcome::Fatal]);
}
