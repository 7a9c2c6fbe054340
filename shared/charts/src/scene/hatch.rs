use super::{Point, Rect};

/// Distance between neighbouring hatch lines, across, in CSS pixels.
const SPACING: f64 = 4.5;

/// Rising diagonal lines that fill `rect`, cut at its edges. They line up between neighbouring rectangles.
pub fn hatch_lines(rect: Rect) -> impl Iterator<Item = (Point, Point)> {
    // A line is x + y = sum; it runs from the left or bottom edge up to the top or right edge.
    let first = ((rect.left + rect.top) / SPACING).ceil() * SPACING;
    let last = rect.right + rect.bottom;
    std::iter::successors(Some(first), |sum| Some(sum + SPACING)).take_while(move |sum| *sum < last).map(
        move |sum| {
            let low_x = rect.left.max(sum - rect.bottom);
            let high_x = rect.right.min(sum - rect.top);
            (Point::new(low_x, sum - low_x), Point::new(high_x, sum - high_x))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_inside_and_are_diagonal() {
        let rect = Rect::new(10.3, 20.7, 31.0, 29.2);
        let lines: Vec<_> = hatch_lines(rect).collect();
        // (31.0 + 29.2 − 10.3 − 20.7) / 4.5 = 6.5 spacings across the box.
        assert!((6..=7).contains(&lines.len()), "{}", lines.len());
        for (low, high) in lines {
            for point in [low, high] {
                assert!(point.x >= rect.left - 1e-9 && point.x <= rect.right + 1e-9, "{point:?}");
                assert!(point.y >= rect.top - 1e-9 && point.y <= rect.bottom + 1e-9, "{point:?}");
            }
            assert!(((high.x - low.x) - (low.y - high.y)).abs() < 1e-9);
        }
    }
}
