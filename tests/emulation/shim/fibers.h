// A block of GPU threads on one CPU thread: a fiber for each, which runs until it must wait for others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulation {

struct Size3 {
    unsigned x = 1, y = 1, z = 1;
};

// What a thread can see of itself.
struct Place {
    Size3 thread;
    unsigned lane;   // within its warp
};

// What every thread of the running block can see.
struct Launch {
    Size3 grid, block, index;
};

// Bytes that a lane shows to its warp.
constexpr unsigned MESSAGE = 64;

// Order in which ready threads take turns: rising, falling, or shuffled by a seed. A kernel whose result depends on it
// misses a barrier.
enum class Order : uint32_t { Rising = 0, Falling = 1 };   // larger numbers are seeds

using Body = void (*)(const void* argument);

// Runs `body` in every thread of every block, one block after the other. Ends the process with one line on stderr where a
// thread breaks the rules: it does not come to a barrier or an exchange that others wait at, or waits at another one.
void run_grid(Size3 grid, Size3 block, size_t dynamic_shared, Order order, Body body, const void* argument);

// For kernels, in a running block.
const Place& place();
const Launch& launch();
// The block's memory of so many bytes; all threads name the same size. It is filled with NaN before the first sees it.
void* static_shared(size_t bytes);
void* dynamic_shared(size_t bytes);
// Waits for all threads of the block. `site` tells barriers apart.
void barrier(int site);
// Shows `bytes` of `message` to the warp and waits for all its lanes; what lane i showed is at `i × MESSAGE`, until the lane's
// next exchange but one.
const unsigned char* exchange(int site, const void* message, size_t bytes);
// A copy that lands when `wait_copies` says that it must.
void start_copy(void* to, const void* from, size_t bytes);
void end_copy_group();
void wait_copies(size_t groups_under_way);

}   // namespace emulation
