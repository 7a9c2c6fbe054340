//! A made trace with the shape of the public ones: conversations that come back with their whole history, and prompts that many
//! conversations begin with.

use super::trace::{Builder, Trace};
use crate::{Error, Result, Tokens};

/// Conversations that go on at one time.
const OPEN: u64 = 512;
/// Prompts that conversations begin with.
const BEGINNINGS: u64 = 64;
/// Blocks of a beginning.
const BEGINNING_BLOCKS: u64 = 4;
/// Of a hundred requests, those that begin a conversation.
const BEGIN_PERCENT: u64 = 45;
/// Requests a second.
const RATE: f64 = 6.5;

/// A conversation: its blocks so far and its tokens.
#[derive(Default)]
struct Conversation {
    blocks: Vec<u32>,
    tokens: u64,
}

impl Trace {
    /// So many requests with blocks of `block` tokens, the same for the same `seed`. Of a request's tokens about half were seen
    /// before, as in the public traces; prompts of 15 blocks and answers of 182 tokens are the mean.
    ///
    /// # Errors
    ///
    /// No requests, more blocks than can be numbered, or a block without tokens.
    pub fn synthetic(requests: u64, block: Tokens, seed: u64) -> Result<Self> {
        if requests == 0 {
            return Err(Error::setting("synthetic", "0 requests are no trace; give at least 1"));
        }
        let mut builder = Builder::new(block)?;
        let mut random = Random(seed);
        let mut next_block = 0_u32;
        let mut new_block = || {
            let block = next_block;
            next_block = next_block.checked_add(1).ok_or_else(|| Error::overflow("the number of blocks"))?;
            Ok::<u32, Error>(block)
        };
        let mut beginnings: Vec<Vec<u32>> = Vec::new();
        for _ in 0..BEGINNINGS {
            beginnings.push((0..BEGINNING_BLOCKS).map(|_| new_block()).collect::<Result<_>>()?);
        }
        let mut open: Vec<Conversation> = Vec::new();
        for index in 0..requests {
            let begins = open.is_empty() || random.below(100) < BEGIN_PERCENT;
            let place = if begins {
                let blocks = beginnings[small(random.below(BEGINNINGS))].clone();
                let tokens = blocks.len() as u64 * block.get();
                let conversation = Conversation { blocks, tokens };
                if (open.len() as u64) < OPEN {
                    open.push(conversation);
                    open.len() - 1
                } else {
                    let place = small(random.below(OPEN));
                    open[place] = conversation;
                    place
                }
            } else {
                small(random.below(open.len() as u64))
            };
            let conversation = &mut open[place];
            // What is new: mostly short, sometimes a document.
            let added = match random.below(4) {
                0 => block.get() * (8 + random.below(24)),
                _ => 1 + random.below(block.get().saturating_mul(3)),
            };
            conversation.tokens += added;
            while (conversation.blocks.len() as u64) < conversation.tokens / block.get() {
                conversation.blocks.push(new_block()?);
            }
            let answer = 1 + random.below(363);
            builder.add(index as f64 / RATE, conversation.tokens, answer, &conversation.blocks)?;
            conversation.tokens += answer;
        }
        Ok(builder.build())
    }
}

/// Numbers below a few hundred.
fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// `SplitMix64`: good enough to make traces, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}
