// The simulated device, seen from C++: memory is host memory; fp16 and bf16 tensors hold DL16 codes.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "../../numerics/ext/tensors.h"

namespace spyre {

constexpr auto kSpyre = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kDeviceCount = 1;
constexpr int64_t kStick = 128;  // bytes: the unit of every allocation

// ---- allocator.cpp: seven segments, 128-byte rounding, never cleared.
struct Block {
  void* memory;
  int64_t bytes;
  std::vector<int64_t> chunks;  // bytes taken from each segment
  bool intermediate;            // counts against the pool of intermediates
  std::atomic<int64_t> layout_tag;
};
c10::Allocator* allocator();
Block* block_of(const at::Tensor& t);  // nullptr for an empty tensor
void set_limits(int64_t segments, int64_t segment_bytes, int64_t intermediate_bytes);
bool exchange_intermediate(bool on);   // allocations of this thread count against the pool of intermediates
std::map<std::string, int64_t> memory_stats();
void reset_peak_memory();

// ---- guard.cpp
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex index);
void check_device_index(c10::DeviceIndex index);

// ---- hooks.cpp: a device generator wraps a CPU generator; random tensors are made on the host and copied.
const at::Generator& default_generator();
at::Generator host_generator(const at::Generator& generator);

// ---- policy.cpp: what the profile decides, set once from Python.
struct Policy {
  dl16::Rounding rounding = dl16::Rounding::truncate;  // host to device
  dl16::Rounding to_host_rounding = dl16::Rounding::nearest_even;
  dl16::Infinity infinity = dl16::Infinity::saturate_finite;
  std::map<at::ScalarType, std::string> refused;  // dtype -> message of the refused host-to-device copy
};
Policy& policy();

// ---- callbacks.cpp: the few decisions that Python takes. They may raise.
enum class Direction : int { to_device = 0, to_host = 1, on_device = 2 };
void check_cast(at::ScalarType from, at::ScalarType to, Direction direction);
void report_downcast();  // int64 is kept as int32
void collect_garbage();

// ---- compute.cpp
bool is_dl16(const at::Tensor& t);
at::ScalarType storage_dtype(at::ScalarType dtype);  // int16 for fp16 and bf16
at::Tensor cpu_alias(const at::Tensor& t);
at::Tensor to_compute(const at::Tensor& t);
at::Tensor from_compute(const at::Tensor& value, at::ScalarType dtype);
at::Tensor from_codes(const at::Tensor& codes, at::ScalarType dtype);
void write_compute(const at::Tensor& target, const at::Tensor& value);
void clear_layout_tag(const at::Tensor& t);

// ---- copy.cpp
void check_dtype(at::ScalarType dtype);
at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking);
at::Tensor to_host(const at::Tensor& t);

}  // namespace spyre
