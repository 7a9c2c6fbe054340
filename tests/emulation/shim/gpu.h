// Twins of what a GPU gives to a kernel, in place of `device.cuh`: the same names over fibers. The rest of a kernel's text
// is compiled unchanged.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "fibers.h"
#include "numbers.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef int8_t i8;
typedef int32_t i32;

#define DEVICE static inline
#define __align__(n) alignas(n)
#define METHOD inline

// Kernels by name, entered before `main` runs.
namespace emulation {
struct Kernel {
    const char* name;
    unsigned most_threads;
    size_t argument_bytes;
    Body body;
    Kernel* next;
};
inline Kernel* kernels = nullptr;

struct Entry : Kernel {
    Entry(const char* name, unsigned threads, size_t bytes, Body body) : Kernel{name, threads, bytes, body, kernels} {
        kernels = this;
    }
};
}   // namespace emulation

#define KERNEL(threads, name, Arguments)                                                                   \
    static void name([[maybe_unused]] const Arguments a);                                                                   \
    static const emulation::Entry name##_entry(#name, threads, sizeof(Arguments),                          \
                                               [](const void* a) { name(*static_cast<const Arguments*>(a)); }); \
    static void name([[maybe_unused]] const Arguments a)

#define SHARED(Type, name) Type& name = *static_cast<Type*>(emulation::static_shared(sizeof(Type)))
#define DYNAMIC_SHARED(Type, name) Type& name = *static_cast<Type*>(emulation::dynamic_shared(sizeof(Type)))

#define threadIdx (emulation::place().thread)
#define blockIdx (emulation::launch().index)
#define blockDim (emulation::launch().block)
#define gridDim (emulation::launch().grid)

// Where a call stands in the kernel's text tells barriers and exchanges apart.
#define SITE int site = __builtin_LINE()

static inline void __syncthreads(SITE) { emulation::barrier(site); }

static inline void demand_all_lanes(u32 mask) {
    if (mask == 0xffffffffu) return;
    std::fprintf(stderr, "emulation: an exchange of %08x; kernels here exchange among all lanes\n", mask);
    std::_Exit(3);
}

// What every lane has of a value, after all have come.
template <class T>
struct Lanes {
    const unsigned char* messages;
    T operator[](unsigned lane) const {
        T value;
        std::memcpy(&value, messages + lane * emulation::MESSAGE, sizeof value);
        return value;
    }
};

template <class T>
static inline Lanes<T> exchange(int site, const T& value) {
    static_assert(sizeof(T) <= emulation::MESSAGE && std::is_trivially_copyable_v<T>);
    return {emulation::exchange(site, &value, sizeof value)};
}

static inline void __syncwarp(u32 mask = 0xffffffffu, SITE) {
    demand_all_lanes(mask);
    exchange(site, 0);
}

template <class T>
static inline T __shfl_sync(u32 mask, T value, int lane, SITE) {
    demand_all_lanes(mask);
    return exchange(site, value)[lane & 31];
}

template <class T>
static inline T __shfl_xor_sync(u32 mask, T value, int bits, SITE) {
    demand_all_lanes(mask);
    return exchange(site, value)[emulation::place().lane ^ bits];
}

template <class T>
static inline T __shfl_up_sync(u32 mask, T value, unsigned step, SITE) {
    demand_all_lanes(mask);
    const unsigned lane = emulation::place().lane;
    return exchange(site, value)[lane >= step ? lane - step : lane];
}

template <class T>
static inline T __shfl_down_sync(u32 mask, T value, unsigned step, SITE) {
    demand_all_lanes(mask);
    const unsigned lane = emulation::place().lane;
    return exchange(site, value)[lane + step < 32 ? lane + step : lane];
}

static inline u32 __ballot_sync(u32 mask, int predicate, SITE) {
    demand_all_lanes(mask);
    const auto lanes = exchange(site, predicate != 0);
    u32 ballot = 0;
    for (unsigned lane = 0; lane < 32; ++lane) ballot |= u32{lanes[lane]} << lane;
    return ballot;
}

