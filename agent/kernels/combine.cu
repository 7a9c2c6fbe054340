// Joins the parts into which the tokens of a head were split.
//
//     output = Σ_s 2^(m_s − m) × sums_s / (Σ_s 2^(m_s − m) × total_s + 2^(sink − m))     with m the largest of all m_s and the sink
//
// Bound: launch time, then memory: `splits × (width + 2) × 4` bytes read for each head and request, `width × 4` written, and
// about 2 FLOPs for each of 4 bytes. With splits of some hundred tokens this is below 2 % of what the attention reads.
//
// A block is one head of one request; every thread has its own columns and finds the largest score for itself, so nothing is
// shared. A sink, where a model has one for each head, is a score without a value (gpt-oss; DeepSeek-V4); it is base 2 here.
//
// Reference: Flash-Decoding (Dao et al., 2023).

constexpr int COMBINE_THREADS = 128;

struct CombineArguments {
    const float* parts;   // [request][heads][splits][width + 2]
    const float* sinks;   // [heads], or null
    float* output;        // [request][heads][width]
    i32 splits;
    i32 width;
};

KERNEL(COMBINE_THREADS, combine, CombineArguments) {
    const i32 head = blockIdx.x, heads = gridDim.x, request = blockIdx.y;
    const i32 stride = a.width + 2;
    const u64 place = static_cast<u64>(request) * heads + head;
    const float* parts = a.parts + place * a.splits * stride;

    float top = a.sinks ? a.sinks[head] : NO_SCORE;
    for (i32 split = 0; split < a.splits; ++split) top = fmaxf(top, parts[split * stride + a.width]);
    float total = a.sinks ? power_of_two(a.sinks[head] - top) : 0.f;
    for (i32 split = 0; split < a.splits; ++split) {
        const float* part = parts + split * stride + a.width;
        total += power_of_two(part[0] - top) * part[1];
    }
    for (i32 d = threadIdx.x; d < a.width; d += COMBINE_THREADS) {
        float sum = 0.f;
        for (i32 split = 0; split < a.splits; ++split) {
            const float* part = parts + split * stride;
            sum += power_of_two(part[a.width] - top) * part[d];
        }
        a.output[place * a.width + d] = sum / total;
    }
}
