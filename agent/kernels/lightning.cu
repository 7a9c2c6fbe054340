// One decode step of lightning attention. For one head with state S[key][value]:
//
//     S ← λ·S + k·vᵀ;  o = qᵀ·S
//
// Bound: memory. The state is read and written once, `2 × heads × dim × dim × element bytes`, with 5 FLOPs a value: 5/8 FLOP a
// byte in f32, 5/4 in bf16.
//
// Tile: a block is one head's 128 bytes of each row (32 columns in f32, 64 in bf16), 8 lanes a row and 16 rows at a time. Every
// thread adds up its own columns over `dim / 16` rows in registers, then lanes of a warp that have the same columns do, then
// the four warps through shared memory.
//
// State: [request][head][dim][dim], f32 or bf16 rounded to the nearest. Activations, f32: queries of all heads, keys, values.
// Decays: λ of all heads.
//
// References: arXiv 2401.04658; MiniMax-01, arXiv 2501.08313.

constexpr int LIGHTNING_THREADS = 128;
constexpr int LIGHTNING_WARPS = LIGHTNING_THREADS / 32;
constexpr int ROW_LANES = 8;
constexpr int ROWS_TOGETHER = LIGHTNING_THREADS / ROW_LANES;

struct LightningArguments {
    void* state;
    const float* activations;
    const float* decays;
    float* output;   // [request][heads][dim]
    i32 heads;
};

template <class State>
struct LightningShared {
    float sums[LIGHTNING_WARPS][ROW_LANES * State::PIECE];
};

// grid: (dim / columns of a block, heads, requests)
template <class State, int DIM>
DEVICE void lightning_step(const LightningArguments& a, LightningShared<State>& shared) {
    typedef typename State::Element Element;
    constexpr int COLUMNS = ROW_LANES * State::PIECE;
    const int part = threadIdx.x % ROW_LANES, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i32 head = blockIdx.y, request = blockIdx.z, column = blockIdx.x * COLUMNS + part * State::PIECE;
    const i32 inputs = a.heads * DIM;
    const float* query = a.activations + static_cast<u64>(request) * 3 * inputs + head * DIM;
    const float* key = query + inputs;
    const float* value_from = key + inputs + column;
    const float decay = a.decays[head];
    Element* state = static_cast<Element*>(a.state) + (static_cast<u64>(request) * a.heads + head) * DIM * DIM + column;

    float value[State::PIECE], sums[State::PIECE];
#pragma unroll
    for (int i = 0; i < State::PIECE; ++i) {
        value[i] = value_from[i];
        sums[i] = 0.f;
    }
#pragma unroll 4
    for (int row = threadIdx.x / ROW_LANES; row < DIM; row += ROWS_TOGETHER) {
        float s[State::PIECE];
        State::load(state + row * DIM, s);
        const float k = key[row], q = query[row];
#pragma unroll
        for (int i = 0; i < State::PIECE; ++i) {
            s[i] = decay * s[i] + k * value[i];
            sums[i] += q * s[i];
        }
        State::store(state + row * DIM, s);
    }
#pragma unroll
    for (int i = 0; i < State::PIECE; ++i) {
        // Over the four rows of a warp.
        sums[i] += __shfl_xor_sync(ALL_LANES, sums[i], 8);
        sums[i] += __shfl_xor_sync(ALL_LANES, sums[i], 16);
        if (lane < ROW_LANES) shared.sums[warp][part * State::PIECE + i] = sums[i];
    }
    __syncthreads();
    if (threadIdx.x < COLUMNS) {
        float sum = 0.f;
#pragma unroll
        for (int w = 0; w < LIGHTNING_WARPS; ++w) sum += shared.sums[w][threadIdx.x];
        a.output[(static_cast<u64>(request) * a.heads + head) * DIM + blockIdx.x * COLUMNS + threadIdx.x] = sum;
    }
}

#define LIGHTNING(name, State, DIM)                       \
    KERNEL(LIGHTNING_THREADS, name, LightningArguments) { \
        SHARED(LightningShared<State>, shared);           \
        lightning_step<State, DIM>(a, shared);            \
    }

LIGHTNING(lightning_f32_64, F32State, 64)
LIGHTNING(lightning_f32_128, F32State, 128)
LIGHTNING(lightning_f32_256, F32State, 256)
LIGHTNING(lightning_bf16_64, Bf16State, 64)
LIGHTNING(lightning_bf16_128, Bf16State, 128)
LIGHTNING(lightning_bf16_256, Bf16State, 256)
