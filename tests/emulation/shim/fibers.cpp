#include "fibers.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include <sys/mman.h>

#include "races.h"
#include "switch.h"

namespace emulation {
namespace {

constexpr size_t STACK_BYTES = 64 * 1024;
constexpr unsigned WARP = 32;
constexpr unsigned MOST_THREADS = 1024;
constexpr size_t MOST_STATIC_SHARED = 48 * 1024;
constexpr size_t MOST_DYNAMIC_SHARED = 227 * 1024;
constexpr int NOWHERE = -1;

struct Copy {
    void* to;
    const void* from;
    size_t bytes;
};

struct Fiber {
    Place place;
    void* stack = nullptr;
    void* races = nullptr;
    bool ended = false;
    // Where it waits: the line of a barrier or an exchange.
    int waits_at = NOWHERE;
    std::vector<Copy> open_copies;
    std::vector<std::vector<Copy>> copy_groups;
};

struct Warp {
    unsigned lanes = 0;
    unsigned arrived = 0;
    unsigned generation = 0;
    int site = NOWHERE;
    alignas(64) unsigned char messages[2][WARP * MESSAGE];
};

struct SharedMemory {
    void* memory = nullptr;
    size_t bytes = 0;

    ~SharedMemory() { std::free(memory); }
};

struct Block {
    Launch launch;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    unsigned at_barrier = 0;
    unsigned barrier_generation = 0;
    int barrier_site = NOWHERE;
    unsigned ended = 0;
    unsigned long long progress = 0;
    SharedMemory static_shared, dynamic_shared;
    size_t dynamic_bytes = 0;
    Fiber* running = nullptr;
    void* scheduler_stack = nullptr;
    void* scheduler_races = nullptr;
    Body body = nullptr;
    const void* argument = nullptr;
};

Block* block = nullptr;
// For the order between a launch and its threads, which is none between its blocks.
char block_start, launch_end;

[[noreturn]] void refuse(const char* what, int line, int other_line = NOWHERE) {
    const Size3& index = block->launch.index;
    const Size3 thread = block->running ? block->running->place.thread : Size3{0, 0, 0};
    std::fprintf(stderr, "emulation: %s: block (%u, %u, %u), thread (%u, %u, %u)", what, index.x, index.y, index.z, thread.x,
                 thread.y, thread.z);
    if (line != NOWHERE) std::fprintf(stderr, ", line %d", line);
    if (other_line != NOWHERE) std::fprintf(stderr, " and line %d", other_line);
    std::fprintf(stderr, "\n");
    std::_Exit(3);
}

void yield(int site) {
    Fiber* fiber = block->running;
    fiber->waits_at = site;
    races::enter(block->scheduler_races);
    emulation_switch(&fiber->stack, block->scheduler_stack);
    fiber->waits_at = NOWHERE;
}

void start_thread() {
    races::acquire(&block_start);
    block->body(block->argument);
    races::release(&launch_end);
    Fiber* fiber = block->running;
    if (block->at_barrier > 0) refuse("a thread ends while others wait at a barrier", block->barrier_site);
    const Warp& warp = block->warps[(fiber - block->fibers.data()) / WARP];
    if (warp.arrived != 0) refuse("a lane ends while its warp waits for it", warp.site);
    fiber->ended = true;
    ++block->ended;
    ++block->progress;
    yield(NOWHERE);
    std::abort();
}

void run_fiber(Fiber& fiber) {
    block->running = &fiber;
    races::enter(fiber.races);
    emulation_switch(&block->scheduler_stack, fiber.stack);
    block->running = nullptr;
}

// Warps and lanes in the order in which they take turns.
std::vector<unsigned> turns(unsigned count, Order order, uint32_t salt) {
    std::vector<unsigned> turns(count);
    std::iota(turns.begin(), turns.end(), 0);
    if (order == Order::Falling) std::reverse(turns.begin(), turns.end());
    if (static_cast<uint32_t>(order) < 2) return turns;
    uint32_t random = static_cast<uint32_t>(order) * 2654435761u + salt;
    for (unsigned i = count - 1; i > 0 && count > 0; --i) {
        random = random * 1664525u + 1013904223u;
        std::swap(turns[i], turns[(random >> 8) % (i + 1)]);
    }
    return turns;
}

void run_block(Order order) {
    const unsigned threads = static_cast<unsigned>(block->fibers.size());
    const unsigned warps = static_cast<unsigned>(block->warps.size());
    const std::vector<unsigned> warp_turns = turns(warps, order, 1), lane_turns = turns(WARP, order, 2);
    while (block->ended < threads) {
        const unsigned long long before = block->progress;
        for (unsigned warp : warp_turns) {
            // A warp goes on as long as it gets on: so an exchange costs few switches.
            unsigned long long seen;
            do {
                seen = block->progress;
                for (unsigned lane : lane_turns) {
                    const unsigned thread = warp * WARP + lane;
                    if (thread < threads && !block->fibers[thread].ended) run_fiber(block->fibers[thread]);
                }
            } while (block->progress != seen);
        }
        if (block->ended == threads || block->progress != before) continue;
        for (Fiber& fiber : block->fibers) {
            if (fiber.waits_at == NOWHERE) continue;
            block->running = &fiber;
            refuse("deadlock: not every thread comes to the barrier or exchange where this one waits", fiber.waits_at);
        }
    }
}

// Stacks, and what the race detector knows fibers by, serve all blocks and launches: to make them anew takes longer than a
// block. So thread i of a block is ordered after thread i of the block before; all others are not.
struct Crew {
    char* stacks = nullptr;
    std::vector<void*> races;

