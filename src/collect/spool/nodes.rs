//! The numbers of other nodes in this session, by which their processes are told apart.

use crate::units::Pid;
use serde::{Deserialize, Serialize};

/// The nodes by their numbers, in order of first sight: the first one is 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Nodes(Vec<String>);

impl Nodes {
    /// The number of a file's node; `None` if there are too many.
    pub(super) fn number(&mut self, stem: &str) -> Option<u32> {
        // RUN-NODE-PID
        let node = stem.split_once('-')?.1.rsplit_once('-')?.0;
        let place = self.0.iter().position(|known| known == node);
        let place = match place {
            Some(place) => place,
            None if self.0.len() >= Pid::MOST_NODES as usize => return None,
            None => {
                self.0.push(node.to_string());
                self.0.len() - 1
            }
        };
        Some(place as u32 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_as_they_come() {
        let mut nodes = Nodes::default();
        assert_eq!(nodes.number("1-gpu-07-4711"), Some(1));
        assert_eq!(nodes.number("1-gpu-08-4711"), Some(2));
        assert_eq!(nodes.number("2-gpu-07-5000"), Some(1));
        assert_eq!(nodes.number("nonsense"), None);
    }
}
