// Copies between host and device, and on the device. Formats change on the host, as the runtime's converter does.
#include <ATen/ops/empty_like.h>

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

void check_accepted(at::ScalarType dtype) {
  check_dtype(dtype);
  const auto refused = policy().refused.find(dtype);
  TORCH_CHECK(refused == policy().refused.end(), refused->second);
}

// Host values in the form device memory keeps them, still on the host.
at::Tensor converted(const at::Tensor& source, at::ScalarType dtype) {
  const auto typed = source.scalar_type() == dtype ? source : source.to(dtype);
  if (is_half(dtype)) return dl16::from_host_tensor(typed, policy().rounding, policy().infinity);
  if (dtype != at::kLong) return typed;
  report_downcast();
  return typed.to(at::kInt);
}

void to_device(const at::Tensor& source, const at::Tensor& target) {
  check_accepted(target.scalar_type());
  if (source.scalar_type() != target.scalar_type()) {
    check_cast(source.scalar_type(), target.scalar_type(), Direction::to_device);
  }
  cpu_alias(target).copy_(converted(source, target.scalar_type()));
}

void from_device(const at::Tensor& source, const at::Tensor& target) {
  if (source.scalar_type() != target.scalar_type()) {
    check_cast(source.scalar_type(), target.scalar_type(), Direction::to_host);
  }
  target.copy_(to_host(source));
}

void on_device(const at::Tensor& source, const at::Tensor& target) {
  const auto from = source.scalar_type(), to = target.scalar_type();
  if (from != to) check_cast(from, to, Direction::on_device);
  if (!same_format(from, to)) {
    write_compute(target, to_compute(source).to(is_half(to) ? at::kFloat : to).expand(target.sizes()));
    return;
  }
  cpu_alias(target).copy_(cpu_alias(source));
}

}  // namespace

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

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool) {
  if (source.numel() == 0 || (source.is_alias_of(target) && source.is_same(target))) return target;
  if (!source.is_privateuseone()) to_device(source, target);
  else if (!target.is_privateuseone()) from_device(source, target);
  else on_device(source, target);
  if (target.is_privateuseone()) clear_layout_tag(target);
  return target;
}

}  // namespace spyre
