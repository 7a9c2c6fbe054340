// Attention of many heads over records that all of them share, each of which is key and, in its first values, value: MLA
// absorbed, DSA, CSA, HCA, CSA2 and the window beside them. The records are split over blocks, and `combine` joins the parts;
// a window and its entries are two launches that write parts side by side.
//
//     output[h] = softmax(scale × q_h · row) row[.. value width]      over all records or those that an index chose
//
// Bound: tensor cores. A record is a few hundred bytes and `2 × heads × (width + value width)` FLOPs: with 128 heads 242 FLOPs a
// byte over bf16 latents (1,152 bytes) and 425 over 656-byte records, where an H100 has 295 a byte in bf16. A block reads a
// record for 64 heads (16 in the small variant); the next block of heads finds it in the second-level cache. With fewer
// than 64 heads memory bounds it.
//
// Tile: 32 records × 64 heads, eight warps, of which warp (m, n) holds the sums of heads 16m … 16m + 15 in columns
// 256n … 256n + 255: 128 registers. The small variant is 16 heads and four warps of 128 columns, for chips whose blocks have
// 99 KiB of shared memory (sm_86, 89, 120). Records lie in shared memory as bf16 rows, 16 bytes apart from a multiple of 128,
// so that neither `ldmatrix` nor 4-byte operands meet in a bank. Records of bf16 are copied there by `cp.async`, one tile ahead,
// into two buffers; packed ones are copied as they are and widened by all threads, while the next tile is on its way.
// Between the two products every warp needs all the weights of its heads: they pass through shared memory, rounded to
// 16 bits.
//
// A `wgmma` variant for Hopper would read both operands from shared memory and leave more registers; this one runs on every
// chip from sm_80 on and is limited by `mma.sync`, about 60 % of what wgmma reaches there.
//
// Records, 64 a page (widths 512, or 512 + 64 rotary):
//   bf16_latent    [576] bf16                                         scaled_latent  [512] e4m3, [4] f32, [64] bf16: 656 bytes
//   bf16_entry     [512] bf16                                         scaled_entry   [448] e4m3, [64] bf16 of all 64 records, then
//   mxfp8          [512] e4m3, [16] e8m0: 528 bytes                                  [8] e8m0 of each (7 used): 584 bytes
//   nvfp4          [256] two e2m1, [32] e4m3: 288 bytes
// All but scaled_latent are exact in bf16: a power of two, or four bits times two, fit its eight. The scales of scaled_latent
// have all bits of an f32, and bf16 would round each value by up to 2^-9; it is widened to f16 instead, to 2^-12, with
// queries and weights in f16 as well: latents and queries must lie within f16's range of 65,504.
//
// References: DeepSeek-V2, arXiv 2405.04434, section 2.1 (absorption); FlashMLA's README (formats); FlashAttention-2.

constexpr int PAGE_RECORDS = 64;
constexpr int TILE_ROWS = 32;
constexpr u32 NO_RECORD = 0xffffffffu;

struct RowsArguments {
    const u16* query;    // bf16 [request][heads][width]
    const u8* pages;     // of one layer
    const i32* table;    // [request][table_stride]: physical pages
    const i32* chosen;   // [request][chosen_stride]: records in the order of the table; null for all of them
    const i32* counts;   // [request]: records that are read
    float* parts;        // [request][heads][splits][value width + 2]
    i32 table_stride;
    i32 chosen_stride;
    i32 heads;
    i32 splits;          // of all launches that write parts
    i32 first_split;     // the first of this launch
    float factor;        // scale × log2 e
};

// The 16-bit numbers of both products.
struct InBf16 {
    DEVICE void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_bf16(c, a, b0, b1); }
    DEVICE u32 pack(float low, float high) { return pack_bf16(low, high); }
    DEVICE u32 from_bf16(u32 pair) { return pair; }
    // Weights count as they are multiplied, so that rounding them cancels in the mean.
    DEVICE float total_of(float, float, u32 packed) { return low_bf16(packed) + high_bf16(packed); }
};

struct InF16 {
    DEVICE void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_f16(c, a, b0, b1); }
    DEVICE u32 pack(float low, float high) { return pack_f16(low, high); }
    DEVICE u32 from_bf16(u32 pair) { return pack_f16(low_bf16(pair), high_bf16(pair)); }
    DEVICE float total_of(float low, float high, u32) { return low + high; }
};

