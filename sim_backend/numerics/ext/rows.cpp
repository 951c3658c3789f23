#include "rows.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "chunks.h"
#include "clones.h"
#include "tensors.h"

namespace dl16 {
namespace {

constexpr int64_t kGrain = 1 << 15;
constexpr int64_t kTile = 64;

// A tile goes through a buffer in the cache: both memories are touched in runs, never element by element.
DL16_CLONES void decode_tile(
    const int16_t* in, int64_t in_step, float* out, int64_t out_step, int64_t rows, int64_t columns) {
  float tile[kTile][kTile + 1];
  for (int64_t c = 0; c < columns; c++)
    for (int64_t r = 0; r < rows; r++) tile[c][r] = decode(in[c * in_step + r]);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) out[r * out_step + c] = tile[c][r];
}

bool stored_by_columns(const at::Tensor& a) { return a.dim() == 2 && a.stride(0) == 1 && a.stride(1) >= a.size(0); }
constexpr int32_t kInfinity = 0x7f800000;

DL16_BODY int32_t table_index(float x) {
  const int32_t u = bits_of(x), m = ((u & INT32_MAX) >> 14) - kRebias;
  return ((u >> 16) & 0x8000) | std::min(std::max(m, 0), kNanCode);
}

DL16_CLONES void map_loop(const float* __restrict__ in, const float* __restrict__ table, float* __restrict__ out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = table[table_index(in[i])];
}

template <Rounding R>
DL16_BODY void sum_body(const float* in, float* out, int64_t rows, int64_t k, int64_t chunk) {
  std::vector<float> scratch;
  for (int64_t r = 0; r < rows; r += kRowsAtOnce) {
    row_sums<R, Same>(in + r * k, std::min(kRowsAtOnce, rows - r), k, chunk, scratch, out + r);
  }
}

// ---- softmax: maximum, difference, exponential, sum, quotient
// Floats in the order of their magnitudes and signs as integers, which vectorises; NaN if there is one.
DL16_BODY float maximum(const float* in, int64_t k) {
  int32_t largest = INT32_MIN, nan = 0;
  for (int64_t i = 0; i < k; i++) {
    const int32_t u = bits_of(in[i]);
    largest = std::max(largest, u ^ ((u >> 31) & INT32_MAX));
    nan |= mask_of((u & INT32_MAX) > kInfinity);
  }
  return nan ? std::numeric_limits<float>::quiet_NaN() : float_of(largest ^ ((largest >> 31) & INT32_MAX));
}

template <Rounding R>
DL16_BODY void exponentials(const float* __restrict__ in, const float* __restrict__ table, float* __restrict__ out, int64_t k) {
  const float largest = maximum(in, k);
  for (int64_t i = 0; i < k; i++) out[i] = table[table_index(round<R>(in[i] - largest))];
}

template <Rounding R>
DL16_BODY void softmax_body(const float* in, const float* table, float* out, int64_t rows, int64_t k, int64_t chunk) {
  std::vector<float> scratch;
  for (int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows - begin);
    float totals[kRowsAtOnce], *block = out + begin * k;
    for (int64_t r = 0; r < count; r++) exponentials<R>(in + (begin + r) * k, table, block + r * k, k);
    row_sums<R, Same>(block, count, k, chunk, scratch, totals);
    for (int64_t r = 0; r < count; r++) {
      for (int64_t i = r * k; i < (r + 1) * k; i++) block[i] = round<R>(block[i] / totals[r]);
    }
  }
}

// ---- LayerNorm: E[x] and E[x*x], the reciprocal deviation, the rest
struct Norm {
  const float *weight, *bias;
  float eps, share, least;  // least: what the variance is clamped to, -inf for not at all
};

