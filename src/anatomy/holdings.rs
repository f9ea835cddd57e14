//! What holds memory in a step: by category, by line and by module, over time, and as a flame graph.

use super::{Category, KEPT, StepAnatomy, StepBlock};
use super::{by_module, path};
use crate::event::{Phase, SourceLine};
use crate::units::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// What one line holds of one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The program's line; `None` for blocks whose origin is not known.
    pub line: Option<SourceLine>,
    /// Where it is not: why most of it has none.
    pub without_line: Option<WithoutLine>,
    /// The library's line below it that holds the most of it.
    pub inside: Option<SourceLine>,
    pub category: Category,
    pub bytes: Bytes,
    pub blocks: usize,
}

/// Why no line of the program is known of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WithoutLine {
    /// Autograd made it in the backward pass: on its threads no line of Python runs.
    Backward,
    /// It was there when the step began, and no stack was recorded when it was made.
    FromBefore,
    Unseen,
}

impl WithoutLine {
    fn of(anatomy: &StepAnatomy, block: &StepBlock) -> WithoutLine {
        match (block.from, anatomy.phase(block.from)) {
            (0, _) => WithoutLine::FromBefore,
            (_, Phase::Backward) => WithoutLine::Backward,
            (_, _) => WithoutLine::Unseen,
        }
    }
}

/// The lines that hold memory at a position.
pub fn by_line(anatomy: &StepAnatomy, position: usize) -> Vec<Holding> {
    // Blocks are many, origins are few: texts are compared for these alone.
    let mut of_origins: HashMap<(Option<usize>, Category), (Bytes, usize)> = HashMap::new();
    let mut without_line: BTreeMap<(Category, WithoutLine), Bytes> = BTreeMap::new();
    for block in alive(anatomy, position) {
        let (bytes, blocks) = of_origins
            .entry((block.origin, block.category))
            .or_insert((Bytes::ZERO, 0));
        *bytes += block.bytes;
        *blocks += 1;
        let origin = block.origin.map(|origin| &anatomy.origins[origin]);
        if origin.and_then(|origin| origin.line.as_ref()).is_none() {
            let why = WithoutLine::of(anatomy, block);
            *without_line.entry((block.category, why)).or_default() += block.bytes;
        }
    }
    let why_of = |category: Category| {
        let of = without_line.iter().filter(|((of, _), _)| *of == category);
        of.max_by_key(|(_, bytes)| **bytes)
            .map(|((_, why), _)| *why)
    };
    let mut found: HashMap<(Option<&SourceLine>, Category), (Bytes, usize)> = HashMap::new();
    let mut most: HashMap<(Option<&SourceLine>, Category), (Bytes, &SourceLine)> = HashMap::new();
    let mut inside: HashMap<(Option<&SourceLine>, Category, &SourceLine), Bytes> = HashMap::new();
    for ((origin, category), (bytes, blocks)) in of_origins {
        let origin = origin.map(|origin| &anatomy.origins[origin]);
        let line = origin.and_then(|origin| origin.line.as_ref());
        let sum = found.entry((line, category)).or_insert((Bytes::ZERO, 0));
        *sum = (sum.0 + bytes, sum.1 + blocks);
        if let Some(below) = origin.and_then(|origin| origin.inside.as_ref()) {
            *inside.entry((line, category, below)).or_insert(Bytes::ZERO) += bytes;
        }
    }
    for ((line, category, below), bytes) in inside {
        let of = most.entry((line, category)).or_insert((bytes, below));
        if (bytes, Reverse(below.line)) > (of.0, Reverse(of.1.line)) {
            *of = (bytes, below);
        }
    }
    let mut holdings: Vec<Holding> = found
        .into_iter()
        .map(|((line, category), (bytes, blocks))| Holding {
            line: line.cloned(),
            without_line: why_of(category).filter(|_| line.is_none()),
            inside: most
                .get(&(line, category))
                .map(|(_, below)| (*below).clone()),
            category,
            bytes,
            blocks,
        })
        .collect();
    let place = |line: &SourceLine| (line.file.clone(), line.line);
    holdings.sort_by_cached_key(|holding| {
        (
            Reverse(holding.bytes),
            holding.category,
            holding.line.as_ref().map(place),
        )
    });
    holdings
}

/// The bytes of each category at a position, in the order of [`Category::ALL`].
pub fn by_category(
    anatomy: &StepAnatomy,
    position: usize,
) -> [(Category, Bytes); Category::ALL.len()] {
    let mut sums = Category::ALL.map(|category| (category, Bytes::ZERO));
    for block in alive(anatomy, position) {
        sums[block.category.place()].1 += block.bytes;
    }
    sums
}

