// Hooks and the generator of the device.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "spyre.h"

namespace spyre {
namespace {

// The state is kept on the host, in a CPU generator of its own.
struct SpyreGenerator final : c10::GeneratorImpl {
  explicit SpyreGenerator(c10::DeviceIndex index, at::Generator host)
      : c10::GeneratorImpl({kSpyre, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), host(std::move(host)) {}
  void set_current_seed(uint64_t seed) override { host.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { host.set_offset(offset); }
  uint64_t get_offset() const override { return host.get_offset(); }
  uint64_t current_seed() const override { return host.current_seed(); }
  uint64_t seed() override { return host.seed(); }
  void set_state(const c10::TensorImpl& state) override { host.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return host.unsafeGetGeneratorImpl()->get_state(); }
  SpyreGenerator* clone_impl() const override { return new SpyreGenerator(device_.index(), host.clone()); }

  at::Generator host;
};

at::Generator new_generator(c10::DeviceIndex index) {
  check_device_index(index);
  return at::make_generator<SpyreGenerator>(index < 0 ? current_device() : index, at::detail::createCPUGenerator());
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  void init() const override {}
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return runtime().devices; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { check_device_index(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    check_device_index(index);
    return current_device();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current_device() : exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    check_device_index(index);
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return new_generator(index); }
  at::Device getDeviceFromPtr(void*) const override { return {kSpyre, current_device()}; }
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    const auto* block = block_of(storage);
    const auto dtype = block == nullptr ? at::ScalarType::Undefined : block->dtype;
    const auto fresh_bytes = dtype == at::ScalarType::Undefined ? 0 : device_bytes(static_cast<int64_t>(bytes / c10::elementSize(dtype)), dtype);
    const Expected expected(dtype, fresh_bytes);
    auto fresh = allocator()->allocate(bytes);
    const auto kept = std::min(bytes, storage.nbytes());
    if (kept > 0) std::memcpy(fresh.get(), storage.data(), kept);
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(fresh));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

const at::Generator& default_generator() {
  static const at::Generator generator = new_generator(-1);
  return generator;
}

at::Generator host_generator(const at::Generator& generator) {
  const auto* device = dynamic_cast<SpyreGenerator*>(generator.unsafeGetGeneratorImpl());
  return device == nullptr ? generator : device->host;
}

}  // namespace spyre