// Eight bf16 numbers in the form of the products.
template <class Numbers>
DEVICE Words<4> eight_of(const Words<4>& pairs) {
    Words<4> result;
#pragma unroll
    for (int i = 0; i < 4; ++i) result.w[i] = Numbers::from_bf16(pairs.w[i]);
    return result;
}

DEVICE u64 page_of(u32 record) { return record / PAGE_RECORDS; }

// 16 codes of e4m3, each times `scale`.
template <class Numbers>
DEVICE void widen_e4m3(const u8* from, float scale, u16* to) {
    const Words<4> codes = *reinterpret_cast<const Words<4>*>(from);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Words<4> pairs;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 word = codes.w[2 * half + i / 2] >> i % 2 * 16;
            // Exponent and mantissa where an f32 has them: 2^-120 of the value, subnormal ones too.
            const float low = __uint_as_float((word & 0x80u) << 24 | (word & 0x7fu) << 20);
            const float high = __uint_as_float((word & 0x8000u) << 16 | (word & 0x7f00u) << 12);
            pairs.w[i] = Numbers::pack(low * 0x1p120f * scale, high * 0x1p120f * scale);
        }
        *reinterpret_cast<Words<4>*>(to + 8 * half) = pairs;
    }
}

DEVICE float from_e8m0(u8 code) { return __uint_as_float(static_cast<u32>(code) << 23); }

// Every record is copied in pieces, and widened in pieces of a 16-byte read each; a piece is what one thread does at a time.
struct Bf16Latent {
    typedef InBf16 Numbers;
    static constexpr int WIDTH = 576, VALUES = 512;
    static constexpr bool PACKED = false;
    static constexpr int COPIES = WIDTH / 8, RAW = 16;

    DEVICE void copy(const u8* pages, u32 record, int piece, u8* to) {
        copy_16(to + piece * 16, pages + static_cast<u64>(record) * (2 * WIDTH) + piece * 16);
    }
};

struct Bf16Entry {
    typedef InBf16 Numbers;
    static constexpr int WIDTH = 512, VALUES = 512;
    static constexpr bool PACKED = false;
    static constexpr int COPIES = WIDTH / 8, RAW = 16;

    DEVICE void copy(const u8* pages, u32 record, int piece, u8* to) {
        copy_16(to + piece * 16, pages + static_cast<u64>(record) * (2 * WIDTH) + piece * 16);
    }
};

struct ScaledLatent {
    typedef InF16 Numbers;
    static constexpr int WIDTH = 576, VALUES = 512;
    static constexpr bool PACKED = true;
    static constexpr int RAW = 656, COPIES = RAW / 16, PIECES = 512 / 16 + 8;

    DEVICE void copy(const u8* pages, u32 record, int piece, u8* to) {
        copy_16(to + piece * 16, pages + static_cast<u64>(record) * RAW + piece * 16);
    }

    DEVICE void widen(const u8* from, int piece, u16* to) {
        if (piece < 32) {
            widen_e4m3<Numbers>(from + piece * 16, reinterpret_cast<const float*>(from + 512)[piece / 8], to + piece * 16);
        } else {
            const int i = piece - 32;
            const Words<4> pairs = *reinterpret_cast<const Words<4>*>(from + 528 + i * 16);
            *reinterpret_cast<Words<4>*>(to + 512 + i * 8) = eight_of<Numbers>(pairs);
        }
    }
};

struct ScaledEntry {
    typedef InBf16 Numbers;
    static constexpr int WIDTH = 512, VALUES = 512;
    static constexpr bool PACKED = true;
    static constexpr int DATA = 576, RECORD = 584;
    // In shared memory a record is a multiple of 16.
    static constexpr int RAW = 592, COPIES = DATA / 16 + 1, PIECES = 448 / 16 + 8;

    DEVICE void copy(const u8* pages, u32 record, int piece, u8* to) {
        const u8* page = pages + page_of(record) * (PAGE_RECORDS * RECORD);
        const u32 place = record % PAGE_RECORDS;
        if (piece < DATA / 16) {
            copy_16(to + piece * 16, page + place * DATA + piece * 16);
        } else {
            copy_8(to + DATA, page + PAGE_RECORDS * DATA + place * 8);
        }
    }

    DEVICE void widen(const u8* from, int piece, u16* to) {
        if (piece < 28) {
            widen_e4m3<Numbers>(from + piece * 16, from_e8m0(from[DATA + piece / 4]), to + piece * 16);
        } else {
            const int i = piece - 28;
            *reinterpret_cast<Words<4>*>(to + 448 + i * 8) = *reinterpret_cast<const Words<4>*>(from + 448 + i * 16);
        }
    }
};

