// The short causal convolution before a recurrence, or alone: `y = Σ w_j·s_j + w_last·x` for each channel; then the oldest of the
// kept inputs leaves and x comes.
//
// Bound: memory. `(taps − 1) × channels` values are read and as many written, `2 × taps` FLOPs a channel: 2/3 FLOP a byte with
// bf16 state and 4 taps. Taps are weights, in bf16. Beside a recurrence of 128 values a channel this is 2 % of the bytes, and
// a launch of its own costs more than its memory; it is measured alone for models that keep nothing else (LFM2).
//
// Tile: a thread has one 16-byte piece of channels in every column, reads all of them, then writes them one column further.
//
// State: [request][taps − 1][channels], the oldest first, f32 or bf16. Inputs, f32: x [channels] and, in the variant with
// factors, what x is multiplied with before and what the sum is multiplied with after [2][channels]. Without factors the sum
// goes through x·σ(x) (gated DeltaNet, KDA, Mamba). `channels` is a multiple of 8.
//
// References: arXiv 2312.00752; LFM2's block for the factors.

constexpr int CONVOLUTION_THREADS = 128;

struct ConvolutionArguments {
    void* state;
    const u16* taps;       // bf16 [taps][channels]
    const float* inputs;   // [request][channels], or [request][3][channels]
    float* output;         // [request][channels]
    i32 channels;
};

DEVICE float silu(float x) { return x / (1.f + power_of_two(-x * LOG2_E)); }

// grid: (channels / (128 × channels of a piece) rounded up, requests)
template <class State, int TAPS, bool FACTORS>
DEVICE void convolution_step(const ConvolutionArguments& a) {
    constexpr int PIECE = State::PIECE;
    const i32 channel = (blockIdx.x * CONVOLUTION_THREADS + threadIdx.x) * PIECE, request = blockIdx.y;
    if (channel >= a.channels) return;
    typename State::Element* state = static_cast<typename State::Element*>(a.state) + static_cast<u64>(request) * (TAPS - 1) * a.channels + channel;
    const float* inputs = a.inputs + static_cast<u64>(request) * (FACTORS ? 3 : 1) * a.channels + channel;

    float kept[TAPS][PIECE];
#pragma unroll
    for (int column = 0; column < TAPS - 1; ++column) State::load(state + static_cast<u64>(column) * a.channels, kept[column]);
#pragma unroll
    for (int i = 0; i < PIECE; ++i) kept[TAPS - 1][i] = FACTORS ? inputs[i] * inputs[a.channels + i] : inputs[i];
    float sums[PIECE] = {};
#pragma unroll
    for (int column = 0; column < TAPS; ++column) {
#pragma unroll
        for (int i = 0; i < PIECE; ++i) sums[i] += from_bf16(a.taps[column * a.channels + channel + i]) * kept[column][i];
    }
#pragma unroll
    for (int column = 0; column < TAPS - 1; ++column) State::store(state + static_cast<u64>(column) * a.channels, kept[column + 1]);
    float* output = a.output + static_cast<u64>(request) * a.channels + channel;
#pragma unroll
    for (int i = 0; i < PIECE; ++i) output[i] = FACTORS ? sums[i] * inputs[2 * a.channels + i] : silu(sums[i]);
}

#define CONVOLUTION(name, State, TAPS, FACTORS) \
    KERNEL(CONVOLUTION_THREADS, name, ConvolutionArguments) { convolution_step<State, TAPS, FACTORS>(a); }

CONVOLUTION(convolution_f32_3, F32State, 3, false)
CONVOLUTION(convolution_f32_4, F32State, 4, false)
CONVOLUTION(convolution_bf16_3, Bf16State, 3, false)
CONVOLUTION(convolution_bf16_4, Bf16State, 4, false)
CONVOLUTION(convolution_factors_f32_3, F32State, 3, true)
CONVOLUTION(convolution_factors_f32_4, F32State, 4, true)
CONVOLUTION(convolution_factors_bf16_3, Bf16State, 3, true)
CONVOLUTION(convolution_factors_bf16_4, Bf16State, 4, true)
