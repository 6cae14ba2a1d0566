// What shaders/cuda/bulk_units.h has of PTX, for threads that are fibres; by what the PTX ISA says of mbarrier, of
// cp.async.bulk.tensor, and of wgmma's descriptors and fragments. Copies come at once in one workgroup, and in the next when
// nobody can go on without them; products read shared memory when they are waited for, and until then sums are NaN.
#ifndef HOLOGRAM_BULK_UNITS
#define HOLOGRAM_BULK_UNITS
#include "matrix_units.h"

#define __grid_constant__

// As the emulated driver writes it; see tests/backends/emulated/cuda/tensor_maps.py.
struct TensorMap {
    unsigned magic, itemsize, box[3], unused;
    unsigned long long address, sizes[3], strides[2];
    unsigned long long more[7];
};
static_assert(sizeof(TensorMap) == 128, "the driver's is as large");
typedef unsigned long long Barrier;

namespace emulation {

constexpr unsigned MAGIC = 0x7e4503a9, LINE_BYTES = 128, EIGHT_LINES = 1024;
constexpr unsigned FIRST_ADDRESS = 0x430;  // where dynamic memory begins: a multiple of 16, not of 1024

static inline unsigned shared_place(const void* pointer) {
    const size_t place = static_cast<const unsigned char*>(pointer) - dynamic_memory;
    require(place < dynamic_bytes);
    return FIRST_ADDRESS + static_cast<unsigned>(place);
}

// Sixteen bytes at an address in shared memory, where 128-byte swizzling puts them: bits 4 to 6 change with bits 7 to 9.
static inline unsigned char* swizzled(unsigned address) {
    const unsigned place = (address ^ (address >> 7 & 7) << 4) - FIRST_ADDRESS;
    require(place < dynamic_bytes);
    return dynamic_memory + place;
}

struct Phases {
    unsigned address, expected, arrivals, phase;
    long long bytes;
};
constexpr unsigned MOST_BARRIERS = 64, MOST_BOXES = 256;
static Phases barriers[MOST_BARRIERS];
struct Box {
    unsigned target, barrier, at[3];
    TensorMap map;
};
static Box boxes[MOST_BOXES];
static unsigned barrier_count, box_count, made_by;

static inline Phases& phases_of(unsigned address) {
    unsigned k = 0;
    while (k < barrier_count && barriers[k].address != address) k++;
    require(k < barrier_count);  // somebody made it
    return barriers[k];
}
static inline void came(Phases& b, unsigned arrivals, long long bytes) {
    require(b.arrivals >= arrivals);
    b.arrivals -= arrivals, b.bytes += bytes;
    if (b.arrivals == 0 && b.bytes == 0) b.arrivals = b.expected, b.phase++;
}

static inline void bring(const Box& box) {
    const TensorMap& map = box.map;
    const unsigned elements = 16 / map.itemsize;
    for (unsigned line = 0; line < map.box[1]; line++)
        for (unsigned piece = 0; piece < LINE_BYTES / 16; piece++) {
            unsigned char* target = swizzled(box.target + line * LINE_BYTES + piece * 16);
            for (unsigned i = 0; i < elements; i++) {
                const long long x = static_cast<int>(box.at[0]) + static_cast<long long>(piece * elements + i);
                const long long y = static_cast<int>(box.at[1]) + static_cast<long long>(line), z = static_cast<int>(box.at[2]);
                const bool inside = x >= 0 && y >= 0 && z >= 0 && x < static_cast<long long>(map.sizes[0])
                                    && y < static_cast<long long>(map.sizes[1]) && z < static_cast<long long>(map.sizes[2]);
                const unsigned long long place = map.address + x * map.itemsize + y * map.strides[0] + z * map.strides[1];
                if (inside) memcpy(target + i * map.itemsize, reinterpret_cast<const void*>(place), map.itemsize);
                else memset(target + i * map.itemsize, 0, map.itemsize);
            }
        }
    came(phases_of(box.barrier), 0, -static_cast<long long>(map.box[1]) * LINE_BYTES);
}

// Brings the latest box that was asked for, as copies have no order; false where there is none.
static inline bool bring_one() {
    if (box_count == 0) return false;
    bring(boxes[--box_count]);
    return true;
}

// The products that a thread began, on the one array of sums that it uses.
struct Begun {
    unsigned long long a, b;
};
constexpr unsigned MOST_PRODUCTS = 64, MOST_SUMS = 128;
struct Pending {
    unsigned generation, count, groups, committed[MOST_PRODUCTS];
    Begun products[MOST_PRODUCTS];
    void (*multiply)(const Begun&, float*);
    bool fenced;
    float* visible;
    unsigned length;
    float sums[MOST_SUMS];
};
static Pending pending[MAX_THREADS];
static inline Pending& own_pending() {
    Pending& p = pending[place.index];
    if (p.generation != workgroups) {
        p.generation = workgroups, p.count = p.groups = 0;
        p.fenced = false, p.visible = nullptr;
    }
    return p;
}

// Whether a workgroup that ended left nothing behind: no copy, no bytes that a barrier waits for, no product.
static inline bool settled() {
    bool found = box_count == 0;
    for (unsigned k = 0; k < barrier_count; k++) found = found && barriers[k].bytes == 0;
    for (unsigned t = 0; t < place.threads; t++) found = found && (pending[t].generation != workgroups || pending[t].count == 0);
    barrier_count = box_count = 0;
    return found;
}

// Where an element lies, by a descriptor: `along` counts along m or n, `k` along k.
template <bool TURNED> static inline const unsigned short* element(unsigned long long operand, unsigned along, unsigned k) {
    const auto field = [=](unsigned shift) { return static_cast<unsigned>(operand >> shift & 0x3fff) << 4; };
    const unsigned start = field(0), leading = field(16), stride = field(32);
    require(operand >> 62 == 1 && (operand >> 49 & 7) == 0);  // swizzled by 128 bytes, in patterns at multiples of 1024
    const unsigned offset = TURNED ? along / 64 * leading + k / 8 * stride + k % 8 * LINE_BYTES + along % 64 * 2
                                   : along / 8 * stride + along % 8 * LINE_BYTES + k * 2;
    const unsigned address = start + offset;
    return reinterpret_cast<const unsigned short*>(swizzled(address & ~15u) + address % 16);
}

template <bool A_TURNED, bool B_TURNED, unsigned N, typename T> void multiply_one(const Begun& begun, float* c) {
    const unsigned lane = place.index % SUBGROUP, first = place.index / SUBGROUP % 4 * 16 + lane / 4;
    for (unsigned k = 0; k < 16; k++) {
        const float upper = number(*element<A_TURNED>(begun.a, first, k), T());
        const float lower = number(*element<A_TURNED>(begun.a, first + 8, k), T());
        for (unsigned j = 0; j < N / 8; j++)
            for (unsigned i = 0; i < 2; i++) {
                const float right = number(*element<B_TURNED>(begun.b, 8 * j + lane % 4 * 2 + i, k), T());
                c[4 * j + i] += upper * right, c[4 * j + 2 + i] += lower * right;
            }
    }
}

}  // namespace emulation

