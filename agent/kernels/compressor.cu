// The compressor of DeepSeek-V4's attention: the new token's row takes its place in a ring, and where it ends a group, the group's
// rows become one entry.
//
// Every token leaves a row of values and gates. An entry is, for each channel by itself, the mean of the group's values under
// a softmax of their gates; a bias for each place in the group adds to the gates. HCA takes the 128 tokens of its group. CSA
// overlaps: rows have two halves, and an entry takes half A of the 4 tokens of the group before and half B of the 4 of its
// own. Then come an RMS norm with gains, and the rotary part turns by the position of the group's first token.
//
// Bound: launch time; in a step that ends a group, what one multiprocessor takes from memory: `rows × row × 4` bytes, 512 KiB for
// HCA once in 128 steps, 40 KiB for CSA once in 4, and one multiply-add and one exponential for each value and gate.
//
// Tile: a block is one request, a thread one channel, so that rows are read in a row; the softmax is online, one pass. Threads
// write the very places that they read later, so no barrier stands between. Only the norm is shared: sums of warps.
//
// Row: [half][width] values, then [half][width] gates, all f32; it begins at `first` of a ring row of `stride` values, which an
// indexer's compressor may share. Position p lies in ring row `p modulo (halves × ratio)`.
//
// Reference: arXiv 2606.19348.

constexpr int COMPRESSOR_THREADS = 512;
constexpr float NORM_FLOOR = 1e-6f;

struct CompressorArguments {
    float* rows;          // [request][halves × ratio][stride]
    const float* fresh;   // [request][stride]: the row of the new token
    const float* bias;    // [ratio][halves][width]
    const float* gains;   // [width]
    const float* turns;   // [request][rope / 2][2]: cosine and sine
    const i32* tokens;    // [request]: with the new one
    float* entries;       // [request][width]; written where a group ends
    i32 stride;
    i32 first;
    i32 width;            // even, at most 512
    i32 rope;             // the last channels
    i32 ratio;
    i32 halves;
};

struct CompressorShared {
    float squares[COMPRESSOR_THREADS / 32];
};

// grid: (requests)
KERNEL(COMPRESSOR_THREADS, compress, CompressorArguments) {
    SHARED(CompressorShared, shared);
    const i32 request = blockIdx.x, tokens = a.tokens[request], channel = threadIdx.x;
    const i32 ring = a.halves * a.ratio;
    const bool held = channel < a.width;
    float* rows = a.rows + static_cast<u64>(request) * ring * a.stride + a.first + channel;
    const float* fresh = a.fresh + static_cast<u64>(request) * a.stride + a.first + channel;
    if (held) {
        float* row = rows + static_cast<u64>((tokens - 1) % ring) * a.stride;
        for (i32 part = 0; part < 2 * a.halves; ++part) row[part * a.width] = fresh[part * a.width];
    }
    // The whole block goes on or none of it.
    if (tokens % a.ratio != 0) return;

    // Tokens before the first have no part in the first overlapping group.
    const i32 members = minimum(ring, tokens);
    float top = NO_SCORE, total = 0.f, sum = 0.f;
    if (held) {
        for (i32 member = 0; member < members; ++member) {
            const i32 position = tokens - members + member;
            const i32 half = member + a.ratio >= members ? a.halves - 1 : 0;
            const float* row = rows + static_cast<u64>(position % ring) * a.stride;
            const float bias = a.bias[(position % a.ratio * a.halves + half) * a.width + channel];
            const float gate = (row[(a.halves + half) * a.width] + bias) * LOG2_E;
            const float higher = fmaxf(top, gate), shrink = power_of_two(top - higher), weight = power_of_two(gate - higher);
            total = total * shrink + weight;
            sum = sum * shrink + weight * row[half * a.width];
            top = higher;
        }
    }
    float mean = held ? sum / total : 0.f;
    const float squares = sum_of_lanes<32>(mean * mean);
    if (threadIdx.x % 32 == 0) shared.squares[threadIdx.x / 32] = squares;
    __syncthreads();
    float all = 0.f;
    for (int warp = 0; warp < COMPRESSOR_THREADS / 32; ++warp) all += shared.squares[warp];
    if (held) mean *= a.gains[channel] / sqrtf(all / a.width + NORM_FLOOR);

    const float other = __shfl_xor_sync(ALL_LANES, mean, 1);
    if (!held) return;
    const i32 rotary = channel - (a.width - a.rope);
    if (rotary >= 0) {
        const float* turn = a.turns + static_cast<u64>(request) * a.rope + rotary / 2 * 2;
        mean = rotary % 2 == 0 ? mean * turn[0] - other * turn[1] : other * turn[1] + mean * turn[0];
    }
    a.entries[static_cast<u64>(request) * a.width + channel] = mean;
}
