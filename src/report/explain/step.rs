//! What a traced step is made of at its peak, in plain words.

use crate::anatomy::{Holding, ModuleHolding, StepAnatomy, by_category, by_line, by_module};
use crate::state::SourceTexts;
use crate::units::Bytes;

/// Lines of the program, how many are listed.
const LISTED: usize = 5;

pub(super) fn lines(step: &StepAnatomy, source: &SourceTexts) -> Vec<String> {
    let peak = step.peak();
    let number = step.step;
    let phase = step.in_phase(peak);
    let end = match step.failed {
        true => ", which ran out of memory",
        false => "",
    };
    let peak_bytes = step.allocated[peak];
    let mut parts: Vec<(&str, Bytes)> = by_category(step, peak)
        .into_iter()
        .filter(|(_, bytes)| *bytes > Bytes::ZERO)
        .map(|(category, bytes)| (category.title(), bytes))
        .collect();
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(title, bytes)| format!("{title} {bytes}"))
        .collect();
    let mut lines = vec![
        format!("\nThe peak of step {number}{end}: {peak_bytes}{phase}:"),
        format!("  {}", parts.join(", ")),
    ];
    let holdings = by_line(step, peak);
    for holding in holdings.iter().take(LISTED) {
        lines.push(held(holding));
        let text = holding.line.as_ref().and_then(|line| source.of(line));
        lines.extend(text.map(|text| format!("      {text}")));
    }
    let modules = by_module(step, peak);
    lines.extend(modules.iter().take(LISTED).map(held_in));
    lines
}

/// `in transformer.h.0–11.mlp: 14.5 GiB, 12 × 1.21 GiB (activations)`.
fn held_in(holding: &ModuleHolding) -> String {
    let place = holding.module.as_deref();
    let place = place.map_or_else(|| "outside of modules".into(), |name| format!("in {name}"));
    let each = match holding.alike {
        0 | 1 => String::new(),
        n => format!(", {n} × {}", holding.bytes.scale(1.0 / n as f64)),
    };
    format!(
        "  {place}: {}{each} ({})",
        holding.bytes,
        holding.category.title()
    )
}

/// `model.py:58 attend → functional.py:5912 softmax: 7.31 GiB in 54 blocks (activations)`.
fn held(holding: &Holding) -> String {
    let inside = holding.inside.as_ref();
    let place = match &holding.line {
        Some(line) => line.path_to(inside, "→"),
        None => String::from("line not known"),
    };
    let blocks = match holding.blocks {
        1 => String::from("1 block"),
        n => format!("{n} blocks"),
    };
    let (bytes, category) = (holding.bytes, holding.category.title());
    format!("  {place}: {bytes} in {blocks} ({category})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BlockOrigin, LineText, Phase, PhaseStart, SourceLine, StepTrace};

    #[test]
    fn the_peak_is_named_with_its_categories_and_its_five_largest_lines() {
        let origin = |line: u32| BlockOrigin {
            line: Some(SourceLine {
                file: "/w/model.py".into(),
                line,
                function: "forward".into(),
            }),
            ..BlockOrigin::default()
        };
        let start = |phase, from| PhaseStart { phase, from };
        let trace = StepTrace {
            step: 3,
            failed: true,
            trace: "512 | 1024 2048 3072 4096 5120 -5".into(),
            phases: vec![start(Phase::Forward, 0)],
            origins: (1..=5).map(origin).collect(),
            blocks: "0 1 2 3 4 5".into(),
            ..StepTrace::default()
        };
        let step = StepAnatomy::of(&trace).expect("a step");
        let expected = [
            "\nThe peak of step 3, which ran out of memory: 15.5 KiB in forward:",
            "  activations 14.0 KiB, temporaries 1.0 KiB, other 512 B",
            "  model.py:5 forward: 5.0 KiB in 1 block (activations)",
            "  model.py:4 forward: 4.0 KiB in 1 block (activations)",
            "  model.py:3 forward: 3.0 KiB in 1 block (activations)",
            "  model.py:2 forward: 2.0 KiB in 1 block (activations)",
            "  model.py:1 forward: 1.0 KiB in 1 block (temporaries)",
        ];
        assert_eq!(lines(&step, &SourceTexts::default()), expected);
        let mut source = SourceTexts::default();
        source.keep(&[LineText {
            file: "/w/model.py".into(),
            line: 4,
            text: "return self.mlp(x)".into(),
        }]);
        let lines = lines(&step, &source);
        assert_eq!(lines.len(), expected.len() + 1);
        assert_eq!(lines[4], "      return self.mlp(x)", "below its line");
    }
}