static inline unsigned char* dynamic_memory() { return emulation::dynamic_memory + (-emulation::FIRST_ADDRESS & 1023); }

static inline void init_barrier(Barrier* barrier, unsigned arrivals) {
    using namespace emulation;
    const unsigned address = shared_place(barrier);
    if (made_by != workgroups) made_by = workgroups, barrier_count = box_count = 0;
    require(address % 8 == 0 && arrivals > 0 && barrier_count < MOST_BARRIERS);
    for (unsigned k = 0; k < barrier_count; k++) require(barriers[k].address != address);
    barriers[barrier_count++] = {address, arrivals, arrivals, 0, 0};
    emulation::bring_another = bring_one, emulation::nothing_left = settled;
}
static inline void announce_barriers() {}
static inline void arrive(Barrier* barrier) { emulation::came(emulation::phases_of(emulation::shared_place(barrier)), 1, 0); }
static inline void arrive_expecting(Barrier* barrier, unsigned size_bytes) {
    emulation::Phases& b = emulation::phases_of(emulation::shared_place(barrier));
    b.bytes += size_bytes;
    emulation::came(b, 1, 0);
}
static inline void wait_for_phase(Barrier* barrier, unsigned parity) {
    emulation::Phases& b = emulation::phases_of(emulation::shared_place(barrier));
    emulation::wait_until([&b, parity] { return b.phase % 2 != parity; });
}

static inline void copy_box(void* target, const TensorMap& map, unsigned x, unsigned y, unsigned z, Barrier* barrier) {
    using namespace emulation;
    const Box box = {shared_place(target), shared_place(barrier), {x, y, z}, map};
    require(map.magic == MAGIC && map.box[0] * map.itemsize == LINE_BYTES && map.box[2] == 1 && box_count < MOST_BOXES);
    require(box.target % EIGHT_LINES == 0);  // where the pattern begins that products read
    if (workgroups % 2) bring(box);
    else boxes[box_count++] = box;
}

static inline unsigned long long described(const void* start, unsigned leading, unsigned stride) {
    const auto field = [](unsigned bytes) -> unsigned long long { return (bytes & 0x3ffff) >> 4; };
    return field(emulation::shared_place(start)) | field(leading) << 16 | field(stride) << 32 | 1ull << 62;
}
static inline unsigned long long further(unsigned long long operand, unsigned bytes) { return operand + (bytes >> 4); }

static inline void start_products() { emulation::own_pending().fenced = true; }
static inline void commit_products() {
    emulation::Pending& p = emulation::own_pending();
    emulation::require(p.groups < emulation::MOST_PRODUCTS);
    p.committed[p.groups++] = p.count;
}
template <unsigned LATEST> static inline void wait_for_products() {
    using namespace emulation;
    Pending& p = own_pending();
    if (p.groups <= LATEST) return;
    const unsigned done = p.committed[p.groups - LATEST - 1];
    for (unsigned i = 0; i < done; i++) p.multiply(p.products[i], p.sums);
    for (unsigned i = done; i < p.count; i++) p.products[i - done] = p.products[i];
    p.count -= done;
    for (unsigned g = 0; g < LATEST; g++) p.committed[g] = p.committed[p.groups - LATEST + g] - done;
    p.groups = LATEST;
    if (p.count == 0) memcpy(p.visible, p.sums, p.length * sizeof(float));
    p.fenced = p.count != 0;
}

template <bool A_TURNED, bool B_TURNED, unsigned LENGTH, typename T>
static inline void multiply_tiles(float (&c)[LENGTH], unsigned long long a, unsigned long long b, T) {
    using namespace emulation;
    Pending& p = own_pending();
    require(p.fenced && p.count < MOST_PRODUCTS && (p.count == 0 || p.visible == c));
    if (p.count == 0) {
        memcpy(p.sums, c, sizeof(c));
        p.visible = c, p.length = LENGTH, p.multiply = multiply_one<A_TURNED, B_TURNED, 2 * LENGTH, T>;
    }
    p.products[p.count++] = {a, b};
    memset(c, 0xff, sizeof(c));  // NaN
}

#endif
