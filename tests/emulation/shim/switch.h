// Leaves one stack and goes on where another was left. Registers that a called function must keep lie on the left stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" void emulation_switch(void** left, void* entered) asm("emulation_switch");

#if defined(__x86_64__)
// rbp, rbx, r12 to r15 and the place to return to.
constexpr size_t SAVED_WORDS = 7;
constexpr size_t RETURN_WORD = 6;
asm(R"(
    .text
    .globl emulation_switch
emulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
#elif defined(__aarch64__)
// x19 to x29, x30 (the place to return to), d8 to d15.
constexpr size_t SAVED_WORDS = 20;
constexpr size_t RETURN_WORD = 11;
asm(R"(
    .text
    .globl emulation_switch
emulation_switch:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
#else
#error "the emulation knows the registers of x86-64 and of 64-bit Arm"
#endif

// A new stack as if `start` had been left at its first instruction.
inline void* new_stack(char* bottom, size_t bytes, void (*start)()) {
    uintptr_t top = (reinterpret_cast<uintptr_t>(bottom) + bytes) & ~uintptr_t{15};
    // One word above the saved ones: on x86-64 a function begins 8 bytes below a multiple of 16.
    void** words = reinterpret_cast<void**>(top) - 1 - SAVED_WORDS;
#if defined(__aarch64__)
    words -= 1;   // the stack pointer stays a multiple of 16
#endif
    std::memset(words, 0, SAVED_WORDS * sizeof(void*));
    words[RETURN_WORD] = reinterpret_cast<void*>(start);
    return words;
}
