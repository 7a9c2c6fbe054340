use super::{Counts, Layer};
use crate::bench::BenchError;
use crate::bench::cpu::gather::{PAGE_RECORDS, RecordAt};
use crate::bench::cpu::indexer;
use crate::bench::cpu::pool::Pool;
use crate::bench::cpu::records::Record;
use crate::bench::cpu::state::{Kind, PagedState, Run, StateShape};

/// What all layers of a case keep: each store in pages of its own, in random order.
pub(super) struct Stores {
    pub(super) entries: Option<RecordStore>,
    pub(super) window: Option<RecordStore>,
    pub(super) keys: Option<KeyStore>,
    /// One page a request: the compressor's ring of rows.
    pub(super) rows: Option<PagedState>,
}

/// Records, so many pages a request.
pub(super) struct RecordStore {
    pub(super) record: Record,
    pub(super) state: PagedState,
    pages_a_request: usize,
}

/// Index keys, so many pages a request.
pub(super) struct KeyStore {
    pub(super) dimensions: indexer::Dimensions,
    pub(super) state: PagedState,
    pub(super) pages_a_request: usize,
}

impl Stores {
    pub(super) fn new(
        layer: &Layer,
        counts: Counts,
        layers: usize,
        requests: usize,
        seed: u64,
        pool: &Pool,
    ) -> Result<Self, BenchError> {
        let records = |record: Record, count: usize, seed: u64| -> Result<Option<RecordStore>, BenchError> {
            let pages_a_request = count.div_ceil(PAGE_RECORDS);
            if count == 0 {
                return Ok(None);
            }
            let pages = pages_a_request * requests;
            let shape = StateShape { layers, pages, page_values: PAGE_RECORDS * record.bytes() / 2 };
            let state = PagedState::filled(shape, &record.runs(), seed, pool)?;
            Ok(Some(RecordStore { record, state, pages_a_request }))
        };
        let entries = match layer.entries {
            Some(entries) => records(entries.record, counts.entries, seed)?,
            None => None,
        };
        let window = match layer.window {
            Some(window) => records(window.record, counts.window, seed ^ 0x77)?,
            None => None,
        };
        let keys = match layer.index.filter(|_| counts.keys > 0) {
            Some(dimensions) => {
                let pages_a_request = counts.keys.div_ceil(PAGE_RECORDS);
                let pages = pages_a_request * requests;
                let shape = StateShape { layers, pages, page_values: dimensions.page_bytes() / 2 };
                let state = PagedState::filled(shape, &dimensions.page_runs(), seed ^ 0x1D, pool)?;
                Some(KeyStore { dimensions, state, pages_a_request })
            }
            None => None,
        };
        let rows = match layer.compressor {
            Some(compressor) => {
                let bytes = compressor.entries.rows() * compressor.row() * 4;
                let shape = StateShape { layers, pages: requests, page_values: bytes / 2 };
                let runs = [Run { bytes, kind: Kind::F32 }];
                Some(PagedState::filled(shape, &runs, seed ^ 0xC0, pool)?)
            }
            None => None,
        };
        Ok(Self { entries, window, keys, rows })
    }

    /// Bytes asked of the system.
    pub(super) fn bytes(&self) -> u64 {
        let records = [&self.entries, &self.window].into_iter().flatten().map(|store| store.state.bytes());
        let keys = self.keys.iter().map(|store| store.state.bytes());
        records.chain(keys).chain(self.rows.iter().map(PagedState::bytes)).sum()
    }
}

impl RecordStore {
    /// First byte of a request's record in a layer.
    pub(super) fn byte(&self, request: usize, index: usize) -> usize {
        let page = self.state.table()[request * self.pages_a_request + index / PAGE_RECORDS] as usize;
        (page * PAGE_RECORDS + index % PAGE_RECORDS) * self.record.bytes()
    }

    /// The same for the kernel, as record of store `store`.
    pub(super) fn at(&self, store: usize, request: usize, index: usize) -> RecordAt {
        RecordAt { store, byte: self.byte(request, index) }
    }

    /// Writes one record.
    pub(super) fn write(&mut self, layer: usize, request: usize, index: usize, row: &[f32]) {
        let (byte, record) = (self.byte(request, index), self.record);
        record.write(row, &mut self.state.layer_bytes_mut(layer)[byte..byte + record.bytes()]);
    }
}

impl KeyStore {
    /// A request's physical pages in the order of its keys.
    pub(super) fn pages(&self, request: usize) -> &[u32] {
        &self.state.table()[request * self.pages_a_request..(request + 1) * self.pages_a_request]
    }

    /// Writes one key.
    pub(super) fn write(&mut self, layer: usize, request: usize, index: usize, key: &[f32]) {
        let page = self.pages(request)[index / PAGE_RECORDS] as usize;
        let (dimensions, bytes) = (self.dimensions, self.dimensions.page_bytes());
        let page = &mut self.state.layer_bytes_mut(layer)[page * bytes..(page + 1) * bytes];
        indexer::write_key(dimensions, page, index % PAGE_RECORDS, key);
    }
}
