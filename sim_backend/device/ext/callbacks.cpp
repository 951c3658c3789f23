#include "callbacks.h"

#include "spyre.h"

namespace spyre {
namespace {

// Never destroyed: a tensor may be copied while the interpreter shuts down.
struct Callbacks {
  py::object on_cast, on_downcast, on_prefix;
  std::atomic<bool> downcast_told{false};
};

Callbacks& callbacks() {
  static auto* instance = new Callbacks;
  return *instance;
}

}  // namespace

void set_callbacks(py::object on_cast, py::object on_downcast) {
  callbacks().on_cast = on_cast.is_none() ? py::object() : std::move(on_cast);
  callbacks().on_downcast = on_downcast.is_none() ? py::object() : std::move(on_downcast);
  callbacks().downcast_told = false;
}

void set_prefix_copy(py::object on_prefix) {
  callbacks().on_prefix = on_prefix.is_none() ? py::object() : std::move(on_prefix);
}

bool copy_prefix(const at::Tensor& source, const at::Tensor& target) {
  if (!callbacks().on_prefix) return false;
  py::gil_scoped_acquire gil;
  return callbacks().on_prefix(source, target).cast<bool>();
}

Misplaced check_cast(at::ScalarType from, at::ScalarType to, Direction direction) {
  if (!callbacks().on_cast) return Misplaced::nothing;
  py::gil_scoped_acquire gil;
  const auto found = callbacks().on_cast(c10::toString(from), c10::toString(to), static_cast<int>(direction));
  return static_cast<Misplaced>(found.cast<int>());
}

void report_downcast() {
  if (!callbacks().on_downcast || callbacks().downcast_told.exchange(true)) return;
  py::gil_scoped_acquire gil;
  callbacks().on_downcast();
}

void collect_garbage() {
  if (!Py_IsInitialized()) return;
  py::gil_scoped_acquire gil;
  py::module_::import("gc").attr("collect")();  // also where automatic collection is off
}

}  // namespace spyre
