// Tiles of matrices of 16-bit elements, or of f32, in shared memory, for the functions of matrix_units.h.
#include "matrix_units.h"

// Two elements as fragments hold them.
template <typename T> __device__ inline unsigned packed(T first, T second) {
    const auto bits = [](const T& x) -> unsigned { return *reinterpret_cast<const unsigned short*>(&x); };
    return bits(first) | bits(second) << 16;
}

// What `combine` makes of the four threads that share a row of a fragment.
template <typename Combine> __device__ inline float of_row(float value, Combine combine) {
    for (int distance = 1; distance < 4; distance *= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
}

// A tile in shared memory: LINES of LENGTH elements, lying as in memory, in pieces of 16 bytes. Pieces are permuted
// within a line, so that a piece of 8 neighbouring lines, as load_matrices wants it, lies in all banks.
template <typename T, unsigned LINES, unsigned LENGTH> struct SharedTile {
    static constexpr unsigned PIECE = 16 / sizeof(T);  // elements
    static constexpr unsigned PIECES = LENGTH / PIECE;
    static constexpr unsigned TURN = PIECES < 8 ? PIECES : 8;
    static_assert(LENGTH % PIECE == 0 && (PIECES & (PIECES - 1)) == 0, "a line has 1, 2, 4, ... pieces");

    __device__ static unsigned place(unsigned line, unsigned piece) {
        return line * LENGTH + (piece ^ line / (8 / TURN) % TURN) * PIECE;
    }

    // Fills the tile from (first_line, first_element) on of what has `lines` x `elements`, with zeros outside, by all
    // THREADS. WHOLE: elements lie next to each other, and lines begin at multiples of 16 bytes.
    template <bool WHOLE, unsigned THREADS>
    __device__ static void load(T* tile, const T* start, size_t line_stride, size_t element_stride,
                                unsigned first_line, unsigned lines, unsigned first_element, unsigned elements) {
        if constexpr (WHOLE) {
#pragma unroll
            for (unsigned i = threadIdx.x; i < LINES * PIECES; i += THREADS) {
                const unsigned line = first_line + i / PIECES, element = first_element + i % PIECES * PIECE;
                const bool inside = line < lines && element < elements;
                const unsigned count = inside ? min(elements - element, PIECE) : 0;
                const T* source = inside ? start + line * line_stride + element : start;
                copy_16_bytes(tile + place(i / PIECES, i % PIECES), source, sizeof(T) * count);
            }
        } else {
            for (unsigned i = threadIdx.x; i < LINES * LENGTH; i += THREADS) {
                const unsigned line = first_line + i / LENGTH, element = first_element + i % LENGTH;
                const bool inside = line < lines && element < elements;
                tile[place(i / LENGTH, i % LENGTH / PIECE) + i % PIECE] = inside ? start[line * line_stride + element * element_stride] : (T)0.0f;
            }
        }
    }

    // Four matrices from (line, element) on, of 16 bytes a line, or a column where they are TRANSPOSED. SIDEWAYS: the second lies beside the first, the other two beneath these;
    // else the second lies beneath the first, the other two beside them.
    template <bool SIDEWAYS, bool TRANSPOSED>
    __device__ static void fragments(unsigned (&out)[4], const T* tile, unsigned line, unsigned element) {
        const unsigned lane = threadIdx.x % 32, second = lane / 8 % 2, third = lane / 16;
        const unsigned beneath = SIDEWAYS ? third : second, beside = SIDEWAYS ? second : third;
        if constexpr (TRANSPOSED && sizeof(T) == 4) {
            // Matrices of 4 lines of 8, which nothing turns but each thread that takes its own element of each.
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                const unsigned down = SIDEWAYS ? j / 2 : j % 2, right = SIDEWAYS ? j % 2 : j / 2;
                const unsigned own_line = line + lane % 4 + 4 * down, own_element = element + lane / 4 + 8 * right;
                out[j] = __float_as_uint(tile[place(own_line, own_element / PIECE) + own_element % PIECE]);
            }
        } else {
            load_matrices<TRANSPOSED>(out, tile + place(line + lane % 8 + 8 * beneath, element / PIECE + beside));
        }
        round_operands(out, T());
    }
};
