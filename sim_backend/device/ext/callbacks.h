// Where Python puts its part of the decisions.
#pragma once
#include <torch/csrc/utils/pybind.h>

namespace spyre {

// on_cast(from: str, to: str, direction: int) -> Misplaced raises or warns; on_downcast() warns once. Both may be None.
void set_callbacks(py::object on_cast, py::object on_downcast);

// on_prefix(source, target) -> bool: True if it has made the copy of a contiguous view of the first part of a storage
// itself (E-34). May be None.
void set_prefix_copy(py::object on_prefix);

}  // namespace spyre
