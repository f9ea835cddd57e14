//! Who holds the memory at one moment of the step, the largest first.

use super::{Category, StepAnatomy};
use crate::event::SourceLine;
use crate::units::Bytes;
use std::cmp::Reverse;
use std::collections::HashMap;

/// What one line holds of one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding<'a> {
    /// The program's line; `None` for blocks whose origin is not known.
    pub line: Option<&'a SourceLine>,
    /// The library's line below it that holds the most of it.
    pub inside: Option<&'a SourceLine>,
    pub category: Category,
    pub bytes: Bytes,
    pub blocks: usize,
}

/// The lines that hold memory at a position.
pub fn by_line(anatomy: &StepAnatomy, position: usize) -> Vec<Holding<'_>> {
    let mut found: HashMap<(Option<&SourceLine>, Category), Holding> = HashMap::new();
    let mut inside: HashMap<(Option<&SourceLine>, Category, &SourceLine), Bytes> = HashMap::new();
    for block in anatomy
        .blocks
        .iter()
        .filter(|block| block.is_alive(position))
    {
        let origin = block.origin.map(|origin| &anatomy.origins[origin]);
        let line = origin.and_then(|origin| origin.line.as_ref());
        let holding = found.entry((line, block.category)).or_insert(Holding {
            line,
            inside: None,
            category: block.category,
            bytes: Bytes::ZERO,
            blocks: 0,
        });
        holding.bytes += block.bytes;
        holding.blocks += 1;
        if let Some(below) = origin.and_then(|origin| origin.inside.as_ref()) {
            *inside
                .entry((line, block.category, below))
                .or_insert(Bytes::ZERO) += block.bytes;
        }
    }
    let mut most: HashMap<(Option<&SourceLine>, Category), (Bytes, &SourceLine)> = HashMap::new();
    for ((line, category, below), bytes) in inside {
        let of = most.entry((line, category)).or_insert((bytes, below));
        if (bytes, Reverse(below.line)) > (of.0, Reverse(of.1.line)) {
            *of = (bytes, below);
        }
    }
    let mut holdings: Vec<Holding> = found.into_values().collect();
    for holding in &mut holdings {
        let below = most.get(&(holding.line, holding.category));
        holding.inside = below.map(|(_, below)| *below);
    }
    let place = |line: Option<&SourceLine>| line.map(|line| (line.file.clone(), line.line));
    holdings.sort_by_cached_key(|holding| {
        (
            Reverse(holding.bytes),
            holding.category,
            place(holding.line),
        )
    });
    holdings
}

/// The bytes of each category at a position, in the order of [`Category::ALL`].
pub fn by_category(anatomy: &StepAnatomy, position: usize) -> [(Category, Bytes); 6] {
    Category::ALL.map(|category| {
        let of = anatomy
            .blocks
            .iter()
            .filter(|block| block.category == category && block.is_alive(position));
        (category, of.map(|block| block.bytes).sum())
    })
}
