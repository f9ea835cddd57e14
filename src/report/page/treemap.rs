//! Areas in proportion to sizes, as near to squares as they can be: Bruls, Huizing and van Wijk,
//! "Squarified Treemaps" (2000).

/// A rectangle in a unit square that is drawn [`ASPECT`] times as wide as high.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tile {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// How much wider than high it is drawn: the style sheet has the same.
const ASPECT: f64 = 3.2;

/// Tiles in the order of `sizes`, which is from the largest to the smallest.
pub(super) fn squarify(sizes: &[f64]) -> Vec<Tile> {
    let sum: f64 = sizes.iter().sum();
    if sum <= 0.0 {
        return Vec::new();
    }
    let areas: Vec<f64> = sizes.iter().map(|size| size / sum * ASPECT).collect();
    let mut free = Tile {
        left: 0.0,
        top: 0.0,
        width: ASPECT,
        height: 1.0,
    };
    let mut tiles = Vec::with_capacity(sizes.len());
    let mut begun = 0;
    while begun < areas.len() {
        let side = free.width.min(free.height);
        let mut end = begun + 1;
        while end < areas.len()
            && worst(&areas[begun..=end], side) <= worst(&areas[begun..end], side)
        {
            end += 1;
        }
        free = row(&areas[begun..end], free, &mut tiles);
        begun = end;
    }
    for tile in &mut tiles {
        tile.left /= ASPECT;
        tile.width /= ASPECT;
    }
    tiles
}

/// The least square of a row's tiles: how many times longer one side is than the other.
fn worst(areas: &[f64], side: f64) -> f64 {
    let sum: f64 = areas.iter().sum();
    let thickness = sum / side;
    let ratio = |area: &f64| {
        let length = area / thickness;
        (length / thickness).max(thickness / length)
    };
    areas.iter().map(ratio).fold(0.0, f64::max)
}

/// Puts a row along the shorter side, and returns what is free then.
fn row(areas: &[f64], free: Tile, tiles: &mut Vec<Tile>) -> Tile {
    let sum: f64 = areas.iter().sum();
    let upright = free.width >= free.height;
    let side = if upright { free.height } else { free.width };
    let thickness = if side > 0.0 { sum / side } else { 0.0 };
    let mut along = 0.0;
    for area in areas {
        let length = if thickness > 0.0 {
            area / thickness
        } else {
            0.0
        };
        tiles.push(match upright {
            true => Tile {
                left: free.left,
                top: free.top + along,
                width: thickness,
                height: length,
            },
            false => Tile {
                left: free.left + along,
                top: free.top,
                width: length,
                height: thickness,
            },
        });
        along += length;
    }
    match upright {
        true => Tile {
            left: free.left + thickness,
            width: (free.width - thickness).max(0.0),
            ..free
        },
        false => Tile {
            top: free.top + thickness,
            height: (free.height - thickness).max(0.0),
            ..free
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_in_proportion_and_lie_inside() {
        let sizes = [6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0];
        let tiles = squarify(&sizes);
        let sum: f64 = sizes.iter().sum();
        for (tile, size) in tiles.iter().zip(sizes) {
            assert!(
                (tile.width * tile.height - size / sum).abs() < 1e-9,
                "{tile:?}"
            );
            assert!(tile.left >= -1e-9 && tile.left + tile.width <= 1.0 + 1e-9);
            assert!(tile.top >= -1e-9 && tile.top + tile.height <= 1.0 + 1e-9);
            let ratio = tile.width * ASPECT / tile.height;
            assert!((0.2..5.0).contains(&ratio), "{tile:?}");
        }
        assert_eq!(squarify(&[]), []);
        assert_eq!(squarify(&[0.0]), []);
        assert_eq!(squarify(&[5.0]).len(), 1);
    }
}
