// How a kernel of the simulator sees device memory: as CPU tensors.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/where.h>

#include <cstring>

#include "spyre.h"

namespace spyre {
namespace {

// A new device tensor that walks memory as `value` does.
at::Tensor device_like(const at::Tensor& value, at::ScalarType dtype) {
  const auto options = value.options().device(c10::Device(kSpyre, current_device())).dtype(dtype);
  return value.is_non_overlapping_and_dense() ? at::empty_strided(value.sizes(), value.strides(), options)
                                              : at::empty(value.sizes(), options);
}

}  // namespace

bool is_dl16(const at::Tensor& t) { return storage_dtype(t.scalar_type()) != t.scalar_type(); }

at::ScalarType storage_dtype(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kShort : dtype;
}

at::Tensor cpu_alias(const at::Tensor& t) {
  TORCH_CHECK_TYPE(t.device().type() == kSpyre, "cpu_alias takes a spyre tensor, got one on ", t.device());
  const auto options = at::TensorOptions().dtype(storage_dtype(t.scalar_type()));
  if (t.numel() == 0) return at::empty_strided(t.sizes(), t.strides(), options);
  auto* data = const_cast<void*>(t.const_data_ptr());
  return at::for_blob(data, t.sizes())
      .strides(t.strides())
      .deleter([storage = t.storage()](void*) {})
      .options(options)
      .target_device(c10::Device(c10::kCPU))
      .make_tensor();
}

at::Tensor to_compute(const at::Tensor& t) {
  const auto alias = cpu_alias(t);
  return is_dl16(t) ? dl16::decode_tensor(alias) : alias;
}

at::Tensor from_compute(const at::Tensor& value, at::ScalarType dtype) {
  auto out = device_like(value, dtype);
  write_compute(out, value);
  return out;
}

at::Tensor from_codes(const at::Tensor& codes, at::ScalarType dtype) {
  auto out = device_like(codes, dtype);
  if (out.numel() > 0) cpu_alias(out).copy_(codes);
  return out;
}

void write_compute(const at::Tensor& target, const at::Tensor& value) {
  if (target.numel() == 0) return;
  const auto alias = cpu_alias(target);
  if (is_dl16(target)) {
    const auto real = value.scalar_type() == at::kFloat ? value : value.to(at::kFloat);
    dl16::encode_into(real.sizes() == alias.sizes() ? real : real.expand(alias.sizes()), alias);
    return;
  }
  // `value` may be the memory of `target` itself: then only int64 has something left to do.
  if (value.const_data_ptr() != alias.const_data_ptr() || value.scalar_type() != alias.scalar_type()) alias.copy_(value);
  if (alias.scalar_type() != at::kLong) return;
  if (!alias.is_contiguous()) {
    alias.copy_(alias.to(at::kInt));
    return;
  }
  dl16::wrap_span(alias.const_data_ptr<int64_t>(), alias.data_ptr<int64_t>(), alias.numel());
}

at::Tensor codes_of(const at::Tensor& host) {
  constexpr double kSmallInfinity = 33554432;
  const bool tamed = host.scalar_type() == at::kBFloat16 && policy().small_bfloat_infinity &&
                     policy().infinity == dl16::Infinity::saturate_finite;
  const auto finite = tamed ? at::where(at::isinf(host), at::mul(at::sign(host), kSmallInfinity), host) : host;
  return dl16::from_host_tensor(finite, policy().rounding, policy().infinity);
}

void settle_formats(const at::Tensor& t) {
  auto* block = block_of(t);
  if (block == nullptr || t.scalar_type() == at::kByte) return;
  const auto elements = static_cast<int64_t>(t.storage().nbytes() / t.itemsize());
  if (block->dtype == at::ScalarType::Undefined) {
    block->dtype = t.scalar_type();
    recount(*block, device_bytes(elements, block->dtype));
  }
  if (!block->host_bytes.exchange(false)) return;
  const auto options = at::TensorOptions().dtype(t.scalar_type());
  const auto host = at::from_blob(block->memory, {elements}, options);
  if (is_dl16(t)) {
    const auto codes = codes_of(host);
    std::memcpy(block->memory, codes.const_data_ptr(), codes.nbytes());
  } else if (t.scalar_type() == at::kLong) {
    dl16::wrap_span(host.const_data_ptr<int64_t>(), host.data_ptr<int64_t>(), elements);
  }
}

void clear_layout_tag(const at::Tensor& t) {
  if (auto* block = block_of(t)) block->layout_tag = 0;
}

}  // namespace spyre
