// Bytes on the device: int64 is kept as int32, bool as a 16-bit float, and every row fills whole sticks.
#include <c10/core/ScalarType.h>

#include "spyre.h"

namespace spyre {

Formats& formats() {
  static Formats instance;
  return instance;
}

int64_t element_bytes(at::ScalarType dtype) {
  const auto found = formats().element_bytes.find(dtype);
  return found == formats().element_bytes.end() ? static_cast<int64_t>(c10::elementSize(dtype)) : found->second;
}

int64_t device_bytes(c10::IntArrayRef size, at::ScalarType dtype) {
  const auto lanes = kStick / element_bytes(dtype);
  const int64_t row = size.empty() ? 1 : size.back();
  int64_t sticks = formats().single_partial_stick && row % lanes != 0 ? 1 : (row + lanes - 1) / lanes;
  for (size_t d = 0; d + 1 < size.size(); d++) sticks *= size[d];
  return sticks * kStick;
}

}  // namespace spyre