template <Rounding R>
DL16_BODY void affine(const float* __restrict__ in, float mean, float scale, const float* __restrict__ weight,
                      const float* __restrict__ bias, float* __restrict__ out, int64_t k) {
  if (weight != nullptr && bias != nullptr) {
    for (int64_t i = 0; i < k; i++) out[i] = round<R>((in[i] - mean) * scale * weight[i] + bias[i]);
    return;
  }
  for (int64_t i = 0; i < k; i++) out[i] = (in[i] - mean) * scale;
  if (weight != nullptr) for (int64_t i = 0; i < k; i++) out[i] *= weight[i];
  if (bias != nullptr) for (int64_t i = 0; i < k; i++) out[i] += bias[i];
  for (int64_t i = 0; i < k; i++) out[i] = round<R>(out[i]);
}

template <Rounding R>
DL16_BODY void norm_body(const float* in, const Norm& norm, float* out, int64_t rows, int64_t k, int64_t chunk) {
  std::vector<float> scratch;
  for (int64_t begin = 0; begin < rows; begin += kRowsAtOnce, in += kRowsAtOnce * k, out += kRowsAtOnce * k) {
    const int64_t count = std::min(kRowsAtOnce, rows - begin);
    float sums[kRowsAtOnce], squares[kRowsAtOnce];
    row_sums<R, Same>(in, count, k, chunk, scratch, sums);
    row_sums<R, Square>(in, count, k, chunk, scratch, squares);
    for (int64_t r = 0; r < count; r++) {
      const float mean = round<R>(sums[r] * norm.share), square = round<R>(squares[r] * norm.share);
      const float scale = round<R>(1.0f / std::sqrt(std::max(square - mean * mean, norm.least) + norm.eps));
      affine<R>(in + r * k, mean, scale, norm.weight, norm.bias, out + r * k, k);
    }
  }
}

#define BY_ROUNDING(NAME, R)                                                                                           \
  DL16_CLONES void sum_##NAME(const float* in, float* out, int64_t rows, int64_t k, int64_t chunk) {                   \
    sum_body<Rounding::R>(in, out, rows, k, chunk);                                                                    \
  }                                                                                                                    \
  DL16_CLONES void softmax_##NAME(const float* in, const float* t, float* out, int64_t rows, int64_t k, int64_t c) {   \
    softmax_body<Rounding::R>(in, t, out, rows, k, c);                                                                 \
  }                                                                                                                    \
  DL16_CLONES void norm_##NAME(const float* in, const Norm& norm, float* out, int64_t rows, int64_t k, int64_t c) {    \
    norm_body<Rounding::R>(in, norm, out, rows, k, c);                                                                 \
  }
BY_ROUNDING(truncate, truncate)
BY_ROUNDING(up, nearest_up)
BY_ROUNDING(even, nearest_even)
#undef BY_ROUNDING

constexpr decltype(&sum_up) kSum[3] = {sum_truncate, sum_up, sum_even};
constexpr decltype(&softmax_up) kSoftmax[3] = {softmax_truncate, softmax_up, softmax_even};
constexpr decltype(&norm_up) kNorm[3] = {norm_truncate, norm_up, norm_even};

int policy() { return static_cast<int>(op_rounding()); }

void expect_float(const at::Tensor& x, const char* what) {
  TORCH_CHECK_TYPE(x.scalar_type() == at::kFloat && x.is_cpu(), what, " must be float32 on the CPU");
}

void expect_rows(const at::Tensor& rows, int64_t chunk) {
  expect_float(rows, "rows");
  TORCH_CHECK_VALUE(rows.dim() == 2 && rows.size(1) > 0, "rows must be (n, k) with k > 0, got ", rows.sizes());
  TORCH_CHECK_VALUE(chunk >= 0 && chunk <= kMaxChunk && (chunk & (chunk - 1)) == 0,
                    "the chunk must be 0 or a power of two up to ", kMaxChunk, ", got ", chunk);
}

void over_rows(int64_t rows, int64_t k, const std::function<void(int64_t, int64_t)>& run) {
  if (rows * k <= kGrain) return run(0, rows);
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / k), run);
}

}  // namespace

