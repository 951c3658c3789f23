#include "pairs.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "clones.h"

namespace dl16 {
namespace {

constexpr int64_t kGrain = 1 << 15;

template <Pair P>
DL16_BODY float paired(float a, float b) {
  return P == Pair::add ? a + b : P == Pair::sub ? a - b : a * b;
}

// `n` results in a row; `da` and `db` are the steps of the operands, 0 and 1 being the usual ones.
template <Rounding R, Pair P>
DL16_BODY void pair_body(const float* a, int64_t da, const float* b, int64_t db, float* out, int64_t n) {
  if (da == 1 && db == 1) {
    for (int64_t i = 0; i < n; i++) out[i] = round<R>(paired<P>(a[i], b[i]));
  } else if (da == 1 && db == 0) {
    const float second = *b;
    for (int64_t i = 0; i < n; i++) out[i] = round<R>(paired<P>(a[i], second));
  } else {
    for (int64_t i = 0; i < n; i++) out[i] = round<R>(paired<P>(a[i * da], b[i * db]));
  }
}

#define OF_PAIRS(NAME, R, P)                                                                                  \
  DL16_CLONES void NAME(const float* a, int64_t da, const float* b, int64_t db, float* out, int64_t n) {      \
    pair_body<Rounding::R, Pair::P>(a, da, b, db, out, n);                                                    \
  }
OF_PAIRS(add_truncate, truncate, add)
OF_PAIRS(add_up, nearest_up, add)
OF_PAIRS(add_even, nearest_even, add)
OF_PAIRS(sub_truncate, truncate, sub)
OF_PAIRS(sub_up, nearest_up, sub)
OF_PAIRS(sub_even, nearest_even, sub)
OF_PAIRS(mul_truncate, truncate, mul)
OF_PAIRS(mul_up, nearest_up, mul)
OF_PAIRS(mul_even, nearest_even, mul)
#undef OF_PAIRS

using Run = decltype(&add_up);
constexpr Run kPair[3][3] = {{add_truncate, add_up, add_even}, {sub_truncate, sub_up, sub_even}, {mul_truncate, mul_up, mul_even}};

// A dimension of the result, outermost first in a walk, with the operands' steps along it.
struct Dimension { int64_t size, da, db; };

// The result's dimensions without those of size 1; neighbours that both operands pass through without a break are one.
std::vector<Dimension> dimensions(const at::Tensor& a, const at::Tensor& b) {
  std::vector<Dimension> walk;
  for (int64_t d = 0; d < a.dim(); d++) {
    const Dimension next{a.size(d), a.stride(d), b.stride(d)};
    if (next.size == 1) continue;
    const bool joins = !walk.empty() && walk.back().da == next.da * next.size && walk.back().db == next.db * next.size;
    if (joins) walk.back() = {walk.back().size * next.size, next.da, next.db};
    else walk.push_back(next);
  }
  if (walk.empty()) walk.push_back({1, 1, 1});
  return walk;
}

// Results `begin` to `end` of the flat output, by pieces of the innermost dimension.
void run_range(Run run, const std::vector<Dimension>& walk, const float* a, const float* b, float* out, int64_t begin, int64_t end) {
  const auto inner = walk.back();
  for (int64_t at = begin; at < end;) {
    int64_t row = at / inner.size;
    const int64_t column = at % inner.size, n = std::min(inner.size - column, end - at);
    int64_t from_a = column * inner.da, from_b = column * inner.db;
    for (auto d = walk.rbegin() + 1; d != walk.rend(); ++d) {
      from_a += row % d->size * d->da;
      from_b += row % d->size * d->db;
      row /= d->size;
    }
    run(a + from_a, inner.da, b + from_b, inner.db, out + at, n);
    at += n;
  }
}

}  // namespace

at::Tensor pair_tensor(Pair pair, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK_TYPE(a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat && a.is_cpu() && b.is_cpu(),
                   "operands must be float32 on the CPU");
  const auto sizes = at::infer_size_dimvector(a.sizes(), b.sizes());
  const auto first = a.expand(sizes), second = b.expand(sizes);
  auto out = at::empty(sizes, a.options());
  const int64_t n = out.numel();
  if (n == 0) return out;
  const auto walk = dimensions(first, second);
  const auto *pa = first.const_data_ptr<float>(), *pb = second.const_data_ptr<float>();
  auto* target = out.data_ptr<float>();
  const auto run = kPair[static_cast<int>(pair)][static_cast<int>(op_rounding())];
  const auto range = [&](int64_t begin, int64_t end) { run_range(run, walk, pa, pb, target, begin, end); };
  if (n <= kGrain) range(0, n);
  else at::parallel_for(0, n, kGrain, range);
  return out;
}

}  // namespace dl16
