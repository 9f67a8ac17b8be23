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

#include "backend/device_streams.h"
#include "backend/forwarding_backend.h"
#include "base/ring.h"
#include "comm/progress.h"

namespace trireme {

// Bytes of the device, and their place on the host.
struct StagedCopy {
  Tensor device, host;
};

class StagedBackend final : public ForwardingBackend {
 public:
  StagedBackend(Backend& device, DeviceStreams& streams, Progress& progress)
      : ForwardingBackend(device), streams_(streams), progress_(progress) {}

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
  void collect_times() override;

#define TRIREME_CHECK_STREAM(Op) \
  void run(Stream stream, const Op& op) override { inner_.run(on_device(stream), op); }
  TRIREME_OPS(TRIREME_CHECK_STREAM)
#undef TRIREME_CHECK_STREAM
  void upload(Stream stream, const void* from, Tensor to) override { inner_.upload(on_device(stream), from, to); }
  void download(Stream stream, Tensor from, void* to) override { inner_.download(on_device(stream), from, to); }

  // The host takes part in every step, so that nothing is launched as one, and ops have one stream.
  void repeat(Stream, const WorkKey&, const std::function<void()>& enqueue) override { enqueue(); }
  void tune_repeated_work() override {}
  bool has_room_beside(int64_t, int64_t) const override { return false; }

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

  static bool is_carried(Stream stream) { return stream != kCompute && stream != kCopy; }
  static Stream on_device(Stream stream);  // which it must be: ops do not run on streams of communication
  Line& line(Stream stream);
  bool writes_what_is_read(const Line& line, std::span<const StagedCopy> downloads) const;
  void land(const Event& event);  // waits for the calls up to there and copies up what they made
  void release(const Copies& copies);

  DeviceStreams& streams_;
  Progress& progress_;
  std::array<Line, kStreams> lines_;
  std::vector<Slot> slots_;
};

}  // namespace trireme
