// Functions in the place of the CUDA driver's: a kernel is a function that computes on the CPU.

#include <atomic>
#include <cstdint>
#include <cstring>

struct Config {
    unsigned grid[3], block[3], shared_bytes;
    void* stream;
    struct Attribute {
        int id;
        char padding[4];
        unsigned cluster[16];
    }* attributes;
    unsigned attribute_count;
};

struct Kernel {
    const char* (*run)(const int64_t* launch, const uint64_t* arguments);  // none: nothing is computed
    int64_t arguments;
};

static std::atomic<int64_t> launches{0}, contexts_set{0};
static std::atomic<int> status{0}, capturing{0};

extern "C" {

int cuLaunchKernelEx(const Config* config, Kernel* kernel, void** arguments, void** extra) {
    launches++;
    if (status || extra) return status ? status.load() : 1;
    if (!kernel->run) return 0;
    const unsigned cluster = config->attribute_count ? config->attributes[0].cluster[0] : 1;
    const int64_t launch[8] = {config->grid[0] / cluster, config->grid[1],  config->grid[2], config->block[0],
                               config->block[1],          config->block[2], cluster,         config->shared_bytes};
    uint64_t values[64];
    for (int64_t i = 0; i < kernel->arguments; i++) std::memcpy(&values[i], arguments[i], 8);
    return kernel->run(launch, values) ? 700 : 0;
}

int cuStreamIsCapturing(void*, int* answer) { return *answer = capturing, 0; }
int cuCtxGetCurrent(void** context) { return *context = nullptr, 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &launches, 0; }
int cuCtxSetCurrent(void* context) { return contexts_set += context == &launches, 0; }
int cuGetErrorName(int, const char** name) { return *name = "CUDA_ERROR_OF_TESTS", 0; }

int64_t launch_count() { return launches; }
int64_t context_count() { return contexts_set; }
void fail_with(int error) { status = error; }
void set_capturing(int answer) { capturing = answer; }
}
