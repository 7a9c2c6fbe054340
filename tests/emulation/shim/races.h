// What ThreadSanitizer must know of fibers, where a build watches for races: the fibers run on one CPU thread, but switching
// from one to the other orders nothing; barriers and exchanges do.
#pragma once

#ifdef EMULATION_RACES
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* at);
void __tsan_release(void* at);
}
#endif

namespace races {
#ifdef EMULATION_RACES
constexpr bool WATCHED = true;
inline void* current() { return __tsan_get_current_fiber(); }
inline void* create() { return __tsan_create_fiber(0); }
// 1: without an order between what was done before and what follows.
inline void enter(void* fiber) { __tsan_switch_to_fiber(fiber, 1); }
inline void acquire(void* at) { __tsan_acquire(at); }
inline void release(void* at) { __tsan_release(at); }
#else
constexpr bool WATCHED = false;
inline void* current() { return nullptr; }
inline void* create() { return nullptr; }
inline void enter(void*) {}
inline void acquire(void*) {}
inline void release(void*) {}
#endif
}   // namespace races
