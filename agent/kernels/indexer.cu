// The indexer of sparse attention: one score for every key of a request (DSA, CSA, CSA2).
//
//     score_s = Σ_h weight_h × max(0, q_h · k_s)       over up to 64 index heads, which share the keys
//
// Bound: a key is 132 bytes (fp8), 68 (fp4) or 256 (bf16), read once, and `2 × heads × 128` FLOPs: 124 FLOPs a byte for 64 heads
// over fp8, 241 over fp4. Memory bounds it on an H100 (295 FLOPs a byte in f16), tensor cores on an A100 over fp4 (156).
// Heads are padded to a multiple of 16.
//
// Tile: a warp takes 32 keys, a block of four warps 128. Keys go straight from memory into the registers that `mma` wants, in
// 16-byte loads, and are widened there once for all heads; queries lie in shared memory in operand order, 16 bytes a lane.
// As in `gqa.cu`, the sum over dimensions may run in any order that key and query share. Scores are summed over heads in
// registers, then over 8 lanes.
//
// Both narrow formats are exact in f16 (an e4m3 is 2^-8 of its value there, an e2m1 2^-14), so are their products in f32.
// A scale stands for a block of dimensions that ends with a step: sums of a block are multiplied with it, not the keys. The
// Hadamard rotation before quantisation changes neither bytes nor scores and is left out.
//
// Page of 64 keys of 128 values:
//   fp8   values [64][128], scales [64] in f32
//   fp4   values [64][64 bytes], scales [64][4] in e8m0; of a key, byte `16t + 4b + i` holds dimensions `32b + 8t + 2i` (low
//         half) and the next, so that the four lanes of a key read 16 bytes each and have the same block in each word
//   bf16  values [64][128]
//
// Reference: DeepSeek-V3.2, arXiv 2512.02556.

constexpr int INDEX_WIDTH = 128;
constexpr int INDEX_STEPS = INDEX_WIDTH / 16;
constexpr int MOST_INDEX_HEADS = 64;
constexpr int PAGE_KEYS = 64;
constexpr int WARP_KEYS = 32;
constexpr int INDEX_THREADS = 128;

struct IndexArguments {
    const u16* query;      // bf16 [request][heads][128], of values that the keys' format has too
    const float* weights;  // [request][heads]
    const u8* pages;       // of one layer
    const i32* table;      // [request][table_stride]
    const i32* counts;     // [request]: keys
    float* scores;         // [request][score_stride]
    i32 table_stride;
    i32 score_stride;
    i32 heads;             // at most 64
};

struct IndexShared {
    Words<4> query[MOST_INDEX_HEADS / 16][INDEX_STEPS][32];
    float weights[MOST_INDEX_HEADS];
};

struct Fp8Key {
    static constexpr int ROW = 128;
    static constexpr int LOADS = 2;
    static constexpr int SCALES = 1;
    static constexpr float WIDEN = 256.f;

    DEVICE void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_f16(c, a, b0, b1); }
    DEVICE u32 query(u32 pair) { return pack_f16(low_bf16(pair), high_bf16(pair)); }
    // First of the four dimensions that lane t has in a step.
    DEVICE int dimension(int step, int t) { return step / 4 * 64 + t * 16 + step % 4 * 4; }
    DEVICE u32 widen(u32 two) { return (two & 0x80008000u) | (two >> 1 & 0x3f803f80u); }

    DEVICE void key(const Words<4> (&row)[LOADS], int step, u32& b0, u32& b1) {
        const u32 word = row[step / 4].w[step % 4];
        b0 = widen(__byte_perm(word, 0, 0x1100));
        b1 = widen(__byte_perm(word, 0, 0x3322));
    }

    DEVICE float scale(const u8* page, int key, int) {
        return reinterpret_cast<const float*>(page + PAGE_KEYS * ROW)[key] * WIDEN;
    }
};

struct Fp4Key {
    static constexpr int ROW = 64;
    static constexpr int LOADS = 1;
    static constexpr int SCALES = 4;
    static constexpr float WIDEN = 16384.f;

    DEVICE void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_f16(c, a, b0, b1); }
    DEVICE u32 query(u32 pair) { return pack_f16(low_bf16(pair), high_bf16(pair)); }
    DEVICE int dimension(int step, int t) { return step / 2 * 32 + t * 8 + step % 2 * 4; }

    // Two codes at the bottom of a word.
    DEVICE u32 widen(u32 codes) {
        const u32 two = (codes & 0xfu) << 12 | (codes & 0xf0u) << 24;
        return (two & 0x80008000u) | (two & 0x70007000u) >> 3;
    }

    DEVICE void key(const Words<4> (&row)[LOADS], int step, u32& b0, u32& b1) {
        const u32 word = row[0].w[step / 2] >> step % 2 * 16;
        b0 = widen(word);
        b1 = widen(word >> 8);
    }

    DEVICE float scale(const u8* page, int key, int block) {
        return __uint_as_float(static_cast<u32>(page[PAGE_KEYS * ROW + key * SCALES + block]) << 23) * WIDEN;
    }
};

struct Bf16Key {
    static constexpr int ROW = 256;
    static constexpr int LOADS = 4;
    static constexpr int SCALES = 0;

    DEVICE void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_bf16(c, a, b0, b1); }
    DEVICE u32 query(u32 pair) { return pair; }
    DEVICE int dimension(int step, int t) { return step / 2 * 32 + t * 8 + step % 2 * 4; }

    DEVICE void key(const Words<4> (&row)[LOADS], int step, u32& b0, u32& b1) {
        b0 = row[step / 2].w[step % 2 * 2];
        b1 = row[step / 2].w[step % 2 * 2 + 1];
    }

    DEVICE float scale(const u8*, int, int) { return 1.f; }
};

