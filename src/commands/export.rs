//! `oomph export`: a recording for other programs.

use crate::live::{Ending, print};
use crate::query::recordings;
use crate::query::told::each_event;
use crate::report::export::{CsvExport, Export, TensorBoardExport, TraceExport};
use crate::state::State;
use crate::whole_file::{Readers, WholeFile};
use anyhow::{Context, bail};
use clap::Args;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What `oomph export` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// A table, one row per sample
    Csv,
    /// Event files in a directory, one per rank
    Tensorboard,
    /// JSON for Perfetto (ui.perfetto.dev) and chrome://tracing
    Trace,
}

#[derive(Debug, PartialEq, Args)]
pub(super) struct ExportCommand {
    /// The session, by its name or the start of it, or a recording [default: the latest]
    #[arg(value_name = "ID|FILE")]
    session: Option<OsString>,
    /// What to write
    #[arg(long, value_name = "FORMAT", value_enum)]
    to: ExportFormat,
    /// Where to: a file, or a directory for TensorBoard [default: standard output]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
}

/// Writes it to the file or directory, or to standard output.
///
/// # Errors
/// The recording could not be found or read, or the output not be written.
pub(super) fn run(options: &ExportCommand) -> anyhow::Result<Ending> {
    let path = recordings::find(options.session.as_deref())?;
    let output = options
        .output
        .as_deref()
        .filter(|path| *path != Path::new("-"));
    let files = Files::default();
    let mut exporter: Box<dyn Export + '_> = match (options.to, output) {
        (ExportFormat::Tensorboard, None) => {
            bail!("TensorBoard reads a directory; name one with -o DIR");
        }
        (ExportFormat::Tensorboard, Some(directory)) => {
            let create = |sub: &str, name: &str| -> io::Result<Box<dyn Write>> {
                let place = directory.join(sub);
                fs::create_dir_all(&place)?;
                Ok(Box::new(BufWriter::new(files.create(&place.join(name))?)))
            };
            Box::new(TensorBoardExport::new(Box::new(create)))
        }
        (ExportFormat::Csv, output) => Box::new(CsvExport::new(open(&files, output)?)),
        (ExportFormat::Trace, output) => Box::new(TraceExport::new(open(&files, output)?)),
    };
    let written = write(&path, exporter.as_mut());
    drop(exporter);
    if let Err(error) = written {
        let closed = error.downcast_ref::<io::Error>();
        // Who closed the pipe has read enough.
        if closed.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            return Ok(Ending::Code(0));
        }
        return Err(error);
    }
    if let Some(output) = output {
        let finished = files.finish();
        finished.with_context(|| format!("cannot write {}", output.display()))?;
        print::tell(&format!("wrote {}", output.display()));
    }
    Ok(Ending::Code(0))
}

fn write(path: &Path, exporter: &mut dyn Export) -> anyhow::Result<()> {
    let mut state = State::default();
    each_event(path, |event| {
        state.apply(&event);
        exporter.event(&state, &event)?;
        Ok(())
    })?;
    Ok(exporter.finish(&state)?)
}

/// The files that are being written, which get their names when all of them are complete.
#[derive(Default)]
struct Files(RefCell<Vec<Rc<RefCell<WholeFile>>>>);

impl Files {
    fn create(&self, path: &Path) -> io::Result<SharedFile> {
        let file = WholeFile::create(path, Readers::Umask)?;
        let file = Rc::new(RefCell::new(file));
        self.0.borrow_mut().push(Rc::clone(&file));
        Ok(SharedFile(file))
    }

    /// Nobody writes to them any more.
    fn finish(self) -> io::Result<()> {
        let files = self.0.into_inner().into_iter();
        let mut complete = files.filter_map(Rc::into_inner);
        complete.try_for_each(|file| file.into_inner().finish())
    }
}

struct SharedFile(Rc<RefCell<WholeFile>>);

impl Write for SharedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

fn open(files: &Files, output: Option<&Path>) -> anyhow::Result<Box<dyn Write>> {
    Ok(match output {
        Some(path) => {
            let file = files
                .create(path)
                .with_context(|| format!("cannot write {}", path.display()))?;
            Box::new(BufWriter::new(file))
        }
        None => Box::new(BufWriter::new(io::stdout())),
    })
}
