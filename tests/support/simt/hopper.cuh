// In place of benchmarks/candidates/hopper.cuh: what its instructions do, by the documents of PTX. What happens by itself
// on a GPU, copies and products, happens here as early or as late as it may, by chance: a kernel that reads too early, or
// lets its operands be overwritten too early, computes something else.
#pragma once

#include <deque>

#include "../../src/kernellab/ops/ptx.cuh"

struct bfloat16;
struct float16;

constexpr int ROW = 64, ROW_BYTES = 128, GROUP_BYTES = 8 * ROW_BYTES;

// A tensor, its dims and strides beginning with the last dim, as the driver counts them.
struct MapDescription {
    char* base;
    int64_t dims, element_bytes, swizzle_bytes, shape[5], stride_bytes[5], block[5];
};
struct TensorMap {
    const MapDescription* is;
};

namespace hopper {

constexpr unsigned kStart = 1232;  // where dynamic shared memory begins: as on a GPU, at no multiple of 1024
constexpr int kWarpgroup = 128, kNamedBarriers = 16, kPieceBytes = 16;

struct Copy {
    int turns;  // to wait
    std::function<void()> run;
};
struct Product {
    float* sum;
    int registers;
    const unsigned* const* a;  // of the lanes of a warp, or null
    unsigned long long a_operand, b_operand;
    bool a_by_k, b_by_k, add, is_bfloat16;
};
struct ThreadState {
    std::deque<std::vector<Product>> products;  // groups; the last is not committed
    std::deque<std::vector<std::shared_ptr<Copy>>> stores;
    std::vector<unsigned> unpublished;  // pieces of shared memory that it wrote
    bool products_begun = false, has_unread_stores = false;
    unsigned issued = 0;
};
struct State {
    std::vector<ThreadState> threads;
    std::vector<std::shared_ptr<Copy>> copies;
    std::vector<char> unpublished;  // by pieces of dynamic shared memory
    simt::Meeting named[kNamedBarriers];
    std::vector<std::vector<const unsigned*>> lanes;  // by warp: the registers of each lane's operand, by turns
    uint64_t random = 88172645463325252ull;

    unsigned chance(unsigned n) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        return random % n;
    }
};
constexpr unsigned kMostTurns = 60;  // of all threads, that a copy may take
constexpr unsigned kTurns = 64;  // products of registers that a warp may have issued and not waited for

inline thread_local std::shared_ptr<State> current;

inline State& state() {
    simt::Block& block = *simt::block;
    if (!block.background) {
        auto made = current = std::make_shared<State>();
        made->threads.resize(block.threads);
        for (auto& thread : made->threads) thread.products.emplace_back(), thread.stores.emplace_back();
        made->unpublished.resize(block.dynamic.size() * 4 / kPieceBytes + 1);
        made->lanes.assign(block.warps.size(), std::vector<const unsigned*>(kTurns * simt::kWarp));
        for (unsigned i = 0; i <= blockIdx.x * 7 + blockIdx.y * 3; i++) made->chance(2);
        block.background = [made](bool stopped) {
            bool happened = false;
            auto waiting = std::move(made->copies);
            made->copies.clear();
            for (auto& copy : waiting) {
                if (!copy->run) {
                    happened = true;  // it was needed before
                } else if (stopped || --copy->turns <= 0) {
                    const auto run = std::move(copy->run);
                    copy->run = nullptr;
                    run();
                    happened = true;
                } else {
                    made->copies.push_back(copy);
                }
            }
            return happened || !made->copies.empty();
        };
        block.at_end = [made]() -> const char* {
            for (auto& thread : made->threads) {
                if (thread.has_unread_stores) return "a block ends while its shared memory is being stored";
                if (!thread.products.back().empty() || thread.products.size() > 1)
                    return "a thread ends without waiting for its products";
            }
            return made->copies.empty() ? nullptr : "a block ends before its copies have arrived";
        };
    }
    return *current;
}
inline ThreadState& thread() { return state().threads[simt::block->current]; }

