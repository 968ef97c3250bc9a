// A recorded pass of an op, and how it is repeated: its memory is allocated and its kernels are launched.

#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>

#include "key.hpp"

#include <memory>
#include <vector>

namespace kernellab {

struct Allocation {
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype;
  bool contiguous;
  int output = -1;       // among the outputs of the pass; scratch memory is none of them
  size_t scratch_at = 0;  // bytes into the plan's scratch memory
};

// An argument of a kernel that points into a tensor.
struct Pointer {
  size_t argument;
  bool is_input;
  size_t index;  // of the input or of the allocation
  int64_t offset;  // bytes
};

struct Launch {
  void* kernel;
  LaunchConfig config;
  LaunchAttribute cluster;
  bool has_cluster;
  std::vector<uint64_t> values;  // one for each argument
  std::vector<Pointer> pointers;
};

struct Output {
  bool is_input;
  size_t index;  // of the input or of the allocation
};

struct Plan {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::vector<Allocation> allocations;
  size_t scratch_bytes = 0;
  std::vector<Launch> launches;
  std::vector<Output> outputs;
  bool bound_to_stream = false;  // a constant among its arguments belongs to the stream it was recorded on
  Words options;  // of the op, as key.hpp writes them
};

using Tensors = c10::SmallVector<at::Tensor, 6>;

// As torch's own ops have it: a program may have replaced it.
inline c10::Allocator* allocator_of(c10::Device device) {
  return device.is_cuda() ? at::detail::getCUDAHooks().getCUDADeviceAllocator() : c10::GetAllocator(device.type());
}

inline at::Tensor allocate(const Allocation& allocation, c10::Allocator* allocator, c10::Device device) {
  const c10::DispatchKeySet keys(device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU);
  if (allocation.contiguous) {
    return at::Tensor(at::detail::empty_generic(allocation.sizes, allocator, keys, allocation.dtype, std::nullopt));
  }
  return at::Tensor(
      at::detail::empty_strided_generic(allocation.sizes, allocation.strides, allocator, keys, allocation.dtype));
}

// The outputs of a pass for these inputs. The interpreter's lock is not needed.
inline Tensors run(const Plan& plan, const Tensors& inputs) {
  const c10::DeviceGuard guard(plan.device);
  require_context(plan.device);
  void* stream = current_stream(plan.device);
  Tensors outputs(plan.outputs.size());
  c10::DataPtr scratch;
  auto* allocator = allocator_of(plan.device);
  if (plan.scratch_bytes) scratch = allocator->allocate(plan.scratch_bytes);
  c10::SmallVector<char*, 12> starts;
  for (const auto& allocation : plan.allocations) {
    if (allocation.output < 0) {
      starts.push_back(static_cast<char*>(scratch.get()) + allocation.scratch_at);
      continue;
    }
    auto& output = outputs[allocation.output];
    output = allocate(allocation, allocator, plan.device);
    starts.push_back(static_cast<char*>(output.mutable_data_ptr()));
  }
  for (const auto& launch : plan.launches) {
    c10::SmallVector<uint64_t, 48> values(launch.values.begin(), launch.values.end());
    for (const auto& pointer : launch.pointers) {
      const char* start = pointer.is_input
          ? static_cast<const char*>(inputs[pointer.index].const_data_ptr())
          : starts[pointer.index];
      values[pointer.argument] = reinterpret_cast<uint64_t>(start + pointer.offset);
    }
    c10::SmallVector<void*, 48> arguments;
    for (auto& value : values) arguments.push_back(&value);
    LaunchConfig config = launch.config;
    LaunchAttribute cluster = launch.cluster;
    config.stream = stream;
    config.attributes = launch.has_cluster ? &cluster : nullptr;
    config.attribute_count = launch.has_cluster;
    require_success(driver.cuLaunchKernelEx(&config, launch.kernel, arguments.data(), nullptr), "cuLaunchKernelEx");
  }
  for (size_t i = 0; i < outputs.size(); i++) {
    if (plan.outputs[i].is_input) outputs[i] = inputs[plan.outputs[i].index];
  }
  return outputs;
}

}  // namespace kernellab
