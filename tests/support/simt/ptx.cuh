// In place of the shipped ptx.cuh: what its instructions do.
#pragma once

inline float exp2_fast(float x) { return std::exp2(x); }

inline unsigned long long multiply_wide(unsigned a, unsigned b) { return (unsigned long long)a * b; }

inline unsigned cluster_rank() { return simt::block->rank; }
inline unsigned cluster_blocks() { return simt::block->cluster->anchors.size(); }
inline void cluster_arrive() {}
inline void cluster_wait() { simt::block->meet_cluster(); }
inline void cluster_sync() { simt::block->meet_cluster(); }

template <class S>
void store_in_block(unsigned block, S* here, S value) {
    const ptrdiff_t offset = reinterpret_cast<char*>(here) - &simt::anchor;
    *reinterpret_cast<S*>(simt::block->cluster->anchors[block] + offset) = value;
}

// The threads that have arrived in this phase, the bytes that are still to come, and the number of the phase.
struct SharedBarrier {
    int expected, arrived, bytes;
    std::atomic<unsigned> phase;

    void change(int more_arrived, int more_bytes) {
        const std::lock_guard lock(simt::block->cluster->messages);
        arrived += more_arrived, bytes += more_bytes;
        if (arrived == expected && bytes == 0) arrived = 0, phase++;
    }
};
inline void barrier_init(SharedBarrier* barrier, unsigned count) {
    barrier->expected = count, barrier->arrived = barrier->bytes = 0, barrier->phase = 0;
}
inline void barrier_fence() {}
inline void barrier_arrive(SharedBarrier* barrier) { barrier->change(1, 0); }
inline void barrier_expect(SharedBarrier* barrier, unsigned bytes) { barrier->change(1, bytes); }
inline void barrier_wait(SharedBarrier* barrier, unsigned parity) {
    // Bytes may come from another block, whose progress is not known here.
    for (; barrier->phase % 2 == parity; simt::block->yield()) simt::block->waits_for_others |= cluster_blocks() > 1;
    simt::block->progress = true;
}
inline void copy_to_shared(void* to, const void* from, unsigned bytes, SharedBarrier* barrier) {
    std::memcpy(to, from, bytes);
    barrier->change(0, -int(bytes));
}

template <class S>
void send_to_block(unsigned block, S* here, S value, SharedBarrier* barrier) {
    store_in_block(block, here, value);
    char* const base = simt::block->cluster->anchors[block];
    reinterpret_cast<SharedBarrier*>(base + (reinterpret_cast<char*>(barrier) - &simt::anchor))->change(0, -int(sizeof(S)));
}