/// The bytes of each category at every position of the step, to draw them all.
pub fn categories_over_time(anatomy: &StepAnatomy) -> Vec<[Bytes; Category::ALL.len()]> {
    let none = [Bytes::ZERO; Category::ALL.len()];
    let mut made = vec![none; anatomy.allocated.len()];
    let mut freed = made.clone();
    for block in &anatomy.blocks {
        let place = block.category.place();
        made[block.from][place] += block.bytes;
        if let Some(until) = block.until {
            freed[until][place] += block.bytes;
        }
    }
    let mut now = none;
    for (made, freed) in made.iter_mut().zip(freed) {
        for ((now, made), freed) in now.iter_mut().zip(made).zip(freed) {
            *now = *now + *made - freed;
            *made = *now;
        }
    }
    made
}

fn alive(anatomy: &StepAnatomy, position: usize) -> impl Iterator<Item = &StepBlock> {
    let blocks = anatomy.blocks.iter();
    blocks.filter(move |block| block.is_alive(position))
}

/// A part of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlameNode {
    pub name: String,
    pub bytes: Bytes,
    /// The category that most of it is.
    pub category: Category,
    /// The largest first.
    pub children: Vec<FlameNode>,
}

/// One holder: where it is, from the outside in.
struct Leaf {
    path: Vec<String>,
    category: Category,
    bytes: Bytes,
}

/// The trees of what is alive at a position, the largest first.
pub fn flame(anatomy: &StepAnatomy, position: usize) -> Vec<FlameNode> {
    let modules = by_module(anatomy, position);
    let leaves: Vec<Leaf> = if modules.is_empty() {
        let of_line = |holding: super::Holding| Leaf {
            path: match holding.line {
                None => vec!["line not known".into()],
                Some(line) => {
                    let file = Path::new(&line.file).file_name();
                    let file =
                        file.map_or(line.file.as_str().into(), |name| name.to_string_lossy());
                    let inside = holding.inside.map(|inside| inside.path_to(None, ""));
                    let own = format!("{} {}", line.line, line.function);
                    [file.into_owned(), own].into_iter().chain(inside).collect()
                }
            },
            category: holding.category,
            bytes: holding.bytes,
        };
        by_line(anatomy, position)
            .into_iter()
            .map(of_line)
            .collect()
    } else {
        let of_module = |holding: super::ModuleHolding| Leaf {
            path: match &holding.module {
                Some(name) => path(name),
                None => vec![not_in_a_module(holding.category).into()],
            },
            category: holding.category,
            bytes: holding.bytes,
        };
        modules.into_iter().map(of_module).collect()
    };
    let all: Vec<&Leaf> = leaves.iter().collect();
    grown(&all, 0)
}

/// What stands in the place of a module where none is known.
pub fn not_in_a_module(category: Category) -> &'static str {
    match category {
        Category::Kept => KEPT,
        Category::Parameters
        | Category::Frozen
        | Category::OptimizerState
        | Category::Gradients
        | Category::Left
        | Category::Activations
        | Category::Recomputed
        | Category::Temporaries
        | Category::Other => "outside of modules",
    }
}

/// The nodes of these leaves, which have the same path up to `depth`.
fn grown(leaves: &[&Leaf], depth: usize) -> Vec<FlameNode> {
    let mut groups: Vec<(&str, Vec<&Leaf>)> = Vec::new();
    for leaf in leaves {
        let Some(name) = leaf.path.get(depth) else {
            continue;
        };
        match groups.iter_mut().find(|(of, _)| is_same_part(of, name)) {
            Some((of, group)) => {
                // Memory ran out in the last of them, which has only some of their parts.
                if name.len() > of.len() || (name.len() == of.len() && name.as_str() > *of) {
                    *of = name;
                }
                group.push(leaf);
            }
            None => groups.push((name, vec![leaf])),
        }
    }
    let node = |(name, group): (&str, Vec<&Leaf>)| FlameNode {
        name: name.into(),
        bytes: group.iter().map(|leaf| leaf.bytes).sum(),
        category: most(&group),
        children: grown(&group, depth + 1),
    };
    let mut nodes: Vec<FlameNode> = groups.into_iter().map(node).collect();
    nodes.sort_by_key(|node| Reverse(node.bytes));
    nodes
}

/// Whether two names are of one part: also `blocks.0–20` and `blocks.0–19`, of which the one has a block more.
fn is_same_part(one: &str, other: &str) -> bool {
    let begin = |name: &str| name.find('–').map(|at| name[..at].to_string());
    one == other || begin(one).is_some_and(|of_one| begin(other) == Some(of_one))
}

fn most(leaves: &[&Leaf]) -> Category {
    let sum = |category: &Category| -> Bytes {
        let of = leaves.iter().filter(|leaf| leaf.category == *category);
        of.map(|leaf| leaf.bytes).sum()
    };
    let largest = Category::ALL.into_iter().max_by_key(sum);
    largest.unwrap_or(Category::Other)
}
