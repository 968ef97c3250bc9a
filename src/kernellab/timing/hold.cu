// Keeps a stream busy until the host says go, so that a whole window of work is queued behind it before any of
// it runs. It gives up at a deadline of its own: an allocation, a lazy module load or a full launch queue
// behind it would otherwise wait for the host, and the host for it, for ever.

__device__ inline unsigned long long nanoseconds() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// words[0]: the last ticket the host has let go. words[1]: the last ticket whose hold gave up. Pinned host memory.
extern "C" __global__ void hold(const int* device, volatile long long* words, long long ticket, long long deadline) {
  const unsigned long long start = nanoseconds();
  while (words[0] < ticket) {
    if (nanoseconds() - start > (unsigned long long)deadline) {
      words[1] = ticket;
      __threadfence_system();
      return;
    }
    __nanosleep(200);
  }
}

// What every launch costs, whatever the kernel does.
extern "C" __global__ void nothing(const int* device) {}
