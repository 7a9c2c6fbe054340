// What a card can do at most: how fast memory is read, copied and gathered, how fast tensor cores multiply, how long a launch takes.
// Predictions divide by these; they are measured with the same loads that the kernels use.
//
//   read       16-byte loads, four under way in a thread; decode reads, so this and not a copy is its ceiling
//   copy       the same, each stored; bytes count twice
//   gather     blocks of a list, of any multiple of 16 bytes, to one place after the other: what an engine's pages cost a transfer
//   multiply   `mma` of bf16 over registers, eight sums under way in a warp: 32,768 FLOPs a round of a warp
//   update     each 16 bytes read, changed and written back in place, as a recurrence does with its state
//   fma        multiply-adds of f32 in registers, eight sums of a thread under way: 16 FLOPs a round
//   exp2       exponentials in registers, eight under way in a thread
//   clock      ticks of a multiprocessor's clock and the nanoseconds that they took
//   nothing    a launch
//
// References: nvbandwidth (copies by multiprocessors); STREAM (bytes counted).

constexpr int CEILING_THREADS = 256;
constexpr int CEILING_LOADS = 4;

struct ReadArguments {
    const Words<4>* from;
    u32* seen;   // written only where all bits that were read add up to `never`, so that reading is not left out
    u64 count;   // of 16 bytes
    u32 never;
};

KERNEL(CEILING_THREADS, ceiling_read, ReadArguments) {
    const u64 threads = static_cast<u64>(gridDim.x) * CEILING_THREADS;
    u64 i = static_cast<u64>(blockIdx.x) * CEILING_THREADS + threadIdx.x;
    u32 bits = 0;
    for (; i + (CEILING_LOADS - 1) * threads < a.count; i += CEILING_LOADS * threads) {
        Words<4> words[CEILING_LOADS];
#pragma unroll
        for (int n = 0; n < CEILING_LOADS; ++n) words[n] = read_once(a.from + i + n * threads);
#pragma unroll
        for (int n = 0; n < CEILING_LOADS; ++n) bits += words[n].w[0] ^ words[n].w[1] ^ words[n].w[2] ^ words[n].w[3];
    }
    for (; i < a.count; i += threads) {
        const Words<4> words = read_once(a.from + i);
        bits += words.w[0] ^ words.w[1] ^ words.w[2] ^ words.w[3];
    }
    if (bits == a.never) a.seen[0] = bits;
}

struct CopyArguments {
    const Words<4>* from;
    Words<4>* to;
    u64 count;   // of 16 bytes
};

KERNEL(CEILING_THREADS, ceiling_copy, CopyArguments) {
    const u64 threads = static_cast<u64>(gridDim.x) * CEILING_THREADS;
    u64 i = static_cast<u64>(blockIdx.x) * CEILING_THREADS + threadIdx.x;
    for (; i + (CEILING_LOADS - 1) * threads < a.count; i += CEILING_LOADS * threads) {
        Words<4> words[CEILING_LOADS];
#pragma unroll
        for (int n = 0; n < CEILING_LOADS; ++n) words[n] = read_once(a.from + i + n * threads);
#pragma unroll
        for (int n = 0; n < CEILING_LOADS; ++n) a.to[i + n * threads] = words[n];
    }
    for (; i < a.count; i += threads) a.to[i] = read_once(a.from + i);
}

struct GatherArguments {
    const Words<4>* from;
    Words<4>* to;
    const i32* blocks;   // numbers of the blocks, in the order in which they are put
    u64 block;           // 16-byte pieces of a block
};

// grid: (blocks that share a block of data, blocks of data)
KERNEL(CEILING_THREADS, ceiling_gather, GatherArguments) {
    const Words<4>* from = a.from + a.blocks[blockIdx.y] * a.block;
    Words<4>* to = a.to + blockIdx.y * a.block;
    const u64 threads = static_cast<u64>(gridDim.x) * CEILING_THREADS;
    for (u64 i = static_cast<u64>(blockIdx.x) * CEILING_THREADS + threadIdx.x; i < a.block; i += threads) {
        to[i] = read_once(from + i);
    }
}

struct MultiplyArguments {
    const u32* operands;   // bf16, random: zeros run faster than data; [6][32]
    float* sums;           // [warps of the grid][32]
    i32 rounds;
};

