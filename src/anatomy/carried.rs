//! Which modules made what was there when a step began: modules are seen while a step is traced, so that of these blocks only the line
//! is known. A step makes and leaves the like of them, on the same lines and in modules that are seen.

use super::{Category, StepAnatomy, pattern};
use crate::event::SourceLine;
use std::collections::HashMap;

/// The program's line and the library's below it: one operation of the program.
type Operation<'a> = (&'a SourceLine, Option<&'a SourceLine>);

/// Gives them to those modules, evenly: as many are made in one as in another. By this step itself, or by another that was seen to its
/// end.
pub(super) fn take_modules(step: &mut StepAnatomy, whole: Option<&StepAnatomy>) {
    let made = match whole {
        Some(whole) => makers(whole),
        None => makers(step),
    };
    let made: HashMap<(SourceLine, Option<SourceLine>), Vec<String>> = made
        .into_iter()
        .map(|((line, inside), names)| {
            let names = names.into_iter().map(String::from).collect();
            ((line.clone(), inside.cloned()), names)
        })
        .collect();
    if made.is_empty() {
        return;
    }
    let of_origins: Vec<Option<&Vec<String>>> = step
        .origins
        .iter()
        .map(|origin| made.get(&(origin.line.clone()?, origin.inside.clone())))
        .collect();
    let mut places: HashMap<String, usize> = step.modules.iter().cloned().zip(0..).collect();
    let mut given = vec![0; of_origins.len()];
    for block in &mut step.blocks {
        let is_unseen = block.category == Category::Kept && block.module.is_none();
        let Some(origin) = block.origin.filter(|_| is_unseen) else {
            continue;
        };
        let Some(names) = of_origins[origin] else {
            continue;
        };
        let name = &names[given[origin] % names.len()];
        given[origin] += 1;
        block.module = Some(*places.entry(name.clone()).or_insert_with(|| {
            step.modules.push(name.clone());
            step.modules.len() - 1
        }));
    }
}

/// The modules in which each operation leaves blocks at the end of the step, or, where it leaves none, makes them. Only where those
/// modules are alike but for a number: else it is not known which of them it was.
fn makers(whole: &StepAnatomy) -> HashMap<Operation<'_>, Vec<&str>> {
    let mut made: HashMap<Operation<'_>, Vec<(&str, Category)>> = HashMap::new();
    for block in whole.blocks.iter().filter(|block| block.from > 0) {
        let origin = block.origin.map(|origin| &whole.origins[origin]);
        let line = origin.and_then(|origin| origin.line.as_ref());
        let (Some(origin), Some(line), Some(module)) = (origin, line, block.module) else {
            continue;
        };
        let of = made.entry((line, origin.inside.as_ref())).or_default();
        of.push((&whole.modules[module], block.category));
    }
    let names = made.into_iter().filter_map(|(operation, made)| {
        let leaves = made.iter().any(|(_, of)| *of == Category::Left);
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in made
            .into_iter()
            .filter(|(_, of)| !leaves || *of == Category::Left)
        {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let (alike, _) = pattern(names.first()?);
        let are_alike = names.iter().all(|name| pattern(name).0 == alike);
        are_alike.then_some((operation, names))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anatomy::{StepGrowth, by_module};
    use crate::event::{BlockOrigin, MemoryKind, Phase, PhaseStart, StepTrace};
    use crate::state::StepTraces;
    use crate::units::Bytes;

    const MIB: u64 = 1 << 20;

    /// A step with so many blocks of a MiB of earlier ones, which makes two more on that line in two layers, and one on another line.
    fn step(number: u64, kept: usize) -> StepTrace {
        let of = |line| BlockOrigin {
            line: Some(SourceLine {
                file: "/w/model.py".into(),
                line,
                function: "forward".into(),
            }),
            ..BlockOrigin::default()
        };
        let weights = BlockOrigin {
            kind: Some(MemoryKind::Parameters),
            ..of(7)
        };
        StepTrace {
            step: number,
            trace: format!(
                "{MIB}{} | {MIB} {MIB} {MIB} -1",
                format!(" {MIB}").repeat(kept)
            ),
            phases: vec![PhaseStart {
                phase: Phase::Forward,
                from: 0,
            }],
            origins: vec![of(32), of(40), weights],
            blocks: format!("3{} 1*2 2", " 1".repeat(kept)),
            modules: vec!["h.0".into(), "h.1".into()],
            block_modules: format!("0*{} 1 2 1", 1 + kept),
            ..StepTrace::default()
        }
    }

    fn kept(anatomy: &StepAnatomy) -> Vec<(Option<String>, Bytes)> {
        let held = by_module(anatomy, 0).into_iter();
        held.filter(|of| of.category == Category::Kept)
            .map(|of| (of.module, of.bytes))
            .collect()
    }

    #[test]
    fn what_earlier_steps_left_is_of_the_modules_that_this_one_leaves_it_in() {
        let anatomy = StepAnatomy::new(&step(18, 30)).expect("a step");
        let modules = Some(String::from("h.0–1"));
        assert_eq!(kept(&anatomy), [(modules.clone(), Bytes(30 * MIB))]);
        let mut traces = StepTraces::default();
        traces.keep(&step(3, 4));
        traces.keep(&step(18, 34));
        let grown = StepGrowth::new(&traces).expect("growth");
        assert_eq!(grown.modules[0].module, modules, "as growth has it");
    }

    #[test]
    fn a_step_that_ended_early_is_told_by_a_whole_one() {
        let failed = StepTrace {
            failed: true,
            trace: format!("{MIB} {MIB} | {MIB}"),
            blocks: "3 1 1".into(),
            block_modules: "0 0 1".into(),
            modules: vec!["h.0".into()],
            ..step(19, 0)
        };
        let alone = StepAnatomy::new(&failed).expect("a step");
        assert_eq!(kept(&alone), [(None, Bytes(MIB))]);
        let mut traces = StepTraces::default();
        traces.keep(&step(3, 4));
        let among = StepAnatomy::among(&failed, &traces).expect("a step");
        assert_eq!(kept(&among), [(Some("h.0".into()), Bytes(MIB))]);
        let more = StepTrace {
            trace: format!("{MIB} {MIB} {MIB} | {MIB}"),
            blocks: "3 1*2 1".into(),
            block_modules: "0*3 1".into(),
            ..failed
        };
        let among = StepAnatomy::among(&more, &traces).expect("a step");
        assert_eq!(kept(&among), [(Some("h.0–1".into()), Bytes(2 * MIB))]);
    }

    #[test]
    fn modules_that_are_not_alike_are_not_chosen_from() {
        let mixed = StepTrace {
            modules: vec!["h.0".into(), "head".into()],
            ..step(18, 30)
        };
        let anatomy = StepAnatomy::new(&mixed).expect("a step");
        assert_eq!(kept(&anatomy), [(None, Bytes(30 * MIB))]);
    }
}
