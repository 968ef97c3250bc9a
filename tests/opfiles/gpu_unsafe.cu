// Twice x, through shared memory, without the barrier that the reading needs.
template <typename T>
__global__ void double_racing(const T* x, T* y, long long n) {
    __shared__ T staged[256];
    long long first = 256ll * blockIdx.x;
    int other = 255 - threadIdx.x;
    if (first + threadIdx.x < n) {
        staged[threadIdx.x] = x[first + threadIdx.x];  // the write
    }
    if (first + other < n) {
        y[first + other] = staged[other] + staged[other];  // the read
    }
}

// The same with it.
template <typename T>
__global__ void double_staged(const T* x, T* y, long long n) {
    __shared__ T staged[256];
    long long first = 256ll * blockIdx.x;
    int other = 255 - threadIdx.x;
    if (first + threadIdx.x < n) {
        staged[threadIdx.x] = x[first + threadIdx.x];
    }
    __syncthreads();
    if (first + other < n) {
        y[first + other] = staged[other] + staged[other];
    }
}

// Adds what nothing has written, times zero.
template <typename T>
__global__ void double_unwritten(const T* x, T* y, long long n) {
    long long at = 256ll * blockIdx.x + threadIdx.x;
    if (at < n) {
        T before = y[at];  // never written
        y[at] = x[at] + x[at] + (before == before ? T(0) : T(0) * before);
    }
}