KERNEL(CEILING_THREADS, ceiling_multiply, MultiplyArguments) {
    const int lane = threadIdx.x % 32;
    u32 operand[6];
#pragma unroll
    for (int i = 0; i < 6; ++i) operand[i] = a.operands[i * 32 + lane];
    const u32 left[4] = {operand[0], operand[1], operand[2], operand[3]};
    float sums[8][4];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        // Each another, or the compiler would take all eight for one.
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[n][i] = n;
    }
    for (i32 round = 0; round < a.rounds; ++round) {
#pragma unroll
        for (int n = 0; n < 8; ++n) mma_bf16(sums[n], left, operand[4], operand[5]);
    }
    float sum = 0.f;
#pragma unroll
    for (int n = 0; n < 8; ++n) sum += sums[n][0] + sums[n][1] + sums[n][2] + sums[n][3];
    a.sums[static_cast<u64>(blockIdx.x) * CEILING_THREADS + threadIdx.x] = sum;
}

struct UpdateArguments {
    Words<4>* state;
    u64 count;   // of 16 bytes
};

KERNEL(CEILING_THREADS, ceiling_update, UpdateArguments) {
    const u64 threads = static_cast<u64>(gridDim.x) * CEILING_THREADS;
    u64 i = static_cast<u64>(blockIdx.x) * CEILING_THREADS + threadIdx.x;
    for (; i + (CEILING_LOADS - 1) * threads < a.count; i += CEILING_LOADS * threads) {
        Words<4> words[CEILING_LOADS];
#pragma unroll
        for (int n = 0; n < CEILING_LOADS; ++n) words[n] = a.state[i + n * threads];
#pragma unroll
        for (int n = 0; n < CEILING_LOADS; ++n) {
#pragma unroll
            for (int w = 0; w < 4; ++w) words[n].w[w] ^= 1u;
            a.state[i + n * threads] = words[n];
        }
    }
    for (; i < a.count; i += threads) {
        Words<4> words = a.state[i];
#pragma unroll
        for (int w = 0; w < 4; ++w) words.w[w] ^= 1u;
        a.state[i] = words;
    }
}

struct RegisterArguments {
    float* sums;   // [threads of the grid]
    float factor;
    float addend;
    i32 rounds;
};

KERNEL(CEILING_THREADS, ceiling_fma, RegisterArguments) {
    float sums[8];
#pragma unroll
    for (int n = 0; n < 8; ++n) sums[n] = n;
    for (i32 round = 0; round < a.rounds; ++round) {
#pragma unroll
        for (int n = 0; n < 8; ++n) sums[n] = sums[n] * a.factor + a.addend;
    }
    float sum = 0.f;
#pragma unroll
    for (int n = 0; n < 8; ++n) sum += sums[n];
    a.sums[static_cast<u64>(blockIdx.x) * CEILING_THREADS + threadIdx.x] = sum;
}

KERNEL(CEILING_THREADS, ceiling_exp2, RegisterArguments) {
    float values[8];
#pragma unroll
    for (int n = 0; n < 8; ++n) values[n] = a.factor * n;
    for (i32 round = 0; round < a.rounds; ++round) {
#pragma unroll
        for (int n = 0; n < 8; ++n) values[n] = power_of_two(values[n]) * a.factor + a.addend;
    }
    float sum = 0.f;
#pragma unroll
    for (int n = 0; n < 8; ++n) sum += values[n];
    a.sums[static_cast<u64>(blockIdx.x) * CEILING_THREADS + threadIdx.x] = sum;
}

struct ClockArguments {
    u64* times;   // ticks, then nanoseconds
    u64 least;    // ticks that are waited for
};

KERNEL(32, ceiling_clock, ClockArguments) {
    const u64 ticks = clock_ticks(), time = nanoseconds();
    u64 passed = 0;
    // The emulation's clock stands still, so the rounds are bounded.
    for (i32 round = 0; round < 100000 && passed < a.least; ++round) passed = clock_ticks() - ticks;
    const u64 took = nanoseconds() - time;
    if (threadIdx.x == 0) {
        a.times[0] = passed;
        a.times[1] = took;
    }
}

struct NothingArguments {
    u64 unused;
};

KERNEL(32, ceiling_nothing, NothingArguments) {}
