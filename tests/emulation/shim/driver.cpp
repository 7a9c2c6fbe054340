// A CUDA driver for tests: its device memory is memory of the host, and its kernels are those of the agent, run by fibers. The
// host code that loads it runs unchanged; times that it tells mean nothing, and `kvscope_emulated_driver` says so.
//
// Signatures and codes are those of the driver API's documentation. Work runs as it is started, or, while a stream records,
// when the graph is started. KVSCOPE_EMULATION, words separated by commas, makes it fail:
//
//   memory=BYTES       the device has so much (64 MiB where nothing is said)
//   no-device          it starts and finds nothing
//   old                it is a driver of CUDA 11.8
//   lost-at=NAME:N     run N of a kernel of this name fails, and every later call with it
//   hang-at=NAME:N     run N of a kernel of this name never ends
//   skip=NAME          a kernel of this name does nothing, so that its result is wrong

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "gpu.h"

namespace {

enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719,
};

using Address = unsigned long long;
using Operation = std::function<int()>;

// One run of one kernel.
struct At {
    std::string name;
    long run = 0;

    void read(const std::string& text) {
        const size_t colon = text.find(':');
        name = text.substr(0, colon);
        run = colon == std::string::npos ? 1 : std::atol(text.c_str() + colon + 1);
    }
};

// What the variable asks for.
struct Wish {
    size_t memory = size_t{64} << 20;
    bool no_device = false, old = false;
    At lost, hang;
    std::string skip;

    Wish() {
        const char* text = std::getenv("KVSCOPE_EMULATION");
        std::string rest = text ? text : "";
        while (!rest.empty()) {
            const size_t end = rest.find(',');
            const std::string word = rest.substr(0, end);
            rest = end == std::string::npos ? "" : rest.substr(end + 1);
            const size_t equals = word.find('=');
            const std::string name = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
            if (name == "memory") memory = std::strtoull(value.c_str(), nullptr, 10);
            if (name == "no-device") no_device = true;
            if (name == "old") old = true;
            if (name == "lost-at") lost.read(value);
            if (name == "hang-at") hang.read(value);
            if (name == "skip") skip = value;
        }
    }
};

struct Event {
    double milliseconds = 0;
    bool never = false;
};

struct Graph {
    std::vector<Operation> operations;
};

struct Stream {
    bool records = false;
    Graph graph;
};

struct Function {
    const emulation::Kernel* kernel;
    size_t most_dynamic = 48 * 1024;
};

const Wish& wish() {
    static const Wish wish;
    return wish;
}

// Calls come from one thread at a time; the lock is for a process that has several.
std::recursive_mutex lock;
std::map<Address, size_t> allocations;
std::map<void*, size_t> locked;
size_t used = 0;
std::map<std::string, long> runs;
bool hangs = false;
int failure = SUCCESS;
void* current = nullptr;
constexpr size_t MOST_SHARED = 227 * 1024;
constexpr size_t GRANULARITY = 512;

double now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_inside(Address at, size_t bytes) {
    auto found = allocations.upper_bound(at);
    if (found == allocations.begin()) return false;
    --found;
    return at + bytes <= found->first + found->second;
}

int run(void* stream, Operation operation) {
    auto* to = static_cast<Stream*>(stream);
    if (to && to->records) {
        to->graph.operations.push_back(std::move(operation));
        return SUCCESS;
    }
    return operation();
}

int run_kernel(const emulation::Kernel& kernel, emulation::Size3 grid, unsigned threads, size_t dynamic,
               const std::vector<uint64_t>& argument) {
    const long number = ++runs[kernel.name];
    const auto is = [&](const At& at) { return at.name == kernel.name && at.run == number; };
    if (is(wish().lost)) failure = LAUNCH_FAILED;
    if (is(wish().hang)) hangs = true;
    if (failure || hangs || wish().skip == kernel.name) return SUCCESS;
    emulation::run_grid(grid, {threads, 1, 1}, dynamic, emulation::Order::Rising, kernel.body, argument.data());
    return SUCCESS;
}

}   // namespace

#define GUARD                                        \
    std::lock_guard<std::recursive_mutex> guard(lock); \
    if (failure) return failure

