#include "spans.h"

#include <ATen/Parallel.h>

#include "clones.h"

namespace dl16 {
namespace {

constexpr int64_t kGrain = 1 << 15;

template <class In, class Out, class Loop>
void parallel(const In* in, Out* out, int64_t n, Loop loop) {
  if (n <= kGrain) return loop(in, out, n);
  at::parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) { loop(in + begin, out + begin, end - begin); });
}

// A clone needs a name of its own, so policies are spelled by macro, not by template.
#define OF_RESULTS(NAME, R)                                                            \
  DL16_CLONES void round_##NAME(const float* in, float* out, int64_t n) {              \
    for (int64_t i = 0; i < n; i++) out[i] = round<Rounding::R>(in[i]);                \
  }                                                                                    \
  DL16_CLONES void encode_##NAME(const float* in, int16_t* out, int64_t n) {           \
    for (int64_t i = 0; i < n; i++) out[i] = encode<Rounding::R>(in[i]);               \
  }
OF_RESULTS(truncate, truncate)
OF_RESULTS(up, nearest_up)
OF_RESULTS(even, nearest_even)
#undef OF_RESULTS

using Round = void (*)(const float*, float*, int64_t);
using Encode = void (*)(const float*, int16_t*, int64_t);
constexpr Round kRound[3] = {round_truncate, round_up, round_even};
constexpr Encode kEncode[3] = {encode_truncate, encode_up, encode_even};
Rounding g_op_rounding = Rounding::nearest_up;

DL16_CLONES void decode_loop(const int16_t* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = decode(in[i]);
}
DL16_CLONES void wrap_loop(const int64_t* in, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = static_cast<int32_t>(in[i]);
}

using FromHost = void (*)(const uint16_t*, int16_t*, int64_t);
using ToHost = void (*)(const int16_t*, uint16_t*, int64_t);

#define FROM_HOST(NAME, R, I)                                                              \
  DL16_CLONES void half_##NAME(const uint16_t* in, int16_t* out, int64_t n) {              \
    for (int64_t i = 0; i < n; i++) out[i] = from_half<Rounding::R, Infinity::I>(in[i]);   \
  }                                                                                        \
  DL16_CLONES void bfloat_##NAME(const uint16_t* in, int16_t* out, int64_t n) {            \
    for (int64_t i = 0; i < n; i++) out[i] = from_bfloat<Rounding::R, Infinity::I>(in[i]); \
  }
FROM_HOST(tr, truncate, rebias)
FROM_HOST(ts, truncate, saturate_finite)
FROM_HOST(tp, truncate, preserve)
FROM_HOST(ur, nearest_up, rebias)
FROM_HOST(us, nearest_up, saturate_finite)
FROM_HOST(up, nearest_up, preserve)
FROM_HOST(er, nearest_even, rebias)
FROM_HOST(es, nearest_even, saturate_finite)
FROM_HOST(ep, nearest_even, preserve)
#undef FROM_HOST

constexpr FromHost kFromHalf[3][3] = {{half_tr, half_ts, half_tp}, {half_ur, half_us, half_up}, {half_er, half_es, half_ep}};
constexpr FromHost kFromBfloat[3][3] = {
    {bfloat_tr, bfloat_ts, bfloat_tp}, {bfloat_ur, bfloat_us, bfloat_up}, {bfloat_er, bfloat_es, bfloat_ep}};

#define TO_HALF(NAME, R, I)                                                            \
  DL16_CLONES void to_half_##NAME(const int16_t* in, uint16_t* out, int64_t n) {       \
    for (int64_t i = 0; i < n; i++) out[i] = to_half<Rounding::R, Infinity::I>(in[i]); \
  }
TO_HALF(tn, truncate, rebias)
TO_HALF(tp, truncate, preserve)
TO_HALF(un, nearest_up, rebias)
TO_HALF(up, nearest_up, preserve)
TO_HALF(en, nearest_even, rebias)
TO_HALF(ep, nearest_even, preserve)
#undef TO_HALF
constexpr ToHost kToHalf[3][2] = {{to_half_tn, to_half_tp}, {to_half_un, to_half_up}, {to_half_en, to_half_ep}};

#define TO_BFLOAT(NAME, I)                                                             \
  DL16_CLONES void to_bfloat_##NAME(const int16_t* in, uint16_t* out, int64_t n) {     \
    for (int64_t i = 0; i < n; i++) out[i] = to_bfloat<Infinity::I>(in[i]);            \
  }
TO_BFLOAT(nan, rebias)
TO_BFLOAT(inf, preserve)
#undef TO_BFLOAT

}  // namespace

void set_op_rounding(Rounding rounding) { g_op_rounding = rounding; }
Rounding op_rounding() { return g_op_rounding; }

void round_span(const float* in, float* out, int64_t n) {
  parallel(in, out, n, kRound[static_cast<int>(g_op_rounding)]);
}
void encode_span(const float* in, int16_t* out, int64_t n) {
  parallel(in, out, n, kEncode[static_cast<int>(g_op_rounding)]);
}
void decode_span(const int16_t* in, float* out, int64_t n) { parallel(in, out, n, decode_loop); }
void wrap_span(const int64_t* in, int64_t* out, int64_t n) { parallel(in, out, n, wrap_loop); }

void from_half_span(const uint16_t* in, int16_t* out, int64_t n, Rounding rounding, Infinity infinity) {
  parallel(in, out, n, kFromHalf[static_cast<int>(rounding)][static_cast<int>(infinity)]);
}
void from_bfloat_span(const uint16_t* in, int16_t* out, int64_t n, Rounding rounding, Infinity infinity) {
  parallel(in, out, n, kFromBfloat[static_cast<int>(rounding)][static_cast<int>(infinity)]);
}
void to_half_span(const int16_t* in, uint16_t* out, int64_t n, Rounding rounding, Infinity infinity) {
  parallel(in, out, n, kToHalf[static_cast<int>(rounding)][infinity == Infinity::preserve]);
}
void to_bfloat_span(const int16_t* in, uint16_t* out, int64_t n, Infinity infinity) {
  parallel(in, out, n, infinity == Infinity::preserve ? to_bfloat_inf : to_bfloat_nan);
}

}  // namespace dl16
