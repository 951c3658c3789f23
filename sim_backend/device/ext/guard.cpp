// Device guard, streams and events. Values are there at once; when work is done is a matter of simulated time.
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "spyre.h"

namespace spyre {
namespace {

constexpr c10::StreamId kPool = 32;  // 1 to 32 normal, 33 to 64 high priority, 0 the default stream

thread_local c10::StreamId stream_id = 0;
std::atomic<uint64_t> next_stream[2];

struct Event {
  int64_t done;
};

Event& event_of(void* event) { return *static_cast<Event*>(event); }

c10::Device resolved(c10::Device d) { return {kSpyre, d.has_index() ? d.index() : current_device()}; }

c10::Stream pooled(c10::Device d, bool high_priority) {
  if (!runtime().streams) return c10::Stream(c10::Stream::DEFAULT, resolved(d));
  const auto slot = static_cast<c10::StreamId>(next_stream[high_priority]++ % kPool);
  return c10::Stream(c10::Stream::UNSAFE, resolved(d), 1 + slot + (high_priority ? kPool : 0));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kSpyre; }
  c10::Device exchangeDevice(c10::Device d) const override {
    setDevice(d);
    return getDevice();
  }
  c10::Device getDevice() const override { return {kSpyre, current_device()}; }
  void setDevice(c10::Device d) const override { check_device_index(d.index()); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return runtime().devices; }

  c10::Stream getStream(c10::Device d) const override { return c10::Stream(c10::Stream::UNSAFE, resolved(d), stream_id); }
  c10::Stream getDefaultStream(c10::Device d) const override { return c10::Stream(c10::Stream::DEFAULT, resolved(d)); }
  c10::Stream getNewStream(c10::Device d, int priority) const override { return pooled(d, priority < 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high_priority) const override {
    return pooled(d, high_priority);
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    const auto old = getStream(s.device());
    check_stream_id(s.id());
    stream_id = runtime().streams ? s.id() : 0;
    return old;
  }
  bool queryStream(const c10::Stream& s) const override { return !runtime().streams || is_done(stream_end(s.id())); }
  void synchronizeStream(const c10::Stream& s) const override { wait_until(stream_end(s.id())); }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    check_device_index(index);
    wait_until(last_end());
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

  void record(void** event, const c10::Stream& s, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event{0};
    if (runtime().events) event_of(*event).done = stream_end(s.id());
  }
  void block(void* event, const c10::Stream& s) const override {
    if (runtime().events && event != nullptr) delay_stream(s.id(), event_of(event).done);
  }
  bool queryEvent(void* event) const override { return runtime().events && is_done(event_of(event).done); }
  void synchronizeEvent(void* event) const override {
    if (runtime().events && event != nullptr) wait_until(event_of(event).done);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  // torch has asked before whether both are done.
  double elapsedTime(void* begin, void* end, const c10::DeviceIndex) const override {
    return static_cast<double>(event_of(end).done - event_of(begin).done) / 1e6;
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

Runtime& runtime() {
  static Runtime instance;
  return instance;
}

c10::DeviceIndex current_device() { return runtime().device; }

c10::StreamId current_stream_id() { return stream_id; }

void check_stream_id(c10::StreamId id) {
  const auto last = 2 * kPool + runtime().host_compute_streams;
  TORCH_CHECK(id >= 0 && id <= last, "Invalid stream id ", id, ": this Spyre device has streams 0 to ", last);
}

void check_device_index(c10::DeviceIndex index) {
  if (index == -1 || index == current_device()) return;
  const int count = runtime().devices;
  TORCH_CHECK(index >= 0 && index < count, "Invalid device 'spyre:", static_cast<int>(index), "': this process has ",
              count, " Spyre device; only one Spyre device per process is supported");
  TORCH_CHECK(false, runtime().second_device);
}

}  // namespace spyre