inline char* memory(unsigned address, unsigned bytes, unsigned block) {
    const size_t size = simt::block->dynamic.size() * 4;
    if (address < kStart || address + bytes > kStart + size) simt::block->fail("an access outside shared memory");
    return simt::block->cluster->dynamics[block] + (address - kStart);
}
inline char* memory(unsigned address, unsigned bytes) { return memory(address, bytes, simt::block->rank); }

// Where a byte is that would be at an address without swizzle.
inline unsigned permuted(unsigned address) { return address ^ (address / 128 % 8) << 4; }

inline int64_t bytes_of(const MapDescription& map) {
    int64_t bytes = map.element_bytes;
    for (int d = 0; d < map.dims; d++) bytes *= map.block[d];
    return bytes;
}
inline void require_suitable(const MapDescription& map, unsigned address, size_t dims) {
    if (map.dims != int64_t(dims)) simt::block->fail("a tensor map of another number of dims");
    if (map.swizzle_bytes == 128 && (address % 1024 || map.block[0] * map.element_bytes != 128))
        simt::block->fail("a block with swizzle: not at a multiple of 1024 bytes, or its rows do not have 128");
    if (address % 128) simt::block->fail("a block that does not begin at a multiple of 128");
    memory(address, bytes_of(map));
}

// Calls visit(element in the tensor, address in shared memory, whether it is inside) for the elements of a block.
template <class Visit>
void for_block(const MapDescription& map, unsigned address, const int64_t* first, Visit visit) {
    int64_t at[5] = {0, 0, 0, 0, 0}, elements = 1;
    for (int d = 0; d < map.dims; d++) elements *= map.block[d];
    for (int64_t i = 0; i < elements; i++) {
        char* from = map.base;
        bool inside = true;
        for (int d = 0; d < map.dims; d++) {
            const int64_t x = first[d] + at[d];
            inside = inside && x >= 0 && x < map.shape[d];
            from += x * (d ? map.stride_bytes[d] : map.element_bytes);
        }
        const unsigned plain = address + i * map.element_bytes;
        visit(from, map.swizzle_bytes == 128 ? permuted(plain) : plain, inside);
        for (int d = 0; d < map.dims && ++at[d] == map.block[d]; d++) at[d] = 0;
    }
}
inline void later(std::function<void()> run, int turns) {
    state().copies.push_back(std::make_shared<Copy>(Copy{turns, std::move(run)}));
}

inline void load(unsigned short blocks, unsigned to, TensorMap map, std::vector<int64_t> first, SharedBarrier* barrier) {
    require_suitable(*map.is, to, first.size());
    const ptrdiff_t place = reinterpret_cast<char*>(barrier) - &simt::anchor;
    for (unsigned rank = 0; rank < cluster_blocks(); rank++) {
        if (!(blocks >> rank & 1)) continue;
        const auto copy = [=] {
            for_block(*map.is, to, first.data(), [&](const char* from, unsigned address, bool inside) {
                char* const here = memory(address, map.is->element_bytes, rank);
                inside ? std::memcpy(here, from, map.is->element_bytes) : std::memset(here, 0, map.is->element_bytes);
            });
        };
        const bool early = state().chance(2);
        if (early) copy();
        later([=] {
            if (!early) copy();
            auto* const theirs = reinterpret_cast<SharedBarrier*>(simt::block->cluster->anchors[rank] + place);
            theirs->change(0, -int(bytes_of(*map.is)));
        }, 1 + state().chance(kMostTurns));
    }
}

// What a thread writes is seen by the copy engine and the tensor cores only when it was published.
inline void mark_unpublished(unsigned address) {
    const unsigned piece = (address - kStart) / kPieceBytes;
    state().unpublished[piece]++;
    thread().unpublished.push_back(piece);
}

