//! Lists of objects from the most to the least recently used, one a tier, over one array of links.

/// No object.
const NONE: u32 = u32::MAX;
/// In no tier.
pub(super) const NOWHERE: u8 = u8::MAX;

#[derive(Clone, Copy)]
struct Links {
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
}

pub(super) struct Lists {
    links: Vec<Links>,
    tier_of: Vec<u8>,
    ends: Vec<Ends>,
}

impl Lists {
    pub(super) fn new(objects: usize, tiers: usize) -> Self {
        Self {
            links: vec![Links { newer: NONE, older: NONE }; objects],
            tier_of: vec![NOWHERE; objects],
            ends: vec![Ends { newest: NONE, oldest: NONE }; tiers],
        }
    }

    /// Where an object lies.
    pub(super) fn tier(&self, object: u32) -> u8 {
        self.tier_of[object as usize]
    }

    pub(super) fn oldest(&self, tier: u8) -> Option<u32> {
        let oldest = self.ends[usize::from(tier)].oldest;
        (oldest != NONE).then_some(oldest)
    }

    /// Puts an object that lies nowhere at the front of a tier.
    pub(super) fn put(&mut self, object: u32, tier: u8) {
        let ends = &mut self.ends[usize::from(tier)];
        let second = ends.newest;
        self.links[object as usize] = Links { newer: NONE, older: second };
        ends.newest = object;
        if second == NONE {
            ends.oldest = object;
        } else {
            self.links[second as usize].newer = object;
        }
        self.tier_of[object as usize] = tier;
    }

    /// Takes an object out of the tier where it lies.
    pub(super) fn take(&mut self, object: u32) {
        let tier = self.tier_of[object as usize];
        let Links { newer, older } = self.links[object as usize];
        let ends = &mut self.ends[usize::from(tier)];
        if newer == NONE {
            ends.newest = older;
        } else {
            self.links[newer as usize].older = older;
        }
        if older == NONE {
            ends.oldest = newer;
        } else {
            self.links[older as usize].newer = newer;
        }
        self.tier_of[object as usize] = NOWHERE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_the_one_that_was_put_first() {
        let mut lists = Lists::new(4, 2);
        for object in [0, 1, 2] {
            lists.put(object, 0);
        }
        lists.put(3, 1);
        assert_eq!((lists.oldest(0), lists.oldest(1)), (Some(0), Some(3)));
        lists.take(0);
        lists.put(0, 0);
        assert_eq!(lists.oldest(0), Some(1));
        lists.take(2);
        lists.take(1);
        assert_eq!((lists.oldest(0), lists.tier(1), lists.tier(0)), (Some(0), NOWHERE, 0));
        lists.take(0);
        assert_eq!(lists.oldest(0), None);
    }
}
