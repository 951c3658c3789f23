#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

#include "spyre.h"

namespace spyre {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingDeviceAllocator::DeviceStats;

// Large blocks have pages of their own: in the heap they would lie between the temporaries of a model that is being
// moved to the device, whose holes nothing fits into afterwards. nullptr if the host has no memory.
constexpr int64_t kMapped = int64_t(1) << 20;

void* host_allocate(int64_t bytes) {
  void* memory = nullptr;
  if (bytes < kMapped) return posix_memalign(&memory, kStick, bytes) == 0 ? memory : nullptr;
  memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void host_free(int64_t bytes, void* memory) {
  if (bytes < kMapped) std::free(memory);
  else munmap(memory, bytes);
}

// Freed host memory, handed out again as it is: device memory is never cleared, the host's own would be.
class Kept {
 public:
  void* take(int64_t bytes) {
    const auto found = blocks_.find(bytes);
    if (found == blocks_.end()) return nullptr;
    auto* memory = found->second;
    held_ -= bytes;
    blocks_.erase(found);
    return memory;
  }
  void put(int64_t bytes, void* memory) {
    blocks_.emplace(bytes, memory);
    held_ += bytes;
    while (held_ > kKept) drop_largest();
  }
  void clear() {
    while (!blocks_.empty()) drop_largest();
  }

 private:
  void drop_largest() {
    const auto last = std::prev(blocks_.end());
    held_ -= last->first;
    host_free(last->first, last->second);
    blocks_.erase(last);
  }
  std::multimap<int64_t, void*> blocks_;
  int64_t held_ = 0;
};

// Counters and the free bytes of each segment; every access holds the lock.
struct Pool {
  std::mutex lock;
  int64_t segment_bytes = int64_t(16) << 30;
  std::vector<int64_t> free_bytes = std::vector<int64_t>(7, int64_t(16) << 30);
  int64_t intermediate_limit = int64_t(14) << 30;
  int64_t intermediate = 0, failed = 0, retries = 0;
  Stat bytes, blocks;
  Kept kept;
  std::string refusal;  // why this process cannot allocate; empty if it can
};

Pool& pool() {
  static auto* instance = new Pool;  // outlives every tensor, also those freed at exit
  return *instance;
}

thread_local bool intermediates = false;

struct Request {
  at::ScalarType dtype = at::ScalarType::Undefined;
  int64_t bytes = 0;
};
thread_local Request expected;

int64_t in_sticks(int64_t bytes) { return (bytes + kStick - 1) / kStick * kStick; }

// An allocation may be a composite of chunks: the first segment that holds it whole, else what all have left.
std::vector<int64_t> take(std::vector<int64_t>& free_bytes, int64_t bytes) {
  std::vector<int64_t> chunks(free_bytes.size(), 0);
  const auto whole = std::find_if(free_bytes.begin(), free_bytes.end(), [&](int64_t f) { return f >= bytes; });
  auto from = whole == free_bytes.end() ? free_bytes.begin() : whole;
  for (; bytes > 0 && from != free_bytes.end(); ++from) {
    const auto part = std::min(bytes, *from);
    chunks[from - free_bytes.begin()] = part;
    *from -= part;
    bytes -= part;
  }
  return chunks;
}

void give_back(std::vector<int64_t>& free_bytes, const std::vector<int64_t>& chunks) {
  for (size_t i = 0; i < std::min(free_bytes.size(), chunks.size()); i++) free_bytes[i] += chunks[i];
}

int64_t left_in(const Pool& p) { return std::accumulate(p.free_bytes.begin(), p.free_bytes.end(), int64_t(0)); }

bool has_room(const Pool& p, int64_t bytes, bool intermediate) {
  const bool pool_full = intermediate && p.intermediate_limit > 0 && p.intermediate + bytes > p.intermediate_limit;
  return bytes <= left_in(p) && !pool_full;
}

void* host_memory(Pool& p, int64_t bytes) {
  auto* memory = p.kept.take(bytes);
  return memory != nullptr ? memory : host_allocate(bytes);
}

// nullptr when the device, or the host that plays it, has no room.
Block* try_allocate(int64_t bytes, const Request& asked) {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  TORCH_CHECK(p.refusal.empty(), p.refusal);
  auto* memory = has_room(p, asked.bytes, intermediates) ? host_memory(p, bytes) : nullptr;
  if (memory == nullptr) return nullptr;
  p.intermediate += intermediates ? asked.bytes : 0;
  p.bytes.increase(asked.bytes);
  p.blocks.increase(1);
  return new Block{memory, bytes, asked.bytes, asked.dtype, take(p.free_bytes, asked.bytes), intermediates, {0}, {false}};
}

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  if (block == nullptr) return;
  auto& p = pool();
  {
    std::lock_guard<std::mutex> guard(p.lock);
    p.intermediate -= block->intermediate ? block->counted : 0;
    p.bytes.decrease(block->counted);
    p.blocks.decrease(1);
    give_back(p.free_bytes, block->chunks);
    p.kept.put(block->bytes, block->memory);
  }
  delete block;
}

void count(int64_t Pool::*counter) {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  (p.*counter)++;
}

int64_t used_segments(const Pool& p) {
  return std::count_if(p.free_bytes.begin(), p.free_bytes.end(), [&](int64_t f) { return f < p.segment_bytes; });
}

struct SpyreAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t n) override {
    const c10::Device device(kSpyre, current_device());
    if (n == 0) return {nullptr, nullptr, &release, device};
    const auto bytes = in_sticks(static_cast<int64_t>(n));
    const auto asked = std::exchange(expected, Request{});
    const Request request{asked.dtype, asked.bytes > 0 ? asked.bytes : bytes};
    auto* block = bytes < 0 ? nullptr : try_allocate(bytes, request);
    if (block == nullptr && bytes > 0) {
      count(&Pool::retries);
      collect_garbage();  // as the runtime does on pressure
      empty_cache();
      block = try_allocate(bytes, request);
    }
    if (block == nullptr) count(&Pool::failed);
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "Failed to allocate ", request.bytes, " bytes on Spyre device.");
    return {block->memory, block, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* target, const void* source, std::size_t n) const override { std::memcpy(target, source, n); }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { empty_cache(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    check_device_index(index);
    auto& p = pool();
    std::lock_guard<std::mutex> guard(p.lock);
    DeviceStats stats;
    stats.allocation[0] = stats.active[0] = p.blocks;
    stats.allocated_bytes[0] = stats.reserved_bytes[0] = stats.active_bytes[0] = p.bytes;
    stats.segment[0].current = used_segments(p);
    stats.num_alloc_retries = p.retries;
    stats.num_ooms = p.failed;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    check_device_index(index);
    auto& p = pool();
    std::lock_guard<std::mutex> guard(p.lock);
    p.bytes.reset_accumulated();
    p.blocks.reset_accumulated();
    p.retries = p.failed = 0;
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    check_device_index(index);
    auto& p = pool();
    std::lock_guard<std::mutex> guard(p.lock);
    p.bytes.reset_peak();
    p.blocks.reset_peak();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    check_device_index(index);
    auto& p = pool();
    std::lock_guard<std::mutex> guard(p.lock);
    const auto left = left_in(p);
    return {left, left + p.bytes.current};
  }
};

