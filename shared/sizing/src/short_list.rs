use std::cmp::Ordering;

/// Up to here insertion is quick enough, whatever the order.
const SHORT: usize = 128;

/// Sorts a list in place; equal items keep their order. `is_after` says whether the first belongs behind the second.
///
/// The standard library's stable sort is made for long lists, and weighs five kilobytes on the page for each type that
/// it sorts. Most lists here are a few dozen items; longer ones, which only a long input has, are sorted as places, which
/// are one type.
pub fn sort_short<T>(list: &mut [T], is_after: impl Fn(&T, &T) -> bool) {
    if list.len() > SHORT {
        let order = order(list.len(), &|a, b| is_after(&list[a], &list[b]));
        arrange(list, order);
        return;
    }
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && is_after(&list[at - 1], &list[at]) {
            list.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// The places of items in their order.
fn order(count: usize, is_after: &dyn Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| match (is_after(*a, *b), is_after(*b, *a)) {
        (true, _) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => Ordering::Equal,
    });
    places
}

/// Puts at every place the item of the place that `order` names, one cycle after the other.
fn arrange<T>(list: &mut [T], mut order: Vec<usize>) {
    for start in 0..list.len() {
        let mut at = start;
        while order[at] != start {
            let from = std::mem::replace(&mut order[at], at);
            list.swap(at, from);
            at = from;
        }
        order[at] = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_items_keep_their_order() {
        let mut list = [(3, 'a'), (1, 'b'), (3, 'c'), (0, 'd'), (1, 'e')];
        sort_short(&mut list, |a, b| a.0 > b.0);
        assert_eq!(list, [(0, 'd'), (1, 'b'), (1, 'e'), (3, 'a'), (3, 'c')]);
        sort_short(&mut [(); 0], |(), ()| true);
    }

    #[test]
    fn long_lists_come_out_as_the_standard_library_sorts_them() {
        // A full cycle of residues, so that no item is at its place; sevenths make equal ones.
        for count in [SHORT, SHORT + 1, 10_007] {
            let mut list: Vec<(usize, usize)> =
                (0..count).map(|index| (index * 5 % count / 7, index)).collect();
            let mut expected = list.clone();
            expected.sort_by_key(|item| item.0);
            sort_short(&mut list, |a, b| a.0 > b.0);
            assert_eq!(list, expected);
        }
    }
}
