#include "validate/pair_test.h"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "comm/probe/probe_memory.h"

namespace trireme {
namespace {

class PairTester {
 public:
  PairTester(RankGroup& here, const PairRequest& request)
      : here_(here),
        request_(request),
        arena_("pairs", 2 * round_up(request.bytes, Arena::kAlignment) + Arena::kAlignment,
               [&](int64_t bytes) { return here.backend.allocate(bytes); }),
        out_(arena_.take({request.bytes / 4}, DType::f32)),
        in_(arena_.take({request.bytes / 4}, DType::f32)),
        number_(arena_.take({1}, DType::f32)) {
    fill_values(here.backend, kCompute, out_, [](int64_t) { return 1.0F; });
    for (size_t unit = 0; unit < request.units.size(); ++unit)
      for (size_t place = 0; place < request.units[unit].size(); ++place)
        if (request.units[unit][place] == here.group.rank()) unit_ = static_cast<int>(unit), place_ = place;
  }

  // All pairs of a round at once; a rank without a partner waits at the next barrier.
  void run_round(const std::vector<Pair>& pairs) {
    here_.group.barrier(kProbeStream);
    wait_for_probe(here_.backend);
    for (const Pair& pair : pairs) {
      const bool is_lower = pair.first == unit_;
      if (!is_lower && pair.second != unit_) continue;
      const std::vector<int>& others = request_.units[static_cast<size_t>(is_lower ? pair.second : pair.first)];
      if (place_ >= others.size()) continue;
      const double rate = best_rate(others[place_]);
      if (is_lower) found_ += fmt::format("{} {} {}\n", pair.first, pair.second, rate);
    }
  }

  // On rank 0 what all ranks found since the last call, by pair.
  std::vector<PairRate> collect() {
    std::map<Pair, double> rates;
    for (const std::string& text : here_.control.gather("pairs", found_)) {
      std::istringstream lines(text);
      for (PairRate one; lines >> one.pair.first >> one.pair.second >> one.rate;) rates[one.pair] += one.rate;
    }
    found_.clear();
    std::vector<PairRate> all;
    for (const auto& [pair, rate] : rates) all.push_back({pair, rate});
    return all;
  }

 private:
  // Both ends make the same calls: the lower rank says how many exchanges the next try has, and 0 when it was the last one. A try
  // is long enough that the time slices of shared cores are averaged.
  double best_rate(int peer) {
    constexpr int kTries = 3;
    constexpr double kSecondsOfTry = 0.05, kLongEnough = 0.25;
    exchange(peer, out_.flat_range(0, {1}), in_.flat_range(0, {1}));  // connects
    double best = 0, sum = 0, once = seconds_of(peer, 1);
    for (int i = 0; i < kTries; ++i) {
      const double wanted = sum < kLongEnough ? std::clamp(kSecondsOfTry / std::max(once, 1e-9), 1.0, 1000.0) : 0;
      const int exchanges = agree(peer, static_cast<int>(wanted));
      if (exchanges == 0) break;
      const double seconds = seconds_of(peer, exchanges);
      best = std::max(best, static_cast<double>(out_.bytes()) * exchanges / std::max(seconds, 1e-9));
      once = seconds / exchanges;
      sum += seconds;
    }
    return best;
  }

  double seconds_of(int peer, int exchanges) {
    std::array<double, 2> times{};
    here_.backend.note_time(kProbeStream, times.data());
    for (int i = 0; i < exchanges; ++i) exchange(peer, out_, in_);
    here_.backend.note_time(kProbeStream, &times[1]);
    here_.backend.collect_times();
    return times[1] - times[0];
  }

  // The lower rank's number on both.
  int agree(int peer, int own) {
    const bool says = here_.group.rank() < peer;
    if (says) fill_values(here_.backend, kCompute, number_, [&](int64_t) { return static_cast<float>(own); });
    const Message message{says ? Message::Way::send : Message::Way::receive, number_, peer};
    here_.group.exchange(kProbeStream, {&message, 1});
    wait_for_probe(here_.backend);
    float number = 0;
    here_.backend.download(kCompute, number_, &number);
    here_.backend.synchronize(here_.backend.record(kCompute, "number_on_host"));
    return static_cast<int>(number);
  }

  void exchange(int peer, const Tensor& out, const Tensor& in) {
    const std::array<Message, 2> both{Message{Message::Way::send, out, peer}, Message{Message::Way::receive, in, peer}};
    here_.group.exchange(kProbeStream, both);
  }

  RankGroup& here_;
  const PairRequest& request_;
  Arena arena_;
  Tensor out_, in_, number_;
  int unit_ = -1;
  size_t place_ = 0;
  std::string found_;
};

std::vector<Pair> shared_pairs(Control& control, const std::vector<Pair>& pairs) {
  std::string text;
  for (const auto& [a, b] : pairs) text += fmt::format("{} {}\n", a, b);
  std::istringstream lines(control.share("suspects", text));
  std::vector<Pair> all;
  for (Pair pair; lines >> pair.first >> pair.second;) all.push_back(pair);
  return all;
}

}  // namespace

PairResult run_pairs(RankGroup& here, const PairRequest& request) {
  constexpr int kMoreTries = 4;
  const int count = static_cast<int>(request.units.size());
  PairTester tester(here, request);
  const auto rounds = pair_rounds(count);
  for (int round = 0; round < rounds_to_run(count, request.depth); ++round) tester.run_round(rounds[static_cast<size_t>(round)]);
  PairResult result{.rates = tester.collect()};
  result.reference = reference_of(result.rates, count);
  const double limit = request.least * result.reference;
  // One at a time, so that no other pair disturbs a slow one.
  for (int i = 0; i < kMoreTries; ++i) {
    for (const Pair& pair : shared_pairs(here.control, slow_pairs(result.rates, limit))) tester.run_round({pair});
    for (const PairRate& again : tester.collect()) {
      const auto known = std::ranges::find(result.rates, again.pair, &PairRate::pair);
      known->rate = std::max(known->rate, again.rate);
    }
  }
  result.blame = blame(result.rates, count, limit);
  return result;
}

}  // namespace trireme
