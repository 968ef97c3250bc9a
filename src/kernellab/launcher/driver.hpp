// The CUDA driver's functions that launching needs, declared by hand: CUDA's headers are not needed to build.
//
// They are taken from libcuda.so.1 at run time. Tests give the addresses of functions of their own instead.

#pragma once

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/python_headers.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace kernellab {

// As CUlaunchAttribute: an id and a value of 64 bytes.
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    unsigned cluster[3];
    unsigned long long aligned;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);
constexpr int kClusterSize = 4;  // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION

// As CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

struct Driver {
  int (*cuLaunchKernelEx)(const LaunchConfig*, void* kernel, void** arguments, void** extra) = nullptr;
  int (*cuStreamIsCapturing)(void* stream, int* status) = nullptr;
  int (*cuCtxGetCurrent)(void** context) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(void** context, int device) = nullptr;
  int (*cuCtxSetCurrent)(void* context) = nullptr;
  int (*cuGetErrorName)(int status, const char** name) = nullptr;
};

inline Driver driver;
inline bool on_cpu = false;  // tests: kernels are functions that compute on tensors of the CPU

inline void require_success(int status, const char* call) {
  if (status == 0) return;
  const char* name = nullptr;
  if (driver.cuGetErrorName) driver.cuGetErrorName(status, &name);
  TORCH_CHECK(false, "kernellab: ", call, " failed: ", name ? std::string(name) : std::to_string(status));
}

// Throws the exception that Python has set.
[[noreturn]] inline void raise_from_python() {
  python_error error;
  error.persist();
  throw error;
}

// A function of the given address, or of the driver's library where the address is 0.
template <typename F>
void find(F& function, const char* name, const std::unordered_map<std::string, uint64_t>& addresses, void* library) {
  auto given = addresses.find(name);
  void* address = given != addresses.end() ? reinterpret_cast<void*>(given->second)
                                           : (library ? dlsym(library, name) : nullptr);
  TORCH_CHECK(address, "the CUDA driver has no function ", name);
  function = reinterpret_cast<F>(address);
}

inline void load_driver(const std::unordered_map<std::string, uint64_t>& addresses) {
  void* library = nullptr;
  if (addresses.empty()) {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    TORCH_CHECK(library, "the CUDA driver cannot be loaded: ", dlerror());
  }
  Driver loaded;
  find(loaded.cuLaunchKernelEx, "cuLaunchKernelEx", addresses, library);
  find(loaded.cuStreamIsCapturing, "cuStreamIsCapturing", addresses, library);
  find(loaded.cuCtxGetCurrent, "cuCtxGetCurrent", addresses, library);
  find(loaded.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", addresses, library);
  find(loaded.cuCtxSetCurrent, "cuCtxSetCurrent", addresses, library);
  find(loaded.cuGetErrorName, "cuGetErrorName", addresses, library);
  driver = loaded;
  on_cpu = !addresses.empty();
}

// A thread has no context until it calls the CUDA runtime, which a call that only finds cached memory does not do.
inline void require_context(c10::Device device) {
  thread_local bool has_context = false;
  if (has_context) return;
  void* context = nullptr;
  require_success(driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  if (!context) {
    require_success(driver.cuDevicePrimaryCtxRetain(&context, device.index()), "cuDevicePrimaryCtxRetain");
    require_success(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  }
  has_context = true;
}

// The driver's handle of torch's current stream. torch's number of a stream never gets another handle.
inline void* current_stream(c10::Device device) {
  static std::mutex mutex;
  static std::unordered_map<int64_t, void*> handles[64];
  if (on_cpu) return nullptr;
  const int64_t id = c10::impl::getDeviceGuardImpl(device.type())->getStream(device).id();
  if (id == 0) return nullptr;  // the default stream
  auto& known = handles[device.index() & 63];
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = known.find(id);
    if (found != known.end()) return found->second;
  }
  // Only torch knows the handle, and without CUDA's headers only its Python interface tells it.
  const auto gil = PyGILState_Ensure();
  PyObject* torch_c = PyImport_ImportModule("torch._C");
  PyObject* number = torch_c ? PyObject_CallMethod(torch_c, "_cuda_getCurrentRawStream", "i", device.index()) : nullptr;
  void* handle = number ? PyLong_AsVoidPtr(number) : nullptr;
  const bool failed = PyErr_Occurred() != nullptr;
  if (failed) PyErr_Clear();
  Py_XDECREF(number);
  Py_XDECREF(torch_c);
  PyGILState_Release(gil);
  TORCH_CHECK(!failed, "kernellab: torch does not tell its current stream");
  std::lock_guard<std::mutex> lock(mutex);
  return known[id] = handle;
}

inline bool is_capturing(void* stream) {
  int status = 0;
  require_success(driver.cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing");
  return status != 0;
}

}  // namespace kernellab
