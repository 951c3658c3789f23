// The simulated device, seen from C++: memory is host memory; fp16 and bf16 tensors hold DL16 codes.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "../../numerics/ext/tensors.h"

namespace spyre {

constexpr auto kSpyre = c10::DeviceType::PrivateUse1;
constexpr int64_t kStick = 128;  // bytes: the unit of every allocation

// ---- formats.cpp: what a dtype is on the device, in bytes, and how much a tensor takes there.
struct Formats {
  std::map<at::ScalarType, int64_t> element_bytes;  // as the profile's layouts have them; set once
  bool single_partial_stick = false;                // 2025-11: a row that does not fill its sticks gets one
};
Formats& formats();
int64_t element_bytes(at::ScalarType dtype);  // the host's where the device has none
int64_t device_bytes(c10::IntArrayRef size, at::ScalarType dtype);  // whole sticks along the last dimension

// ---- allocator.cpp: seven segments, 128-byte rounding, never cleared. Counted are the device's bytes, not the host's.
constexpr int64_t kKept = int64_t(64) << 20;  // bytes of freed host memory that are kept and handed out as they are
struct Block {
  void* memory;
  int64_t bytes;                // of host memory
  int64_t counted;              // on the device
  at::ScalarType dtype;         // Undefined: the memory of an untyped storage
  std::vector<int64_t> chunks;  // bytes taken from each segment
  bool intermediate;            // counts against the pool of intermediates
  std::atomic<int64_t> layout_tag;
  std::atomic<bool> host_bytes;  // filled byte by byte from a file, so in the host's formats until a dtype is known
};
c10::Allocator* allocator();
Block* block_of(const at::Tensor& t);  // nullptr for an empty tensor
Block* block_of(const c10::Storage& storage);
void recount(Block& block, int64_t device_bytes);
// While it lives, the next allocation of this thread is one of `dtype` that takes `bytes` on the device.
class Expected {
 public:
  Expected(at::ScalarType dtype, int64_t bytes);
  ~Expected();
};
void set_limits(int64_t segments, int64_t segment_bytes, int64_t intermediate_bytes);
bool exchange_intermediate(bool on);   // allocations of this thread count against the pool of intermediates
void refuse_allocations(const std::string& why);  // empty: no more
void empty_cache();                    // gives the kept memory back to the host
std::map<std::string, int64_t> memory_stats();
void reset_peak_memory();
void reset_accumulated_memory();

// ---- guard.cpp: what the profile and the environment say of devices, streams and events; set once, at the start.
struct Runtime {
  c10::DeviceIndex devices = 1, device = 0;  // how many the process sees, and the one it uses
  std::string second_device;                 // what the use of another one raises
  bool streams = true, events = true;        // false: they do nothing (2025-11)
  int64_t host_compute_streams = 4;          // ids 65 and above
};
Runtime& runtime();
c10::DeviceIndex current_device();
c10::StreamId current_stream_id();
void check_device_index(c10::DeviceIndex index);
void check_stream_id(c10::StreamId id);

// ---- clock.cpp: simulated time, in nanoseconds.
struct Costs {
  double memory_bytes_per_ns = 150, flop_per_ns = 73000, host_bytes_per_ns = 20;
  double eager_ns = 5.7e6, launch_ns = 2e4, poll_ns = 1e3;
};
void set_costs(const Costs& costs);
Costs costs();
int64_t host_time();
void wait_until(int64_t time);                           // the host waits
int64_t stream_end(c10::StreamId stream);                // when what is queued on it now is done
int64_t last_end();
void delay_stream(c10::StreamId stream, int64_t time);   // what is queued on it from now on starts no earlier
bool is_done(int64_t time);                              // asking takes the host time, too
// Work for the current stream of this thread: an eager operation, a compiled bundle, a copy between host and device.
void queue_eager(double bytes, double flop);
void queue_bundle(double bytes, double flop);
void transfer(double bytes, bool host_waits);

// ---- hooks.cpp: a device generator wraps a CPU generator; random tensors are made on the host and copied.
const at::Generator& default_generator();
at::Generator host_generator(const at::Generator& generator);

// ---- policy.cpp: what the profile decides, set once from Python.
struct Policy {
  dl16::Rounding rounding = dl16::Rounding::truncate;  // host to device
  dl16::Rounding to_host_rounding = dl16::Rounding::nearest_even;
  dl16::Infinity infinity = dl16::Infinity::saturate_finite;
  bool small_bfloat_infinity = false;  // where infinities become finite, bf16's become 2^25: two of them add up (no E-20)
  std::map<at::ScalarType, std::string> refused;  // dtype -> message of the refused host-to-device copy
  bool refusal_aborts = false;                    // such a copy ends the process
};
Policy& policy();

// ---- callbacks.cpp: the few decisions that Python takes. They may raise.
enum class Direction : int { to_device = 0, to_host = 1, on_device = 2 };
enum class Misplaced : int { nothing = 0, sticks = 1, tail = 2 };  // what a conversion gets wrong (E-38)
Misplaced check_cast(at::ScalarType from, at::ScalarType to, Direction direction);
bool copy_prefix(const at::Tensor& source, const at::Tensor& target);  // true: done
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
at::Tensor codes_of(const at::Tensor& host);  // fp16 or bf16 of the host, by the policy
void settle_formats(const at::Tensor& t);  // host bytes become what the device keeps for the dtype of `t`

// ---- copy.cpp
enum class OnDevice : int { compiled = 0, refused = 1, memcpy = 2 };
struct CopyRules {
  OnDevice on_device = OnDevice::compiled;
  bool empty_crashes = false;  // E-57
  bool first_offset = false;   // E-32
  bool writes_base = false;    // E-33
  int64_t rank_limit = 0;      // 0: none
};
CopyRules& copy_rules();
void meet_empty_tensor();      // may end the process
void check_dtype(at::ScalarType dtype);
at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking);
at::Tensor to_host(const at::Tensor& t);

}  // namespace spyre
