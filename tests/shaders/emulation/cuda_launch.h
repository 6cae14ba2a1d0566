// A kernel as the driver knows it: a function that takes an array of pointers to its parameters.
#pragma once
#include "fibres.h"
#include <setjmp.h>
#include <signal.h>
#include <utility>

namespace emulation {

template <typename T> constexpr bool is_pointer = false;
template <typename T> constexpr bool is_pointer<T*> = true;

template <typename... P, size_t... K>
int launch(void (*kernel)(P...), void** parameters, const unsigned* groups, const unsigned* block, bool cooperative,
           std::index_sequence<K...>) {
    return run(groups, block, cooperative, [=] { kernel(*static_cast<P*>(parameters[K])...); });
}

template <typename... P>
int launch(void (*kernel)(P...), void** parameters, const unsigned* groups, const unsigned* block, bool cooperative) {
    return launch(kernel, parameters, groups, block, cooperative, std::index_sequence_for<P...>());
}

// The bytes of each parameter, negative for a pointer; gives how many there are.
template <typename... P> int describe(void (*)(P...), int* sizes) {
    ((*sizes++ = is_pointer<P> ? -static_cast<int>(sizeof(P)) : static_cast<int>(sizeof(P))), ...);
    return sizeof...(P);
}

// A kernel that reaches where the process has no memory ends as it would on a GPU: the launch fails.
static sigjmp_buf before_launch;
static void on_fault(int) { siglongjmp(before_launch, 1); }

template <typename F> int guarded(F call) {
    struct sigaction fault = {}, segv, bus;
    fault.sa_handler = on_fault;
    sigaction(SIGSEGV, &fault, &segv);
    sigaction(SIGBUS, &fault, &bus);
    const int result = sigsetjmp(before_launch, 1) ? 2 : call();
    sigaction(SIGSEGV, &segv, nullptr);
    sigaction(SIGBUS, &bus, nullptr);
    return result;
}

}  // namespace emulation

#define EMULATED_KERNEL(kernel, most_threads, cooperative) \
    extern "C" int emulated_parameters(int* sizes) { return emulation::describe(kernel, sizes); } \
    extern "C" unsigned emulated_bound() { return most_threads; } \
    extern "C" unsigned emulated_shared_bytes() { return static_cast<unsigned>(emulation::shared_bytes()); } \
    extern "C" int emulated_launch(void** parameters, const unsigned* groups, const unsigned* block, unsigned dynamic_bytes) { \
        emulation::dynamic_bytes = dynamic_bytes; \
        emulation::dynamic_memory = dynamic_bytes ? static_cast<unsigned char*>(malloc(dynamic_bytes)) : nullptr; \
        const int result = emulation::guarded([=] { return emulation::launch(kernel, parameters, groups, block, cooperative); }); \
        free(emulation::dynamic_memory); \
        return result; \
    }
