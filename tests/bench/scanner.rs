//! How fast the scanner reads, and what reads the epochs beside it: `cargo bench --bench scanner`.
//!
//! Ordinary logs must pass at 1,000 MB/s and more, hostile ones at 100 MB/s, so that the scanner
//! is never what a training's output waits for; 100 MB/s are enough for epochs, which only mark
//! the chart. The texts are generated, the same ones in every
//! run; each is read in chunks of 64 KiB, as they come from a pty or a pipe. MB are 10^6 bytes;
//! seconds are the thread's own processor time, so that a busy machine does not blur them.

use nix::time::{ClockId, clock_gettime};
use oomph::epoch;
use oomph::oom::{Scanner, Transcript};
use oomph::units::Moment;
use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;

const SIZE: usize = 64 << 20;
const CHUNK: usize = 64 << 10;
const ROUNDS: usize = 9;

/// A text, and the figure that it must reach in MB/s.
struct Text {
    name: &'static str,
    bytes: Vec<u8>,
    required: f64,
}

fn main() {
    let texts = [
        Text {
            name: "ordinary log",
            bytes: ordinary(0),
            required: 1000.0,
        },
        Text {
            name: "ordinary log, a fifth of its lines coloured",
            bytes: ordinary(5),
            required: 1000.0,
        },
        Text {
            name: "progress bars",
            bytes: bars(),
            required: 1000.0,
        },
        Text {
            name: "escape soup",
            bytes: escape_soup(),
            required: 100.0,
        },
        Text {
            name: "control strings that never close",
            bytes: repeat("\x1b]0;\x1bP\x1b_title "),
            required: 100.0,
        },
        Text {
            name: "one endless line",
            bytes: vec![b'x'; SIZE],
            required: 100.0,
        },
        Text {
            name: "one endless line of almost the words",
            bytes: repeat("CUDA out of memorx Tried to allocatf "),
            required: 100.0,
        },
        Text {
            name: "one endless line of escapes",
            bytes: repeat("\x1b[31mout \x1b[0mof memorx"),
            required: 100.0,
        },
        Text {
            name: "lines of almost epochs",
            bytes: repeat(
                "epoch=3 'epoch': 4 best epoch 7 epoch_5.pt max epoch 9 epochs=6 epoch 1e5\n",
            ),
            required: 100.0,
        },
        Text {
            name: "random bytes",
            bytes: random(),
            required: 100.0,
        },
        Text {
            name: "line ends",
            bytes: repeat("\r\n\r\r\n"),
            required: 100.0,
        },
    ];
    let mut missed = Vec::new();
    for text in &texts {
        for (reader, read) in [("", ooms as fn(&[u8]) -> u64), (", its epochs", epochs)] {
            let rates = measure(text, read);
            let median = rates[rates.len() / 2];
            println!(
                "{:<57} median {median:7.0} MB/s  ({:.0} to {:.0}, {ROUNDS} rounds)",
                format!("{}{reader}", text.name),
                rates[0],
                rates[rates.len() - 1],
            );
            let required = match reader {
                "" => text.required,
                _ => 100.0,
            };
            if median < required {
                missed.push(text.name);
            }
        }
    }
    for (name, bytes) in [
        ("words on every line", promising()),
        ("messages alone", messages()),
    ] {
        let text = Text {
            name,
            bytes,
            required: 0.0,
        };
        let rates = measure(&text, ooms);
        println!(
            "{name:<57} median {:7.0} MB/s  (no figure required)",
            rates[rates.len() / 2]
        );
    }
    let log = ordinary(5);
    let began = processor_time();
    let mut transcript = Transcript::new();
    transcript.feed(b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB.\n");
    log.chunks(CHUNK).for_each(|chunk| transcript.feed(chunk));
    black_box(transcript.finish());
    println!(
        "a transcript behind its first message: {:.0} MB/s",
        log.len() as f64 / 1e6 / (processor_time() - began).as_secs_f64()
    );
    if !missed.is_empty() {
        eprintln!("too slow: {}", missed.join("; "));
        std::process::exit(1);
    }
}

/// What this thread has used of a processor.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("Linux has this clock")
        .into()
}

/// The rates in MB/s, lowest first.
fn measure(text: &Text, read: fn(&[u8]) -> u64) -> Vec<f64> {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = processor_time();
            black_box(read(&text.bytes));
            let took = (processor_time() - began).as_secs_f64();
            text.bytes.len() as f64 / 1e6 / took
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates
}

fn ooms(bytes: &[u8]) -> u64 {
    let mut reports = 0;
    let mut scanner = Scanner::new();
    for chunk in bytes.chunks(CHUNK) {
        scanner.feed(black_box(chunk), &mut |_| reports += 1);
    }
    scanner.finish(&mut |_| reports += 1);
    reports
}

