// Device memory over the host's transport, so that several ranks can share one GPU. The operands of a collective are copied to
// the host, exchanged there, and the results are copied back. This is the device's backend, except that the host carries out the
// communication streams, as on a CPU. Its groups are StagedGroups.
//
//   a call   the device copies the operands to the host on its stream of the same name, after what that stream waits for. The
//            progress thread starts the call once they are copied.
//   a wait   for an event of such a stream: the host waits until the calls before it are done. Then the device copies their
//            results back, and the waiting stream continues after that.
//
// So only the host waits for other ranks, never the device, and the host's timeout names a rank that does not arrive. A
// collective on the compute stream is done on return, so work with collectives cannot be captured in a CUDA graph.
#pragma once

#include <array>
#include <vector>

#include "backend/device_streams.h"
#include "backend/forwarding_backend.h"
#include "base/ring.h"
#include "comm/progress.h"

namespace trireme {

// A tensor on the device and its staged copy on the host.
struct StagedCopy {
  Tensor device, host;
};

class StagedBackend final : public ForwardingBackend {
 public:
  StagedBackend(Backend& device, DeviceStreams& streams, Progress& progress)
      : ForwardingBackend(device), streams_(streams), progress_(progress) {}

  // Returns host memory of the same shape and dtype. It is free again when the call it was staged for is done.
  Tensor stage(const Tensor& like);
  // Enqueues a call on staged memory, with the copies before and after it.
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

  // The host takes part in every step, so repeated work is not captured as a graph, and ops have one stream.
  void repeat(Stream, const WorkKey&, const std::function<void()>& enqueue) override { enqueue(); }
  void tune_repeated_work() override {}
  bool has_room_for_wgrad(int64_t, int64_t) const override { return false; }

 private:
  using Copies = std::array<StagedCopy, Communicator::kMostMessages>;
  struct UnderWay {
    uint64_t number = 0;  // the call's sequence number on its stream
    Copies downloads, uploads;
  };
  struct Line {
    Ring<UnderWay> calls;  // calls whose results are not yet on the device
    Event landed;          // recorded on the device after the results of all other calls
  };
  struct Slot {
    Memory memory;
    int64_t bytes = 0;
    bool used = false;
  };

  static bool is_carried(Stream stream) { return stream != kCompute && stream != kCopy; }
  static Stream on_device(Stream stream);  // checks that ops do not run on communication streams
  Line& line(Stream stream);
  bool writes_what_is_read(const Line& line, std::span<const StagedCopy> downloads) const;
  void land(const Event& event);  // waits for the calls up to the event and copies their results to the device
  void release(const Copies& copies);

  DeviceStreams& streams_;
  Progress& progress_;
  std::array<Line, kStreams> lines_;
  std::vector<Slot> slots_;
};

}  // namespace trireme
