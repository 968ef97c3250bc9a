// Runs CUDA C++ kernels on the CPU: what a launch, its threads and their barriers are. Each thread of a block is a fiber,
// which runs until it waits for others; each block of a cluster is a thread of the system, whose thread-local variables
// are the block's shared memory. Slow, but every kernel runs as it is, to the last index.
#pragma once

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static thread_local

struct Dims {
    unsigned x, y, z;
};
inline thread_local Dims threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

namespace simt {

constexpr size_t kStack = 64 << 10;
constexpr int kWarp = 32;
// So long nothing may happen in a block whose threads wait for other blocks of its cluster.
constexpr std::chrono::seconds kPatience{10};

// Threads that wait for each other. `round` counts how often all of them have arrived.
struct Meeting {
    unsigned expected = 0, arrived = 0, round = 0;
};

// A copy to shared memory that runs by itself.
struct Copy {
    void* to;
    const void* from;
    int count;
};

// A context starts a fiber. From then on it is left and resumed by jumps, which unlike contexts need no system call.
struct Fiber {
    ucontext_t context;
    jmp_buf here;
    bool started, done;
    std::vector<std::vector<Copy>> copies{1};  // in groups, of which the last is not complete
};

// What a lane of a warp passes to the others.
struct Words {
    unsigned of[6];
};
template <class P>
Words pack(P value) {
    Words words{};
    std::memcpy(&words, &value, sizeof value);
    return words;
}
template <class P>
P unpack(const Words& words) {
    P value;
    std::memcpy(&value, &words, sizeof value);
    return value;
}

struct Cluster {
    explicit Cluster(unsigned blocks) : all(blocks), anchors(blocks), dynamics(blocks) {}
    std::barrier<> all;
    std::vector<char*> anchors, dynamics;  // where each block's shared memory is: variables, and what the launch asks for
    std::mutex messages;  // held while a barrier in shared memory changes, which other blocks send bytes to
    std::atomic<const char*> failure{nullptr};
};

inline thread_local char anchor;

// One block, on the thread of the system that runs it.
struct Block {
    Cluster* cluster;
    unsigned rank, threads, waiting_for_cluster = 0, cluster_rounds = 0;
    std::vector<Fiber> fibers;
    std::vector<Meeting> warps;
    Meeting whole;
    std::vector<Words> lanes[2];  // what each thread passes to others of its warp, by turns
    std::vector<unsigned> turns;
    std::vector<float> dynamic;
    jmp_buf scheduler;
    unsigned current = 0;
    bool progress = false, waits_for_others = false;
    // Called after each round of all threads: lets things happen that threads do not do themselves. It is given whether
    // the threads have come to a stop, and returns whether something happened.
    std::function<bool(bool)> background;
    std::function<const char*()> at_end;  // what is wrong when all threads are done, or null

    __attribute__((noinline)) void yield() {
        if (!_setjmp(fibers[current].here)) _longjmp(scheduler, 1);
    }
    __attribute__((noinline)) void resume(Fiber& fiber) {
        if (_setjmp(scheduler)) return;
        if (fiber.started) _longjmp(fiber.here, 1);
        fiber.started = true;
        setcontext(&fiber.context);
    }

    void meet(Meeting& meeting) {
        const unsigned round = meeting.round;
        progress = true;
        if (++meeting.arrived == meeting.expected) {
            meeting.arrived = 0, meeting.round++;
            return;
        }
        while (meeting.round == round) yield();
    }
    [[noreturn]] void fail(const char* reason) {
        cluster->failure = reason;
        for (;;) yield();
    }
    void meet_cluster() {
        const unsigned round = cluster_rounds;
        progress = true;
        waiting_for_cluster++;
        while (cluster_rounds == round) yield();
    }
    // What the lanes of this thread's warp pass to each other, until the turn after next.
    const Words* exchange(const Words& mine) {
        std::vector<Words>& passed = lanes[turns[current]++ % 2];
        passed[current] = mine;
        meet(warps[current / kWarp]);
        return &passed[current / kWarp * kWarp];
    }
    float shuffle(float value, unsigned from) { return unpack<float>(exchange(pack(value))[from]); }

