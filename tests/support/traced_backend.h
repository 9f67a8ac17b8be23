// Runs every op on another backend and writes it down in a log before: what a step really executed.
#pragma once

#include "backend/cost/cost_backend.h"
#include "backend/forwarding_backend.h"

namespace trireme {

class TracedBackend final : public ForwardingBackend {
 public:
  TracedBackend(Backend& inner, StepLog& log) : ForwardingBackend(inner), log_(log) {}

#define TRIREME_TRACE_OP(Op)                       \
  void run(Stream stream, const Op& op) override { \
    log_.add(record_of(stream, op));               \
    inner_.run(stream, op);                        \
  }
  TRIREME_OPS(TRIREME_TRACE_OP)
#undef TRIREME_TRACE_OP

  // Every op is seen, also of work that is enqueued again.
  void repeat(Stream, const WorkKey&, const std::function<void()>& enqueue) override { enqueue(); }
  Event record(Stream stream, const char* name) override {
    log_.add({.kind = RecordKind::event, .name = name, .stream = stream});
    return inner_.record(stream, name);
  }
  void wait(Stream stream, const Event& event) override {
    log_.add({.kind = RecordKind::wait, .name = event.name, .stream = stream});
    inner_.wait(stream, event);
  }

 private:
  StepLog& log_;
};

}  // namespace trireme
