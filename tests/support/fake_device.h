// A device on the CPU that works as a GPU does: each stream is a thread that does one thing after the other, late at random,
// while the host goes on. Ops are those of a backend on the host, the cpu backend by default. What misses an event fails here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "backend/device_streams.h"
#include "support/fake_stream.h"

namespace trireme {

class FakeDevice final : public Backend, public DeviceStreams {
 public:
  explicit FakeDevice(uint64_t seed = 0, std::unique_ptr<Backend> ops = std::make_unique<CpuBackend>(1)) : ops_(std::move(ops)) {
    for (size_t i = 0; i < lines_.size(); ++i)
      lines_[i].thread = std::thread([this, i, seed] { work(lines_[i], seed * lines_.size() + i); });
  }
  ~FakeDevice() override {
    for (Line& line : lines_) enqueue(line, nullptr);
    for (Line& line : lines_) line.thread.join();
  }

#define TRIREME_FAKE_OP(Op)                                                         \
  void run(Stream stream, const Op& op) override {                                  \
    if (copies_aside(stream, op)) return;                                           \
    CHECK(stream == kCompute);                                                      \
    enqueue(line(stream), [this, op = as_of_now(op)] { ops_->run(kCompute, op); }); \
  }                                                                                 \
  int64_t scratch_bytes(const Op& op) const override { return ops_->scratch_bytes(op); }
  TRIREME_OPS(TRIREME_FAKE_OP)
#undef TRIREME_FAKE_OP
  void set_scratch(Stream stream, Tensor scratch) override { ops_->set_scratch(stream, scratch); }

  Event record(Stream stream, const char* name) override { return {name, stream, line(stream).enqueued}; }
  void wait(Stream stream, const Event& event) override {
    enqueue(line(stream), [this, event] { wait_here(event); });
  }
  void synchronize(const Event& event) override {
    if (!watch_) return wait_here(event);
    const Stopwatch stopwatch;
    while (!reached(event)) {
      watch_(event, stopwatch.seconds());
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  Memory allocate(int64_t bytes) override { return ops_->allocate(bytes); }
  bool runs_ahead() const override { return true; }
  void upload(Stream stream, const void* from, Tensor to) override {
    std::vector<std::byte> bytes(static_cast<size_t>(to.bytes()));
    if (!bytes.empty()) std::memcpy(bytes.data(), from, bytes.size());
    enqueue(line(stream), [to, bytes = std::move(bytes)] { std::memcpy(to.data, bytes.data(), bytes.size()); });
  }
  void download(Stream stream, Tensor from, void* to) override {
    enqueue(line(stream), [from, to] { std::memcpy(to, from.data, static_cast<size_t>(from.bytes())); });
  }
  bool has_fp8() const override { return ops_->has_fp8(); }
  std::string description() const override { return "a device that is none"; }

  DeviceStreams* device_streams() override { return this; }
  bool reached(const Event& event) const override {
    return lines_[event.stream.number()].done.load(std::memory_order_acquire) >= event.ticket;
  }
  void* native(Stream stream) const override { return static_cast<FakeStream*>(&lines_[stream.number()]); }
  void set_watch(Watch watch) override { watch_ = std::move(watch); }
  const Watch& watch() const { return watch_; }

 private:
  // Copies of bytes may be on any stream.
  template <class Op>
  bool copies_aside(Stream stream, const Op& op) {
    if constexpr (std::is_same_v<Op, Copy>) {
      if (stream == kCompute) return false;
      CHECK(op.from.dtype == op.to.dtype);
      enqueue(line(stream), [op] { std::memcpy(op.to.data, op.from.data, static_cast<size_t>(op.to.bytes())); });
      return true;
    }
    return false;
  }

  struct Line final : FakeStream {
    void enqueue(std::function<void()> task) override { FakeDevice::enqueue(*this, std::move(task)); }
    std::mutex mutex;
    std::condition_variable moved;
    std::deque<std::function<void()>> queue;
    std::atomic<uint64_t> enqueued = 0, done = 0;
    std::thread thread;
  };

  Line& line(Stream stream) { return lines_[stream.number()]; }

  // What an op refers to on the host is read when it is enqueued: how the FP8 copies of what it writes are scaled.
  template <class Op>
  static Op as_of_now(Op op) {
    static constexpr Fp8Scaling kDelayed = Fp8Scaling::delayed, kCurrent = Fp8Scaling::current;
    const auto keep = [](Operand& written) {
      if (written.fp8.scaling != nullptr) written.fp8.scaling = *written.fp8.scaling == kCurrent ? &kCurrent : &kDelayed;
    };
    if constexpr (requires { op.out.fp8; }) keep(op.out);
    if constexpr (requires { op.x.fp8; }) keep(op.x);
    if constexpr (requires { op.d_x.fp8; }) keep(op.d_x);
    if constexpr (requires { op.d_sum.fp8; }) keep(op.d_sum);
    if constexpr (requires { op.d_branch.fp8; }) keep(op.d_branch);
    if constexpr (requires { op.d_branch2.fp8; }) keep(op.d_branch2);
    if constexpr (requires { op.d_gate_up.fp8; }) keep(op.d_gate_up);
    if constexpr (requires { op.heads.packed; }) keep(op.heads.packed);
    if constexpr (requires { op.d_q.packed; }) keep(op.d_q.packed);  // copies are those of all three
    return op;
  }

  static void enqueue(Line& line, std::function<void()> task) {
    {
      const std::lock_guard lock(line.mutex);
      line.queue.push_back(std::move(task));
      ++line.enqueued;
    }
    line.moved.notify_all();
  }

  void wait_here(const Event& event) {
    Line& there = line(event.stream);
    std::unique_lock lock(there.mutex);
    there.moved.wait(lock, [&] { return there.done >= event.ticket; });
  }

  static void work(Line& line, uint64_t seed) {
    std::mt19937_64 random(seed);
    while (true) {
      std::function<void()> task;
      {
        std::unique_lock lock(line.mutex);
        line.moved.wait(lock, [&] { return !line.queue.empty(); });
        task = std::move(line.queue.front());
        line.queue.pop_front();
      }
      if (!task) return;
      if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
      task();
      {
        const std::lock_guard lock(line.mutex);
        line.done.fetch_add(1, std::memory_order_release);
      }
      line.moved.notify_all();
    }
  }

  std::unique_ptr<Backend> ops_;
  Watch watch_;
  mutable std::array<Line, kStreams> lines_;  // libraries that ask for a stream enqueue on it
};

}  // namespace trireme