struct Mxfp8 {
    typedef InBf16 Numbers;
    static constexpr int WIDTH = 512, VALUES = 512;
    static constexpr bool PACKED = true;
    static constexpr int RAW = 528, COPIES = RAW / 16, PIECES = 512 / 16;

    DEVICE void copy(const u8* pages, u32 record, int piece, u8* to) {
        copy_16(to + piece * 16, pages + static_cast<u64>(record) * RAW + piece * 16);
    }

    DEVICE void widen(const u8* from, int piece, u16* to) {
        widen_e4m3<Numbers>(from + piece * 16, from_e8m0(from[512 + piece / 2]), to + piece * 16);
    }
};

struct Nvfp4 {
    typedef InBf16 Numbers;
    static constexpr int WIDTH = 512, VALUES = 512;
    static constexpr bool PACKED = true;
    static constexpr int RAW = 288, COPIES = RAW / 16, PIECES = 512 / 32;

    DEVICE void copy(const u8* pages, u32 record, int piece, u8* to) {
        copy_16(to + piece * 16, pages + static_cast<u64>(record) * RAW + piece * 16);
    }

    // 32 values with two scales.
    DEVICE void widen(const u8* from, int piece, u16* to) {
        const Words<4> codes = *reinterpret_cast<const Words<4>*>(from + piece * 16);
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            const u32 code = from[256 + 2 * piece + word / 2];
            const float scale = __uint_as_float((code & 0x80u) << 24 | (code & 0x7fu) << 20) * 0x1p120f;
            Words<4> pairs;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const u32 two = codes.w[word] >> 8 * i;
                // As above: 2^-126 of the value.
                const float low = __uint_as_float((two & 0x8u) << 28 | (two & 0x7u) << 22);
                const float high = __uint_as_float((two & 0x80u) << 24 | (two & 0x70u) << 18);
                pairs.w[i] = pack_bf16(low * 0x1p126f * scale, high * 0x1p126f * scale);
            }
            *reinterpret_cast<Words<4>*>(to + piece * 32 + word * 8) = pairs;
        }
    }
};

template <class Record, int M, int N>
struct Rows {
    typedef typename Record::Numbers Numbers;
    static constexpr int WARPS = M * N, THREADS = 32 * WARPS, HEADS = 16 * M;
    static constexpr int WIDTH = Record::WIDTH, VALUES = Record::VALUES;
    static constexpr int STRIDE = WIDTH + 8;
    static constexpr int WEIGHT_STRIDE = TILE_ROWS + 8;
    static constexpr int OWN_ROWS = TILE_ROWS / N;       // whose scores a warp computes
    static constexpr int OWN_COLUMNS = VALUES / N;       // whose sums it holds
    static constexpr int COLUMN_TILES = OWN_COLUMNS / 8;
    static constexpr int ROW_THREADS = THREADS / TILE_ROWS;
    static constexpr int BUFFERS = Record::PACKED ? 1 : 2;

    struct Shared {
        __align__(16) u16 query[HEADS][STRIDE];
        __align__(16) u16 rows[BUFFERS][TILE_ROWS][STRIDE];
        __align__(16) u8 raw[Record::PACKED ? TILE_ROWS : 1][Record::RAW];
        __align__(16) u16 weights[HEADS][WEIGHT_STRIDE];
        float across[N][HEADS];
    };

    float sums[COLUMN_TILES][4];
    // Of rows g and g + 8 of the warp's heads.
    float largest[2], total[2];

    DEVICE void clear_row(u16* row, int part) {
        for (int i = part; i < WIDTH / 8; i += ROW_THREADS) *reinterpret_cast<Words<4>*>(row + 8 * i) = Words<4>{};
    }

    // The record that a thread copies of a tile; NO_RECORD beyond the last. It is asked for a tile ahead: the copies cannot
    // start before it is known.
    DEVICE u32 record_of(const RowsArguments& a, i32 request, i32 tile, i32 count) {
        const i32 place = tile * TILE_ROWS + threadIdx.x / ROW_THREADS;
        if (place >= count) return NO_RECORD;
        const i32 logical = a.chosen ? a.chosen[static_cast<u64>(request) * a.chosen_stride + place] : place;
        const u32 page = a.table[static_cast<u64>(request) * a.table_stride + logical / PAGE_RECORDS];
        return page * PAGE_RECORDS + logical % PAGE_RECORDS;
    }

