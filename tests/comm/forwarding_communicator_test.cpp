// A communicator around another one passes every call on, and sees each of them before and after.
#include "comm/forwarding_communicator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/cost.h"
#include "support/traced_communicator.h"

namespace trireme {
namespace {

std::vector<std::string> calls_in(const StepLog& log) {
  std::vector<std::string> calls;
  for (const auto& record : log.records)
    calls.push_back(fmt::format("{} {} {} {}", record.name, record.bytes_read, record.bytes_written, record.peer));
  return calls;
}

Tensor floats(int64_t count) { return {.data = nullptr, .dtype = DType::f32, .shape = {count}}; }

void call_everything(Communicator& group) {
  group.all_reduce(kCompute, floats(1), Reduce::sum);
  group.reduce_scatter(kCompute, floats(8), floats(2), Reduce::sum);
  group.all_gather(kCompute, floats(2), floats(8));
  group.broadcast(kCompute, floats(3), 2);
  group.send(kSendForward, floats(4), 1);
  group.receive(kReceiveForward, floats(5), 3);
  const Message messages[] = {{.way = Message::Way::send, .values = floats(6), .peer = 1},
                              {.way = Message::Way::receive, .values = floats(7), .peer = 3}};
  group.exchange(kRingSend, messages);
  group.exchange(kRingSend, {});
  group.barrier(kCompute);
}

class Watching final : public ForwardingCommunicator {
 public:
  Watching(std::unique_ptr<Communicator> inner, StepLog& log, std::vector<std::string>& seen)
      : ForwardingCommunicator(std::move(inner)), log_(log), seen_(seen) {}

 private:
  void before(const Call& call) override {
    seen_.push_back(fmt::format("{} {}", call.name, call.bytes()));
    made_ = calls_in(log_).size();
  }
  void after(const Call& call) override {
    const bool is_made = calls_in(log_).size() > made_ || (call.messages.empty() && call.name == std::string_view("exchange"));
    seen_.back() += is_made ? " made" : " lost";
  }

  StepLog& log_;
  std::vector<std::string>& seen_;
  size_t made_ = 0;
};

TEST(ForwardingCommunicator, PassesEveryCallOnBetweenBeforeAndAfter) {
  StepLog direct, forwarded;
  CostCommunicator plain(GroupKind::tp, 1, 4, &direct);
  call_everything(plain);
  std::vector<std::string> seen;
  Watching watching(std::make_unique<CostCommunicator>(GroupKind::tp, 1, 4, &forwarded), forwarded, seen);
  EXPECT_EQ(watching.rank(), 1);
  EXPECT_EQ(watching.size(), 4);
  call_everything(watching);
  EXPECT_EQ(calls_in(forwarded), calls_in(direct));
  EXPECT_EQ(seen, (std::vector<std::string>{"all_reduce 4 made", "reduce_scatter 32 made", "all_gather 32 made",
                                            "broadcast 12 made", "send 16 made", "receive 20 made", "exchange 52 made",
                                            "exchange 0 made", "barrier 0 made"}));
}

TEST(ForwardingCommunicator, TracedCallsAreThoseOfTheCostCommunicator) {
  StepLog direct, traced;
  CostCommunicator plain(GroupKind::tp, 1, 4, &direct);
  call_everything(plain);
  TracedCommunicator tracing(GroupKind::tp, std::make_unique<CostCommunicator>(GroupKind::tp, 1, 4, nullptr), traced);
  call_everything(tracing);
  EXPECT_EQ(calls_in(traced), calls_in(direct));
  EXPECT_GT(calls_in(direct).size(), 8U);
}

}  // namespace
}  // namespace trireme
