//! Who keeps GPU memory alive in a process: the program's variables and attributes, found by following
//! references in Python. Also the wire format of the probe.

use super::{GrowingLine, SourceLine};
use crate::units::{Bytes, Pid};
use serde::{Deserialize, Serialize};

/// The smallest share of what was looked for that makes a container the one to name.
const NOTABLE: f64 = 0.1;

/// What a search found. The probe searches when memory runs out, and when it is asked to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retainers {
    pub pid: Pid,
    /// The device's index in that process.
    pub device: u32,
    /// Completed optimizer steps of the process at that time.
    pub step: u64,
    /// The names found, the one that keeps the most first.
    pub retainers: Vec<Retainer>,
    /// Live memory that is no parameter, gradient or optimizer state.
    pub looked_for: Bytes,
    /// The part of it that none of these names keeps: autograd's own, libraries', or not searched.
    pub unexplained: Bytes,
    /// The lines whose live memory grew since it was first summed, where somebody asked for this search;
    /// an OOM's record has them itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub growing: Vec<GrowingLine>,
    /// How long it took, and the training waited.
    pub micros: u64,
    /// Why not everything was searched, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// Something in the program with a name that keeps memory alive. What two of them keep is counted for
/// the larger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retainer {
    /// `losses`, `state["losses"]`; empty if nothing in the program names it.
    pub name: String,
    pub kind: RetainerKind,
    /// The function, the module or the class that it belongs to.
    pub of: String,
    /// Its Python type: `list`.
    #[serde(rename = "type")]
    pub class: String,
    /// How many things are in it, if it is a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// The line at which it grows, or else where it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
    pub bytes: Bytes,
    /// The part of it that only autograd graphs keep: what was saved for a backward pass.
    pub graph: Bytes,
    /// What refers to it, from the nearest on: `Leak object`, `scenario in train.py:88 train`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<String>,
    /// What lies in it, down to a tensor: `list of 12`, `Tensor object`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetainerKind {
    /// A variable of a function that runs, of a generator, or of a closure.
    Local,
    /// A variable of a module.
    Global,
    /// An attribute of an object or a class.
    Attribute,
    /// Without a name.
    #[default]
    #[serde(other)]
    Other,
}

impl Retainers {
    /// The one to name where memory grows: the largest container, or else whatever keeps the most.
    pub fn main(&self) -> Option<&Retainer> {
        let is_notable = |found: &&Retainer| {
            let share = found.bytes.fraction_of(self.looked_for);
            found.length.is_some_and(|length| length > 1)
                && share.is_some_and(|share| share >= NOTABLE)
        };
        let containers = self.retainers.iter().filter(is_notable);
        let largest = |found: &&Retainer| found.bytes;
        containers
            .max_by_key(largest)
            .or_else(|| self.retainers.iter().max_by_key(largest))
    }
}

impl Retainer {
    /// `losses`, `Leak.history`.
    pub fn full_name(&self) -> String {
        match self.kind {
            RetainerKind::Attribute => format!("{}.{}", self.of, self.name),
            RetainerKind::Local | RetainerKind::Global => self.name.clone(),
            RetainerKind::Other => String::from("no name"),
        }
    }

    /// `list of 18`, `Tensor`.
    pub fn what(&self) -> String {
        match self.length {
            Some(length) => format!("{} of {length}", self.class),
            None => self.class.clone(),
        }
    }

    /// `scenarios.py:41 losses: list of 18`.
    pub fn words(&self) -> String {
        let place = self.line.as_ref().map(|line| line.place() + " ");
        let place = place.unwrap_or_default();
        format!("{place}{}: {}", self.full_name(), self.what())
    }

    /// `21.3 GiB, 21.2 GiB of it in autograd graphs`.
    pub fn kept(&self) -> String {
        match self.graph {
            Bytes::ZERO => self.bytes.to_string(),
            graph if graph == self.bytes => format!("{graph} in autograd graphs"),
            graph => format!("{}, {graph} of it in autograd graphs", self.bytes),
        }
    }

    /// From it up to what the program began with: `Leak object ← scenario in train.py:88 train`.
    pub fn levels(&self, arrow: &str) -> String {
        self.above.join(&format!(" {arrow} "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retainer(name: &str, length: Option<u64>, mib: u64) -> Retainer {
        Retainer {
            name: name.into(),
            kind: RetainerKind::Local,
            class: String::from(length.map_or("Tensor", |_| "list")),
            length,
            bytes: Bytes::mib(mib),
            ..Retainer::default()
        }
    }

    fn main_of(retainers: Vec<Retainer>) -> Option<String> {
        let found = Retainers {
            retainers,
            looked_for: Bytes::mib(1000),
            ..Retainers::default()
        };
        found.main().map(Retainer::words)
    }

    #[test]
    fn a_container_is_named_before_a_larger_tensor() {
        let tensor = || retainer("x", None, 600);
        assert_eq!(
            main_of(vec![tensor(), retainer("losses", Some(18), 300)]).as_deref(),
            Some("losses: list of 18")
        );
        assert_eq!(
            main_of(vec![tensor(), retainer("pair", Some(1), 300)]).as_deref(),
            Some("x: Tensor")
        );
        assert_eq!(
            main_of(vec![tensor(), retainer("masks", Some(12), 20)]).as_deref(),
            Some("x: Tensor")
        );
        assert_eq!(main_of(Vec::new()), None);
    }

    #[test]
    fn an_attribute_is_named_with_its_class() {
        let history = Retainer {
            kind: RetainerKind::Attribute,
            of: "Leak".into(),
            line: Some(SourceLine {
                file: "/home/ada/scenarios.py".into(),
                line: 66,
                function: "after_backward".into(),
            }),
            above: vec!["Leak object".into(), "scenario in train.py:88 train".into()],
            ..retainer("history", Some(18), 1)
        };
        assert_eq!(history.words(), "scenarios.py:66 Leak.history: list of 18");
        assert_eq!(
            history.levels("←"),
            "Leak object ← scenario in train.py:88 train"
        );
    }
}
