// Sums of rows in chunks (facts 1.6): lanes i and i + half of a chunk are added until one is left, then the chunks in
// turn. Every partial sum is rounded. Chunks of 64, which is what profiles have, are summed sixteen at a time.
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "clones.h"
#include "dl16.h"

namespace dl16 {

constexpr int64_t kMaxChunk = 1024;
constexpr int64_t kUsualChunk = 64;
constexpr int64_t kRowsAtOnce = 16;

typedef float Vector __attribute__((vector_size(64)));
typedef int32_t Places __attribute__((vector_size(64)));

#if defined(__clang__)
#define DL16_PICK(A, B, ...) __builtin_shufflevector(A, B, __VA_ARGS__)
#else
#define DL16_PICK(A, B, ...) __builtin_shuffle(A, B, Places{__VA_ARGS__})
#endif

struct Same { static DL16_BODY float of(float x) { return x; } };
struct Square { static DL16_BODY float of(float x) { return x * x; } };

template <Rounding R, class Value>
DL16_BODY float chunk_sum(const float* in, int64_t filled, int64_t chunk) {
  float lanes[kMaxChunk];
  for (int64_t i = 0; i < filled; i++) lanes[i] = Value::of(in[i]);
  for (int64_t i = filled; i < chunk; i++) lanes[i] = 0;
  for (int64_t half = chunk / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; i++) lanes[i] = round<R>(lanes[i] + lanes[i + half]);
  }
  return lanes[0];
}

// Vectors go by reference: by value their calling convention depends on the processor.
template <Rounding R>
DL16_BODY void add_rounded(const Vector& a, const Vector& b, Vector& sum) {
  const Vector exact = a + b;
  for (int i = 0; i < 16; i++) sum[i] = round<R>(exact[i]);
}

// The levels of a chunk of 64 down to sixteen lanes.
template <Rounding R, class Value>
DL16_BODY void sixteen_lanes(const float* in, Vector& result) {
  float lanes[32];
  for (int i = 0; i < 32; i++) lanes[i] = round<R>(Value::of(in[i]) + Value::of(in[i + 32]));
  Vector low, high;
  std::memcpy(&low, lanes, sizeof low);
  std::memcpy(&high, lanes + 16, sizeof high);
  add_rounded<R>(low, high, result);
}

// v[c] holds the sixteen lanes of chunk c; afterwards v[0] holds the sixteen sums. Each level packs two vectors' worth of
// halves into one.
template <Rounding R>
DL16_BODY void finish_sixteen(Vector* v) {
  for (int c = 0; c < 8; c++) {
    const Vector a = v[2 * c], b = v[2 * c + 1];
    add_rounded<R>(DL16_PICK(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
                   DL16_PICK(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31), v[c]);
  }
  for (int c = 0; c < 4; c++) {
    const Vector a = v[2 * c], b = v[2 * c + 1];
    add_rounded<R>(DL16_PICK(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
                   DL16_PICK(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31), v[c]);
  }
  for (int c = 0; c < 2; c++) {
    const Vector a = v[2 * c], b = v[2 * c + 1];
    add_rounded<R>(DL16_PICK(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29),
                   DL16_PICK(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31), v[c]);
  }
  const Vector a = v[0], b = v[1];
  add_rounded<R>(DL16_PICK(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                 DL16_PICK(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), v[0]);
}

// The sums of all whole chunks of 64 of `rows` rows, row by row.
template <Rounding R, class Value>
DL16_BODY void usual_chunks(const float* in, int64_t rows, int64_t k, float* sums) {
  const int64_t in_row = k / kUsualChunk, all = rows * in_row;
  for (int64_t begin = 0; begin < all; begin += 16) {
    const int64_t count = std::min<int64_t>(16, all - begin);
    Vector v[16] = {};
    for (int64_t c = 0; c < count; c++) {
      const int64_t row = (begin + c) / in_row, column = (begin + c) % in_row;
      sixteen_lanes<R, Value>(in + row * k + column * kUsualChunk, v[c]);
    }
    finish_sixteen<R>(v);
    std::memcpy(sums + begin, v, count * sizeof(float));
  }
}

template <Rounding R, class Value>
DL16_BODY float serial_sum(const float* in, int64_t k) {
  float total = Value::of(in[0]);
  for (int64_t i = 1; i < k; i++) total = round<R>(total + Value::of(in[i]));
  return total;
}

// The sum of each of up to kRowsAtOnce rows of k elements; chunk 0: element by element.
template <Rounding R, class Value>
DL16_BODY void row_sums(const float* in, int64_t rows, int64_t k, int64_t chunk, std::vector<float>& scratch, float* sums) {
  if (chunk == 0) {
    for (int64_t r = 0; r < rows; r++) sums[r] = serial_sum<R, Value>(in + r * k, k);
    return;
  }
  const int64_t whole = chunk == kUsualChunk ? k / chunk : 0;
  scratch.resize(std::max<int64_t>(rows * whole, 1));
  if (whole > 0) usual_chunks<R, Value>(in, rows, k, scratch.data());
  for (int64_t r = 0; r < rows; r++) {
    float total = 0;
    for (int64_t c = 0; c < whole; c++) total = c == 0 ? scratch[r * whole] : round<R>(total + scratch[r * whole + c]);
    for (int64_t begin = whole * chunk; begin < k; begin += chunk) {
      const float sum = chunk_sum<R, Value>(in + r * k + begin, std::min(chunk, k - begin), chunk);
      total = begin == 0 ? sum : round<R>(total + sum);
    }
    sums[r] = total;
  }
}

}  // namespace dl16
