// One decode step of Mamba-1. For one channel with state h[n]:
//
//     h ← exp(Δ·A)·h + Δ·x·B;  y = C·h + D·x
//
// Bound: memory. The state is read and written once, `2 × channels × d_state × element bytes`, and A, a weight of the layer, is
// read once: another 4 bytes a value, so that f32 state is two thirds of what moves and bf16 state half. An exponential
// a value is one of 16 a cycle and multiprocessor: 32 bytes a cycle in f32, above what memory brings.
//
// Tile: the 16 values of a channel lie in 4 lanes (f32) or 2 (bf16), a 16-byte piece each, so that a warp reads 512 bytes in a
// row; every thread has such a piece of four channels. B and C are the same for all channels. Sums pass over 4 or 2 lanes.
//
// State: [request][channel][16], f32 or bf16 rounded to the nearest. Activations: x. Gates: Δ of all channels, then B [16],
// then C [16]. A comes times log2 e, [channel][16]; D [channel].
//
// Reference: arXiv 2312.00752.

constexpr int MAMBA1_THREADS = 128;
constexpr int MAMBA1_STATE = 16;
constexpr int MAMBA1_PASSES = 4;

struct Mamba1Arguments {
    void* state;
    const float* activations;
    const float* gates;
    const float* a;       // A × log2 e, of the layer
    const float* skips;   // D, of the layer
    float* output;        // [request][channel]
    i32 channels;
};

// grid: (channels / channels of a block rounded up, requests)
template <class State>
DEVICE void mamba1_step(const Mamba1Arguments& a) {
    typedef typename State::Element Element;
    constexpr int LANES = MAMBA1_STATE / State::PIECE;
    constexpr int TOGETHER = MAMBA1_THREADS / LANES;   // channels of one pass
    const int part = threadIdx.x % LANES, n = part * State::PIECE;
    const i32 request = blockIdx.y;
    const float* x_from = a.activations + static_cast<u64>(request) * a.channels;
    const float* steps = a.gates + static_cast<u64>(request) * (a.channels + 2 * MAMBA1_STATE);
    const float* b_from = steps + a.channels + n;
    Element* states = static_cast<Element*>(a.state) + static_cast<u64>(request) * a.channels * MAMBA1_STATE;
    const i32 first = blockIdx.x * TOGETHER * MAMBA1_PASSES + threadIdx.x / LANES;

    float state[MAMBA1_PASSES][State::PIECE], rates[MAMBA1_PASSES][State::PIECE];
#pragma unroll
    for (int pass = 0; pass < MAMBA1_PASSES; ++pass) {
        const i32 channel = first + pass * TOGETHER;
#pragma unroll
        for (int i = 0; i < State::PIECE; ++i) state[pass][i] = rates[pass][i] = 0.f;
        if (channel >= a.channels) continue;
        State::load(states + static_cast<u64>(channel) * MAMBA1_STATE + n, state[pass]);
#pragma unroll
        for (int i = 0; i < State::PIECE; i += 4) F32State::load(a.a + static_cast<u64>(channel) * MAMBA1_STATE + n + i, rates[pass] + i);
    }
    float b[State::PIECE], c[State::PIECE];
#pragma unroll
    for (int i = 0; i < State::PIECE; ++i) {
        b[i] = b_from[i];
        c[i] = b_from[MAMBA1_STATE + i];
    }
#pragma unroll
    for (int pass = 0; pass < MAMBA1_PASSES; ++pass) {
        const i32 channel = first + pass * TOGETHER;
        const bool held = channel < a.channels;
        const float step = held ? steps[channel] : 0.f, x = held ? x_from[channel] : 0.f, input = step * x;
        float y = 0.f;
#pragma unroll
        for (int i = 0; i < State::PIECE; ++i) {
            state[pass][i] = power_of_two(step * rates[pass][i]) * state[pass][i] + input * b[i];
            y += state[pass][i] * c[i];
        }
        y = sum_of_lanes<LANES>(y);
        if (!held) continue;
        State::store(states + static_cast<u64>(channel) * MAMBA1_STATE + n, state[pass]);
        if (part == 0) a.output[static_cast<u64>(request) * a.channels + channel] = y + a.skips[channel] * x;
    }
}

KERNEL(MAMBA1_THREADS, mamba1_f32_16, Mamba1Arguments) { mamba1_step<F32State>(a); }
KERNEL(MAMBA1_THREADS, mamba1_bf16_16, Mamba1Arguments) { mamba1_step<Bf16State>(a); }
