// Decode attention over paged keys and values: MHA, GQA and MQA, over everything, a sliding window, a chunk or an encoder's
// output (cross-attention). The tokens are split over blocks, and `combine` joins the parts.
//
//     output[h] = softmax(scale × q_h · K) V     for the query heads h that share a key-value head
//
// Bound: memory. A token and key-value head is `(k_width + v_width) × element bytes` (and scales), read once for a tile of 16
// query heads, and `2 × group × (k_width + v_width)` FLOPs: at most 16 FLOPs a byte in bf16 and 32 in bytes, where an
// H100 has 295 for each byte. A tile is padded to 16 heads; the tensor cores have room for that. Heads beyond 16 a group take
// another block, which finds the tokens in the second-level cache.
//
// Widths of keys and values: 64, 128, 256 or 512 each, or 192 with 128.
//
// Tile: 16 heads × 16 tokens, which is one page of one head. A block is four warps that take turns at the pages of a split, each
// with a softmax of its own, joined through shared memory at the end; no barrier stands in the loop.
//
// Loads: every lane reads the 16 bytes that become its own operand of `mma`, so keys and values never touch shared memory.
// The sum of a product may run over the dimensions in any order, as long as both factors have the same one: lane 4g + t
// reads of token g the bytes 16t … 16t + 15 of each 64, and takes them for the dimensions that the tensor core would have
// it hold; the query is laid out the same way. For values it is the columns whose order is free: lane 4g + t reads of
// tokens 2t, 2t + 1, 2t + 8, 2t + 9 the bytes 16g … 16g + 15 of each 128, so that column g of tile j is dimension
// `g × dimensions a lane + j`. While the products of keys are summed the values are on their way, and while the values are
// summed the next page's keys.
//
// Formats: bf16; e4m3; e4m3 and signed bytes with a scale for each token and head. Bytes become f16, which holds all of
// them exactly (an e4m3 in f16 is 2^-8 of its value, which the scale makes up for); queries too, so they must lie within
// f16's range of 65,504. Sums are f32.
//
// Page of 16 tokens, for each key-value head in turn: keys [16][k_width], scales of keys [16] and of values [16] in f32
// where the format has them, values [16][v_width].
//
// References: Flash-Decoding (Dao et al., 2023) for the split; FlashAttention-2, arXiv 2307.08691, for the online softmax in
// registers; grouped queries, arXiv 2305.13245.

constexpr int PAGE_TOKENS = 16;
constexpr int TILE_HEADS = 16;
constexpr int GQA_WARPS = 4;

struct GqaArguments {
    const u16* query;    // bf16 [request][query_heads][k_width]
    const u8* pages;     // of one layer
    const i32* table;    // [request][table_stride]: physical pages in the order of the tokens
    const i32* begins;   // [request]: the first token that is read
    const i32* ends;     // [request]: one past the last
    float* parts;        // [request][query_heads][splits][v_width + 2]: sums, then largest score (base 2) and total
    i32 table_stride;
    i32 query_heads;
    i32 kv_heads;
    float factor;        // scale × log2 e
};

struct Bf16 {
    static constexpr int BYTES = 2;
    static constexpr bool SCALED = false;
    // What the values in registers must be multiplied with.
    static constexpr float WIDEN = 1.f;

    DEVICE void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_bf16(c, a, b0, b1); }
    DEVICE u32 pack(float low, float high) { return pack_bf16(low, high); }
    DEVICE u32 query(u32 pair) { return pair; }

    // The total counts weights as they are multiplied, so that rounding them cancels in the mean.
    DEVICE float total_of(float, float, u32 packed) { return low_bf16(packed) + high_bf16(packed); }

    // Dimensions 4s … 4s + 3 of one token.
    template <int N>
    DEVICE void key(const Words<N>& row, int s, u32& b0, u32& b1) {
        b0 = row.w[2 * s];
        b1 = row.w[2 * s + 1];
    }

    // Dimension j of two tokens.
    template <int N>
    DEVICE u32 pair(const Words<N>& first, const Words<N>& second, int j) {
        return __byte_perm(first.w[j / 2], second.w[j / 2], j % 2 ? 0x7632 : 0x5410);
    }
};

