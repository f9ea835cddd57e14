//! Where somebody is in the flame graph: which part is selected, and which fills the width.

use crate::anatomy::FlameNode;
use crate::ui::action::FlameMove;

/// The selected part and the one that fills the width, by the names of what contains them: the cursor moves, and a part
/// that is no more is the nearest that contained it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::ui) struct FlamePlace {
    selected: Vec<String>,
    pub zoomed: Vec<String>,
}

/// The parts along a path, from the outside in, as far as they are there.
pub(super) fn along<'n>(mut nodes: &'n [FlameNode], path: &[String]) -> Vec<&'n FlameNode> {
    let mut found = Vec::new();
    for name in path {
        let Some(node) = nodes.iter().find(|node| node.name == *name) else {
            break;
        };
        found.push(node);
        nodes = &node.children;
    }
    found
}

pub(super) fn names(nodes: &[&FlameNode]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

/// From this share of the outermost part on, a part within it has nearly all of it.
const NEARLY_ALL: f64 = 0.9;

impl FlamePlace {
    /// The selected part with what contains it; the largest part where nothing is selected.
    pub fn selection<'n>(&self, nodes: &'n [FlameNode]) -> Vec<&'n FlameNode> {
        let found = along(nodes, &self.selected);
        match found.is_empty() {
            true => nodes.first().into_iter().collect(),
            false => found,
        }
    }

    pub fn select(&mut self, path: Vec<String>) {
        self.selected = path;
    }

    /// Where a move leads, if anywhere.
    fn after(&self, step: FlameMove, nodes: &[FlameNode]) -> Option<FlamePlace> {
        let selection = self.selection(nodes);
        let (selected, above) = selection.split_last()?;
        let zoomed = along(nodes, &self.zoomed);
        let beside = |by: isize| {
            let siblings = above.last().map_or(nodes, |parent| &parent.children);
            let at = siblings
                .iter()
                .position(|node| node.name == selected.name)?;
            let other = siblings.get(at.checked_add_signed(by)?)?;
            Some([names(above), vec![other.name.clone()]].concat())
        };
        let is_zoomed = selection.len() <= zoomed.len();
        let to = match step {
            // What fills the width has nothing beside it, and what contains it is not seen.
            FlameMove::Parent | FlameMove::Larger | FlameMove::Smaller if is_zoomed => None,
            FlameMove::Parent => (!above.is_empty()).then(|| names(above)),
            FlameMove::Child => {
                let mut path = selection.clone();
                path.push(selected.children.first()?);
                // From the outermost part it goes on to where memory is divided: a part with nearly all of it tells nothing new.
                while self.selected.is_empty()
                    && let Some(inner) = path.last()
                    && inner.bytes >= selected.bytes.scale(NEARLY_ALL)
                    && let Some(child) = inner.children.first()
                {
                    path.push(child);
                }
                Some(names(&path))
            }
            FlameMove::Larger => beside(-1),
            FlameMove::Smaller => beside(1),
            FlameMove::ZoomIn if is_zoomed => None,
            FlameMove::ZoomIn => {
                let zoomed = names(&selection);
                return Some(FlamePlace {
                    selected: zoomed.clone(),
                    zoomed,
                });
            }
            FlameMove::ZoomOut => {
                let (_, out) = zoomed.split_last()?;
                return Some(FlamePlace {
                    selected: names(&zoomed),
                    zoomed: names(out),
                });
            }
        };
        Some(FlamePlace {
            selected: to?,
            zoomed: names(&zoomed),
        })
    }

    pub(in crate::ui) fn can(&self, step: FlameMove, nodes: &[FlameNode]) -> bool {
        self.after(step, nodes).is_some()
    }

    pub(in crate::ui) fn go(&mut self, step: FlameMove, nodes: &[FlameNode]) {
        if let Some(place) = self.after(step, nodes) {
            *self = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anatomy::Category;
    use crate::units::Bytes;

    fn node(name: &str, mib: u64, children: Vec<FlameNode>) -> FlameNode {
        FlameNode {
            name: name.into(),
            bytes: Bytes(mib << 20),
            category: Category::Activations,
            children,
        }
    }

    fn tree() -> Vec<FlameNode> {
        let layers = vec![node("attn", 6, vec![]), node("mlp", 4, vec![])];
        vec![node("model", 10, layers), node("head", 2, vec![])]
    }

    fn moved(steps: &[FlameMove]) -> FlamePlace {
        let mut place = FlamePlace::default();
        for step in steps {
            place.go(*step, &tree());
        }
        place
    }

    #[test]
    fn a_part_is_selected_along_the_tree() {
        use FlameMove::{Child, Larger, Parent, Smaller};
        assert_eq!(names(&moved(&[]).selection(&tree())), ["model"]);
        assert_eq!(moved(&[Child, Smaller]).selected, ["model", "mlp"]);
        assert_eq!(moved(&[Child, Smaller, Smaller]).selected, ["model", "mlp"]);
        assert_eq!(moved(&[Child, Smaller, Larger]).selected, ["model", "attn"]);
        assert_eq!(moved(&[Child, Parent]).selected, ["model"]);
        assert_eq!(moved(&[Smaller]).selected, ["head"]);
        assert!(!moved(&[Smaller]).can(Child, &tree()));
    }

    #[test]
    fn the_first_way_in_leads_to_where_memory_is_divided() {
        let layers = vec![node("attn", 6, vec![]), node("mlp", 3, vec![])];
        let inner = vec![node("blocks", 95, layers)];
        let tree = vec![node("model", 100, inner)];
        let mut place = FlamePlace::default();
        place.go(FlameMove::Child, &tree);
        assert_eq!(place.selected, ["model", "blocks", "attn"]);
        place.go(FlameMove::Parent, &tree);
        assert_eq!(place.selected, ["model", "blocks"]);
    }

    #[test]
    fn zooming_leads_in_and_out_again() {
        use FlameMove::{Child, Parent, Smaller, ZoomIn, ZoomOut};
        let inside = moved(&[Child, ZoomIn]);
        assert_eq!(inside.zoomed, ["model", "attn"]);
        for step in [Parent, Smaller, Child, ZoomIn] {
            assert!(!inside.can(step, &tree()), "{step:?}");
        }
        let out = moved(&[Child, ZoomIn, ZoomOut]);
        assert_eq!((out.zoomed.len(), out.selected.len()), (1, 2));
        assert_eq!(moved(&[Child, ZoomIn, ZoomOut, ZoomOut]).zoomed, [""; 0]);
        assert!(!moved(&[]).can(ZoomOut, &tree()));
    }

    #[test]
    fn what_is_no_more_is_what_contained_it() {
        let place = moved(&[FlameMove::Child, FlameMove::Smaller]);
        let later = vec![node("model", 6, vec![node("attn", 6, vec![])])];
        assert_eq!(names(&place.selection(&later)), ["model"]);
        assert_eq!(names(&place.selection(&[])), [""; 0]);
    }
}
