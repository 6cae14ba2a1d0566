// The threads of a workgroup as fibres of one CPU thread: each runs until a barrier or its end, then the next does.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

namespace emulation {

constexpr unsigned MAX_THREADS = 1024;
constexpr size_t STACK_BYTES = 64 * 1024;
#ifndef EMULATED_SUBGROUP
#define EMULATED_SUBGROUP 32
#endif
constexpr unsigned SUBGROUP = EMULATED_SUBGROUP;  // threads that can wait for one another alone
enum class State { RUNNING, WAITING, WAITING_FOR_SUBGROUP, WAITING_FOR_OTHERS, ENDED };

struct Place {
    unsigned group[3], groups[3], block[3], index, threads;
};
static Place place;

// A fibre's place on its own stack. swapcontext would ask the system for its signals at each turn: a hundred times as long.
#if defined(__x86_64__)
typedef void* Context;
extern "C" void emulation_swap(Context* from, Context to);
asm(R"(
.local emulation_swap
.type emulation_swap, @function
emulation_swap:
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
static inline void swap(Context* from, Context* to) { emulation_swap(from, *to); }
static inline void start(Context* fibre, char* stack, void (*entry)()) {
    void** top = reinterpret_cast<void**>(stack + STACK_BYTES) - 1;  // as after a call: 8 bytes off a multiple of 16
    *--top = reinterpret_cast<void*>(entry);
    for (int k = 0; k < 6; k++) *--top = nullptr;
    *fibre = top;
}
#else
typedef ucontext_t Context;
static inline void swap(Context* from, Context* to) { swapcontext(from, to); }
static inline void start(Context* fibre, char* stack, void (*entry)()) {
    getcontext(fibre);
    fibre->uc_stack.ss_sp = stack;
    fibre->uc_stack.ss_size = STACK_BYTES;
    fibre->uc_link = nullptr;
    makecontext(fibre, entry, 0);
}
#endif

// Workgroup memory that the launch asks for.
static unsigned char* dynamic_memory;
static size_t dynamic_bytes;

// That which kernels declare lies in one section. All of it is poisoned ahead of every workgroup.
#if defined(__ELF__)
#define EMULATED_SHARED static __attribute__((section("emulated_shared")))
extern "C" __attribute__((weak, visibility("hidden"))) char __start_emulated_shared[], __stop_emulated_shared[];
static inline size_t shared_bytes() { return __stop_emulated_shared - __start_emulated_shared; }
static inline void poison_shared() {
    memset(__start_emulated_shared, 0xff, shared_bytes());
    if (dynamic_bytes) memset(dynamic_memory, 0xff, dynamic_bytes);
}
#else
#define EMULATED_SHARED static
static inline size_t shared_bytes() { return 0; }
static inline void poison_shared() {
    if (dynamic_bytes) memset(dynamic_memory, 0xff, dynamic_bytes);
}
#endif

static Context scheduler, fibres[MAX_THREADS];
static State states[MAX_THREADS];
static void (*body)(void*);
static void* closure;
static unsigned workgroups;  // that began so far

static inline void wait(State state) {
    const unsigned index = place.index;
    states[index] = state;
    swap(&fibres[index], &scheduler);
}
static inline void barrier() { wait(State::WAITING); }
// All threads of the subgroup must come here. Other subgroups stay behind or ahead, so this stands for no barrier of all.
static inline void subgroup_barrier() { wait(State::WAITING_FOR_SUBGROUP); }

// What the thread at `lane` of the caller's subgroup of `width` threads gives; all threads of the workgroup must ask.
template <typename T> T from_lane(T value, unsigned lane, unsigned width) {
    static T values[MAX_THREADS];
    values[place.index] = value;
    barrier();
    const T found = values[place.index / width * width + lane % width];
    barrier();
    return found;
}

// What the thread of the caller's subgroup gives whose number differs in one bit; all threads of the subgroup must ask.
template <typename T> T from_neighbour(T value, unsigned bit) {
    static T values[MAX_THREADS];
    values[place.index] = value;
    subgroup_barrier();
    const T found = values[place.index ^ bit];
    subgroup_barrier();
    return found;
}

static inline void fibre() {
    body(closure);
    states[place.index] = State::ENDED;
    swap(&fibres[place.index], &scheduler);
}

// What may come to a workgroup from elsewhere: something more of it (false where there is none), and whether all of it came.
static bool (*bring_another)() = [] { return false; };
static bool (*nothing_left)() = [] { return true; };
static unsigned long passed;  // conditions that somebody needed and that were true

// Waits for what other threads do, or what comes from elsewhere.
template <typename F> static void wait_until(F holds) {
    while (!holds()) wait(State::WAITING_FOR_OTHERS);
    passed++;
}

// Runs each thread of a subgroup that can go on, until it cannot; false if some wait for those of their own that ended, or
// that wait for the workgroup.
static inline bool run_subgroup(unsigned first, unsigned last, bool backward) {
    for (unsigned t = first; t < last; t++)
        if (states[t] == State::WAITING_FOR_OTHERS) states[t] = State::RUNNING;
    for (;;) {
        unsigned waiting = 0, others = 0;
        for (unsigned t = first; t < last; t++) {
            const unsigned index = backward ? first + last - 1 - t : t;
            if (states[index] == State::RUNNING) {
                place.index = index;
                swap(&scheduler, &fibres[index]);
            }
            waiting += states[index] == State::WAITING_FOR_SUBGROUP;
            others += states[index] == State::WAITING_FOR_OTHERS;
        }
        if (waiting < last - first) return waiting == 0 || others != 0;
        for (unsigned t = first; t < last; t++) states[t] = State::RUNNING;
    }
}

// One workgroup; false if some threads wait for what never comes: a barrier that others missed, a condition that stays
// false. `turn` says in which order they run.
static inline bool run_group(char* stacks, unsigned turn) {
    const unsigned threads = place.threads;
    poison_shared();
    workgroups++;
    for (unsigned t = 0; t < threads; t++) {
        start(&fibres[t], stacks + t * STACK_BYTES, fibre);
        states[t] = State::RUNNING;
    }
    for (;; turn++) {
        const unsigned subgroups = (threads + SUBGROUP - 1) / SUBGROUP;
        const unsigned long before = passed;
        for (unsigned s = 0; s < subgroups; s++) {
            const unsigned first = (turn % 2 ? subgroups - 1 - s : s) * SUBGROUP;
            const unsigned last = first + SUBGROUP < threads ? first + SUBGROUP : threads;
            if (!run_subgroup(first, last, turn % 2)) return false;
        }
        unsigned ended = 0, waiting = 0;
        for (unsigned t = 0; t < threads; t++) ended += states[t] == State::ENDED, waiting += states[t] == State::WAITING;
        if (ended == threads) return nothing_left();
        if (waiting == threads) {
            for (unsigned t = 0; t < threads; t++) states[t] = State::RUNNING;
        } else if (ended + waiting == threads || (passed == before && !bring_another())) {
            return false;
        }
    }
}

// A grid of workgroups; 1 if threads of one wait for what never comes. Kernels that never wait for another
// thread are not `cooperative`, and need no fibres.
template <typename F> int run(const unsigned* groups, const unsigned* block, bool cooperative, F call) {
    static char* stacks = nullptr;
    if (cooperative && !stacks) stacks = static_cast<char*>(malloc(MAX_THREADS * STACK_BYTES));
    body = [](void* f) { (*static_cast<F*>(f))(); };
    closure = &call;
    for (int k = 0; k < 3; k++) place.groups[k] = groups[k], place.block[k] = block[k];
    place.threads = block[0] * block[1] * block[2];
    unsigned turn = 0;
    for (unsigned z = 0; z < groups[2]; z++)
        for (unsigned y = 0; y < groups[1]; y++)
            for (unsigned x = 0; x < groups[0]; x++, turn++) {
                place.group[0] = x, place.group[1] = y, place.group[2] = z;
                if (!cooperative)
                    for (place.index = 0; place.index < place.threads; place.index++) call();
                else if (!run_group(stacks, turn))
                    return 1;
            }
    return 0;
}

template <typename F> int run(const unsigned* groups, unsigned threads, F call) {
    const unsigned block[3] = {threads, 1, 1};
    return run(groups, block, true, call);
}

// Arguments that take on the type of the parameter they are passed for.
struct Pointer {
    void* address;
    template <typename T> operator T*() const { return static_cast<T*>(address); }
};
struct Reference {
    void* address;
    template <typename T> operator T&() const { return *static_cast<T*>(address); }
};

}  // namespace emulation