// What the one-byte formats share: `Byte::widen` makes f16 of two bytes that stand at the top of each half.
template <class Byte, bool HAS_SCALES>
struct Bytes {
    static constexpr int BYTES = 1;
    static constexpr bool SCALED = HAS_SCALES;
    static constexpr float WIDEN = Byte::WIDEN;

    DEVICE void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_f16(c, a, b0, b1); }
    DEVICE u32 pack(float low, float high) { return pack_f16(low, high); }
    DEVICE u32 query(u32 pair) { return pack_f16(low_bf16(pair), high_bf16(pair)); }
    DEVICE float total_of(float low, float high, u32) { return low + high; }

    template <int N>
    DEVICE void key(const Words<N>& row, int s, u32& b0, u32& b1) {
        b0 = Byte::widen(__byte_perm(row.w[s], 0, 0x1100));
        b1 = Byte::widen(__byte_perm(row.w[s], 0, 0x3322));
    }

    template <int N>
    DEVICE u32 pair(const Words<N>& first, const Words<N>& second, int j) {
        const u32 at = j % 4;
        return Byte::widen(__byte_perm(first.w[j / 4], second.w[j / 4], at * 0x11 + (at + 4) * 0x1100));
    }
};

struct E4m3Byte {
    static constexpr float WIDEN = 256.f;
    DEVICE u32 widen(u32 two) { return (two & 0x80008000u) | (two >> 1 & 0x3f803f80u); }
};

struct SignedByte {
    static constexpr float WIDEN = 1.f;
    // 0x6400 is 1024, whose last place is 1; 0x6480 is 1024 + 128.
    DEVICE u32 widen(u32 two) { return subtract_f16((two >> 8 & 0x00ff00ffu) ^ 0x64806480u, 0x64806480u); }
};

typedef Bytes<E4m3Byte, false> E4m3;
typedef Bytes<E4m3Byte, true> E4m3Scaled;
typedef Bytes<SignedByte, true> I8Scaled;

// Words of the widest loads with which so many lanes read a row together.
DEVICE constexpr int words_of_a_load(int row_bytes, int lanes) {
    return row_bytes % (lanes * 16) == 0 ? 4 : row_bytes % (lanes * 8) == 0 ? 2 : 1;
}

template <int K, int COLUMNS>
union GqaShared {
    // Operands of `mma` for each 16 dimensions, by lane; while pages are read.
    Words<4> query[K / 16][32];
    // Half of the heads at a time; then columns, largest score and total.
    float parts[GQA_WARPS][TILE_HEADS / 2][COLUMNS + 2];
};

template <class Format, int K, int V>
struct Gqa {
    static constexpr int BYTES = Format::BYTES;
    // Columns of a block: the sums of 256 are half of all registers. Wider heads take several blocks, which all read the keys.
    static constexpr int COLUMNS = V > 256 ? 256 : V;
    static constexpr int COLUMN_BLOCKS = V / COLUMNS;
    // Registers hold up to 128 dimensions of keys or values at once, 64 where the heads are wider: sums alone take half of all
    // registers there.
    static constexpr int KEY_PIECES = K > 128 ? K / 64 : 1;
    static constexpr int VALUE_PIECES = COLUMNS > 128 ? COLUMNS / 64 : 1;

    static constexpr int KEY_WORDS = words_of_a_load(K / KEY_PIECES * BYTES, 4);
    static constexpr int KEY_LANE = KEY_WORDS * 4 / BYTES;               // dimensions of a lane in one load
    static constexpr int KEY_LOADS = K / KEY_PIECES / (4 * KEY_LANE);
    static constexpr int KEY_STEPS = KEY_LANE / 4;                       // steps of 16 dimensions that one load feeds

    static constexpr int VALUE_WORDS = words_of_a_load(COLUMNS / VALUE_PIECES * BYTES, 8);
    static constexpr int VALUE_LANE = VALUE_WORDS * 4 / BYTES;
    static constexpr int VALUE_LOADS = COLUMNS / VALUE_PIECES / (8 * VALUE_LANE);
    static constexpr int COLUMN_TILES = COLUMNS / 8;

