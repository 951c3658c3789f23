// Where Python puts its part of the decisions.
#pragma once
#include <torch/csrc/utils/pybind.h>

namespace spyre {

// on_cast(from: str, to: str, direction: int) raises or warns; on_downcast() warns once. Both may be None.
void set_callbacks(py::object on_cast, py::object on_downcast);

}  // namespace spyre