    // Starts the copies of a tile; `buffer` is where bf16 records go.
    DEVICE void start_tile(const RowsArguments& a, u32 record, int buffer, Shared& shared) {
        const int row = threadIdx.x / ROW_THREADS, part = threadIdx.x % ROW_THREADS;
        u8* to = Record::PACKED ? shared.raw[Record::PACKED ? row : 0] : reinterpret_cast<u8*>(shared.rows[buffer][row]);
        if (record != NO_RECORD) {
            for (int piece = part; piece < Record::COPIES; piece += ROW_THREADS) Record::copy(a.pages, record, piece, to);
        } else if constexpr (!Record::PACKED) {
            clear_row(shared.rows[buffer][row], part);
        }
        end_copy_group();
    }

    // Widens a tile; rows beyond the records become 0, since a weight of 0 would not cancel a NaN.
    DEVICE void widen_tile(i32 tile, i32 count, Shared& shared) {
        const int row = threadIdx.x / ROW_THREADS, part = threadIdx.x % ROW_THREADS;
        u16* to = shared.rows[0][row];
        if (tile * TILE_ROWS + row >= count) return clear_row(to, part);
        if constexpr (Record::PACKED) {
            for (int piece = part; piece < Record::PIECES; piece += ROW_THREADS) Record::widen(shared.raw[row], piece, to);
        }
    }

    // Base-2 scores of the warp's heads and rows: scores[n][i] is head g + 8 (i / 2), row 8n + 2t + i % 2.
    DEVICE void score(const Shared& shared, int buffer, int m, int n, float (&scores)[OWN_ROWS / 8][4]) {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const u16* query = &shared.query[16 * m + lane % 16][lane / 16 * 8];
#pragma unroll 4
        for (int step = 0; step < WIDTH / 16; ++step) {
            u32 q[4];
            ldmatrix(q, query + 16 * step);
#pragma unroll
            for (int i = 0; i < OWN_ROWS / 8; ++i) {
                const u16* row = &shared.rows[buffer][n * OWN_ROWS + 8 * i + g][16 * step + 2 * t];
                Numbers::mma(scores[i], q, *reinterpret_cast<const u32*>(row), *reinterpret_cast<const u32*>(row + 8));
            }
        }
    }

    METHOD void add_tile(Shared& shared, int buffer, i32 left, float factor) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
        const int m = warp % M, n = warp / M;
        float scores[OWN_ROWS / 8][4] = {};
        score(shared, buffer, m, n, scores);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float top = NO_SCORE;
#pragma unroll
            for (int i = 0; i < OWN_ROWS / 8; ++i) {
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    float& value = scores[i][2 * half + j];
                    value = n * OWN_ROWS + 8 * i + 2 * t + j < left ? value * factor : NO_TOKEN;
                    top = fmaxf(top, value);
                }
            }
            top = largest_of_lanes<4>(top);
            if (t == 0) shared.across[n][16 * m + g + 8 * half] = top;
        }
        __syncthreads();

#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int head = 16 * m + g + 8 * half;
            float top = largest[half];
#pragma unroll
            for (int i = 0; i < N; ++i) top = fmaxf(top, shared.across[i][head]);
            const float shrink = power_of_two(largest[half] - top);
            largest[half] = top;
            total[half] *= shrink;
#pragma unroll
            for (int i = 0; i < OWN_ROWS / 8; ++i) {
                const float low = power_of_two(scores[i][2 * half] - top), high = power_of_two(scores[i][2 * half + 1] - top);
                const u32 packed = Numbers::pack(low, high);
                total[half] += Numbers::total_of(low, high, packed);
                *reinterpret_cast<u32*>(&shared.weights[head][n * OWN_ROWS + 8 * i + 2 * t]) = packed;
            }
#pragma unroll
            for (int tile = 0; tile < COLUMN_TILES; ++tile) {
                sums[tile][2 * half] *= shrink;
                sums[tile][2 * half + 1] *= shrink;
            }
        }
        __syncthreads();

