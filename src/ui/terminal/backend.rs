//! What ratatui draws on: crossterm's sequences into a buffer of our own, and answers to ratatui's
//! questions from what we know. Crossterm's own answers ask the terminal (2 s where it is silent)
//! or run `tput`.

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A frame's bytes, collected before they are sent.
#[derive(Clone, Default)]
pub struct Collected(Arc<Mutex<Vec<u8>>>);

impl Collected {
    /// Takes what was collected.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Collected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The back end.
pub struct Collector {
    inner: CrosstermBackend<Collected>,
    size: Size,
    cursor: Position,
}

impl Collector {
    /// For a terminal of this size; what is drawn is found in `collected`.
    pub fn new(collected: Collected, size: Size) -> Collector {
        Collector {
            inner: CrosstermBackend::new(collected),
            size,
            cursor: Position::ORIGIN,
        }
    }

    /// The terminal has another size.
    pub fn set_size(&mut self, size: Size) {
        self.size = size;
    }
}

impl Backend for Collector {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        self.inner.draw(content)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.inner.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.inner.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(self.cursor)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.cursor = position.into();
        self.inner.set_cursor_position(self.cursor)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.inner.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.inner.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize {
            columns_rows: self.size,
            pixels: Size::ZERO,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
