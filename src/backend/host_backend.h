// What the backends on host memory have in common: ops run inline, so that the compute stream is the calling thread itself, and
// other streams are carried out by somebody else, if there are any.
#pragma once

#include "backend/backend.h"
#include "backend/host_streams.h"

namespace trireme {

class HostBackend : public Backend {
 public:
  // Without them, which is where a backend starts, all work is done before the call that enqueues it returns.
  void set_streams(HostStreams* streams) { streams_ = streams; }

  Event record(Stream stream, const char* name) override {
    return {.name = name, .stream = stream, .ticket = streams_ != nullptr ? streams_->enqueued(stream) : 0};
  }
  void wait(Stream stream, const Event& event) override {
    if (streams_ != nullptr) streams_->wait(stream, event);
  }
  void synchronize(const Event& event) override {
    if (streams_ != nullptr) streams_->synchronize(event);
  }
  void note_time(Stream stream, double* seconds) override {
    if (streams_ != nullptr)
      streams_->note_time(stream, seconds);
    else
      Backend::note_time(stream, seconds);
  }
  void collect_times() override {
    if (streams_ != nullptr) streams_->collect_times();
  }

 private:
  HostStreams* streams_ = nullptr;
};

}  // namespace trireme
