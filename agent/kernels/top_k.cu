// The exact `k` largest of a request's scores, as indices in rising order. Of equal scores the earlier index is the better.
//
// Bound: a block is one request, so its reads are bound by what one multiprocessor takes from the second-level cache, where
// the indexer has just left them: four times 4 bytes a score (three passes that count, one that writes), about 1.5 MiB for
// 100,000 scores. It is no part of a step that grows with the heads; of DSA at 100,000 tokens the indexer reads 13 MB.
//
// A score becomes an unsigned number of the same order. Three passes over digits of 11, 11 and 10 bits count how many scores
// have each digit, among those whose higher digits are the wanted ones, and leave exactly one value: the k-th largest. The
// last pass takes what is larger, and of what is equal as many as are left to take, from the first on. Places are counted,
// not fetched by atomics, so the result does not depend on the order in which threads run.
//
// References: radix selection as in RadiK, arXiv 2501.14336; ties and order as in the CPU backend.

constexpr int TOP_K_THREADS = 1024;
constexpr int TOP_K_WARPS = TOP_K_THREADS / 32;
constexpr int DIGITS = 2048;

struct TopKArguments {
    const float* scores;   // [request][score_stride]; no NaN
    const i32* counts;     // [request]: scores of each
    i32* chosen;           // [request][k]; −1 beyond the scores there are
    i32 score_stride;
    i32 k;
};

struct TopKShared {
    u32 histogram[DIGITS];
    // Digits that are settled, and how many of the scores that have them are still to be taken.
    u32 prefix, needed;
    // [parity][warp]: larger scores in the low half, equal ones in the high half.
    u32 counts[2][TOP_K_WARPS];
};

DEVICE u32 in_order(float score) {
    const u32 bits = __float_as_uint(score);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Finds, from the largest digit down, the digit at which `needed` scores are reached. One warp runs it.
DEVICE void settle_digit(TopKShared& shared, int shift) {
    constexpr int EACH = DIGITS / 32;
    const int lane = threadIdx.x;
    // Lane 0 has the largest digits.
    const int last = DIGITS - 1 - lane * EACH;
    u32 own = 0;
    for (int i = 0; i < EACH; ++i) own += shared.histogram[last - i];
    u32 before = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const u32 other = __shfl_up_sync(ALL_LANES, before, step);
        if (lane >= step) before += other;
    }
    before -= own;
    const u32 needed = shared.needed;
    __syncwarp();
    if (before < needed && before + own >= needed) {
        u32 left = needed - before;
        int digit = last;
        while (shared.histogram[digit] < left) {
            left -= shared.histogram[digit];
            --digit;
        }
        shared.needed = left;
        shared.prefix |= static_cast<u32>(digit) << shift;
    }
}

KERNEL(TOP_K_THREADS, top_k, TopKArguments) {
    SHARED(TopKShared, shared);
    const i32 request = blockIdx.x, count = a.counts[request];
    const float* scores = a.scores + static_cast<u64>(request) * a.score_stride;
    i32* chosen = a.chosen + static_cast<u64>(request) * a.k;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (count <= a.k) {
        // The whole block comes here or none of it.
        for (i32 i = threadIdx.x; i < a.k; i += TOP_K_THREADS) chosen[i] = i < count ? i : -1;
        return;
    }

    if (threadIdx.x == 0) {
        shared.prefix = 0;
        shared.needed = a.k;
    }
    u32 settled = 0;
    for (int pass = 0; pass < 3; ++pass) {
        const int shift = pass == 0 ? 21 : pass == 1 ? 10 : 0;
        const u32 digits = pass == 2 ? 1023 : 2047;
        for (int i = threadIdx.x; i < DIGITS; i += TOP_K_THREADS) shared.histogram[i] = 0;
        __syncthreads();
        const u32 prefix = shared.prefix;
        for (i32 i = threadIdx.x; i < count; i += TOP_K_THREADS) {
            const u32 key = in_order(scores[i]);
            if ((key & settled) == prefix) atomicAdd(&shared.histogram[key >> shift & digits], 1u);
        }
        __syncthreads();
        if (warp == 0) settle_digit(shared, shift);
        settled |= digits << shift;
        __syncthreads();
    }

    const u32 threshold = shared.prefix, ties = shared.needed;
    u32 larger = 0, equal = 0;
    int parity = 0;
    for (i32 base = 0; base < count; base += TOP_K_THREADS, parity ^= 1) {
        const i32 i = base + threadIdx.x;
        const u32 key = i < count ? in_order(scores[i]) : 0;
        const bool is_larger = i < count && key > threshold, is_equal = i < count && key == threshold;
        const u32 larger_lanes = __ballot_sync(ALL_LANES, is_larger), equal_lanes = __ballot_sync(ALL_LANES, is_equal);
        if (lane == 0) shared.counts[parity][warp] = __popc(larger_lanes) | __popc(equal_lanes) << 16;
        __syncthreads();
        const u32 own = shared.counts[parity][lane];
        u32 up_to = own;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const u32 other = __shfl_up_sync(ALL_LANES, up_to, step);
            if (lane >= step) up_to += other;
        }
        const u32 before = __shfl_sync(ALL_LANES, up_to - own, warp), all = __shfl_sync(ALL_LANES, up_to, 31);
        const u32 lower = (1u << lane) - 1;
        const u32 larger_before = larger + (before & 0xffff) + __popc(larger_lanes & lower);
        const u32 equal_before = equal + (before >> 16) + __popc(equal_lanes & lower);
        if (is_larger || (is_equal && equal_before < ties)) {
            chosen[larger_before + (equal_before < ties ? equal_before : ties)] = i;
        }
        larger += all & 0xffff;
        equal += all >> 16;
    }
}
