// One decode step of the gated delta rule: gated DeltaNet (one decay a head) and Kimi Delta Attention (one for each key
// dimension). For one head with state S[value][key]:
//
//     S ← S·diag(α);  u = β (v − S·k);  S ← S + u·kᵀ;  o = S·q       with |k| = |q| = 1, q divided by √k_dim
//
// Bound: memory. The state is read and written once, `2 × v_heads × v_dim × k_dim × element bytes`, with 7 FLOPs a value:
// 7/8 FLOP a byte in f32, 7/4 in bf16.
//
// Tile: 8 lanes hold one row of the state, a block of four warps 32 rows of one head, all in registers. Rows do not depend
// on each other, and both products of a row are taken before it changes: with p = s·(α·k) and r = s·(α·q) follow
// u = β (v − p), o = r + u (k·q) and s ← α·s + u·k. So a row is read once, in 16-byte pieces of which 8 lanes make 128 bytes
// in a row, and written once. Key and query are normalised by every group of lanes for itself; that is `2 × k_dim` reads from
// the second-level cache for 8 rows of state, and no barrier.
//
// State: [request][v_head][v_dim][k_dim], f32 or bf16 rounded to the nearest. Activations, f32: queries of all key heads, keys
// of all key heads, values of all value heads. Gates: decays [v_heads] or [v_heads][k_dim], then β [v_heads].
//
// References: arXiv 2412.06464 (gated DeltaNet), arXiv 2510.26692 (KDA); the floor of 1e-6 under a squared length is
// flash-linear-attention's.

constexpr int DELTA_THREADS = 128;
constexpr int ROW_LANES = 8;
constexpr int DELTA_PASSES = 2;
constexpr int DELTA_ROWS = DELTA_THREADS / ROW_LANES * DELTA_PASSES;
constexpr float LENGTH_FLOOR = 1e-6f;

struct DeltaArguments {
    void* state;
    const float* activations;
    const float* gates;
    float* output;   // [request][v_heads][v_dim]
    i32 k_heads;
    i32 v_heads;
    i32 v_dim;
};

// grid: (v_dim / 32 rounded up, v_heads, requests)
template <class State, int K, bool DECAY_FOR_EACH_KEY>
DEVICE void delta_step(const DeltaArguments& a) {
    typedef typename State::Element Element;
    constexpr int PIECES = K / (ROW_LANES * State::PIECE);
    constexpr int OWN = PIECES * State::PIECE;
    const int part = threadIdx.x % ROW_LANES;
    const i32 head = blockIdx.y, request = blockIdx.z;
    const i32 shared_at = head / (a.v_heads / a.k_heads) * K, keys_at = a.k_heads * K;
    const float* query_from = a.activations + static_cast<u64>(request) * (2 * keys_at + a.v_heads * a.v_dim) + shared_at;
    const float* key_from = query_from + keys_at;
    const float* value_from = query_from - shared_at + 2 * keys_at + head * a.v_dim;
    const i32 decays = DECAY_FOR_EACH_KEY ? a.v_heads * K : a.v_heads;
    const float* gates = a.gates + static_cast<u64>(request) * (decays + a.v_heads);
    const float beta = gates[decays + head];

    float state[DELTA_PASSES][OWN];
    Element* rows = static_cast<Element*>(a.state) + (static_cast<u64>(request) * a.v_heads + head) * a.v_dim * K;
    const i32 first = blockIdx.x * DELTA_ROWS + threadIdx.x / ROW_LANES;
#pragma unroll
    for (int pass = 0; pass < DELTA_PASSES; ++pass) {
        const i32 row = first + pass * (DELTA_THREADS / ROW_LANES);
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            float* to = state[pass] + piece * State::PIECE;
            if (row < a.v_dim) {
                State::load(rows + static_cast<u64>(row) * K + (piece * ROW_LANES + part) * State::PIECE, to);
            } else {
#pragma unroll
                for (int i = 0; i < State::PIECE; ++i) to[i] = 0.f;
            }
        }
    }

    // Key and query of the lane's dimensions; decay as well where each has its own.
    float key[OWN], query[OWN], decay[DECAY_FOR_EACH_KEY ? OWN : 1];
    float keys = 0.f, queries = 0.f, both = 0.f;
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        const int d = (i / State::PIECE * ROW_LANES + part) * State::PIECE + i % State::PIECE;
        key[i] = key_from[d];
        query[i] = query_from[d];
        keys += key[i] * key[i];
        queries += query[i] * query[i];
        both += key[i] * query[i];
        if (DECAY_FOR_EACH_KEY) decay[i] = gates[head * K + d];
    }
    if (!DECAY_FOR_EACH_KEY) decay[0] = gates[head];
    keys = sum_of_lanes<ROW_LANES>(keys);
    queries = sum_of_lanes<ROW_LANES>(queries);
    both = sum_of_lanes<ROW_LANES>(both);
    const float of_key = 1.f / sqrtf(keys + LENGTH_FLOOR), of_query = 1.f / sqrtf((queries + LENGTH_FLOOR) * K);
    const float agreement = both * of_key * of_query;
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        key[i] *= of_key;
        query[i] *= of_query;
    }

#pragma unroll
    for (int pass = 0; pass < DELTA_PASSES; ++pass) {
        const i32 row = first + pass * (DELTA_THREADS / ROW_LANES);
        float p = 0.f, r = 0.f;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            state[pass][i] *= decay[DECAY_FOR_EACH_KEY ? i : 0];
            p += state[pass][i] * key[i];
            r += state[pass][i] * query[i];
        }
        p = sum_of_lanes<ROW_LANES>(p);
        r = sum_of_lanes<ROW_LANES>(r);
        if (row >= a.v_dim) continue;
        const float u = beta * (value_from[row] - p);
#pragma unroll
        for (int i = 0; i < OWN; ++i) state[pass][i] += u * key[i];
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            Element* to = rows + static_cast<u64>(row) * K + (piece * ROW_LANES + part) * State::PIECE;
            State::store(to, state[pass] + piece * State::PIECE);
        }
        if (part == 0) a.output[(static_cast<u64>(request) * a.v_heads + head) * a.v_dim + row] = r + u * agreement;
    }
}

#define DELTA(name, State, K, DECAY_FOR_EACH_KEY) \
    KERNEL(DELTA_THREADS, name, DeltaArguments) { delta_step<State, K, DECAY_FOR_EACH_KEY>(a); }

#define DELTA_WIDTHS(form, DECAY_FOR_EACH_KEY)                           \
    DELTA(form##_f32_64, F32State, 64, DECAY_FOR_EACH_KEY)               \
    DELTA(form##_f32_128, F32State, 128, DECAY_FOR_EACH_KEY)             \
    DELTA(form##_f32_256, F32State, 256, DECAY_FOR_EACH_KEY)             \
    DELTA(form##_bf16_64, Bf16State, 64, DECAY_FOR_EACH_KEY)             \
    DELTA(form##_bf16_128, Bf16State, 128, DECAY_FOR_EACH_KEY)           \
    DELTA(form##_bf16_256, Bf16State, 256, DECAY_FOR_EACH_KEY)

DELTA_WIDTHS(gdn, false)
DELTA_WIDTHS(kda, true)