template <class Key>
DEVICE void lay_out_index_query(const IndexArguments& a, i32 request, IndexShared& shared) {
    const i32 tiles = pieces_of(a.heads, 16);
    for (i32 place = threadIdx.x; place < tiles * INDEX_STEPS * 32; place += INDEX_THREADS) {
        const int lane = place % 32, step = place / 32 % INDEX_STEPS, tile = place / 32 / INDEX_STEPS;
        Words<4> words = {};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const i32 head = tile * 16 + lane / 4 + 8 * half;
            if (head >= a.heads) continue;
            const u16* from = a.query + (static_cast<u64>(request) * a.heads + head) * INDEX_WIDTH;
            const Words<2> pairs = *reinterpret_cast<const Words<2>*>(from + Key::dimension(step, lane % 4));
            words.w[half] = Key::query(pairs.w[0]);
            words.w[half + 2] = Key::query(pairs.w[1]);
        }
        shared.query[tile][step][lane] = words;
    }
    for (i32 head = threadIdx.x; head < MOST_INDEX_HEADS; head += INDEX_THREADS) {
        shared.weights[head] = head < a.heads ? a.weights[static_cast<u64>(request) * a.heads + head] : 0.f;
    }
}

// The scores of the warp's keys from `first` on.
template <class Key>
DEVICE void score_keys(const IndexArguments& a, i32 request, i32 first, i32 count, const IndexShared& shared) {
    constexpr int TILES = WARP_KEYS / 8;
    constexpr int PAGE_BYTES = PAGE_KEYS * (Key::ROW + (Key::SCALES == 1 ? 4 : Key::SCALES));
    constexpr int BLOCKS = Key::SCALES == 0 ? 1 : Key::SCALES;
    constexpr int BLOCK_STEPS = INDEX_STEPS / BLOCKS;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u64 number = a.table[static_cast<u64>(request) * a.table_stride + first / PAGE_KEYS];
    const u8* page = a.pages + number * PAGE_BYTES;
    Words<4> rows[TILES][Key::LOADS];
#pragma unroll
    for (int n = 0; n < TILES; ++n) {
        const u8* row = page + (first % PAGE_KEYS + 8 * n + g) * Key::ROW + t * 16;
#pragma unroll
        for (int i = 0; i < Key::LOADS; ++i) rows[n][i] = read_words<4>(row + i * 64);
    }
    u32 keys[TILES][INDEX_STEPS][2];
    float scales[TILES][BLOCKS][2];
#pragma unroll
    for (int n = 0; n < TILES; ++n) {
#pragma unroll
        for (int step = 0; step < INDEX_STEPS; ++step) Key::key(rows[n], step, keys[n][step][0], keys[n][step][1]);
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            const int key = first % PAGE_KEYS + 8 * n + 2 * t;
            scales[n][block][0] = Key::scale(page, key, block);
            scales[n][block][1] = Key::scale(page, key + 1, block);
        }
    }

    float scores[TILES][2] = {};
    const i32 head_tiles = pieces_of(a.heads, 16);
    for (i32 tile = 0; tile < head_tiles; ++tile) {
        float sums[TILES][4] = {};
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            float products[TILES][4] = {};
#pragma unroll
            for (int within = 0; within < BLOCK_STEPS; ++within) {
                const int step = block * BLOCK_STEPS + within;
                const Words<4> words = shared.query[tile][step][lane];
                const u32 q[4] = {words.w[0], words.w[1], words.w[2], words.w[3]};
#pragma unroll
                for (int n = 0; n < TILES; ++n) Key::mma(products[n], q, keys[n][step][0], keys[n][step][1]);
            }
#pragma unroll
            for (int n = 0; n < TILES; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[n][i] += products[n][i] * scales[n][block][i % 2];
            }
        }
        const float upper = shared.weights[tile * 16 + g], lower = shared.weights[tile * 16 + g + 8];
#pragma unroll
        for (int n = 0; n < TILES; ++n) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                scores[n][i] += upper * fmaxf(sums[n][i], 0.f) + lower * fmaxf(sums[n][i + 2], 0.f);
            }
        }
    }

    float* to = a.scores + static_cast<u64>(request) * a.score_stride;
#pragma unroll
    for (int n = 0; n < TILES; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float score = scores[n][i];
            // Over the heads, which are g of the lane.
#pragma unroll
            for (int step = 4; step < 32; step *= 2) score += __shfl_xor_sync(ALL_LANES, score, step);
            const i32 key = first + 8 * n + 2 * t + i;
            if (g == 0 && key < count) to[key] = score;
        }
    }
}

// grid: (as many blocks as take turns at the keys, requests). The more keys a block takes, the less laying out the query costs.
template <class Key>
DEVICE void index_scores(const IndexArguments& a, IndexShared& shared) {
    const i32 request = blockIdx.y, count = a.counts[request];
    lay_out_index_query<Key>(a, request, shared);
    __syncthreads();
    const i32 own = (blockIdx.x * (INDEX_THREADS / 32) + threadIdx.x / 32) * WARP_KEYS;
    for (i32 first = own; first < count; first += gridDim.x * (INDEX_THREADS / 32) * WARP_KEYS) {
        score_keys<Key>(a, request, first, count, shared);
    }
}

#define INDEXER(name, Key)                              \
    KERNEL(INDEX_THREADS, name, IndexArguments) {       \
        SHARED(IndexShared, shared);                    \
        index_scores<Key>(a, shared);                   \
    }

INDEXER(index_scores_fp8, Fp8Key)
INDEXER(index_scores_fp4, Fp4Key)
INDEXER(index_scores_bf16, Bf16Key)
