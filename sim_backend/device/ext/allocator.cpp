#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>

#include "spyre.h"

namespace spyre {
namespace {

// Counters and the free bytes of each segment; every access holds the lock.
struct Pool {
  std::mutex lock;
  std::vector<int64_t> free_bytes = std::vector<int64_t>(7, int64_t(16) << 30);
  int64_t intermediate_limit = int64_t(14) << 30;
  int64_t current = 0, peak = 0, count = 0, live = 0, intermediate = 0, failed = 0;
};

Pool& pool() {
  static auto* instance = new Pool;  // outlives every tensor, also those freed at exit
  return *instance;
}

thread_local bool intermediates = false;

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

bool has_room(const Pool& p, int64_t bytes, bool intermediate) {
  const auto left = std::accumulate(p.free_bytes.begin(), p.free_bytes.end(), int64_t(0));
  const bool pool_full = intermediate && p.intermediate_limit > 0 && p.intermediate + bytes > p.intermediate_limit;
  return bytes <= left && !pool_full;
}

// nullptr when the device, or the host that plays it, has no room.
Block* try_allocate(int64_t bytes) {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  void* memory = nullptr;
  if (!has_room(p, bytes, intermediates) || posix_memalign(&memory, kStick, bytes) != 0) return nullptr;
  p.current += bytes;
  p.intermediate += intermediates ? bytes : 0;
  p.peak = std::max(p.peak, p.current);
  p.count++;
  p.live++;
  return new Block{memory, bytes, take(p.free_bytes, bytes), intermediates, {0}};
}

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  if (block == nullptr) return;
  auto& p = pool();
  {
    std::lock_guard<std::mutex> guard(p.lock);
    p.current -= block->bytes;
    p.intermediate -= block->intermediate ? block->bytes : 0;
    p.live--;
    give_back(p.free_bytes, block->chunks);
  }
  std::free(block->memory);
  delete block;
}

void count_failure() {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  p.failed++;
}

struct SpyreAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    const c10::Device device(kSpyre, current_device());
    if (n == 0) return {nullptr, nullptr, &release, device};
    const auto bytes = (static_cast<int64_t>(n) + kStick - 1) / kStick * kStick;
    auto* block = bytes < 0 ? nullptr : try_allocate(bytes);
    if (block == nullptr && bytes > 0) {
      collect_garbage();  // as the runtime does on pressure
      block = try_allocate(bytes);
    }
    if (block == nullptr) count_failure();
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "Failed to allocate ", n, " bytes on Spyre device.");
    return {block->memory, block, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* target, const void* source, std::size_t n) const override { std::memcpy(target, source, n); }
};

SpyreAllocator the_allocator;
REGISTER_ALLOCATOR(kSpyre, &the_allocator);

}  // namespace

c10::Allocator* allocator() { return &the_allocator; }

Block* block_of(const at::Tensor& t) {
  const auto& data = t.storage().data_ptr();
  return data.get_deleter() == &release ? static_cast<Block*>(data.get_context()) : nullptr;
}

void set_limits(int64_t segments, int64_t segment_bytes, int64_t intermediate_bytes) {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  TORCH_CHECK(p.live == 0, "the limits of the Spyre device cannot change while ", p.live, " allocations live");
  const bool unlimited = segments <= 0 || segment_bytes <= 0;
  p.free_bytes.assign(unlimited ? 1 : segments, unlimited ? INT64_MAX / 4 : segment_bytes);
  p.intermediate_limit = intermediate_bytes;
}

bool exchange_intermediate(bool on) {
  std::swap(intermediates, on);
  return on;
}

std::map<std::string, int64_t> memory_stats() {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  const auto left = std::accumulate(p.free_bytes.begin(), p.free_bytes.end(), int64_t(0));
  return {{"current", p.current}, {"peak", p.peak},     {"count", p.count},   {"live", p.live},
          {"failed", p.failed},   {"intermediate", p.intermediate}, {"limit", left + p.current}};
}

void reset_peak_memory() {
  auto& p = pool();
  std::lock_guard<std::mutex> guard(p.lock);
  p.peak = p.current;
}

}  // namespace spyre
