// Runs the launches of one job over its buffers, once for each order of threads, and writes what the buffers hold afterwards.
//
//     runner JOB RESULT
//     runner --kernels      lists the kernels that it has
//
// A job is a file of little-endian numbers, as `src/job.rs` writes them:
//   u32 buffers; for each: u64 bytes, the bytes, u32 1 where the result wants it
//   u32 launches; for each: u32 length and name, u32 grid × 3, u32 threads, u32 dynamic shared bytes, u32 length and argument,
//     u32 addresses; for each: u32 place in the argument, u32 buffer, u64 offset in the buffer
//   u32 orders; for each: u32
// The result holds the wanted buffers, one after the other, for each order.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gpu.h"

namespace {

[[noreturn]] void refuse(const std::string& what) {
    std::fprintf(stderr, "emulation: %s\n", what.c_str());
    std::_Exit(2);
}

class Reader {
public:
    explicit Reader(const char* path) : file(path, std::ios::binary) {
        if (!file) refuse(std::string("cannot read ") + path);
    }

    template <class T>
    T number() {
        T value;
        bytes(&value, sizeof value);
        return value;
    }

    std::string text() {
        std::string text(number<uint32_t>(), '\0');
        bytes(text.data(), text.size());
        return text;
    }

    void bytes(void* to, size_t count) {
        if (!file.read(static_cast<char*>(to), std::streamsize(count))) refuse("the job ends too early");
    }

private:
    std::ifstream file;
};

// Memory of exactly the size that the job names, so that a byte beyond it can be seen.
struct Buffer {
    std::vector<unsigned char> initial;
    std::unique_ptr<unsigned char, decltype(&std::free)> memory{nullptr, std::free};
    bool wanted = false;

    void reset() {
        void* fresh = nullptr;
        if (posix_memalign(&fresh, 256, initial.size())) std::abort();
        std::memcpy(fresh, initial.data(), initial.size());
        memory.reset(static_cast<unsigned char*>(fresh));
    }
};

struct Address {
    uint32_t place, buffer;
    uint64_t offset;
};

struct Launch {
    const emulation::Kernel* kernel;
    emulation::Size3 grid;
    uint32_t threads, dynamic_bytes;
    std::string argument;
    std::vector<Address> addresses;

    void run(const std::vector<Buffer>& buffers, emulation::Order order) const {
        // Aligned as a structure of pointers is.
        std::vector<uint64_t> words((argument.size() + 7) / 8);
        unsigned char* bytes = reinterpret_cast<unsigned char*>(words.data());
        std::memcpy(bytes, argument.data(), argument.size());
        for (const Address& address : addresses) {
            const unsigned char* at = buffers.at(address.buffer).memory.get() + address.offset;
            std::memcpy(bytes + address.place, &at, sizeof at);
        }
        emulation::run_grid(grid, {threads, 1, 1}, dynamic_bytes, order, kernel->body, bytes);
    }
};

const emulation::Kernel& find(const std::string& name) {
    for (const emulation::Kernel* kernel = emulation::kernels; kernel; kernel = kernel->next) {
        if (name == kernel->name) return *kernel;
    }
    refuse("no kernel is called " + name);
}

Launch read_launch(Reader& job) {
    Launch launch;
    const std::string name = job.text();
    launch.kernel = &find(name);
    launch.grid.x = job.number<uint32_t>();
    launch.grid.y = job.number<uint32_t>();
    launch.grid.z = job.number<uint32_t>();
    launch.threads = job.number<uint32_t>();
    launch.dynamic_bytes = job.number<uint32_t>();
    launch.argument = job.text();
    if (launch.threads > launch.kernel->most_threads) refuse(name + " gets more threads than it is compiled for");
    if (launch.argument.size() != launch.kernel->argument_bytes) {
        refuse(name + " takes an argument of " + std::to_string(launch.kernel->argument_bytes) + " bytes and gets " +
               std::to_string(launch.argument.size()));
    }
    launch.addresses.resize(job.number<uint32_t>());
    for (Address& address : launch.addresses) {
        address.place = job.number<uint32_t>();
        address.buffer = job.number<uint32_t>();
        address.offset = job.number<uint64_t>();
    }
    return launch;
}

}   // namespace

int main(int count, char** arguments) {
    if (count == 2 && std::string(arguments[1]) == "--kernels") {
        for (const emulation::Kernel* kernel = emulation::kernels; kernel; kernel = kernel->next) std::puts(kernel->name);
        return 0;
    }
    if (count != 3) refuse("usage: runner JOB RESULT");
    Reader job(arguments[1]);
    std::vector<Buffer> buffers(job.number<uint32_t>());
    for (Buffer& buffer : buffers) {
        buffer.initial.resize(job.number<uint64_t>());
        job.bytes(buffer.initial.data(), buffer.initial.size());
        buffer.wanted = job.number<uint32_t>() != 0;
    }
    std::vector<Launch> launches(job.number<uint32_t>());
    for (Launch& launch : launches) launch = read_launch(job);

    std::ofstream result(arguments[2], std::ios::binary);
    const uint32_t orders = job.number<uint32_t>();
    for (uint32_t i = 0; i < orders; ++i) {
        const auto order = emulation::Order{job.number<uint32_t>()};
        for (Buffer& buffer : buffers) buffer.reset();
        for (const Launch& launch : launches) launch.run(buffers, order);
        for (const Buffer& buffer : buffers) {
            if (buffer.wanted) result.write(reinterpret_cast<char*>(buffer.memory.get()), std::streamsize(buffer.initial.size()));
        }
    }
    if (!result.flush()) refuse(std::string("cannot write ") + arguments[2]);
    return 0;
}