    static constexpr int KEYS_OF_A_HEAD = PAGE_TOKENS * K * BYTES;
    static constexpr int SCALES_OF_A_HEAD = Format::SCALED ? PAGE_TOKENS * 4 : 0;
    static constexpr int BYTES_OF_A_HEAD = KEYS_OF_A_HEAD + 2 * SCALES_OF_A_HEAD + PAGE_TOKENS * V * BYTES;

    struct Keys {
        Words<KEY_WORDS> of[2][KEY_LOADS];       // of tokens g and g + 8
    };
    struct Values {
        Words<VALUE_WORDS> of[4][VALUE_LOADS];   // of tokens 2t, 2t + 1, 2t + 8, 2t + 9
    };

    // The head of the page that each lane reads of, and the running softmax of rows g and g + 8.
    float sums[COLUMN_TILES][4];
    float largest[2], total[2];

    DEVICE void read_keys(const u8* head, int piece, int g, int t, Keys& keys) {
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const u8* row = head + ((8 * n + g) * K + piece * (K / KEY_PIECES)) * BYTES + t * KEY_WORDS * 4;
#pragma unroll
            for (int i = 0; i < KEY_LOADS; ++i) keys.of[n][i] = read_words<KEY_WORDS>(row + i * KEY_WORDS * 16);
        }
    }

    // `values_at`: the block's first column of the head's first value.
    DEVICE void read_values(const u8* values_at, int piece, int g, int t, Values& values) {
        const u8* first = values_at + piece * (COLUMNS / VALUE_PIECES) * BYTES;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int token = 2 * t + n % 2 + n / 2 * 8;
            const u8* row = first + token * V * BYTES + g * VALUE_WORDS * 4;
#pragma unroll
            for (int i = 0; i < VALUE_LOADS; ++i) values.of[n][i] = read_words<VALUE_WORDS>(row + i * VALUE_WORDS * 32);
        }
    }

    // Operands of the query for the tile of heads that begins at `first`.
    DEVICE void lay_out_query(const GqaArguments& a, i32 request, i32 first, i32 heads, Words<4> (&to)[K / 16][32]) {
        for (int place = threadIdx.x; place < K * 2; place += 32 * GQA_WARPS) {
            const int lane = place % 32, step = place / 32, g = lane / 4, t = lane % 4;
            const int load = step / KEY_STEPS, within = step % KEY_STEPS;
            const int d = load * 4 * KEY_LANE + t * KEY_LANE + within * 4;
            Words<4> words = {};
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int head = g + 8 * half;
                if (head >= heads) continue;
                const u16* from = a.query + (static_cast<u64>(request) * a.query_heads + first + head) * K + d;
                const Words<2> pairs = *reinterpret_cast<const Words<2>*>(from);
                words.w[half] = Format::query(pairs.w[0]);
                words.w[half + 2] = Format::query(pairs.w[1]);
            }
            to[step][lane] = words;
        }
    }

    METHOD void add_page(const u8* head, const u8* next, i32 column, i32 from, i32 to, float factor, Keys& keys,
                         const Words<4> (&query)[K / 16][32]) {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const u8* values_at = head + KEYS_OF_A_HEAD + 2 * SCALES_OF_A_HEAD + column * BYTES;
        Values values;
        read_values(values_at, 0, g, t, values);
        float key_scales[4], value_scales[4];
        if (Format::SCALED) {
            const float* scales = reinterpret_cast<const float*>(head + KEYS_OF_A_HEAD);
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int token = 2 * t + n % 2 + n / 2 * 8;
                key_scales[n] = scales[token];
                // Where there is no token there may be anything.
                value_scales[n] = token >= from && token < to ? scales[PAGE_TOKENS + token] : 0.f;
            }
        }

        float scores[2][4] = {};
        // Not unrolled: loads of all pieces at once would not fit the registers.
