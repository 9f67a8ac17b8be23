// Device memory over the host's transport, so that several ranks can share one GPU: what a collective reads is copied to the
// host, exchanged there, and what it made is copied back. This is the device's backend with the streams of communication carried
// out by the host, as on a CPU; groups are StagedGroups.
//
//   a call       its bytes are copied down on the device's stream of that name, behind what that stream waits for; the progress
//                thread starts it once they are there
//   a wait       for a point in such a stream: the host waits until the calls before it are done, then the device copies up what
//                they made and goes on behind that
//
// So the device never waits for another rank, only the host does, and a rank that does not come is named by the host's timeout.
// What is done on the compute stream is done on return, therefore work that has collectives in it cannot be a CUDA graph.
#pragma once

#include <array>
#include <vector>

#include "backend/backend.h"
#include "backend/device_streams.h"
#include "base/ring.h"
#include "comm/progress.h"

namespace trireme {

// Bytes of the device, and their place on the host.
struct StagedCopy {
  Tensor device, host;
};

class StagedBackend final : public Backend {
 public:
  StagedBackend(Backend& device, DeviceStreams& streams, Progress& progress)
      : device_(device), streams_(streams), progress_(progress) {}

  // Memory of the host for a tensor like this one; given back when the call that it is staged for is done.
  Tensor stage(const Tensor& like);
  // Enqueues a call on staged memory, with what is copied before and after it.
  void enqueue(Call call, std::span<const StagedCopy> downloads, std::span<const StagedCopy> uploads);
  bool downloaded(const Call& call) const { return streams_.reached(call.event); }
  Progress& progress() { return progress_; }

  Event record(Stream stream, const char* name) override;
  void wait(Stream stream, const Event& event) override;
  void synchronize(const Event& event) override;
  void note_time(Stream stream, double* seconds) override;
  void read_times() override { device_.read_times(); }
  void collect_times() override;

#define TRIREME_PASS_ON(Op)                                                              \
  void run(Stream stream, const Op& op) override { device_.run(on_device(stream), op); } \
  int64_t scratch_bytes(const Op& op) const override { return device_.scratch_bytes(op); }
  TRIREME_OPS(TRIREME_PASS_ON)
#undef TRIREME_PASS_ON
  void set_scratch(Stream stream, Tensor scratch) override { device_.set_scratch(stream, scratch); }
  Memory allocate(int64_t bytes) override { return device_.allocate(bytes); }
  Memory allocate_host(int64_t bytes) override { return device_.allocate_host(bytes); }
  bool runs_ahead() const override { return device_.runs_ahead(); }
  void begin_range(const char* name, std::optional<int64_t> number) override { device_.begin_range(name, number); }
  void end_range() override { device_.end_range(); }
  void set_profiling(Profiling profiling) override { device_.set_profiling(profiling); }
  void upload(Stream stream, const void* from, Tensor to) override { device_.upload(on_device(stream), from, to); }
  void download(Stream stream, Tensor from, void* to) override { device_.download(on_device(stream), from, to); }
  int64_t full_speed_rows() const override { return device_.full_speed_rows(); }
  double measure_peak_tflops(DType dtype) override { return device_.measure_peak_tflops(dtype); }
  bool has_fp8() const override { return device_.has_fp8(); }
  std::optional<DeviceMemory> device_memory() const override { return device_.device_memory(); }
  std::string device_name() const override { return device_.device_name(); }
  std::string description() const override { return device_.description(); }

 private:
  using Copies = std::array<StagedCopy, Communicator::kMostMessages>;
  struct UnderWay {
    uint64_t number = 0;  // of the call among all of its stream
    Copies downloads, uploads;
  };
  struct Line {
    Ring<UnderWay> calls;  // those whose results are not on the device yet
    Event landed;          // on the device: behind the results of all others
  };
  struct Slot {
    Memory memory;
    int64_t bytes = 0;
    bool used = false;
  };

  static bool is_carried(Stream stream) { return stream.kind != StreamKind::compute && stream.kind != StreamKind::copy; }
  static Stream on_device(Stream stream);  // which it must be: ops do not run on streams of communication
  Line& line(Stream stream);
  bool writes_what_is_read(const Line& line, std::span<const StagedCopy> downloads) const;
  void land(const Event& event);  // waits for the calls up to there and copies up what they made
  void release(const Copies& copies);

  Backend& device_;
  DeviceStreams& streams_;
  Progress& progress_;
  std::array<Line, kStreams> lines_;
  std::vector<Slot> slots_;
};

}  // namespace trireme
