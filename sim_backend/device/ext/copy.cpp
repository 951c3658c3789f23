// Copies between host and device, and on the device. Formats change on the host, as the runtime's converter does.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include <c10/util/irange.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "spyre.h"

namespace spyre {
namespace {

bool both(at::ScalarType a, at::ScalarType b, at::ScalarType x, at::ScalarType y) {
  return (a == x && b == y) || (a == y && b == x);
}

bool is_half(at::ScalarType t) { return t == at::kHalf || t == at::kBFloat16; }

// Device formats that are one: fp16 and bf16 are both DL16, int64 and int32 both int32.
bool same_format(at::ScalarType a, at::ScalarType b) {
  return a == b || (is_half(a) && is_half(b)) || both(a, b, at::kLong, at::kInt);
}

// What an exception that nobody catches looks like.
[[noreturn]] void die_of(const char* exception, const std::string& what) {
  std::fprintf(stderr, "terminate called after throwing an instance of '%s'\n  what():  %s\n", exception, what.c_str());
  std::abort();
}

void check_accepted(at::ScalarType dtype) {
  check_dtype(dtype);
  const auto refused = policy().refused.find(dtype);
  if (refused == policy().refused.end()) return;
  if (policy().refusal_aborts) die_of("DtException", refused->second);
  TORCH_CHECK(false, refused->second);
}

bool is_same_view(const at::Tensor& a, const at::Tensor& b) {
  return a.storage_offset() == b.storage_offset() && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

// Host values in the form device memory keeps them, still on the host.
at::Tensor converted(const at::Tensor& source, at::ScalarType dtype) {
  const auto typed = source.scalar_type() == dtype ? source : source.to(dtype);
  if (is_half(dtype)) return codes_of(typed);
  if (dtype != at::kLong) return typed;
  report_downcast();
  return typed.to(at::kInt);
}

// The memory of a view as if it began `offset` elements into its storage.
at::Tensor alias_at(const at::Tensor& t, int64_t offset) {
  auto alias = cpu_alias(t);
  auto* start = static_cast<char*>(alias.mutable_data_ptr()) + (offset - t.storage_offset()) * t.itemsize();
  return at::for_blob(start, t.sizes()).strides(t.strides()).deleter([alias](void*) {}).options(alias.options()).make_tensor();
}

int64_t extent_of(const at::Tensor& t) {
  int64_t extent = 1;
  for (const auto d : c10::irange(t.dim())) extent += (t.size(d) - 1) * t.stride(d);
  return extent;
}

// Where a copy into a view goes: E-33, to element 0 of its base.
at::Tensor written_memory(const at::Tensor& target) {
  return copy_rules().writes_base && target.storage_offset() != 0 ? alias_at(target, 0) : cpu_alias(target);
}

int64_t elements_of_storage(const at::Tensor& t) { return static_cast<int64_t>(t.storage().nbytes() / t.itemsize()); }

bool is_prefix(const at::Tensor& t) {
  return t.storage_offset() == 0 && t.is_contiguous() && t.numel() < elements_of_storage(t);
}

// What a copy of a view on the device reads: E-32, the copy kernel of a shape keeps the offset it was first made for.
at::Tensor read_memory(const at::Tensor& source, const at::Tensor& target) {
  const auto elements = elements_of_storage(source);
  if (!copy_rules().first_offset || extent_of(source) == elements) return cpu_alias(source);
  static std::mutex lock;
  static auto* offsets = new std::map<std::vector<int64_t>, int64_t>;
  std::vector<int64_t> key{static_cast<int64_t>(source.scalar_type()), static_cast<int64_t>(target.scalar_type())};
  for (const auto& part : {source.sizes(), source.strides(), target.strides()}) key.insert(key.end(), part.begin(), part.end());
  std::lock_guard<std::mutex> guard(lock);
  const auto offset = offsets->emplace(key, source.storage_offset()).first->second;
  return offset + extent_of(source) <= elements ? alias_at(source, offset) : cpu_alias(source);
}

void to_device(const at::Tensor& source, const at::Tensor& target, bool host_waits) {
  check_accepted(target.scalar_type());
  if (source.scalar_type() != target.scalar_type()) {
    check_cast(source.scalar_type(), target.scalar_type(), Direction::to_device);
  }
  written_memory(target).copy_(converted(source, target.scalar_type()));
  transfer(static_cast<double>(target.nbytes()), host_waits);
}

void from_device(const at::Tensor& source, const at::Tensor& target) {
  if (source.scalar_type() != target.scalar_type()) {
    check_cast(source.scalar_type(), target.scalar_type(), Direction::to_host);
  }
  target.copy_(to_host(source));
  transfer(static_cast<double>(source.nbytes()), true);
}

// 2025-11: bytes in memory order, whatever the strides say.
void copy_bytes(const at::Tensor& source, const at::Tensor& target) {
  const auto left = [](const at::Tensor& t) { return t.storage().nbytes() - t.storage_offset() * t.itemsize(); };
  std::memmove(target.mutable_data_ptr(), source.const_data_ptr(), std::min({left(source), left(target), target.nbytes()}));
}

// E-38: fp32 sticks hold 32 elements and DL16 sticks 64; the converter took the two in the wrong order. Between the
// 16-bit formats only the last, partial stick is wrong.
void misplace(const at::Tensor& target, Misplaced misplaced) {
  constexpr int64_t kLanes = kStick / 2;
  auto codes = cpu_alias(target).contiguous();
  auto* data = codes.data_ptr<int16_t>();
  const auto whole = codes.numel() / kLanes * kLanes;
  if (misplaced == Misplaced::sticks) {
    for (int64_t i = 0; i < whole; i += kLanes) std::swap_ranges(data + i, data + i + kLanes / 2, data + i + kLanes / 2);
  }
  std::reverse(data + whole, data + codes.numel());
  cpu_alias(target).copy_(codes);
}

void on_device(const at::Tensor& source, const at::Tensor& target) {
  const auto from = source.scalar_type(), to = target.scalar_type();
  const bool is_kernel = copy_rules().on_device == OnDevice::compiled;
  const auto misplaced = from == to && is_kernel ? Misplaced::nothing : check_cast(from, to, Direction::on_device);
  queue_eager(static_cast<double>(source.nbytes() + target.nbytes()), 0);
  if (from == to && is_prefix(source) && copy_prefix(source, target)) return;
  if (!is_kernel && from == to && source.sizes() == target.sizes()) return copy_bytes(source, target);
  if (!same_format(from, to)) {
    write_compute(target, to_compute(source).to(is_half(to) ? at::kFloat : to).expand(target.sizes()));
  } else {
    written_memory(target).copy_(read_memory(source, target));
  }
  if (misplaced != Misplaced::nothing) misplace(target, misplaced);
}

}  // namespace

CopyRules& copy_rules() {
  static CopyRules instance;
  return instance;
}

void meet_empty_tensor() {
  if (copy_rules().empty_crashes) std::raise(SIGSEGV);  // E-57
}

void check_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf: case at::kBFloat16: case at::kFloat: case at::kLong: case at::kInt: case at::kShort:
    case at::kChar: case at::kByte: case at::kBool: case at::kFloat8_e4m3fn: case at::kFloat8_e5m2fnuz:
      return;
    default:
      TORCH_CHECK(false, "Spyre backend does not support dtype ", c10::toString(dtype));
  }
}

at::Tensor to_host(const at::Tensor& t) {
  const auto alias = cpu_alias(t);
  return is_dl16(t) ? dl16::to_host_tensor(alias, t.scalar_type(), policy().to_host_rounding, policy().infinity) : alias;
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  if (target.numel() == 0) {
    meet_empty_tensor();
    return target;
  }
  if (source.is_alias_of(target) && is_same_view(source, target)) return target;
  if (!source.is_privateuseone()) to_device(source, target, !non_blocking);
  else if (!target.is_privateuseone()) from_device(source, target);
  else on_device(source, target);
  if (target.is_privateuseone()) clear_layout_tag(target);
  return target;
}

}  // namespace spyre