    char* stack(unsigned thread) {
        if (!stacks) stacks = map_stacks();
        return stacks + STACK_BYTES * thread;
    }

    void* race_fiber(unsigned thread) {
        while (races.size() <= thread) races.push_back(races::create());
        return races[thread];
    }

private:
    static char* map_stacks() {
        const size_t bytes = STACK_BYTES * MOST_THREADS;
        void* stacks = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) {
            std::perror("emulation: no memory for stacks");
            std::_Exit(3);
        }
        // A page that no one may touch ends each stack.
        for (unsigned i = 0; i < MOST_THREADS; ++i) mprotect(static_cast<char*>(stacks) + STACK_BYTES * i, 4096, PROT_NONE);
        return static_cast<char*>(stacks);
    }
};

Crew crew;

void* shared_of(SharedMemory& shared, size_t bytes) {
    if (!shared.memory) {
        if (posix_memalign(&shared.memory, 128, bytes)) std::abort();
        std::memset(shared.memory, 0xff, bytes);
        shared.bytes = bytes;
        races::release(&shared);
    }
    if (shared.bytes != bytes) refuse("two sizes of shared memory in one kernel", NOWHERE);
    races::acquire(&shared);
    return shared.memory;
}

}   // namespace

void run_grid(Size3 grid, Size3 shape, size_t dynamic_bytes, Order order, Body body, const void* argument) {
    const unsigned threads = shape.x * shape.y * shape.z;
    if (threads == 0 || threads > MOST_THREADS || dynamic_bytes > MOST_DYNAMIC_SHARED) {
        std::fprintf(stderr, "emulation: a launch of %u threads and %zu bytes of shared memory\n", threads, dynamic_bytes);
        std::_Exit(3);
    }
    const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
    // Kept until the launch ends where races are watched: to free a block earlier would order it before the next.
    std::vector<std::unique_ptr<Block>> ran;
    for (uint64_t number = 0; number < blocks; ++number) {
        if (!races::WATCHED) ran.clear();
        ran.push_back(std::make_unique<Block>());
        block = ran.back().get();
        Block& now = *block;
        now.launch = {grid, shape, {unsigned(number % grid.x), unsigned(number / grid.x % grid.y), unsigned(number / grid.x / grid.y)}};
        now.dynamic_bytes = dynamic_bytes;
        now.body = body;
        now.argument = argument;
        now.scheduler_races = races::current();
        now.fibers.resize(threads);
        now.warps.resize((threads + WARP - 1) / WARP);
        for (unsigned i = 0; i < threads; ++i) {
            Fiber& fiber = now.fibers[i];
            fiber.place = {{i % shape.x, i / shape.x % shape.y, i / (shape.x * shape.y)}, i % WARP};
            fiber.stack = new_stack(crew.stack(i), STACK_BYTES, start_thread);
            fiber.races = crew.race_fiber(i);
            ++now.warps[i / WARP].lanes;
        }
        races::release(&block_start);
        run_block(order);
        block = nullptr;
    }
    races::acquire(&launch_end);
}

const Place& place() { return block->running->place; }

const Launch& launch() { return block->launch; }

void* static_shared(size_t bytes) {
    if (bytes > MOST_STATIC_SHARED) refuse("more than 48 KiB of static shared memory", NOWHERE);
    return shared_of(block->static_shared, bytes);
}

void* dynamic_shared(size_t bytes) {
    if (bytes > block->dynamic_bytes) refuse("the launch names less shared memory than the kernel uses", NOWHERE);
    return shared_of(block->dynamic_shared, bytes);
}

void barrier(int site) {
    if (block->ended > 0) refuse("a barrier that ended threads do not come to", site);
    if (block->at_barrier > 0 && block->barrier_site != site) refuse("threads wait at two barriers", site, block->barrier_site);
    const unsigned generation = block->barrier_generation;
    block->barrier_site = site;
    races::release(&block->barrier_generation);
    if (++block->at_barrier == block->fibers.size()) {
        block->at_barrier = 0;
        ++block->barrier_generation;
        ++block->progress;
    }
    while (block->barrier_generation == generation) yield(site);
    races::acquire(&block->barrier_generation);
}

const unsigned char* exchange(int site, const void* message, size_t bytes) {
    const Fiber* fiber = block->running;
    Warp& warp = block->warps[(fiber - block->fibers.data()) / WARP];
    const unsigned lane = fiber->place.lane;
    if (warp.arrived != 0 && warp.site != site) refuse("lanes of a warp exchange at two places", site, warp.site);
    const unsigned all = warp.lanes == WARP ? ~0u : (1u << warp.lanes) - 1;
    const unsigned generation = warp.generation;
    unsigned char* messages = warp.messages[generation % 2];
    std::memcpy(messages + lane * MESSAGE, message, bytes);
    warp.site = site;
    warp.arrived |= 1u << lane;
    races::release(&warp.generation);
    if (warp.arrived == all) {
        warp.arrived = 0;
        ++warp.generation;
        ++block->progress;
    }
    while (warp.generation == generation) yield(site);
    races::acquire(&warp.generation);
    return messages;
}

void start_copy(void* to, const void* from, size_t bytes) {
    block->running->open_copies.push_back({to, from, bytes});
}

void end_copy_group() {
    Fiber* fiber = block->running;
    fiber->copy_groups.push_back(std::move(fiber->open_copies));
    fiber->open_copies.clear();
}

void wait_copies(size_t groups_under_way) {
    auto& groups = block->running->copy_groups;
    while (groups.size() > groups_under_way) {
        for (const Copy& copy : groups.front()) std::memcpy(copy.to, copy.from, copy.bytes);
        groups.erase(groups.begin());
    }
}

}   // namespace emulation
