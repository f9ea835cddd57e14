//! What the model itself takes of the area of allocated memory, in the colours of the breakdown: parameters at the bottom, the
//! optimizer's state above them. What stays between steps above those is the program's own: a leak is seen as it grows.

use crate::state::{DeviceState, SeriesBucket, State};
use crate::ui::canvas::Canvas;
use crate::ui::chart::axis::Scale;
use crate::ui::theme::{Depth, Tone};
use crate::units::Bytes;

/// The upper edges of the parts, from below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModelParts {
    parameters: Bytes,
    with_state: Bytes,
}

impl ModelParts {
    /// Those of the last run, where an optimizer knows them.
    pub fn new(state: &State, device: &DeviceState) -> Option<ModelParts> {
        let ranks = state.run()?.ranks.iter();
        let here = ranks.filter_map(|rank| {
            let usage = rank.usage_on(&device.uuid)?;
            rank.structure_on(usage.sample.device)
        });
        let (mut parameters, mut with_state) = (Bytes::ZERO, Bytes::ZERO);
        for structure in here {
            parameters += structure.parameters;
            with_state += structure.parameters + structure.optimizer_state;
        }
        (with_state > Bytes::ZERO).then_some(ModelParts {
            parameters,
            with_state,
        })
    }
}

/// A cell of the area, in eighths from its lower edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModelCell {
    parameters: u32,
    with_state: u32,
    /// What stays between steps, and all of the area.
    least: u32,
    most: u32,
    /// Whether the cell below shows the model.
    is_above_model: bool,
}

impl ModelCell {
    /// The eighths of its lower part, that part's tone, and that of the rest; `None` where the cell is as it is drawn without the model.
    fn look(self) -> Option<(usize, Tone, Tone)> {
        let of_state = self.with_state - self.parameters;
        let larger = match of_state > self.parameters {
            true => Tone::OptimizerState,
            false => Tone::Parameters,
        };
        let above = match (self.least - self.with_state) * 2 >= self.most - self.with_state {
            true => Tone::Allocated,
            false => Tone::AllocatedBand,
        };
        match (self.parameters, self.with_state) {
            (_, 0) => None,
            (8, _) => Some((8, Tone::Parameters, Tone::Parameters)),
            (0, 8) => Some((8, Tone::OptimizerState, Tone::OptimizerState)),
            (edge, 8) => Some((edge as usize, Tone::Parameters, Tone::OptimizerState)),
            // A cell has two colours: where three meet, the area's upper edge would be lost, and the end of a model that is seen
            // in the cells below is left out where it is the smallest part.
            (_, edge)
                if self.most == 8
                    && self.is_above_model
                    && edge <= (self.least - edge).min(8 - self.least) =>
            {
                Some((self.least as usize, Tone::Allocated, Tone::AllocatedBand))
            }
            (_, edge) if self.most == 8 => Some((edge as usize, larger, above)),
            (_, _) => None,
        }
    }
}

/// Draws the model over the area, in the columns from one on.
pub(super) fn draw(
    canvas: &mut Canvas,
    scale: Scale,
    columns: &[Option<SeriesBucket>],
    from: u16,
    parts: ModelParts,
) {
    let theme = canvas.theme;
    if theme.depth == Depth::None {
        return;
    }
    let height = canvas.area.height;
    for (column, bucket) in (0..).zip(columns).skip(usize::from(from)) {
        let Some(bucket) = bucket else { continue };
        let up_to = |bytes: Bytes| match bytes {
            Bytes::ZERO => 0,
            bytes => scale.eighths(bytes),
        };
        let least = up_to(bucket.min);
        let edges = [
            up_to(parts.parameters.min(bucket.min)),
            up_to(parts.with_state.min(bucket.min)),
            least,
            up_to(bucket.max).max(least),
        ];
        for row in 0..height.min(scale.rows()) {
            let below = u32::from(row) * 8;
            if below >= edges[1] {
                break;
            }
            let [parameters, with_state, least, most] =
                edges.map(|edge| edge.saturating_sub(below).min(8));
            let of_model = ModelCell {
                parameters,
                with_state,
                least,
                most,
                is_above_model: below > 0,
            };
            let Some((eighths, lower, upper)) = of_model.look() else {
                continue;
            };
            let style = theme.style(lower).patch(theme.ground(upper));
            if let Some(cell) = canvas.cell(column, height - 1 - row) {
                cell.set_symbol(theme.glyphs.eighths[eighths])
                    .set_style(style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_its_two_largest_parts() {
        let look = |parameters, with_state, least, most| {
            ModelCell {
                parameters,
                with_state,
                least,
                most,
                is_above_model: false,
            }
            .look()
        };
        use Tone::{Allocated, AllocatedBand, OptimizerState, Parameters};
        assert_eq!(look(8, 8, 8, 8), Some((8, Parameters, Parameters)));
        assert_eq!(look(3, 8, 8, 8), Some((3, Parameters, OptimizerState)));
        assert_eq!(look(0, 5, 8, 8), Some((5, OptimizerState, Allocated)));
        assert_eq!(look(1, 4, 4, 8), Some((4, OptimizerState, AllocatedBand)));
        assert_eq!(look(0, 0, 8, 8), None, "nothing of the model");
        assert_eq!(look(1, 3, 3, 5), None, "the area's edge is shown");
    }

    #[test]
    fn what_is_left_between_steps_does_not_jump_by_a_cell() {
        use Tone::{Allocated, AllocatedBand, OptimizerState};
        let look = |least, is_above_model| {
            let cell = ModelCell {
                parameters: 0,
                with_state: 1,
                least,
                most: 8,
                is_above_model,
            };
            cell.look()
        };
        assert_eq!(look(4, true), Some((4, Allocated, AllocatedBand)));
        assert_eq!(look(5, true), Some((5, Allocated, AllocatedBand)));
        assert_eq!(look(8, true), Some((1, OptimizerState, Allocated)));
        // Here alone the model is seen.
        assert_eq!(look(4, false), Some((1, OptimizerState, AllocatedBand)));
    }
}