#pragma unroll 1
        for (int piece = 0; piece < KEY_PIECES; ++piece) {
            if (piece > 0) read_keys(head, piece, g, t, keys);
#pragma unroll
            for (int step = 0; step < K / KEY_PIECES / 16; ++step) {
                const Words<4> words = query[piece * (K / KEY_PIECES / 16) + step][lane];
                const u32 q[4] = {words.w[0], words.w[1], words.w[2], words.w[3]};
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    u32 b0, b1;
                    Format::key(keys.of[n][step / KEY_STEPS], step % KEY_STEPS, b0, b1);
                    Format::mma(scores[n], q, b0, b1);
                }
            }
        }
        read_keys(next, 0, g, t, keys);

        // scores[n][i]: row g + 8 (i / 2), token 8n + 2t + i % 2.
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int token = 8 * n + 2 * t + i % 2;
                const float scaled = scores[n][i] * factor * (Format::SCALED ? key_scales[2 * n + i % 2] : 1.f);
                scores[n][i] = token >= from && token < to ? scaled : NO_TOKEN;
            }
        }
        if (to - from < PAGE_TOKENS) clear_values(values, from, to, t);

        u32 weights[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float top = fmaxf(fmaxf(scores[0][2 * half], scores[0][2 * half + 1]), fmaxf(scores[1][2 * half], scores[1][2 * half + 1]));
            top = fmaxf(largest[half], largest_of_lanes<4>(top));
            const float shrink = power_of_two(largest[half] - top);
            largest[half] = top;
            total[half] *= shrink;
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const float low = power_of_two(scores[n][2 * half] - top);
                const float high = power_of_two(scores[n][2 * half + 1] - top);
                u32 packed;
                if (Format::SCALED) {
                    packed = Format::pack(low * value_scales[2 * n], high * value_scales[2 * n + 1]);
                } else {
                    packed = Format::pack(low, high);
                }
                total[half] += Format::total_of(low, high, packed);
                weights[2 * n + half] = packed;
            }
#pragma unroll
            for (int tile = 0; tile < COLUMN_TILES; ++tile) {
                sums[tile][2 * half] *= shrink;
                sums[tile][2 * half + 1] *= shrink;
            }
        }

#pragma unroll
        for (int piece = 0; piece < VALUE_PIECES; ++piece) {
            if (piece > 0) {
                read_values(values_at, piece, g, t, values);
                if (to - from < PAGE_TOKENS) clear_values(values, from, to, t);
            }
#pragma unroll
            for (int load = 0; load < VALUE_LOADS; ++load) {
#pragma unroll
                for (int j = 0; j < VALUE_LANE; ++j) {
                    const u32 b0 = Format::pair(values.of[0][load], values.of[1][load], j);
                    const u32 b1 = Format::pair(values.of[2][load], values.of[3][load], j);
                    Format::mma(sums[(piece * VALUE_LOADS + load) * VALUE_LANE + j], weights, b0, b1);
                }
            }
        }
    }

    // What lies in a page beyond the tokens may be anything, also NaN, which no weight of 0 makes harmless.
    DEVICE void clear_values(Values& values, i32 from, i32 to, int t) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int token = 2 * t + n % 2 + n / 2 * 8;
            if (token >= from && token < to) continue;
#pragma unroll
            for (int i = 0; i < VALUE_LOADS; ++i) values.of[n][i] = Words<VALUE_WORDS>{};
        }
    }

    // Joins the warps and writes the parts of the block's heads.
    METHOD void finish(const GqaArguments& a, i32 request, i32 first, i32 heads, i32 column,
                       float (&parts)[GQA_WARPS][TILE_HEADS / 2][COLUMNS + 2]) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
        // The query has been read for the last time.
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            total[half] = sum_of_lanes<4>(total[half]);
            float* row = parts[warp][g];
