// One decode step of Mamba-2. For one head with state H[channel][n]:
//
//     H ← a·H + Δ·x·Bᵀ;  y = H·C + D·x
//
// Bound: memory. The state is read and written once, `2 × heads × head_dim × d_state × element bytes`, with 5 FLOPs a value: 5/8
// FLOP a byte in f32, 5/4 in bf16.
//
// Tile: as in `delta.cu`, 8 lanes hold one row of the state in 16-byte pieces of which they read 128 bytes in a row; a block of
// four warps is 32 rows of one head. B and C of the lane's places come from the second-level cache, once for two rows.
//
// State: [request][head][head_dim][d_state], f32 or bf16 rounded to the nearest. Activations, f32: x of all heads, B of all
// groups, C of all groups. Gates: a = exp(Δ·A) of all heads, then Δ. Skips: D of all heads.
//
// Reference: arXiv 2405.21060.

constexpr int MAMBA2_THREADS = 128;
constexpr int ROW_LANES = 8;
constexpr int MAMBA2_PASSES = 2;
constexpr int MAMBA2_ROWS = MAMBA2_THREADS / ROW_LANES * MAMBA2_PASSES;

struct Mamba2Arguments {
    void* state;
    const float* activations;
    const float* gates;
    const float* skips;
    float* output;   // [request][heads][head_dim]
    i32 heads;
    i32 head_dim;
    i32 groups;
};

// grid: (head_dim / 32 rounded up, heads, requests)
template <class State, int N>
DEVICE void mamba2_step(const Mamba2Arguments& a) {
    typedef typename State::Element Element;
    constexpr int PIECES = N / (ROW_LANES * State::PIECE);
    constexpr int OWN = PIECES * State::PIECE;
    const int part = threadIdx.x % ROW_LANES;
    const i32 head = blockIdx.y, request = blockIdx.z, group = head / (a.heads / a.groups);
    const i32 channels = a.heads * a.head_dim;
    const float* x_from = a.activations + static_cast<u64>(request) * (channels + 2 * a.groups * N);
    const float* b_from = x_from + channels + group * N;
    const float* c_from = b_from + a.groups * N;
    const float* gates = a.gates + static_cast<u64>(request) * 2 * a.heads;
    const float decay = gates[head], step = gates[a.heads + head], skip = a.skips[head];

    float state[MAMBA2_PASSES][OWN];
    Element* rows = static_cast<Element*>(a.state) + (static_cast<u64>(request) * a.heads + head) * a.head_dim * N;
    const i32 first = blockIdx.x * MAMBA2_ROWS + threadIdx.x / ROW_LANES;
#pragma unroll
    for (int pass = 0; pass < MAMBA2_PASSES; ++pass) {
        const i32 row = first + pass * (MAMBA2_THREADS / ROW_LANES);
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            float* to = state[pass] + piece * State::PIECE;
            if (row < a.head_dim) {
                State::load(rows + static_cast<u64>(row) * N + (piece * ROW_LANES + part) * State::PIECE, to);
            } else {
#pragma unroll
                for (int i = 0; i < State::PIECE; ++i) to[i] = 0.f;
            }
        }
    }

    float b[OWN], c[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int n = (i / State::PIECE * ROW_LANES + part) * State::PIECE + i % State::PIECE;
        b[i] = b_from[n];
        c[i] = c_from[n];
    }
#pragma unroll
    for (int pass = 0; pass < MAMBA2_PASSES; ++pass) {
        const i32 row = first + pass * (MAMBA2_THREADS / ROW_LANES);
        const bool held = row < a.head_dim;
        const float x = held ? x_from[head * a.head_dim + row] : 0.f, input = step * x;
        float y = 0.f;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            state[pass][i] = decay * state[pass][i] + input * b[i];
            y += state[pass][i] * c[i];
        }
        y = sum_of_lanes<ROW_LANES>(y);
        if (!held) continue;
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            Element* to = rows + static_cast<u64>(row) * N + (piece * ROW_LANES + part) * State::PIECE;
            State::store(to, state[pass] + piece * State::PIECE);
        }
        if (part == 0) a.output[(static_cast<u64>(request) * a.heads + head) * a.head_dim + row] = y + skip * x;
    }
}

#define MAMBA2(name, State, N) \
    KERNEL(MAMBA2_THREADS, name, Mamba2Arguments) { mamba2_step<State, N>(a); }

MAMBA2(mamba2_f32_64, F32State, 64)
MAMBA2(mamba2_f32_128, F32State, 128)
MAMBA2(mamba2_f32_256, F32State, 256)
MAMBA2(mamba2_bf16_64, Bf16State, 64)
MAMBA2(mamba2_bf16_128, Bf16State, 128)
MAMBA2(mamba2_bf16_256, Bf16State, 256)
