//! Attention of many heads over records that they share, wherever the records lie: whole pages in order (MLA), the tokens
//! that an indexer chose (DSA), a window and compressed entries of another format (CSA, HCA, CSA2).
//!
//! Tiles of 64 records are widened to f32 and handed to [`shared_rows`](super::shared_rows); the next tile's records are
//! asked for meanwhile. Every record is read once, whole.
#![allow(unsafe_code, reason = "records are read through pointers; places are checked on entry")]

use super::records::Record;
use super::rows::{Running, TILE_TOKENS};
use super::shared_rows::{Ahead, Dimensions, Scratch, attend_tile};
use super::simd::{InstructionSet, Simd, dispatch};

/// Records of a page.
pub(crate) const PAGE_RECORDS: usize = TILE_TOKENS;

/// Records of one layout in one layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store<'a> {
    pub(crate) record: Record,
    pub(crate) layer: &'a [u8],
}

/// The records to attend to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Records<'a> {
    /// Pages of the first store, in order, with so many records in all.
    Pages { pages: &'a [u32], count: usize },
    /// Records of any store.
    Chosen(&'a [RecordAt]),
}

/// Where one record is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RecordAt {
    /// Index of the store.
    pub(crate) store: usize,
    /// Its first byte in the layer.
    pub(crate) byte: usize,
}

/// One request's part of one layer for one worker.
pub(crate) struct Span<'a> {
    pub(crate) dimensions: Dimensions,
    /// One or two stores, with rows as wide as the dimensions say.
    pub(crate) stores: &'a [Store<'a>],
    pub(crate) records: Records<'a>,
    /// From [`pack_query`](super::shared_rows::pack_query).
    pub(crate) query: &'a [f32],
    /// [`Dimensions::scratch`] places.
    pub(crate) scratch: &'a mut [f32],
    /// `[heads]`
    pub(crate) running: &'a mut [Running],
    /// `[heads][value_width]`, not yet divided by the total.
    pub(crate) summed: &'a mut [f32],
}

impl Records<'_> {
    fn count(&self) -> usize {
        match self {
            Self::Pages { count, .. } => *count,
            Self::Chosen(records) => records.len(),
        }
    }

    #[inline(always)]
    fn at(&self, index: usize, page_bytes: usize, record_bytes: usize) -> RecordAt {
        match self {
            Self::Pages { pages, .. } => {
                let page = pages[index / PAGE_RECORDS] as usize;
                RecordAt { store: 0, byte: page * page_bytes + index % PAGE_RECORDS * record_bytes }
            }
            Self::Chosen(records) => records[index],
        }
    }
}

/// Computes the span's part of the attention.
pub(crate) fn attend(set: InstructionSet, span: Span<'_>) {
    let dims = span.dimensions;
    assert!(dims.width.is_multiple_of(16) && dims.value_width.is_multiple_of(16));
    assert!(dims.value_width <= dims.width && span.records.count() > 0);
    assert!(span.stores.iter().all(|store| store.record.is_whole() && store.record.width() == dims.width));
    let fits = |at: &RecordAt| {
        let store = span.stores.get(at.store);
        store.is_some_and(|store| at.byte + store.record.bytes() <= store.layer.len())
    };
    match span.records {
        Records::Pages { pages, count } => {
            let page_bytes = PAGE_RECORDS * span.stores[0].record.bytes();
            let held = span.stores[0].layer.len() / page_bytes;
            assert!(count.div_ceil(PAGE_RECORDS) == pages.len());
            assert!(pages.iter().all(|page| (*page as usize) < held));
        }
        Records::Chosen(records) => assert!(records.iter().all(fits)),
    }
    assert_eq!(span.query.len(), dims.heads * dims.width);
    assert!(span.running.len() == dims.heads && span.summed.len() == dims.heads * dims.value_width);
    dispatch!(set, body, span, Span<'_>);
}

#[inline(always)]
unsafe fn body<S: Simd>(span: Span<'_>) {
    let dims = span.dimensions;
    let scratch = Scratch::new(span.scratch, dims);
    let first_record = span.stores[0].record.bytes();
    let page_bytes = PAGE_RECORDS * first_record;
    span.running.fill(Running::EMPTY);
    span.summed.fill(0.0);
    let count = span.records.count();
    let mut next = [std::ptr::null(); TILE_TOKENS];
    let mut first = 0;
    while first < count {
        let rows = TILE_TOKENS.min(count - first);
        // SAFETY: `attend` checked that every record lies in its layer and that the slices have their lengths.
        unsafe {
            for row in 0..rows {
                let at = span.records.at(first + row, page_bytes, first_record);
                let store = &span.stores[at.store];
                store
                    .record
                    .read::<S>(store.layer.as_ptr().add(at.byte), scratch.rows.add(row * dims.stride()));
            }
            // Rows that only fill up the last vectors are scored too, and their scores not used.
            let padded = rows.next_multiple_of(2 * S::LANES);
            let rest = (padded - rows) * dims.stride();
            std::ptr::write_bytes(scratch.rows.add(rows * dims.stride()), 0, rest);

            let ahead = TILE_TOKENS.min(count - first - rows);
            let mut bytes = 0;
            for (row, next) in next[..ahead].iter_mut().enumerate() {
                let at = span.records.at(first + rows + row, page_bytes, first_record);
                let store = &span.stores[at.store];
                *next = store.layer.as_ptr().wrapping_add(at.byte);
                bytes = bytes.max(store.record.bytes());
            }
            let ahead = Ahead { pieces: &next[..ahead], bytes };
            let (running, summed) = (span.running.as_mut_ptr(), span.summed.as_mut_ptr());
            attend_tile::<S>(dims, scratch, rows, span.query.as_ptr(), ahead, running, summed);
        }
        first += rows;
    }
}