fn epochs(bytes: &[u8]) -> u64 {
    let mut found = 0;
    let (mut lines, mut count) = (epoch::EpochLines::default(), epoch::Count::default());
    for (at, chunk) in (0..).zip(bytes.chunks(CHUNK)) {
        lines.feed(black_box(chunk), &mut |told| {
            found += u64::from(count.take(told, Moment(at * 1_000)).is_some());
        });
    }
    found
}

/// What a training prints: losses, dates, warnings, paths; every `coloured`th line in colours.
fn ordinary(coloured: u32) -> Vec<u8> {
    let mut text = String::with_capacity(SIZE + 1024);
    let mut step = 0;
    while text.len() < SIZE {
        step += 1;
        let loss = 11.0 / (1.0 + f64::from(step) / 900.0);
        let open = if coloured > 0 && step % coloured == 0 {
            ("\x1b[32m", "\x1b[0m")
        } else {
            ("", "")
        };
        let _ = match step % 7 {
            0 => writeln!(
                text,
                "2026-03-14 09:26:{:02},{:03} {}INFO{} trainer.loop: step {step} loss {loss:.4} lr 3.0e-04 grad_norm {:.3}",
                step % 60,
                step % 1000,
                open.0,
                open.1,
                loss / 3.0
            ),
            1 => writeln!(
                text,
                "{}{{'loss': {loss:.4}, 'learning_rate': 2.9e-05, 'epoch': {:.2}}}{}",
                open.0,
                f64::from(step) / 4000.0,
                open.1
            ),
            2 => writeln!(
                text,
                "[rank{}]: data shard {step} of 90000 ready in {:.1} ms from /data/corpus/part-{step:05}.parquet",
                step % 8,
                loss * 3.0
            ),
            3 => writeln!(
                text,
                "{}epoch 3 | step {step:>7} | tokens/s {:>8} | memory 61.2 GiB | mfu 0.41{}",
                open.0,
                180_000 + step % 977,
                open.1
            ),
            4 => writeln!(
                text,
                "/opt/venv/lib/python3.12/site-packages/torch/utils/data/dataloader.py:{}: UserWarning: this loader will create more workers than suggested",
                step % 999
            ),
            5 => writeln!(
                text,
                "eval: accuracy {:.3}, perplexity {:.2}, saved checkpoint to runs/exp-17/step-{step}.pt",
                0.7,
                loss.exp()
            ),
            _ => writeln!(
                text,
                "The quick brown fox jumps over the lazy dog while the model memorises it, sample {step}"
            ),
        };
    }
    text.into_bytes()
}

fn bars() -> Vec<u8> {
    let mut text = String::with_capacity(SIZE + 1024);
    let mut at = 0_u32;
    while text.len() < SIZE {
        at += 1;
        let _ = write!(
            text,
            "\r {:3}%|{:<20}| {at}/900000 [01:17<06:47, {}.43it/s, loss={}.14]",
            at / 9000,
            "█".repeat((at / 45_000) as usize),
            at % 90,
            at % 11
        );
    }
    text.into_bytes()
}

fn escape_soup() -> Vec<u8> {
    let mut random = Random(7);
    let mut bytes = Vec::with_capacity(SIZE + 64);
    while bytes.len() < SIZE {
        let pieces: [&[u8]; 8] = [
            b"\x1b[31m",
            b"\x1b[",
            b"\x1b]8;;http://x\x1b\\",
            b"\x1b\x1b",
            b"\x1b[2K\x1b[1A",
            b"x",
            b"memory ",
            b"\n",
        ];
        bytes.extend_from_slice(pieces[random.next() as usize % pieces.len()]);
    }
    bytes
}

fn promising() -> Vec<u8> {
    repeat("worker 3: Killed  in action, out of memory it is not, exitcode unknown\n")
}

fn messages() -> Vec<u8> {
    let mut text = String::with_capacity(SIZE + 1024);
    let mut size = 0;
    while text.len() < SIZE / 8 {
        size += 1;
        let _ = writeln!(
            text,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}.50 MiB. GPU 3 has a total capacity of 47.25 GiB of which {}.75 MiB is free. Including non-PyTorch memory, this process has 46.50 GiB memory in use. Of the allocated memory 44.00 GiB is allocated by PyTorch, and 1.25 GiB is reserved by PyTorch but unallocated.",
            size % 700
        );
    }
    text.into_bytes()
}

fn random() -> Vec<u8> {
    let mut random = Random(11);
    (0..SIZE / 8)
        .flat_map(|_| random.next().to_le_bytes())
        .collect()
}

fn repeat(piece: &str) -> Vec<u8> {
    piece
        .as_bytes()
        .iter()
        .copied()
        .cycle()
        .take(SIZE)
        .collect()
}

/// xorshift64: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
