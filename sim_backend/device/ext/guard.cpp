// Device guard, streams and events. Work completes at once, in order; stream ids follow the runtime's pools.
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>

#include "spyre.h"

namespace spyre {
namespace {

constexpr c10::StreamId kPool = 32;  // 1 to 32 normal, 33 to 64 high priority, 0 the default stream

thread_local c10::DeviceIndex device_index = 0;
thread_local c10::StreamId stream_id = 0;
std::atomic<uint64_t> next_stream[2];

struct Event {
  int64_t time_ns;
};

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

c10::Device resolved(c10::Device d) { return {kSpyre, d.has_index() ? d.index() : device_index}; }

c10::Stream pooled(c10::Device d, bool high_priority) {
  const auto slot = static_cast<c10::StreamId>(next_stream[high_priority]++ % kPool);
  return c10::Stream(c10::Stream::UNSAFE, resolved(d), 1 + slot + (high_priority ? kPool : 0));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kSpyre; }
  c10::Device exchangeDevice(c10::Device d) const override {
    const auto old = getDevice();
    setDevice(d);
    return old;
  }
  c10::Device getDevice() const override { return {kSpyre, device_index}; }
  void setDevice(c10::Device d) const override { set_current_device(resolved(d).index()); }
  void uncheckedSetDevice(c10::Device d) const noexcept override { device_index = resolved(d).index(); }
  c10::Stream getStream(c10::Device d) const override { return c10::Stream(c10::Stream::UNSAFE, resolved(d), stream_id); }
  c10::Stream getDefaultStream(c10::Device d) const override { return c10::Stream(c10::Stream::DEFAULT, resolved(d)); }
  c10::Stream getNewStream(c10::Device d, int priority) const override { return pooled(d, priority < 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high_priority) const override {
    return pooled(d, high_priority);
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    const auto old = getStream(s.device());
    stream_id = s.id();
    return old;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDeviceCount; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex index) const override { check_device_index(index); }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event{0};
    static_cast<Event*>(*event)->time_ns = now_ns();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  double elapsedTime(void* begin, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(begin != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    return static_cast<double>(static_cast<Event*>(end)->time_ns - static_cast<Event*>(begin)->time_ns) / 1e6;
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

c10::DeviceIndex current_device() { return device_index; }

void set_current_device(c10::DeviceIndex index) {
  check_device_index(index);
  device_index = index;
}

void check_device_index(c10::DeviceIndex index) {
  TORCH_CHECK(index >= -1 && index < kDeviceCount, "Invalid device 'spyre:", static_cast<int>(index), "': this process has ",
              static_cast<int>(kDeviceCount), " Spyre device; only one Spyre device per process is supported");
}

}  // namespace spyre