inline void store(TensorMap map, unsigned from, std::vector<int64_t> first, bool add) {
    require_suitable(*map.is, from, first.size());
    const int64_t bytes = bytes_of(*map.is);
    for (unsigned piece = (from - kStart) / kPieceBytes; piece < (from - kStart + bytes) / kPieceBytes; piece++)
        if (state().unpublished[piece]) simt::block->fail("the copy engine reads what was written and not published");
    const auto copy = [=] {
        for_block(*map.is, from, first.data(), [&](char* to, unsigned address, bool inside) {
            if (!inside) return;
            const char* const here = memory(address, map.is->element_bytes);
            if (add) *reinterpret_cast<float*>(to) += *reinterpret_cast<const float*>(here);
            else std::memcpy(to, here, map.is->element_bytes);
        });
    };
    const auto entry = std::make_shared<Copy>(Copy{int(state().chance(10 * kMostTurns)), copy});
    thread().stores.back().push_back(entry);
    thread().has_unread_stores = true;
    state().copies.push_back(entry);
}
inline void finish_stores(unsigned left) {
    auto& groups = thread().stores;
    if (!groups.back().empty()) simt::block->fail("a wait for stores that were not committed");
    for (int i = state().chance(3); i > 0; i--) simt::block->progress = true, simt::block->yield();
    while (groups.size() - 1 > left) {
        for (auto& copy : groups.front())
            if (copy->run) copy->run(), copy->run = nullptr;
        groups.pop_front();
    }
    if (left == 0) thread().has_unread_stores = false;
}

inline float widened(const char* place, bool is_bfloat16) {
    uint16_t bits;
    std::memcpy(&bits, place, 2);
    if (is_bfloat16) return __uint_as_float(unsigned(bits) << 16);
    _Float16 value;
    std::memcpy(&value, place, 2);
    return float(value);
}

// The element of an operand at (m or n, k): the fields of its description, and swizzle of 128 bytes.
inline unsigned place_of(unsigned long long operand, bool by_k, int across, int k) {
    const unsigned start = (operand & 0x3fff) << 4, leading = (operand >> 16 & 0x3fff) << 4;
    const unsigned stride = (operand >> 32 & 0x3fff) << 4;
    return permuted(by_k ? start + across / 8 * stride + across % 8 * 128 + k * 2
                         : start + across / 64 * leading + across % 64 * 2 + k / 8 * stride + k % 8 * 128);
}
inline float element(const Product& product, unsigned long long operand, bool by_k, int across, int k) {
    const unsigned place = place_of(operand, by_k, across, k);
    const char* const here = memory(place, 2);
    if (current->unpublished[(place - kStart) / kPieceBytes])
        simt::block->fail("the tensor cores read what was written and not published");
    return widened(here, product.is_bfloat16);
}

inline void compute(const Product& product) {
    const int in_group = simt::block->current % kWarpgroup, warp = in_group / 32, lane = in_group % 32;
    if ((product.b_operand >> 62) != 1 || (!product.a && (product.a_operand >> 62) != 1))
        simt::block->fail("an operand without swizzle of 128 bytes");
    float a[2][16];
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 16; k++) {
            if (product.a) {
                const unsigned* const registers = product.a[lane / 4 * 4 + k % 8 / 2];
                const uint16_t bits = registers[h + k / 8 * 2] >> (k % 2 * 16);
                a[h][k] = widened(reinterpret_cast<const char*>(&bits), product.is_bfloat16);
            } else {
                a[h][k] = element(product, product.a_operand, product.a_by_k, 16 * warp + 8 * h + lane / 4, k);
            }
        }
    for (int j = 0; j < product.registers / 4; j++)
        for (int i = 0; i < 2; i++) {
            float b[16];
            for (int k = 0; k < 16; k++)
                b[k] = element(product, product.b_operand, product.b_by_k, 8 * j + 2 * (lane % 4) + i, k);
            for (int h = 0; h < 2; h++) {
                float& sum = product.sum[4 * j + 2 * h + i];
                float result = product.add ? sum : 0;
                for (int k = 0; k < 16; k++) result += a[h][k] * b[k];
                sum = result;
            }
        }
}
inline void issue(Product product) {
    if (!thread().products_begun) simt::block->fail("a product before products_begin()");
    thread().products.back().push_back(product);
}

}  // namespace hopper

