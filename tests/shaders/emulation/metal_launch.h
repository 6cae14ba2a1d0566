// A kernel as Metal knows it: a function whose arguments are buffers, bytes, and what the GPU tells each of its threads.
#pragma once
#include "fibres.h"
#include <utility>

namespace emulation {

// `size` is the bytes of an argument that is a struct, minus the alignment of one that is a pointer, 0 of the GPU's own.
template <typename T> struct Argument;
template <typename T> struct Argument<T*> {
    static constexpr int size = -static_cast<int>(alignof(T));
    static T* from(void* address) { return static_cast<T*>(address); }
};
template <typename T> struct Argument<T&> {
    static constexpr int size = sizeof(T);
    static T& from(void* address) { return *static_cast<T*>(address); }
};
template <> struct Argument<metal::uint3> {
    static constexpr int size = 0;
    static metal::uint3 from(void*) { return metal::uint3{place.group[0], place.group[1], place.group[2]}; }
};
template <> struct Argument<metal::uint> {
    static constexpr int size = 0;
    static metal::uint from(void*) { return place.index; }
};

template <typename... P, size_t... K>
int launch(void (*function)(P...), void** addresses, const unsigned* groups, const unsigned* block, bool cooperative,
           std::index_sequence<K...>) {
    return run(groups, block, cooperative, [=] { function(Argument<P>::from(addresses[K])...); });
}

template <typename... P>
int launch(void (*function)(P...), void** addresses, const unsigned* groups, const unsigned* block, bool cooperative) {
    return launch(function, addresses, groups, block, cooperative, std::index_sequence_for<P...>());
}

template <typename... P> int describe(void (*)(P...), int* sizes) {
    const int found[] = {Argument<P>::size...};
    memcpy(sizes, found, sizeof found);
    return sizeof...(P);
}

}  // namespace emulation

#define EMULATED_KERNEL(function, cooperative) \
    extern "C" int emulated_arguments(int* sizes) { return emulation::describe(function, sizes); } \
    extern "C" unsigned emulated_shared_bytes() { return static_cast<unsigned>(emulation::shared_bytes()); } \
    extern "C" int emulated_launch(void** addresses, const unsigned* groups, const unsigned* block) { \
        return emulation::launch(function, addresses, groups, block, cooperative); \
    }
