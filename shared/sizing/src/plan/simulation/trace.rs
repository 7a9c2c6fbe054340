//! Requests as a trace lists them.

use std::collections::HashMap;

use crate::record::read_record;
use crate::{Error, Result, Tokens, counted};

/// Requests in the order of their arrival, their blocks by number.
#[derive(Clone, Debug)]
pub struct Trace {
    requests: Vec<Request>,
    blocks: Vec<u32>,
    /// Blocks have numbers below this.
    numbers: u32,
    distinct: u32,
    block_tokens: Tokens,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// When it arrives, in seconds from the start of the trace.
    pub arrival_seconds: f64,
    /// Tokens of its prompt.
    pub input_tokens: u64,
    /// Tokens of its answer.
    pub output_tokens: u64,
    /// Its first block among those of all requests.
    first: usize,
    /// How many blocks it has.
    count: usize,
}

/// No arrival is later: thirty thousand years.
const LATEST_SECONDS: f64 = 1e12;

/// A line of a trace file.
struct Line {
    /// Milliseconds.
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

crate::record!(Line { timestamp, input_length, output_length, hash_ids });

impl Trace {
    /// Reads a file of JSON lines: `{"timestamp", "input_length", "output_length", "hash_ids"}`, in milliseconds and tokens, with
    /// a hash for each block of `block` tokens (the public Mooncake trace's shape, whose blocks have 512).
    ///
    /// # Errors
    ///
    /// The number of the first line that is none, with what is wrong there.
    pub fn read(text: &str, block: Tokens) -> Result<Self> {
        let mut builder = Builder::new(block)?;
        let mut numbers: HashMap<u64, u32> = HashMap::new();
        let mut ids = Vec::new();
        // The line that had each block last.
        let mut lines: Vec<usize> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let at = |what: String| Error::setting("trace", format!("line {}: {what}", index + 1));
            let line: Line = read_record(line).map_err(|error| at(error.to_string()))?;
            ids.clear();
            for hash in &line.hash_ids {
                let next =
                    u32::try_from(numbers.len()).map_err(|_| at("more than 2^32 blocks".to_owned()))?;
                let number = *numbers.entry(*hash).or_insert(next);
                lines.resize(numbers.len(), 0);
                if std::mem::replace(&mut lines[number as usize], index + 1) == index + 1 {
                    return Err(at(format!(
                        "hash_ids has {hash} twice; a block stands for all tokens up to its end"
                    )));
                }
                ids.push(number);
            }
            let seconds = line.timestamp / 1e3;
            if seconds > LATEST_SECONDS {
                return Err(at(format!(
                    "timestamp {:e} is later than any trace; give milliseconds",
                    line.timestamp
                )));
            }
            builder
                .add(seconds, line.input_length, line.output_length, &ids)
                .map_err(|error| at(error.what().to_owned()))?;
        }
        Ok(builder.build())
    }

    /// The same requests in blocks of other lengths.
    ///
    /// # Errors
    ///
    /// A request that has other blocks than its tokens have.
    pub fn in_blocks_of(self, block: Tokens) -> Result<Self> {
        let block = some_tokens(block)?;
        for request in &self.requests {
            fit(request.count, block, request.input_tokens)?;
        }
        Ok(Self { block_tokens: block, ..self })
    }

    /// The requests.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The blocks of one request, by number.
    pub fn blocks(&self, request: &Request) -> &[u32] {
        &self.blocks[request.first..request.first + request.count]
    }

    /// Blocks of all requests together.
    pub fn asked_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// How many different blocks there are.
    pub fn distinct_blocks(&self) -> u32 {
        self.distinct
    }

    /// What is above every block's number.
    pub(super) fn numbers(&self) -> u32 {
        self.numbers
    }

    /// Tokens of a block.
    pub fn block_tokens(&self) -> Tokens {
        self.block_tokens
    }

    /// The last arrival.
    pub fn seconds(&self) -> f64 {
        self.requests.last().map_or(0.0, |request| request.arrival_seconds)
    }
}

impl Request {
    /// Where its blocks begin among those of all requests.
    pub(super) fn first_block(&self) -> usize {
        self.first
    }
}

fn some_tokens(block: Tokens) -> Result<Tokens> {
    if block.get() == 0 {
        return Err(Error::setting("block", "a block of 0 tokens holds nothing; give at least 1"));
    }
    Ok(block)
}

/// Refuses more blocks than a prompt of `input` tokens has, and fewer than its whole ones: whatever has no block would be found
/// nowhere.
fn fit(count: usize, block: Tokens, input: u64) -> Result<()> {
    let (whole, begun) = (input / block.get(), input.div_ceil(block.get()));
    if (whole..=begun).contains(&(count as u64)) {
        return Ok(());
    }
    let (blocks, input) = (counted(count as u64, "block", "blocks"), Tokens::new(input).counted());
    let right = if whole == begun { whole.to_string() } else { format!("{whole} or {begun}") };
    let what = format!("{blocks} of {} are not those of {input}, which have {right}", block.counted());
    Err(Error::setting("trace", what))
}

/// A trace under construction.
pub(super) struct Builder {
    trace: Trace,
}

impl Builder {
    pub(super) fn new(block: Tokens) -> Result<Self> {
        let block_tokens = some_tokens(block)?;
        let trace = Trace { requests: Vec::new(), blocks: Vec::new(), numbers: 0, distinct: 0, block_tokens };
        Ok(Self { trace })
    }

    /// Adds a request whose blocks have these numbers; new ones rise by one.
    pub(super) fn add(&mut self, arrival: f64, input: u64, output: u64, blocks: &[u32]) -> Result<()> {
        let wrong = |what: String| Error::setting("trace", what);
        if !(arrival.is_finite() && arrival >= 0.0) {
            return Err(wrong(format!("{arrival} s is no time")));
        }
        if input == 0 || input > Tokens::MAX.get() || output > Tokens::MAX.get() {
            return Err(wrong(format!(
                "a prompt of {} and an answer of {} are no request",
                Tokens::new(input).counted(),
                Tokens::new(output).counted()
            )));
        }
        fit(blocks.len(), self.trace.block_tokens, input)?;
        let first = self.trace.blocks.len();
        self.trace.blocks.extend_from_slice(blocks);
        self.trace.numbers = blocks.iter().fold(self.trace.numbers, |most, block| most.max(block + 1));
        self.trace.requests.push(Request {
            arrival_seconds: arrival,
            input_tokens: input,
            output_tokens: output,
            first,
            count: blocks.len(),
        });
        Ok(())
    }

    pub(super) fn build(mut self) -> Trace {
        // Stable, so that requests of one moment stay in the order of the file.
        crate::sort_short(&mut self.trace.requests, |a, b| a.arrival_seconds > b.arrival_seconds);
        let mut is_new = vec![true; self.trace.numbers as usize];
        let count = |sum, block: &u32| sum + u32::from(std::mem::take(&mut is_new[*block as usize]));
        self.trace.distinct = self.trace.blocks.iter().fold(0, count);
        self.trace
    }
}
