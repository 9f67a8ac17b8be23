// What depends on the machine: ops, their order between streams, memory, and instruments for measuring. Each is an interface of
// its own, so that code which needs one of them takes only that one; a Backend is all four. The model never knows which backend
// it runs on. Implementations: reference (the executable specification), cpu, cuda, cost.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/device_streams.h"
#include "backend/ops.h"
#include "backend/stream.h"
#include "backend/work_key.h"
#include "base/clock.h"
#include "tensor/arena.h"

namespace trireme {

struct DeviceMemory {
  int64_t used = 0, total = 0;  // bytes; used by all programs
};

enum class Profiling : uint8_t { off, on };  // whether a profiler that watches this process records

// One virtual function per op of ops.h.
class OpQueue {
 public:
  virtual ~OpQueue() = default;

  // Enqueues an op on a stream. Never reads a device value on the host, never allocates.
#define TRIREME_DECLARE_OP(Op) virtual void run(Stream stream, const Op& op) = 0;
  TRIREME_OPS(TRIREME_DECLARE_OP)
#undef TRIREME_DECLARE_OP

  // Working memory an op needs on its stream while it runs. The recorded step finds the most needed at once.
#define TRIREME_DECLARE_SCRATCH(Op) \
  virtual int64_t scratch_bytes(const Op&) const { return 0; }
  TRIREME_OPS(TRIREME_DECLARE_SCRATCH)
#undef TRIREME_DECLARE_SCRATCH
  virtual void set_scratch(Stream stream, Tensor scratch) = 0;  // [bytes] u8; stays the caller's

  // Work on one stream that is enqueued again and again with the same operands. A backend may record what `enqueue` does and
  // replay it for every later call with an equal key.
  virtual void repeat(Stream, const WorkKey& /*key*/, const std::function<void()>& enqueue) { enqueue(); }
  // Call before memory that repeated work uses is freed: what was recorded is recorded again.
  virtual void forget_repeated_work() {}
  // From now on repeated work is also timed, to find faster ways to do it; they are kept for later runs.
  virtual void tune_repeated_work() {}
};

class Instruments {
 public:
  virtual ~Instruments() = default;

  // When all earlier work of the stream is done the time goes to `seconds`, as system_clock() counts it. read_times() fills in
  // those of work that is known to be done, collect_times() waits until all are there.
  virtual void note_time(Stream, double* seconds) { *seconds = system_clock().seconds(); }
  virtual void read_times() {}
  virtual void collect_times() {}
  // For profilers: a name for what is enqueued until the range ends, and a number if it has one.
  virtual void begin_range(const char* /*name*/, std::optional<int64_t> /*number*/) {}
  virtual void end_range() {}
  virtual void set_profiling(Profiling) {}
};

class StreamEvents {
 public:
  virtual ~StreamEvents() = default;

  virtual Event record(Stream stream, const char* name) = 0;  // reached when all earlier work of the stream is done
  virtual void wait(Stream stream, const Event& event) = 0;   // later work of the stream starts after the event
  virtual void synchronize(const Event& event) = 0;           // the host waits
};

class BackendMemory {
 public:
  virtual ~BackendMemory() = default;

  virtual Memory allocate(int64_t bytes) = 0;
  // Host memory that copies to and from the device go on with while the host does other things.
  virtual Memory allocate_host(int64_t bytes) {
    return {.device = Device::host, .block = std::make_shared<std::byte[]>(static_cast<size_t>(bytes))};
  }
  virtual void upload(Stream stream, const void* from, Tensor to) = 0;  // host -> device, to.bytes()
  virtual void download(Stream stream, Tensor from, void* to) = 0;      // device -> host; valid after an event

  // Of a device with memory of its own; backends on host memory have none.
  virtual std::optional<DeviceMemory> device_memory() const { return std::nullopt; }
};

class Backend : public OpQueue, public Instruments, public StreamEvents, public BackendMemory {
 public:
  // Those of a device with streams of its own; null where ops run on the host.
  virtual DeviceStreams* device_streams() { return nullptr; }

  // Whether the host is ahead of the ops that it enqueues, so that reading a result means waiting.
  virtual bool runs_ahead() const { return false; }
  // The rows at which a GEMM reaches its full speed: the loss head works on no more at a time.
  virtual int64_t full_speed_rows() const { return 2048; }
  // Whether a GEMM of this many rows and columns leaves parts of the device idle, so that a second stream of ops, wgrad,
  // overlaps with it. Never where ops run one at a time.
  virtual bool has_room_for_wgrad(int64_t /*rows*/, int64_t /*columns*/) const { return false; }
  // The FLOP/s that a large GEMM of this dtype reaches, for backends that measure it; 0 if unknown.
  virtual double measure_peak_tflops(DType) { return 0; }
  virtual bool has_fp8() const { return false; }          // whether operands may have FP8 copies
  virtual bool has_f16() const { return true; }           // whether act tensors may be f16
  virtual std::string device_name() const { return ""; }  // as its driver calls it
  virtual std::string description() const = 0;            // one line for the start of a run
};

// A range that ends with its scope.
class NamedRange {
 public:
  NamedRange(Instruments& instruments, const char* name, std::optional<int64_t> number = std::nullopt)
      : instruments_(instruments) {
    instruments_.begin_range(name, number);
  }
  ~NamedRange() { instruments_.end_range(); }
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;

 private:
  Instruments& instruments_;
};

}  // namespace trireme
