// Simulated time: a host that queues work and streams that do it in order. Wall time never enters.
#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "spyre.h"

namespace spyre {
namespace {

// Nanoseconds since the start of the process's device; every access holds the lock.
struct Clock {
  std::mutex lock;
  Costs costs;
  int64_t host = 0;
  std::unordered_map<c10::StreamId, int64_t> ends;  // when the last work queued on a stream is done
};

Clock& the_clock() {
  static auto* instance = new Clock;
  return *instance;
}

int64_t rounded(double ns) { return static_cast<int64_t>(ns + 0.5); }

}  // namespace

void set_costs(const Costs& costs) {
  auto& c = the_clock();
  std::lock_guard<std::mutex> guard(c.lock);
  c.costs = costs;
}

Costs costs() {
  auto& c = the_clock();
  std::lock_guard<std::mutex> guard(c.lock);
  return c.costs;
}

int64_t host_time() {
  auto& c = the_clock();
  std::lock_guard<std::mutex> guard(c.lock);
  return c.host;
}

void wait_until(int64_t time) {
  auto& c = the_clock();
  std::lock_guard<std::mutex> guard(c.lock);
  c.host = std::max(c.host, time);
}

int64_t stream_end(c10::StreamId stream) {
  auto& c = the_clock();
  std::lock_guard<std::mutex> guard(c.lock);
  return std::max(c.ends[stream], c.host);
}

int64_t last_end() {
  auto& c = the_clock();
  std::lock_guard<std::mutex> guard(c.lock);
  auto last = c.host;
  for (const auto& [stream, end] : c.ends) last = std::max(last, end);
  return last;
}

void delay_stream(c10::StreamId stream, int64_t time) {
  auto& c = the_clock();
  std::lock_guard<std::mutex> guard(c.lock);
  c.ends[stream] = std::max(c.ends[stream], time);
}

bool is_done(int64_t time) {
  auto& c = the_clock();
  std::lock_guard<std::mutex> guard(c.lock);
  c.host += rounded(c.costs.poll_ns);  // so that a loop of polls ends
  return time <= c.host;
}

namespace {

void pass_host_time(double ns) {
  auto& c = the_clock();
  std::lock_guard<std::mutex> guard(c.lock);
  c.host += rounded(ns);
}

void queue_work(double ns) {
  auto& c = the_clock();
  std::lock_guard<std::mutex> guard(c.lock);
  auto& end = c.ends[current_stream_id()];
  end = std::max(end, c.host) + rounded(ns);
}

double device_ns(double bytes, double flop) {
  const auto rates = costs();
  return std::max(bytes / rates.memory_bytes_per_ns, flop / rates.flop_per_ns);
}

}  // namespace

void queue_eager(double bytes, double flop) {
  pass_host_time(costs().eager_ns);
  queue_work(device_ns(bytes, flop));
}

void queue_bundle(double bytes, double flop) {
  pass_host_time(costs().launch_ns);
  queue_work(device_ns(bytes, flop));
}

void transfer(double bytes, bool host_waits) {
  queue_work(bytes / costs().host_bytes_per_ns);
  if (host_waits) wait_until(stream_end(current_stream_id()));
}

}  // namespace spyre
