#include "spyre.h"

namespace spyre {

Policy& policy() {
  static Policy instance;
  return instance;
}

}  // namespace spyre