#pragma unroll
            for (int tile = 0; tile < COLUMN_TILES; ++tile) {
                const int place = tile / VALUE_LANE * 8 * VALUE_LANE + 2 * t * VALUE_LANE + tile % VALUE_LANE;
                row[place] = sums[tile][2 * half] * Format::WIDEN;
                row[place + VALUE_LANE] = sums[tile][2 * half + 1] * Format::WIDEN;
            }
            if (t == 0) {
                row[COLUMNS] = largest[half];
                row[COLUMNS + 1] = total[half];
            }
            __syncthreads();
            for (int place = threadIdx.x; place < TILE_HEADS / 2 * COLUMNS; place += 32 * GQA_WARPS) {
                const int within = place / COLUMNS, d = place % COLUMNS, head = within + 8 * half;
                if (head >= heads) continue;
                float top = NO_SCORE, sum = 0.f, all = 0.f;
#pragma unroll
                for (int w = 0; w < GQA_WARPS; ++w) top = fmaxf(top, parts[w][within][COLUMNS]);
#pragma unroll
                for (int w = 0; w < GQA_WARPS; ++w) {
                    const float shrink = power_of_two(parts[w][within][COLUMNS] - top);
                    sum += shrink * parts[w][within][d];
                    all += shrink * parts[w][within][COLUMNS + 1];
                }
                float* to = a.parts + ((static_cast<u64>(request) * a.query_heads + first + head) * gridDim.x + blockIdx.x) * (V + 2);
                to[column + d] = sum;
                if (column + d == 0) {
                    to[V] = top;
                    to[V + 1] = all;
                }
            }
            __syncthreads();
        }
    }

    // grid: (splits, kv_heads × tiles of 16 heads × blocks of columns, requests)
    DEVICE void run(const GqaArguments& a, GqaShared<K, COLUMNS>& shared) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
        const i32 group = a.query_heads / a.kv_heads, tiles_of_a_group = pieces_of(group, TILE_HEADS);
        const i32 column = blockIdx.y % COLUMN_BLOCKS * COLUMNS, heads_tile = blockIdx.y / COLUMN_BLOCKS;
        const i32 kv_head = heads_tile / tiles_of_a_group, tile = heads_tile % tiles_of_a_group, request = blockIdx.z;
        const i32 first = kv_head * group + tile * TILE_HEADS, heads = minimum(group - tile * TILE_HEADS, TILE_HEADS);
        lay_out_query(a, request, first, heads, shared.query);
        __syncthreads();

        Gqa gqa;
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) gqa.sums[n][i] = 0.f;
        }
        gqa.largest[0] = gqa.largest[1] = NO_SCORE;
        gqa.total[0] = gqa.total[1] = 0.f;

        const i32 begin = a.begins[request], end = a.ends[request];
        const i32 first_page = begin / PAGE_TOKENS, last_page = pieces_of(end, PAGE_TOKENS);
        const Share share = share_of(maximum(last_page - first_page, 0), blockIdx.x, gridDim.x);
        const i32* table = a.table + static_cast<u64>(request) * a.table_stride;
        const u64 page_bytes = static_cast<u64>(a.kv_heads) * BYTES_OF_A_HEAD;
        const u8* of_head = a.pages + static_cast<u64>(kv_head) * BYTES_OF_A_HEAD;
        const float factor = a.factor * Format::WIDEN;
        const i32 stop = first_page + share.end;
        i32 page = first_page + share.begin + warp;
        if (page < stop) {
            const u8* head = of_head + table[page] * page_bytes;
            Keys keys;
            read_keys(head, 0, g, t, keys);
            while (page < stop) {
                const i32 following = page + GQA_WARPS;
                const u8* next = following < stop ? of_head + table[following] * page_bytes : head;
                const i32 from = maximum(begin - page * PAGE_TOKENS, 0), to = minimum(end - page * PAGE_TOKENS, PAGE_TOKENS);
                gqa.add_page(head, next, column, from, to, factor, keys, shared.query);
                head = next;
                page = following;
            }
        }
        gqa.finish(a, request, first, heads, column, shared.parts);
    }
};

#define GQA(name, Format, K, V)                          \
    KERNEL(32 * GQA_WARPS, name, GqaArguments) {         \
        typedef Gqa<Format, K, V> Tile;                  \
        typedef GqaShared<K, Tile::COLUMNS> Shared;      \
        SHARED(Shared, shared);                          \
        Tile::run(a, shared);                            \
    }

#define GQA_WIDTHS(format, Format)                       \
    GQA(gqa_##format##_64_64, Format, 64, 64)            \
    GQA(gqa_##format##_128_128, Format, 128, 128)        \
    GQA(gqa_##format##_192_128, Format, 192, 128)        \
    GQA(gqa_##format##_256_256, Format, 256, 256)        \
    GQA(gqa_##format##_512_512, Format, 512, 512)

GQA_WIDTHS(bf16, Bf16)
GQA_WIDTHS(fp8, E4m3)
GQA_WIDTHS(fp8_per_token_head, E4m3Scaled)
GQA_WIDTHS(int8_per_token_head, I8Scaled)
