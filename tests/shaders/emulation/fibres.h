// The threads of a workgroup as fibres of one CPU thread: each runs until a barrier or its end, then the next does.
#pragma once
#include <stdlib.h>
#include <ucontext.h>

namespace emulation {

constexpr unsigned MAX_THREADS = 1024;
constexpr size_t STACK_BYTES = 64 * 1024;
enum class State { RUNNING, WAITING, ENDED };

struct Place {
    unsigned group[3], index, threads;
};
static Place place;

static ucontext_t scheduler, fibres[MAX_THREADS];
static State states[MAX_THREADS];
static void (*body)(void*);
static void* closure;

static inline void barrier() {
    states[place.index] = State::WAITING;
    swapcontext(&fibres[place.index], &scheduler);
}

// What the thread at `lane` of the caller's subgroup of `width` threads gives; all threads of the workgroup must ask.
template <typename T> T from_lane(T value, unsigned lane, unsigned width) {
    static T values[MAX_THREADS];
    values[place.index] = value;
    barrier();
    const T found = values[place.index / width * width + lane % width];
    barrier();
    return found;
}

static inline void fibre() {
    body(closure);
    states[place.index] = State::ENDED;
    swapcontext(&fibres[place.index], &scheduler);
}

// One workgroup; false if some threads ended while others waited at a barrier.
static inline bool run_group(char* stacks) {
    const unsigned threads = place.threads;
    for (unsigned t = 0; t < threads; t++) {
        getcontext(&fibres[t]);
        fibres[t].uc_stack.ss_sp = stacks + t * STACK_BYTES;
        fibres[t].uc_stack.ss_size = STACK_BYTES;
        fibres[t].uc_link = nullptr;
        makecontext(&fibres[t], fibre, 0);
    }
    for (;;) {
        unsigned ended = 0;
        for (unsigned t = 0; t < threads; t++) {
            place.index = t;
            states[t] = State::RUNNING;
            swapcontext(&scheduler, &fibres[t]);
            ended += states[t] == State::ENDED;
        }
        if (ended == threads) return true;
        if (ended != 0) return false;
    }
}

template <typename F> int run(const unsigned* groups, unsigned threads, F call) {
    static char* stacks = static_cast<char*>(malloc(MAX_THREADS * STACK_BYTES));
    body = [](void* f) { (*static_cast<F*>(f))(); };
    closure = &call;
    place.threads = threads;
    for (unsigned z = 0; z < groups[2]; z++)
        for (unsigned y = 0; y < groups[1]; y++)
            for (unsigned x = 0; x < groups[0]; x++) {
                place.group[0] = x, place.group[1] = y, place.group[2] = z;
                if (!run_group(stacks)) return 1;
            }
    return 0;
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