inline unsigned shared_address(const void* place) {
    const char* const begin = reinterpret_cast<const char*>(simt::block->dynamic.data());
    return static_cast<const char*>(place) - begin + hopper::kStart;
}

inline void prefetch_map(const TensorMap&) {}
inline void load_block(unsigned to, const TensorMap& map, int x, int y, SharedBarrier* barrier) {
    hopper::load(1 << simt::block->rank, to, map, {x, y}, barrier);
}
inline void load_block(unsigned to, const TensorMap& map, int x, int y, int z, int w, SharedBarrier* barrier) {
    hopper::load(1 << simt::block->rank, to, map, {x, y, z, w}, barrier);
}
inline void load_block_for(unsigned short blocks, unsigned to, const TensorMap& map, int x, int y, SharedBarrier* barrier) {
    hopper::load(blocks, to, map, {x, y}, barrier);
}
inline void store_block(const TensorMap& map, unsigned from, int x, int y) { hopper::store(map, from, {x, y}, false); }
inline void store_block(const TensorMap& map, unsigned from, int x, int y, int z, int w) {
    hopper::store(map, from, {x, y, z, w}, false);
}
inline void add_block(const TensorMap& map, unsigned from, int x, int y, int z, int w) {
    hopper::store(map, from, {x, y, z, w}, true);
}
inline void stores_commit() { hopper::thread().stores.emplace_back(); }
template <int N>
void stores_have_read() { hopper::finish_stores(N); }
template <int N>
void stores_are_done() { hopper::finish_stores(N); }

inline void publish_writes() {
    for (const unsigned piece : hopper::thread().unpublished) hopper::state().unpublished[piece]--;
    hopper::thread().unpublished.clear();
}

inline unsigned long long operand(unsigned address, unsigned leading = 16, unsigned stride = GROUP_BYTES) {
    const unsigned low = (address & 0x3ffff) >> 4 | leading >> 4 << 16, high = stride >> 4 | 1u << 30;
    return (unsigned long long)high << 32 | low;
}
inline unsigned long long further(unsigned long long operand, unsigned bytes) { return operand + (bytes >> 4); }

inline void products_begin() { hopper::thread().products_begun = true; }
inline void products_commit() {
    auto& groups = hopper::thread().products;
    bool alone = groups.size() == 1;  // and no lane's registers are read, which may not be there yet
    for (const auto& product : groups.back()) alone = alone && !product.a;
    if (alone && hopper::state().chance(2)) {
        for (const auto& product : groups.back()) hopper::compute(product);
        groups.back().clear();
    }
    groups.emplace_back();
}
// A warp's products are computed together, as lanes read each other's registers.
template <int N>
void products_wait() {
    if (!hopper::thread().products.back().empty()) simt::block->fail("a wait for products that were not committed");
    auto& warp = simt::block->warps[simt::block->current / simt::kWarp];
    simt::block->meet(warp);
    for (int i = hopper::state().chance(3); i > 0; i--) simt::block->progress = true, simt::block->yield();
    simt::block->meet(warp);
    auto& groups = hopper::thread().products;
    while (groups.size() - 1 > N) {
        for (const auto& product : groups.front()) hopper::compute(product);
        groups.pop_front();
    }
    hopper::thread().products_begun = false;
    simt::block->meet(warp);
}

template <int REGISTERS>
void settle(float (&)[REGISTERS]) {}

inline void compute_before(float) {}

template <class T>
constexpr bool IS_BFLOAT16 = std::is_same_v<T, bfloat16>;

template <class T, bool A_BY_K, bool B_BY_K, int REGISTERS>
void product(float (&sum)[REGISTERS], unsigned long long a, unsigned long long b, bool add) {
    hopper::issue({sum, REGISTERS, nullptr, a, b, A_BY_K, B_BY_K, add, IS_BFLOAT16<T>});
}
template <class T, bool B_BY_K, int REGISTERS>
void product(float (&sum)[REGISTERS], const unsigned (&a)[4], unsigned long long b, bool add) {
    const unsigned lane = simt::block->current % simt::kWarp, turn = hopper::thread().issued++ % hopper::kTurns;
    auto& lanes = hopper::state().lanes[simt::block->current / simt::kWarp];
    lanes[turn * simt::kWarp + lane] = a;
    hopper::issue({sum, REGISTERS, &lanes[turn * simt::kWarp], 0, b, true, B_BY_K, add, IS_BFLOAT16<T>});
}