#pragma unroll
        for (int step = 0; step < TILE_ROWS / 16; ++step) {
            u32 weights[4];
            ldmatrix(weights, &shared.weights[16 * m + lane % 16][16 * step + lane / 16 * 8]);
            const u16* row = &shared.rows[buffer][16 * step + lane % 16][n * OWN_COLUMNS + lane / 16 * 8];
#pragma unroll
            for (int tile = 0; tile < COLUMN_TILES; tile += 2) {
                u32 values[4];
                ldmatrix_transposed(values, row + 8 * tile);
                Numbers::mma(sums[tile], weights, values[0], values[1]);
                Numbers::mma(sums[tile + 1], weights, values[2], values[3]);
            }
        }
    }

    METHOD void finish(const RowsArguments& a, i32 request, Shared& shared) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
        const int m = warp % M, n = warp / M;
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            total[half] = sum_of_lanes<4>(total[half]);
            if (t == 0) shared.across[n][16 * m + g + 8 * half] = total[half];
        }
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int within = 16 * m + g + 8 * half;
            const i32 head = blockIdx.y * HEADS + within;
            if (head >= a.heads) continue;
            const u64 part = (static_cast<u64>(request) * a.heads + head) * a.splits + a.first_split + blockIdx.x;
            float* to = a.parts + part * (VALUES + 2);
#pragma unroll
            for (int tile = 0; tile < COLUMN_TILES; ++tile) {
                const Words<2> two = {{__float_as_uint(sums[tile][2 * half]), __float_as_uint(sums[tile][2 * half + 1])}};
                *reinterpret_cast<Words<2>*>(to + n * OWN_COLUMNS + 8 * tile + 2 * t) = two;
            }
            if (n == 0 && t == 0) {
                float all = 0.f;
#pragma unroll
                for (int i = 0; i < N; ++i) all += shared.across[i][within];
                to[VALUES] = largest[half];
                to[VALUES + 1] = all;
            }
        }
    }

    // grid: (splits of this launch, heads / HEADS rounded up, requests)
    DEVICE void run(const RowsArguments& a, Shared& shared) {
        const i32 request = blockIdx.z, count = a.counts[request];
        const Share share = share_of(pieces_of(count, TILE_ROWS), blockIdx.x, gridDim.x);
        if (share.begin < share.end) start_tile(a, record_of(a, request, share.begin, count), 0, shared);
        u32 upcoming = record_of(a, request, share.begin + 1, count);
        for (int place = threadIdx.x; place < HEADS * (WIDTH / 8); place += THREADS) {
            const int within = place / (WIDTH / 8), d = place % (WIDTH / 8) * 8;
            const i32 head = blockIdx.y * HEADS + within;
            const u16* from = a.query + (static_cast<u64>(request) * a.heads + head) * WIDTH + d;
            *reinterpret_cast<Words<4>*>(&shared.query[within][d]) =
                head < a.heads ? eight_of<Numbers>(*reinterpret_cast<const Words<4>*>(from)) : Words<4>{};
        }

        Rows rows;
#pragma unroll
        for (int tile = 0; tile < COLUMN_TILES; ++tile) {
#pragma unroll
            for (int i = 0; i < 4; ++i) rows.sums[tile][i] = 0.f;
        }
        rows.largest[0] = rows.largest[1] = NO_SCORE;
        rows.total[0] = rows.total[1] = 0.f;

        int buffer = 0;
        for (i32 tile = share.begin; tile < share.end; ++tile) {
            wait_copies<0>();
            // The tile is there for all, and all have done with the one before.
            __syncthreads();
            if constexpr (Record::PACKED) {
                widen_tile(tile, count, shared);
                __syncthreads();
            }
            const int next = BUFFERS - 1 - buffer;
            if (tile + 1 < share.end) start_tile(a, upcoming, next, shared);
            upcoming = record_of(a, request, tile + 2, count);
            rows.add_tile(shared, buffer, count - tile * TILE_ROWS, a.factor);
            buffer = next;
        }
        rows.finish(a, request, shared);
    }
};

#define ROWS(name, Record, M, N)                          \
    KERNEL(32 * M * N, name, RowsArguments) {             \
        typedef Rows<Record, M, N> Tile;                  \
        DYNAMIC_SHARED(Tile::Shared, shared);             \
        Tile::run(a, shared);                             \
    }

#define ROWS_SIZES(record, Record)                        \
    ROWS(rows_##record##_64, Record, 4, 2)                \
    ROWS(rows_##record##_16, Record, 1, 4)

ROWS_SIZES(bf16_latent, Bf16Latent)
ROWS_SIZES(bf16_entry, Bf16Entry)
ROWS_SIZES(scaled_latent, ScaledLatent)
ROWS_SIZES(scaled_entry, ScaledEntry)
ROWS_SIZES(mxfp8, Mxfp8)
ROWS_SIZES(nvfp4, Nvfp4)
