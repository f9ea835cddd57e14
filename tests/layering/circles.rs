//! Files that import each other in a circle. A name that a file hands on (`pub use child::Name`)
//! leads to the file that has it; a module and its own children are no circle.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

pub type Modules = BTreeMap<Vec<String>, Source>;

/// The imports that lie on circles or between them: `A imports B`.
pub fn circles(modules: &Modules) -> Vec<String> {
    let mut imports: BTreeSet<(&[String], &[String])> = BTreeSet::new();
    for (module, source) in modules {
        for path in source.paths.iter().filter(|path| !path.in_test) {
            let found = target(modules, &absolute(modules, module, &path.segments), 0);
            if let Some(found) = found
                && !found.starts_with(module)
                && !module.starts_with(found)
            {
                imports.insert((module, found));
            }
        }
    }
    // Whoever imports none of the rest, or is imported by none, is on no circle.
    loop {
        let from: BTreeSet<_> = imports.iter().map(|(from, _)| *from).collect();
        let to: BTreeSet<_> = imports.iter().map(|(_, to)| *to).collect();
        let before = imports.len();
        imports.retain(|(importer, imported)| to.contains(importer) && from.contains(imported));
        if imports.len() == before {
            break;
        }
    }
    let line = |(from, to): &(&[String], &[String])| {
        format!("src/{}.rs imports src/{}.rs", from.join("/"), to.join("/"))
    };
    imports.iter().map(line).collect()
}

/// A path's segments from the crate's root; those of another crate lead nowhere.
fn absolute(modules: &Modules, here: &[String], segments: &[String]) -> Vec<String> {
    match segments {
        [root, rest @ ..] if root == "crate" => rest.to_vec(),
        [child, ..] if modules.contains_key(&[here, std::slice::from_ref(child)].concat()) => {
            [here, segments].concat()
        }
        _ => Vec::new(),
    }
}

/// The file that a path leads to.
fn target<'m>(modules: &'m Modules, path: &[String], hops: u8) -> Option<&'m [String]> {
    let length = (1..=path.len()).rfind(|&length| modules.contains_key(&path[..length]))?;
    let (module, source) = modules.get_key_value(&path[..length])?;
    let Some(wanted) = path.get(length).filter(|_| hops < 6) else {
        return Some(module);
    };
    let handed = source.paths.iter().find(|handed| {
        handed.handed_on && handed.segments.last() == Some(wanted) && handed.segments != path
    });
    match handed.map(|handed| absolute(modules, module, &handed.segments)) {
        Some(next) if next != path && !next.is_empty() => target(
            modules,
            &[&next[..], &path[length + 1..]].concat(),
            hops + 1,
        ),
        _ => Some(module),
    }
}
