// What the kernels ask of a GPU beyond plain C++: types, the words for kernels and shared memory, and one small function
// for each PTX instruction. No header is needed, so that NVRTC alone compiles it; sm_80 and newer. The emulation of
// `tests/emulation` puts twins of these in their place and compiles the rest of the text unchanged.
//
// The loader puts this text, `common.cuh` and one `.cu` after each other.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef int i32;

#define DEVICE static __device__ __forceinline__
// The same for a function of an object.
#define METHOD __device__ __forceinline__

// A kernel of at most so many threads a block, of which one has room: registers are worth more than occupancy here. All have
// one argument, a structure that holds everything.
#define KERNEL(threads, name, Arguments) extern "C" __global__ void __launch_bounds__(threads, 1) name(const Arguments a)

// Shared memory of a block, up to 48 KiB.
#define SHARED(Type, name) __shared__ Type name

// Shared memory of a block whose size the launch names.
#define DYNAMIC_SHARED(Type, name)                       \
    extern __shared__ uint4 dynamic_shared[];            \
    Type& name = *reinterpret_cast<Type*>(dynamic_shared)

// 4, 8 or 16 bytes.
template <int N>
struct __align__(4 * N) Words {
    u32 w[N];
};

// Reads data that no one writes while the kernel runs and that is read once: it does not stay in the first-level cache.
DEVICE Words<4> read_once(const Words<4>* from) {
    Words<4> r;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
        : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3])
        : "l"(from));
    return r;
}

DEVICE Words<2> read_once(const Words<2>* from) {
    Words<2> r;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(r.w[0]), "=r"(r.w[1]) : "l"(from));
    return r;
}

DEVICE Words<1> read_once(const Words<1>* from) {
    Words<1> r;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(r.w[0]) : "l"(from));
    return r;
}

// c += a · b over a tile of 16 × 8 × 16 (PTX ISA, "Matrix fragments for mma.m16n8k16"). Lane 4g + t holds of a the rows g
// and g + 8 in columns 2t, 2t + 1 (a[0], a[1]) and 2t + 8, 2t + 9 (a[2], a[3]); of b the column g in the same rows; of c
// the rows g (c[0], c[1]) and g + 8 (c[2], c[3]) in columns 2t, 2t + 1.
DEVICE void mma_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE void mma_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE u32 shared_address(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }

// Four 8 × 8 matrices of 16-bit values: lane 8i + r names row r of matrix i; lane 4g + t gets columns 2t, 2t + 1 of row g.
DEVICE void ldmatrix(u32 (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// The same, transposed: lane 4g + t gets rows 2t, 2t + 1 of column g.
DEVICE void ldmatrix_transposed(u32 (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Copies 16 or 8 bytes to shared memory without waiting; they are there after `wait_copies` of the lane that copied, and
// for others after a barrier as well.
DEVICE void copy_16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

DEVICE void copy_8(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

DEVICE void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most N of the groups that this lane ended are under way.
template <int N>
DEVICE void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Two numbers rounded to the nearest, the first in the low half.
DEVICE u32 pack_bf16(float low, float high) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

DEVICE u32 pack_f16(float low, float high) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

// a − b of two pairs of f16.
DEVICE u32 subtract_f16(u32 a, u32 b) {
    u32 r;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

// 2^x, to two units of the last place.
DEVICE float power_of_two(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// The clock of the multiprocessor, and nanoseconds since a fixed moment.
DEVICE u64 clock_ticks() {
    u64 r;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(r));
    return r;
}

DEVICE u64 nanoseconds() {
    u64 r;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(r));
    return r;
}
