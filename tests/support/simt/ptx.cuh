// In place of the shipped ptx.cuh: what its instructions do.
#pragma once

inline float exp2_fast(float x) { return std::exp2(x); }

inline unsigned cluster_rank() { return simt::block->rank; }
inline unsigned cluster_blocks() { return simt::block->cluster->anchors.size(); }
inline void cluster_arrive() {}
inline void cluster_wait() { simt::block->meet_cluster(); }
inline void cluster_sync() { simt::block->meet_cluster(); }
inline void cluster_release() {}
inline void cluster_acquire() { simt::block->meet_cluster(); }

template <class S>
void store_in_block(unsigned block, S* here, S value) {
    const ptrdiff_t offset = reinterpret_cast<char*>(here) - &simt::anchor;
    *reinterpret_cast<S*>(simt::block->cluster->anchors[block] + offset) = value;
}

// The first half of a phase's threads, the bytes that are still to be copied, and the phase.
struct SharedBarrier {
    int expected, arrived, bytes;
    unsigned phase;

    void complete() {
        if (arrived == expected && bytes == 0) arrived = 0, phase++;
    }
};
inline void barrier_init(SharedBarrier* barrier, unsigned count) { *barrier = {int(count), 0, 0, 0}; }
inline void barrier_fence() {}
inline void barrier_arrive(SharedBarrier* barrier) { barrier->arrived++, barrier->complete(); }
inline void barrier_expect(SharedBarrier* barrier, unsigned bytes) {
    barrier->bytes += bytes, barrier->arrived++, barrier->complete();
}
inline void barrier_wait(SharedBarrier* barrier, unsigned parity) {
    while (barrier->phase % 2 == parity) simt::block->yield();
    simt::block->progress = true;
}
inline void copy_to_shared(void* to, const void* from, unsigned bytes, SharedBarrier* barrier) {
    std::memcpy(to, from, bytes);
    barrier->bytes -= bytes, barrier->complete();
}