SpyreAllocator the_allocator;
REGISTER_ALLOCATOR(kSpyre, &the_allocator);

}  // namespace

c10::Allocator* allocator() { return &the_allocator; }

Block* block_of(const c10::Storage& storage) {
  const auto& data = storage.data_ptr();
  return data.get_deleter() == &release ? static_cast<Block*>(data.get_context()) : nullptr;
}

Block* block_of(const at::Tensor& t) { return block_of(t.storage()); }

void recount(Block& block, int64_t device_bytes) {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  const auto more = device_bytes - block.counted;
  TORCH_CHECK_WITH(OutOfMemoryError, more <= left_in(p), "Failed to allocate ", device_bytes, " bytes on Spyre device.");
  give_back(p.free_bytes, block.chunks);
  block.chunks = take(p.free_bytes, device_bytes);
  p.intermediate += block.intermediate ? more : 0;
  if (more > 0) p.bytes.increase(more);
  if (more < 0) p.bytes.decrease(-more);
  block.counted = device_bytes;
}

Expected::Expected(at::ScalarType dtype, int64_t bytes) { expected = {dtype, bytes}; }
Expected::~Expected() { expected = {}; }

void set_limits(int64_t segments, int64_t segment_bytes, int64_t intermediate_bytes) {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  TORCH_CHECK(p.blocks.current == 0, "the limits of the Spyre device cannot change while ", p.blocks.current,
              " allocations live");
  const bool unlimited = segments <= 0 || segment_bytes <= 0;
  p.segment_bytes = unlimited ? INT64_MAX / 4 : segment_bytes;
  p.free_bytes.assign(unlimited ? 1 : segments, p.segment_bytes);
  p.intermediate_limit = intermediate_bytes;
}

bool exchange_intermediate(bool on) {
  std::swap(intermediates, on);
  return on;
}

void refuse_allocations(const std::string& why) {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  p.refusal = why;
}

void empty_cache() {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  p.kept.clear();
}

std::map<std::string, int64_t> memory_stats() {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  return {{"current", p.bytes.current},
          {"peak", p.bytes.peak},
          {"allocated", p.bytes.allocated},
          {"freed", p.bytes.freed},
          {"live", p.blocks.current},
          {"live_peak", p.blocks.peak},
          {"count", p.blocks.allocated},
          {"released", p.blocks.freed},
          {"segments", used_segments(p)},
          {"retries", p.retries},
          {"failed", p.failed},
          {"intermediate", p.intermediate},
          {"limit", left_in(p) + p.bytes.current}};
}

void reset_peak_memory() { the_allocator.resetPeakStats(-1); }
void reset_accumulated_memory() { the_allocator.resetAccumulatedStats(-1); }

}  // namespace spyre