at::Tensor map_tensor(const at::Tensor& x, const at::Tensor& table) {
  expect_float(x, "x");
  TORCH_CHECK_VALUE(table.is_contiguous() && table.numel() == 65536, "a table has 65536 entries");
  const auto in = x.is_non_overlapping_and_dense() ? x : x.contiguous();
  auto out = at::empty_like(in);
  const auto *source = in.const_data_ptr<float>(), *entries = table.const_data_ptr<float>();
  auto* target = out.data_ptr<float>();
  over_rows(in.numel(), 1, [&](int64_t begin, int64_t end) { map_loop(source + begin, entries, target + begin, end - begin); });
  return out;
}

at::Tensor sum_rows(const at::Tensor& rows, int64_t chunk) {
  expect_rows(rows, chunk);
  const auto in = rows.contiguous();
  const int64_t n = in.size(0), k = in.size(1);
  auto out = at::empty({n}, in.options());
  const auto* source = in.const_data_ptr<float>();
  auto* target = out.data_ptr<float>();
  const auto run = kSum[policy()];
  over_rows(n, k, [&](int64_t begin, int64_t end) { run(source + begin * k, target + begin, end - begin, k, chunk); });
  return out;
}

at::Tensor softmax_rows(const at::Tensor& rows, const at::Tensor& exponentials, int64_t chunk) {
  expect_rows(rows, chunk);
  const auto in = rows.contiguous();
  auto out = at::empty_like(in);
  const int64_t n = in.size(0), k = in.size(1);
  const auto *source = in.const_data_ptr<float>(), *table = exponentials.const_data_ptr<float>();
  auto* target = out.data_ptr<float>();
  const auto run = kSoftmax[policy()];
  over_rows(n, k, [&](int64_t begin, int64_t end) {
    run(source + begin * k, table, target + begin * k, end - begin, k, chunk);
  });
  return out;
}

at::Tensor norm_rows(const at::Tensor& rows, const std::optional<at::Tensor>& weight,
                     const std::optional<at::Tensor>& bias, double eps, int64_t chunk, bool clamped) {
  expect_rows(rows, chunk);
  const auto in = rows.contiguous();
  const auto w = weight ? weight->contiguous() : at::Tensor(), b = bias ? bias->contiguous() : at::Tensor();
  auto out = at::empty_like(in);
  const int64_t n = in.size(0), k = in.size(1);
  for (const auto& t : {w, b}) TORCH_CHECK_VALUE(!t.defined() || t.numel() == k, "weight and bias have the row's size");
  const Norm norm{w.defined() ? w.const_data_ptr<float>() : nullptr, b.defined() ? b.const_data_ptr<float>() : nullptr,
                  static_cast<float>(eps), static_cast<float>(1.0 / static_cast<double>(k)),
                  clamped ? 0.0f : -std::numeric_limits<float>::infinity()};
  const auto* source = in.const_data_ptr<float>();
  auto* target = out.data_ptr<float>();
  const auto run = kNorm[policy()];
  over_rows(n, k, [&](int64_t begin, int64_t end) {
    run(source + begin * k, norm, target + begin * k, end - begin, k, chunk);
  });
  return out;
}

void decode_rows_into(const at::Tensor& codes, const at::Tensor& out) {
  const bool turns = stored_by_columns(codes) && out.sizes() == codes.sizes() && out.stride(1) == 1 &&
                     codes.scalar_type() == at::kShort && out.scalar_type() == at::kFloat && codes.is_cpu() &&
                     out.is_cpu();
  if (!turns) return decode_into(codes, out);
  const int64_t rows = out.size(0), columns = out.size(1), in_step = codes.stride(1), out_step = out.stride(0);
  const auto* in = codes.const_data_ptr<int16_t>();
  auto* to = out.data_ptr<float>();
  const int64_t bands = (rows + kTile - 1) / kTile, grain = std::max<int64_t>(1, kGrain / (kTile * (columns + 1)));
  at::parallel_for(0, bands, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin * kTile; r < std::min(rows, end * kTile); r += kTile)
      for (int64_t c = 0; c < columns; c += kTile)
        decode_tile(in + c * in_step + r, in_step, to + r * out_step + c, out_step, std::min(kTile, rows - r),
                    std::min(kTile, columns - c));
  });
}

}  // namespace dl16
