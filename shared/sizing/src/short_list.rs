/// Sorts a short list in place; equal items keep their order. `is_after` says whether the first belongs behind the second.
///
/// The standard library's stable sort is made for long lists, and weighs five kilobytes on the page for each type that
/// it sorts. Here the lists are a few dozen items, or longer and nearly in order.
pub fn sort_short<T>(list: &mut [T], is_after: impl Fn(&T, &T) -> bool) {
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && is_after(&list[at - 1], &list[at]) {
            list.swap(at - 1, at);
            at -= 1;
        }
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
}
