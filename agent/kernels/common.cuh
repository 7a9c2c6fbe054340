// What several kernels share. Plain C++ over `device.cuh`.

constexpr u32 ALL_LANES = 0xffffffffu;
// Below every score, above minus infinity: differences with it stay numbers.
constexpr float NO_SCORE = -1e30f;
// The score of a place that holds no token; 2 to the power of its distance from any score is 0.
constexpr float NO_TOKEN = -3e38f;
constexpr float LOG2_E = 1.4426950408889634f;

DEVICE i32 minimum(i32 a, i32 b) { return a < b ? a : b; }
DEVICE i32 maximum(i32 a, i32 b) { return a > b ? a : b; }
DEVICE constexpr i32 pieces_of(i32 a, i32 b) { return (a + b - 1) / b; }

DEVICE float low_bf16(u32 pair) { return __uint_as_float(pair << 16); }
DEVICE float high_bf16(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
DEVICE float from_bf16(u16 value) { return __uint_as_float(static_cast<u32>(value) << 16); }

template <int N>
DEVICE Words<N> read_words(const u8* from) {
    return read_once(reinterpret_cast<const Words<N>*>(from));
}

// Sum over groups of `lanes` neighbouring lanes; every lane gets it.
template <int LANES>
DEVICE float sum_of_lanes(float value) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL_LANES, value, step);
    return value;
}

template <int LANES>
DEVICE float largest_of_lanes(float value) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, step));
    return value;
}

// The equal part of `count` things that `part` of `parts` takes, as [begin, end).
struct Share {
    i32 begin, end;
};

DEVICE Share share_of(i32 count, i32 part, i32 parts) {
    const i32 each = count / parts, rest = count % parts;
    const i32 begin = part * each + minimum(part, rest);
    return {begin, begin + each + (part < rest ? 1 : 0)};
}

// State values as kernels hold them: f32 in registers, whatever they are in memory. A piece is 16 bytes.
struct F32State {
    typedef float Element;
    static constexpr int PIECE = 4;

    DEVICE void load(const float* from, float* to) {
        const Words<4> words = *reinterpret_cast<const Words<4>*>(from);
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = __uint_as_float(words.w[i]);
    }

    DEVICE void store(float* to, const float* from) {
        Words<4> words;
#pragma unroll
        for (int i = 0; i < 4; ++i) words.w[i] = __float_as_uint(from[i]);
        *reinterpret_cast<Words<4>*>(to) = words;
    }
};

// Rounded to the nearest after every step.
struct Bf16State {
    typedef u16 Element;
    static constexpr int PIECE = 8;

    DEVICE void load(const u16* from, float* to) {
        const Words<4> words = *reinterpret_cast<const Words<4>*>(from);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            to[2 * i] = low_bf16(words.w[i]);
            to[2 * i + 1] = high_bf16(words.w[i]);
        }
    }

    DEVICE void store(u16* to, const float* from) {
        Words<4> words;
#pragma unroll
        for (int i = 0; i < 4; ++i) words.w[i] = pack_bf16(from[2 * i], from[2 * i + 1]);
        *reinterpret_cast<Words<4>*>(to) = words;
    }
};
