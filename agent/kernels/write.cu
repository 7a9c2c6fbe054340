// Writes the record of one new row, or one new index key, for each request: what a step adds to the stores of `shared_rows.cu` and
// `indexer.cu`, whose pages are described there.
//
// Bound: launch time. A row is 512 or 576 values; a thread packs 16 of them and finds the scale of their block, of up to 128
// values, by itself.
//
// Scales are the smallest that keep every value of their block in range: the largest magnitude over 448 (e4m3) or 6 (e2m1), as
// an f32, the next power of two above (e8m0), or the nearest e4m3. Values are rounded to the nearest, ties to even.
//
// References: OCP 8-bit floating point and microscaling specifications; FlashMLA's README.

constexpr int WRITE_THREADS = 64;
constexpr int PAGE_SLOTS = 64;
constexpr float LARGEST_E4M3 = 448.f;
constexpr float LARGEST_E2M1 = 6.f;
constexpr float SMALLEST_NORMAL = 1.17549435e-38f;

struct WriteArguments {
    const float* rows;   // [request][width]
    u8* pages;           // of one layer
    const i32* slots;    // [request]: physical page × 64 + place; negative for requests that write nothing
};

DEVICE float magnitude(float value) { return value < 0.f ? -value : value; }

DEVICE u32 to_e4m3(float value) {
    const u32 sign = __float_as_uint(value) >> 24 & 0x80u;
    const float size = fminf(magnitude(value), LARGEST_E4M3);
    // Subnormals are multiples of 2^-9, and 8 of them the smallest normal; to add 2^23 rounds to the nearest whole number.
    if (size < 0.015625f) return sign | (__float_as_uint(size * 512.f + 8388608.f) & 0xffu);
    const u32 bits = __float_as_uint(size);
    return sign | (((bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20) - (120u << 3));
}

DEVICE float from_e4m3(u32 code) { return __uint_as_float((code & 0x80u) << 24 | (code & 0x7fu) << 20) * 0x1p120f; }

DEVICE u32 to_e2m1(float value) {
    const float size = magnitude(value);
    // Half way between 0, 0.5, 1, 1.5, 2, 3, 4, 6; a tie goes to the even code.
    const u32 code = (size > 0.25f) + (size >= 0.75f) + (size > 1.25f) + (size >= 1.75f) + (size > 2.5f) + (size >= 3.5f) + (size > 5.f);
    return (__float_as_uint(value) >> 28 & 8u) | code;
}

// The code of the smallest power of two that is at least `value`.
DEVICE u32 to_e8m0_above(float value) {
    const u32 bits = __float_as_uint(fmaxf(value, SMALLEST_NORMAL));
    const u32 exponent = (bits >> 23) + ((bits & 0x7fffffu) != 0);
    return exponent < 254 ? exponent : 254;
}

DEVICE float from_e8m0(u32 code) { return __uint_as_float(code << 23); }

template <int COUNT>
DEVICE float largest_of(const float* block) {
    float largest = 0.f;
    for (int i = 0; i < COUNT; ++i) largest = fmaxf(largest, magnitude(block[i]));
    return largest;
}

DEVICE void write_bf16(const float* from, u8* to) {
    u32* words = reinterpret_cast<u32*>(to);
#pragma unroll
    for (int i = 0; i < 8; ++i) words[i] = pack_bf16(from[2 * i], from[2 * i + 1]);
}

DEVICE void write_e4m3(const float* from, float scale, u8* to) {
    const float divisor = fmaxf(scale, SMALLEST_NORMAL);
#pragma unroll
    for (int i = 0; i < 16; ++i) to[i] = to_e4m3(from[i] / divisor);
}

// Pieces of 16 values: `write` packs one of them into the record or key at `slot`.
struct WriteBf16Latent {
    static constexpr int PIECES = 36;
    DEVICE void write(const float* row, int piece, u8* pages, u64 slot) {
        write_bf16(row + 16 * piece, pages + slot * 1152 + 32 * piece);
    }
};

struct WriteBf16Entry {
    static constexpr int PIECES = 32;
    DEVICE void write(const float* row, int piece, u8* pages, u64 slot) {
        write_bf16(row + 16 * piece, pages + slot * 1024 + 32 * piece);
    }
};

struct WriteScaledLatent {
    static constexpr int PIECES = 36;
    DEVICE void write(const float* row, int piece, u8* pages, u64 slot) {
        u8* record = pages + slot * 656;
        if (piece >= 32) return write_bf16(row + 16 * piece, record + 528 + 32 * (piece - 32));
        const float scale = largest_of<128>(row + piece / 8 * 128) / LARGEST_E4M3;
        if (piece % 8 == 0) reinterpret_cast<float*>(record + 512)[piece / 8] = scale;
        write_e4m3(row + 16 * piece, scale, record + 16 * piece);
    }
};

struct WriteScaledEntry {
    static constexpr int PIECES = 32;
    DEVICE void write(const float* row, int piece, u8* pages, u64 slot) {
        u8* page = pages + slot / PAGE_SLOTS * (PAGE_SLOTS * 584);
        u8* record = page + slot % PAGE_SLOTS * 576;
        u8* scales = page + PAGE_SLOTS * 576 + slot % PAGE_SLOTS * 8;
        if (piece == 28) scales[7] = 0;
        if (piece >= 28) return write_bf16(row + 16 * piece, record + 448 + 32 * (piece - 28));
        const u32 code = to_e8m0_above(largest_of<64>(row + piece / 4 * 64) / LARGEST_E4M3);
        if (piece % 4 == 0) scales[piece / 4] = code;
        write_e4m3(row + 16 * piece, from_e8m0(code), record + 16 * piece);
    }
};

struct WriteMxfp8 {
    static constexpr int PIECES = 32;
    DEVICE void write(const float* row, int piece, u8* pages, u64 slot) {
        u8* record = pages + slot * 528;
        const u32 code = to_e8m0_above(largest_of<32>(row + piece / 2 * 32) / LARGEST_E4M3);
        if (piece % 2 == 0) record[512 + piece / 2] = code;
        write_e4m3(row + 16 * piece, from_e8m0(code), record + 16 * piece);
    }
};

struct WriteNvfp4 {
    static constexpr int PIECES = 32;
    DEVICE void write(const float* row, int piece, u8* pages, u64 slot) {
        u8* record = pages + slot * 288;
        const float* values = row + 16 * piece;
        const u32 code = to_e4m3(largest_of<16>(values) / LARGEST_E2M1);
        record[256 + piece] = code;
        const float scale = fmaxf(from_e4m3(code), SMALLEST_NORMAL);
#pragma unroll
        for (int i = 0; i < 8; ++i) record[8 * piece + i] = to_e2m1(values[2 * i] / scale) | to_e2m1(values[2 * i + 1] / scale) << 4;
    }
};

struct WriteFp8Key {
    static constexpr int PIECES = 8;
    DEVICE void write(const float* row, int piece, u8* pages, u64 slot) {
        u8* page = pages + slot / PAGE_SLOTS * (PAGE_SLOTS * 132);
        const float scale = fmaxf(largest_of<128>(row) / LARGEST_E4M3, SMALLEST_NORMAL);
        if (piece == 0) reinterpret_cast<float*>(page + PAGE_SLOTS * 128)[slot % PAGE_SLOTS] = scale;
        write_e4m3(row + 16 * piece, scale, page + slot % PAGE_SLOTS * 128 + 16 * piece);
    }
};

struct WriteFp4Key {
    static constexpr int PIECES = 8;
    DEVICE void write(const float* row, int piece, u8* pages, u64 slot) {
        u8* page = pages + slot / PAGE_SLOTS * (PAGE_SLOTS * 68);
        u8* key = page + slot % PAGE_SLOTS * 64;
        const int block = piece / 2;
        const u32 code = to_e8m0_above(largest_of<32>(row + block * 32) / LARGEST_E2M1);
        if (piece % 2 == 0) page[PAGE_SLOTS * 64 + slot % PAGE_SLOTS * 4 + block] = code;
        const float scale = from_e8m0(code);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            // Dimensions 32 × block + 8t + 2 (i % 4) and the next.
            const int t = piece % 2 * 2 + i / 4;
            const float* two = row + 32 * block + 8 * t + 2 * (i % 4);
            key[16 * t + 4 * block + i % 4] = to_e2m1(two[0] / scale) | to_e2m1(two[1] / scale) << 4;
        }
    }
};