extern "C" {

int kvscope_emulated_driver() { return 1; }

int cuInit(unsigned flags) { return flags == 0 ? wish().no_device ? NO_DEVICE : SUCCESS : INVALID_VALUE; }

int cuDriverGetVersion(int* version) {
    *version = wish().old ? 11080 : 12080;
    return SUCCESS;
}

int cuDeviceGetCount(int* count) {
    *count = 1;
    return SUCCESS;
}

int cuDeviceGet(int* device, int number) {
    *device = number;
    return number == 0 ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetName(char* name, int length, int) {
    std::snprintf(name, length, "Emulated GPU");
    return SUCCESS;
}

int cuDeviceGetUuid(unsigned char* uuid, int) {
    for (unsigned i = 0; i < 16; ++i) uuid[i] = i;
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = wish().memory;
    return SUCCESS;
}

// Numbers of CUdevice_attribute: a small chip of capability 9.0.
int cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 75: *value = 9; break;              // capability, major
        case 76: *value = 0; break;              // and minor
        case 16: *value = 2; break;              // multiprocessors
        case 38: *value = 64 << 10; break;       // second-level cache
        case 97: *value = MOST_SHARED; break;    // shared memory of a block
        default: *value = 0;
    }
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void** context, int) {
    GUARD;
    *context = &current;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int) { return failure; }

int cuCtxSetCurrent(void* context) {
    GUARD;
    current = context;
    return SUCCESS;
}

int cuCtxGetCurrent(void** context) {
    *context = current;
    return SUCCESS;
}

int cuCtxSynchronize() { return failure; }

int cuGetErrorName(int, const char** text) {
    *text = "EMULATED_ERROR";
    return SUCCESS;
}

int cuGetErrorString(int, const char** text) {
    *text = "an error of the emulated driver";
    return SUCCESS;
}

int cuMemAlloc_v2(Address* at, size_t bytes) {
    GUARD;
    const size_t whole = (bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    if (bytes == 0) return INVALID_VALUE;
    if (whole > wish().memory - used) return OUT_OF_MEMORY;
    void* memory = nullptr;
    if (posix_memalign(&memory, GRANULARITY, whole)) return OUT_OF_MEMORY;
    // What nobody wrote is NaN.
    std::memset(memory, 0xff, whole);
    used += whole;
    *at = reinterpret_cast<Address>(memory);
    allocations[*at] = whole;
    return SUCCESS;
}

int cuMemFree_v2(Address at) {
    GUARD;
    const auto found = allocations.find(at);
    if (found == allocations.end()) return INVALID_VALUE;
    used -= found->second;
    allocations.erase(found);
    std::free(reinterpret_cast<void*>(at));
    return SUCCESS;
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
    GUARD;
    *total = wish().memory;
    *free = wish().memory - used;
    return SUCCESS;
}

// Ranges that are locked; each is unlocked once.
int cuMemHostRegister_v2(void* start, size_t bytes, unsigned) {
    GUARD;
    if (bytes == 0 || reinterpret_cast<uintptr_t>(start) % 4096 != 0 || locked.count(start)) return INVALID_VALUE;
    locked[start] = bytes;
    return SUCCESS;
}

int cuMemHostUnregister(void* start) {
    GUARD;
    return locked.erase(start) ? SUCCESS : INVALID_VALUE;
}

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
    GUARD;
    if (!is_inside(to, bytes)) return INVALID_VALUE;
    return run(stream, [=] {
        std::memcpy(reinterpret_cast<void*>(to), from, bytes);
        return int{SUCCESS};
    });
}

int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
    GUARD;
    if (!is_inside(from, bytes)) return INVALID_VALUE;
    return run(stream, [=] {
        std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
        return int{SUCCESS};
    });
}

int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
    GUARD;
    if (!is_inside(to, bytes) || !is_inside(from, bytes)) return INVALID_VALUE;
    return run(stream, [=] {
        std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
        return int{SUCCESS};
    });
}

int cuMemsetD8Async(Address at, unsigned char value, size_t bytes, void* stream) {
    GUARD;
    if (!is_inside(at, bytes)) return INVALID_VALUE;
    return run(stream, [=] {
        std::memset(reinterpret_cast<void*>(at), value, bytes);
        return int{SUCCESS};
    });
}

int cuModuleLoadData(void** module, const void* image) {
    GUARD;
    // As `nvrtc.cpp` makes it.
    if (std::strncmp(static_cast<const char*>(image), "emulated image", 14) != 0) return 200;
    *module = new std::string(static_cast<const char*>(image));
    return SUCCESS;
}

int cuModuleUnload(void* module) {
    GUARD;
    delete static_cast<std::string*>(module);
    return SUCCESS;
}