inline float log2_fast(float x) { return std::log2(x); }

template <class T>
unsigned pack(float low, float high) {
    uint16_t halves[2];
    const float values[2] = {low, high};
    for (int i = 0; i < 2; i++) {
        if constexpr (IS_BFLOAT16<T>) {
            const unsigned bits = __float_as_uint(values[i]);
            halves[i] = values[i] != values[i] ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        } else {
            const _Float16 narrow = values[i];
            std::memcpy(&halves[i], &narrow, 2);
        }
    }
    return halves[0] | unsigned(halves[1]) << 16;
}

template <class T>
float widen(unsigned bits) {
    const uint16_t half = bits;
    return hopper::widened(reinterpret_cast<const char*>(&half), IS_BFLOAT16<T>);
}

inline void store_matrices(unsigned row, unsigned a, unsigned b, unsigned c, unsigned d) {
    const unsigned lane = simt::block->current % simt::kWarp, registers[4] = {a, b, c, d};
    if (row % 16) simt::block->fail("a row of a matrix that is not aligned to 16 bytes");
    hopper::memory(row, 16);
    for (int matrix = 0; matrix < 4; matrix++)
        for (unsigned place = 0; place < 8; place++) {
            // Every lane passes its place to the others, and writes what it has to that of its row.
            const unsigned rows = __float_as_uint(simt::block->shuffle(__uint_as_float(row), matrix * 8 + place));
            if (place == lane / 4) std::memcpy(hopper::memory(rows + lane % 4 * 4, 4), &registers[matrix], 4);
        }
    hopper::mark_unpublished(row);
}
inline void store_shared(unsigned address, float a, float b) {
    const float both[2] = {a, b};
    if (address % 8) simt::block->fail("a store that is not aligned to its width");
    std::memcpy(hopper::memory(address, 8), both, 8);
    hopper::mark_unpublished(address);
}
inline float2 load_shared(unsigned address) {
    float2 both;
    if (address % 8) simt::block->fail("a load that is not aligned to its width");
    std::memcpy(&both, hopper::memory(address, 8), 8);
    return both;
}
inline void load_bytes(unsigned to, const void* from, unsigned bytes, SharedBarrier* barrier) {
    if (to % 16 || bytes % 16 || reinterpret_cast<uintptr_t>(from) % 16)
        simt::block->fail("a copy that is not aligned to 16 bytes");
    char* const here = hopper::memory(to, bytes);
    const bool early = hopper::state().chance(2);
    if (early) std::memcpy(here, from, bytes);
    hopper::later([=] {
        if (!early) std::memcpy(here, from, bytes);
        barrier->change(0, -int(bytes));
    }, 1 + hopper::state().chance(hopper::kMostTurns));
}

inline unsigned swizzled(unsigned block, int row, int piece) {
    return block + row * ROW_BYTES + ((piece ^ (row % 8)) << 4);
}
inline int uniform(int value) { return value; }

template <int N>
void take_registers() {}
template <int N>
void give_registers() {}

inline void let_pass(int number, int threads) {
    auto& meeting = hopper::state().named[number];
    meeting.expected = threads;
    simt::block->progress = true;
    if (++meeting.arrived == meeting.expected) meeting.arrived = 0, meeting.round++;
}
inline void meet(int number, int threads) {
    auto& meeting = hopper::state().named[number];
    meeting.expected = threads;
    simt::block->meet(meeting);
}

inline void barrier_arrive_in(unsigned block, SharedBarrier* barrier) {
    const ptrdiff_t place = reinterpret_cast<char*>(barrier) - &simt::anchor;
    reinterpret_cast<SharedBarrier*>(simt::block->cluster->anchors[block] + place)->change(1, 0);
}