template <class T>
static inline T atomicAdd(T* at, T value) {
    static_assert(std::is_integral_v<T>, "sums of floats depend on the order of threads");
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

static inline u32 __float_as_uint(float value) { return numbers::bits_of(value); }
static inline float __uint_as_float(u32 bits) { return numbers::from_bits(bits); }
static inline int __popc(u32 bits) { return __builtin_popcount(bits); }

// Byte i of the result is the byte of {high, low} that nibble i of the selector names.
static inline u32 __byte_perm(u32 low, u32 high, u32 selector) {
    const u64 bytes = u64{high} << 32 | low;
    u32 result = 0;
    for (int i = 0; i < 4; ++i) result |= u32(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}

template <int N>
struct alignas(4 * N) Words {
    u32 w[N];
};

template <int N>
static inline Words<N> read_once(const Words<N>* from) {
    if (reinterpret_cast<uintptr_t>(from) % (4 * N) != 0) {
        std::fprintf(stderr, "emulation: a load of %d bytes from an address that is no multiple of it\n", 4 * N);
        std::_Exit(3);
    }
    return *from;
}

// The operands of `mma.m16n8k16` that one lane holds.
struct MmaOperands {
    u32 a[4], b[2];
};

// Element (row, k) of a and (k, column) of b, by the tables of the PTX ISA.
template <class Widen>
static inline void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, int site, Widen widen) {
    const auto lanes = exchange(site, MmaOperands{{a[0], a[1], a[2], a[3]}, {b0, b1}});
    const unsigned g = emulation::place().lane / 4, t = emulation::place().lane % 4;
    for (unsigned quarter = 0; quarter < 4; ++quarter) {
        const MmaOperands row = lanes[4 * g + quarter], left = lanes[4 * (2 * t) + quarter], right = lanes[4 * (2 * t + 1) + quarter];
        for (int half = 0; half < 2; ++half) {
            for (int i = 0; i < 2; ++i) {
                const float upper = widen(u16(row.a[2 * half] >> 16 * i)), lower = widen(u16(row.a[2 * half + 1] >> 16 * i));
                const float x = widen(u16(left.b[half] >> 16 * i)), y = widen(u16(right.b[half] >> 16 * i));
                c[0] += upper * x;
                c[1] += upper * y;
                c[2] += lower * x;
                c[3] += lower * y;
            }
        }
    }
}

static inline void mma_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, SITE) {
    mma(c, a, b0, b1, site, numbers::from_bf16);
}

static inline void mma_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, SITE) {
    mma(c, a, b0, b1, site, numbers::from_f16);
}

static inline void ldmatrix(u32 (&r)[4], const void* row, SITE) {
    const auto rows = exchange(site, static_cast<const u32*>(row));
    const unsigned lane = emulation::place().lane;
    for (unsigned i = 0; i < 4; ++i) r[i] = rows[8 * i + lane / 4][lane % 4];
}

static inline void ldmatrix_transposed(u32 (&r)[4], const void* row, SITE) {
    const auto rows = exchange(site, static_cast<const u16*>(row));
    const unsigned lane = emulation::place().lane, g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < 4; ++i) {
        r[i] = rows[8 * i + 2 * t][g] | u32{rows[8 * i + 2 * t + 1][g]} << 16;
    }
}

static inline void copy_16(void* to, const void* from) { emulation::start_copy(to, from, 16); }
static inline void copy_8(void* to, const void* from) { emulation::start_copy(to, from, 8); }
static inline void end_copy_group() { emulation::end_copy_group(); }
template <int N>
static inline void wait_copies() {
    emulation::wait_copies(N);
}

static inline u32 pack_bf16(float low, float high) { return numbers::to_bf16(low) | u32{numbers::to_bf16(high)} << 16; }
static inline u32 pack_f16(float low, float high) { return numbers::to_f16(low) | u32{numbers::to_f16(high)} << 16; }
static inline u32 subtract_f16(u32 a, u32 b) {
    const auto half = [](u32 pair, int i) { return numbers::from_f16(u16(pair >> 16 * i)); };
    return pack_f16(half(a, 0) - half(b, 0), half(a, 1) - half(b, 1));
}
static inline float power_of_two(float x) { return std::exp2(x); }
static inline u64 clock_ticks() { return 0; }
static inline u64 nanoseconds() { return 0; }
