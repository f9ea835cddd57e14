//! What is alive at one moment as a tree, for a flame graph: by module, each within the one that
//! contains it; or, if no module is known, by file, line and the library's line below it.

use super::modules::{by_module, path};
use super::{Category, StepAnatomy, by_line};
use crate::units::Bytes;
use std::cmp::Reverse;
use std::path::Path;

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
                None => vec!["outside of modules".into()],
            },
            category: holding.category,
            bytes: holding.bytes,
        };
        modules.into_iter().map(of_module).collect()
    };
    let all: Vec<&Leaf> = leaves.iter().collect();
    grown(&all, 0)
}

/// The nodes of these leaves, which have the same path up to `depth`.
fn grown(leaves: &[&Leaf], depth: usize) -> Vec<FlameNode> {
    let mut groups: Vec<(&str, Vec<&Leaf>)> = Vec::new();
    for leaf in leaves {
        let Some(name) = leaf.path.get(depth) else {
            continue;
        };
        match groups.iter_mut().find(|(of, _)| of == name) {
            Some((_, group)) => group.push(leaf),
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

fn most(leaves: &[&Leaf]) -> Category {
    let sum = |category: &Category| -> Bytes {
        let of = leaves.iter().filter(|leaf| leaf.category == *category);
        of.map(|leaf| leaf.bytes).sum()
    };
    let largest = Category::ALL.into_iter().max_by_key(sum);
    largest.unwrap_or(Category::Other)
}