    std::vector<std::vector<Copy>>& copies() { return fibers[current].copies; }
};

inline thread_local Block* block;
inline thread_local void (*body)(void*);
inline thread_local void* body_argument;

inline void begin_fiber() {
    body(body_argument);
    block->fibers[block->current].done = true;
    block->yield();
}

// Runs all threads of a block, in an order that changes from round to round, so that no thread can rely on it.
inline void run_block(Block& b, char* stacks) {
    block = &b;
    b.cluster->anchors[b.rank] = &anchor;
    b.cluster->dynamics[b.rank] = reinterpret_cast<char*>(b.dynamic.data());
    std::fill(b.dynamic.begin(), b.dynamic.end(), std::numeric_limits<float>::quiet_NaN());  // others may write to it soon
    b.cluster->all.arrive_and_wait();
    b.fibers = std::vector<Fiber>(b.threads);
    b.warps.assign((b.threads + kWarp - 1) / kWarp, Meeting{});
    for (unsigned t = 0; t < b.threads; t++) b.warps[t / kWarp].expected++;
    b.whole = Meeting{b.threads};
    for (auto& passed : b.lanes) passed.assign(b.warps.size() * kWarp, Words{});
    b.turns.assign(b.threads, 0);
    for (unsigned t = 0; t < b.threads; t++) {
        getcontext(&b.fibers[t].context);
        b.fibers[t].context.uc_stack = {stacks + t * kStack, 0, kStack};
        b.fibers[t].context.uc_link = nullptr;
        b.fibers[t].started = b.fibers[t].done = false;
        makecontext(&b.fibers[t].context, begin_fiber, 0);
    }
    unsigned left = b.threads;
    auto last_progress = std::chrono::steady_clock::now();
    const auto give_up = [&](const char* reason) {
        if (!b.cluster->failure) b.cluster->failure = reason;
        b.cluster->all.arrive_and_drop();
    };
    for (unsigned turn = 0; left > 0; turn++) {
        b.progress = b.waits_for_others = false;
        for (unsigned i = 0; i < b.threads; i++) {
            const unsigned t = turn % 2 ? b.threads - 1 - i : i;
            if (b.fibers[t].done) continue;
            b.current = t;
            threadIdx = {t % blockDim.x, t / blockDim.x, 0};
            b.resume(b.fibers[t]);
            if (b.fibers[t].done) left--, b.progress = true;
        }
        if (b.cluster->failure) return give_up(nullptr);
        const bool happened = b.background && b.background(!b.progress);
        const auto now = std::chrono::steady_clock::now();
        if (b.progress || happened) last_progress = now;
        if (b.waiting_for_cluster == b.threads) {
            b.cluster->all.arrive_and_wait();
            b.waiting_for_cluster = 0, b.cluster_rounds++;
        } else if (!b.progress && !happened && (!b.waits_for_others || now - last_progress > kPatience)) {
            return give_up("threads wait for others that never come");
        }
    }
    const char* const reason = b.at_end ? b.at_end() : nullptr;
    if (reason) return give_up(reason);
    b.cluster->all.arrive_and_drop();
}

struct Launch {
    int64_t grid[3], threads[3], cluster, shared_bytes;  // `grid` counts clusters
};

template <class Run>
const char* run_grid(const Launch& launch, Run run) {
    const unsigned threads = launch.threads[0] * launch.threads[1] * launch.threads[2];
    const unsigned blocks = launch.cluster;
    const size_t bytes = blocks * threads * kStack;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char* const stacks = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0));
    if (stacks == MAP_FAILED) return "no memory for the stacks of the threads";
    const char* failure = nullptr;
    for (int64_t y = 0; y < launch.grid[1]; y++)
        for (int64_t x = 0; x < launch.grid[0] && !failure; x++) {
            Cluster cluster(blocks);
            const auto run_rank = [&](unsigned rank) {
                Block b;
                b.cluster = &cluster, b.rank = rank, b.threads = threads;
                b.dynamic.resize(launch.shared_bytes / sizeof(float));
                gridDim = {unsigned(launch.grid[0] * blocks), unsigned(launch.grid[1]), 1};
                blockIdx = {unsigned(x * blocks + rank), unsigned(y), 0};
                blockDim = {unsigned(launch.threads[0]), unsigned(launch.threads[1]), 1};
                body = [](void* argument) { (*static_cast<Run*>(argument))(); };
                body_argument = &run;
                run_block(b, stacks + rank * threads * kStack);
            };
            std::vector<std::thread> others;
            for (unsigned rank = 1; rank < blocks; rank++) others.emplace_back(run_rank, rank);
            run_rank(0);
            for (auto& other : others) other.join();
            failure = cluster.failure;
        }
    munmap(stacks, bytes);
    return failure;
}

// An argument as Python passes it: 8 bytes, whatever it is. Numbers may be narrower.
template <class P>
P argument(const uint64_t& bits) {
    static_assert(sizeof(P) == 8 || (std::is_arithmetic_v<P> && sizeof(P) < 8));
    P value;
    std::memcpy(&value, &bits, sizeof(P));
    return value;
}

// The message of a failure, or null.
template <class... P, size_t... I>
const char* launch(void (*kernel)(P...), const Launch& how, const uint64_t* args, std::index_sequence<I...>) {
    return run_grid(how, [=] { kernel(argument<P>(args[I])...); });
}
template <class... P>
const char* launch(void (*kernel)(P...), const Launch& how, const uint64_t* args) {
    return launch(kernel, how, args, std::index_sequence_for<P...>{});
}

}  // namespace simt

// What kernels call ----------------------------------------------------------------------------------------------

inline void __syncthreads() { simt::block->meet(simt::block->whole); }
inline void __syncwarp() { simt::block->meet(simt::block->warps[simt::block->current / simt::kWarp]); }
inline float __shfl_xor_sync(unsigned, float value, int apart) {
    return simt::block->shuffle(value, (simt::block->current % simt::kWarp) ^ apart);
}
inline float __shfl_sync(unsigned, float value, int from) { return simt::block->shuffle(value, from); }

template <class V>
void __stcs(V* to, V value) { *to = value; }

template <class V>
V __ldcg(const V* from) { return *from; }

// Blocks that are not of one cluster run one after the other.
inline void __threadfence() {}
inline unsigned atomicInc(unsigned* count, unsigned last) {
    const unsigned before = *count;
    *count = before >= last ? 0 : before + 1;
    return before;
}

inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
using std::isfinite;
using std::max;
using std::min;