struct WriteBf16Key {
    static constexpr int PIECES = 8;
    DEVICE void write(const float* row, int piece, u8* pages, u64 slot) {
        write_bf16(row + 16 * piece, pages + slot * 256 + 32 * piece);
    }
};

// grid: (requests)
template <class Writer>
DEVICE void write_row(const WriteArguments& a) {
    const i32 slot = a.slots[blockIdx.x];
    if (slot < 0 || threadIdx.x >= Writer::PIECES) return;
    Writer::write(a.rows + static_cast<u64>(blockIdx.x) * Writer::PIECES * 16, threadIdx.x, a.pages, slot);
}

#define WRITE(name, Writer) \
    KERNEL(WRITE_THREADS, name, WriteArguments) { write_row<Writer>(a); }

WRITE(write_bf16_latent, WriteBf16Latent)
WRITE(write_bf16_entry, WriteBf16Entry)
WRITE(write_scaled_latent, WriteScaledLatent)
WRITE(write_scaled_entry, WriteScaledEntry)
WRITE(write_mxfp8, WriteMxfp8)
WRITE(write_nvfp4, WriteNvfp4)
WRITE(write_key_fp8, WriteFp8Key)
WRITE(write_key_fp4, WriteFp4Key)
WRITE(write_key_bf16, WriteBf16Key)
