//! Finding equal items without comparing every pair: a config may have thousands of layers, each unlike the others.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// So many items are compared one by one, which is quicker than hashing them; most models have fewer.
const FEW: usize = 32;

/// Places of distinct items: those after the first few by the hash of what makes them equal.
#[derive(Debug, Default)]
pub(crate) struct Places {
    by_hash: HashMap<u64, Vec<usize>, BuildHasherDefault<DefaultHasher>>,
}

impl Places {
    /// The place of the item that `is_equal` to the one with these parts; else `new`, the count of items so far, is its place.
    pub(crate) fn find_or_add(
        &mut self,
        parts: impl Hash,
        new: usize,
        is_equal: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let known = (0..new.min(FEW)).find(|place| is_equal(*place));
        if known.is_some() || new < FEW {
            return known;
        }
        let hash = self.by_hash.hasher().hash_one(parts);
        let places = self.by_hash.entry(hash).or_default();
        let known = places.iter().copied().find(|place| is_equal(*place));
        if known.is_none() {
            places.push(new);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn distinct_items_are_not_compared_with_each_other() {
        let items: Vec<u64> = (0..10_000).chain(0..10_000).collect();
        let mut places = Places::default();
        let compared = Cell::new(0);
        for (place, item) in items.iter().enumerate() {
            let found = places.find_or_add(item, place.min(10_000), |other| {
                compared.set(compared.get() + 1);
                items[other] == *item
            });
            assert_eq!(found, (place >= 10_000).then(|| place - 10_000));
        }
        // The first few with all, each of the second half with its equal. By pairs it would be 150 million.
        let most = items.len() * (FEW + 1);
        assert!((10_000..most).contains(&compared.get()), "{}", compared.get());
    }
}