int cuModuleGetFunction(void** function, void*, const char* name) {
    GUARD;
    for (const emulation::Kernel* kernel = emulation::kernels; kernel; kernel = kernel->next) {
        if (std::strcmp(name, kernel->name) == 0) {
            *function = new Function{kernel};
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

int cuFuncGetAttribute(int* value, int, void*) {
    *value = 0;
    return failure;
}

int cuFuncSetAttribute(void* function, int attribute, int value) {
    GUARD;
    constexpr int MOST_DYNAMIC_SHARED = 8;
    if (attribute != MOST_DYNAMIC_SHARED || value < 0 || size_t(value) > MOST_SHARED) return INVALID_VALUE;
    static_cast<Function*>(function)->most_dynamic = size_t(value);
    return SUCCESS;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void*, int, size_t, unsigned) {
    GUARD;
    *blocks = 1;
    return SUCCESS;
}

int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y, unsigned threads_z,
                   unsigned dynamic, void* stream, void** parameters, void**) {
    GUARD;
    const Function& asked = *static_cast<Function*>(function);
    const emulation::Kernel& kernel = *asked.kernel;
    if (x == 0 || y == 0 || z == 0 || y > 65535 || z > 65535 || threads_y != 1 || threads_z != 1) return INVALID_VALUE;
    if (threads == 0 || threads > kernel.most_threads || dynamic > asked.most_dynamic) return INVALID_VALUE;
    // The driver copies the parameters now, as many bytes as the kernel takes.
    std::vector<uint64_t> argument((kernel.argument_bytes + 7) / 8);
    std::memcpy(argument.data(), parameters[0], kernel.argument_bytes);
    return run(stream, [=, &kernel] { return run_kernel(kernel, {x, y, z}, threads, dynamic, argument); });
}

int cuStreamCreate(void** stream, unsigned) {
    GUARD;
    *stream = new Stream;
    return SUCCESS;
}

int cuStreamDestroy_v2(void* stream) {
    GUARD;
    delete static_cast<Stream*>(stream);
    return SUCCESS;
}

int cuStreamWaitEvent(void*, void*, unsigned) { return failure; }
int cuStreamSynchronize(void*) { return failure; }

int cuStreamBeginCapture_v2(void* stream, int) {
    GUARD;
    auto* to = static_cast<Stream*>(stream);
    if (to->records) return INVALID_VALUE;
    to->records = true;
    to->graph = {};
    return SUCCESS;
}

int cuStreamEndCapture(void* stream, void** graph) {
    GUARD;
    auto* to = static_cast<Stream*>(stream);
    if (!to->records) return INVALID_VALUE;
    to->records = false;
    *graph = new Graph(std::move(to->graph));
    return SUCCESS;
}

int cuStreamIsCapturing(void* stream, int* status) {
    *status = static_cast<Stream*>(stream)->records;
    return failure;
}

int cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long) {
    GUARD;
    *made = new Graph(*static_cast<Graph*>(graph));
    return SUCCESS;
}

int cuGraphUpload(void*, void*) { return failure; }

int cuGraphLaunch(void* made, void*) {
    GUARD;
    for (const Operation& operation : static_cast<Graph*>(made)->operations) {
        if (const int code = operation()) return code;
    }
    return SUCCESS;
}

int cuGraphDestroy(void* graph) {
    GUARD;
    delete static_cast<Graph*>(graph);
    return SUCCESS;
}

int cuGraphExecDestroy(void* made) {
    GUARD;
    delete static_cast<Graph*>(made);
    return SUCCESS;
}

int cuEventCreate(void** event, unsigned) {
    GUARD;
    *event = new Event;
    return SUCCESS;
}

int cuEventRecord(void* event, void* stream) {
    GUARD;
    return run(stream, [=] {
        *static_cast<Event*>(event) = {now(), hangs};
        return int{SUCCESS};
    });
}

int cuEventQuery(void* event) {
    GUARD;
    return static_cast<Event*>(event)->never ? NOT_READY : SUCCESS;
}

int cuEventSynchronize(void*) { return failure; }

int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
    GUARD;
    *milliseconds = float(static_cast<Event*>(end)->milliseconds - static_cast<Event*>(begin)->milliseconds);
    return SUCCESS;
}

int cuEventDestroy_v2(void* event) {
    GUARD;
    delete static_cast<Event*>(event);
    return SUCCESS;
}

}   // extern "C"
