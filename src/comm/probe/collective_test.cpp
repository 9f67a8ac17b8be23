#include "comm/probe/collective_test.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "comm/probe/probe_memory.h"

namespace trireme {
namespace {

constexpr std::array kKinds{
    CollectiveKind{Collective::all_reduce, "all_reduce", "sum", -1, false, false, true},
    CollectiveKind{Collective::all_gather, "all_gather", "none", -1, true, true, true},
    CollectiveKind{Collective::reduce_scatter, "reduce_scatter", "sum", -1, true, true, true},
    CollectiveKind{Collective::alltoall, "alltoall", "none", -1, true, true, false},
    CollectiveKind{Collective::broadcast, "broadcast", "none", 0, false, false, true},
    CollectiveKind{Collective::sendrecv, "sendrecv", "none", -1, false, true, false},
};

constexpr int kMostIterations = 20;

// What rank `rank` contributes. 127 is prime, so that a piece at the wrong place shows; sums of thousands of ranks are exact.
float own_value(int rank, int64_t i) { return static_cast<float>(i % 127 + rank + 1); }
float sum_value(int ranks, int64_t i) {
  const int64_t sum = ranks * (i % 127 + 1) + static_cast<int64_t>(ranks) * (ranks - 1) / 2;
  return static_cast<float>(sum);
}

enum class Place : uint8_t { out_of_place, in_place };

// One collective of one size: the tensors, the call, and what it must give.
class Trial {
 public:
  Trial(RankGroup& here, const CollectiveKind& kind, Place place, const Tensor& first, const Tensor& second)
      : here_(here), kind_(kind), place_(place), from_(first), to_(place == Place::in_place ? first : second) {
    const int64_t piece = first.count() / ranks();
    const int64_t own = piece * rank();
    if (kind.collective == Collective::all_gather)
      from_ = place == Place::in_place ? to_.flat_range(own, {piece}) : first.flat_range(0, {piece});
    if (kind.collective == Collective::reduce_scatter)
      to_ = place == Place::in_place ? first.flat_range(own, {piece}) : second.flat_range(0, {piece});
  }

  void fill() {
    if (place_ == Place::out_of_place) fill_values(here_.backend, kCompute, to_, [](int64_t) { return -1.0F; });
    const bool is_silent = kind_.collective == Collective::broadcast && rank() != kind_.root;
    fill_values(here_.backend, kCompute, from_, [&](int64_t i) { return is_silent ? -1.0F : own_value(rank(), i); });
  }

  void call() {
    Communicator& group = here_.group;
    switch (kind_.collective) {
      case Collective::all_reduce:
        return group.all_reduce(kProbeStream, to_, Reduce::sum);
      case Collective::all_gather:
        return group.all_gather(kProbeStream, from_, to_);
      case Collective::reduce_scatter:
        return group.reduce_scatter(kProbeStream, from_, to_, Reduce::sum);
      case Collective::broadcast:
        return group.broadcast(kProbeStream, to_, kind_.root);
      case Collective::alltoall:
        return all_to_all();
      case Collective::sendrecv:
        return exchange({{Message::Way::send, from_, (rank() + 1) % ranks()},
                         {Message::Way::receive, to_, (rank() + ranks() - 1) % ranks()}});
    }
  }

  int64_t wrong() const {
    return count_wrong(here_.backend, kCompute, to_, [this](int64_t i) { return expected(i); });
  }

 private:
  int rank() const { return here_.group.rank(); }
  int ranks() const { return here_.group.size(); }

  void exchange(std::initializer_list<Message> messages) {
    here_.group.exchange(kProbeStream, std::span(messages.begin(), messages.size()));
  }

  // In step s every rank sends to the rank s after it and receives from the one s before it.
  void all_to_all() {
    const int64_t piece = from_.count() / ranks();
    const auto part = [&](const Tensor& whole, int of) { return whole.flat_range(piece * of, {piece}); };
    here_.backend.run(kCompute, Copy{.from = part(from_, rank()), .to = part(to_, rank())});
    here_.backend.wait(kProbeStream, here_.backend.record(kCompute, "own_piece_copied"));
    for (int step = 1; step < ranks(); ++step) {
      const int after = (rank() + step) % ranks(), before = (rank() + ranks() - step) % ranks();
      exchange({{Message::Way::send, part(from_, after), after}, {Message::Way::receive, part(to_, before), before}});
    }
  }

  float expected(int64_t i) const {
    const int64_t piece = std::max<int64_t>(to_.count() / ranks(), 1);
    switch (kind_.collective) {
      case Collective::all_reduce:
        return sum_value(ranks(), i);
      case Collective::reduce_scatter:
        return sum_value(ranks(), i + to_.count() * rank());
      case Collective::all_gather:
        return own_value(static_cast<int>(i / piece), i % piece);
      case Collective::alltoall:
        return own_value(static_cast<int>(i / piece), i % piece + piece * rank());
      case Collective::broadcast:
        return own_value(kind_.root, i);
      case Collective::sendrecv:
        return own_value((rank() + ranks() - 1) % ranks(), i);
    }
    return 0;
  }

  RankGroup& here_;
  const CollectiveKind& kind_;
  Place place_;
  Tensor from_, to_;
};

double timed(RankGroup& here, Trial& trial, int iterations) {
  std::array<double, 2> times{};
  here.group.barrier(kProbeStream);
  here.backend.note_time(kProbeStream, times.data());
  for (int i = 0; i < iterations; ++i) trial.call();
  here.backend.note_time(kProbeStream, &times[1]);
  here.backend.collect_times();
  return (times[1] - times[0]) / iterations;
}

// On rank 0: the average time and all wrong elements; a rank that has some goes to `wrong_ranks`.
CollectiveSide measure(RankGroup& here, Trial trial, double seconds, std::vector<int>& wrong_ranks) {
  trial.fill();
  trial.call();
  wait_for_probe(here.backend);
  const int64_t wrong = trial.wrong();
  const double once = timed(here, trial, 1);
  const double fit = std::clamp(seconds / std::max(once, 1e-9), 1.0, static_cast<double>(kMostIterations));
  const std::string agreed = here.control.share("iterations", fmt::format("{}", static_cast<int>(fit)));
  const double own = timed(here, trial, std::stoi(agreed));
  CollectiveSide side;
  const std::vector<std::string> all = here.control.gather("collective", fmt::format("{} {}", own, wrong));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    double time = 0;
    int64_t elements = 0;
    std::istringstream(all[rank]) >> time >> elements;
    side.seconds += time / static_cast<double>(all.size());
    side.wrong += elements;
    if (elements > 0 && std::ranges::find(wrong_ranks, rank) == wrong_ranks.end()) wrong_ranks.push_back(static_cast<int>(rank));
  }
  return side;
}

std::string side_text(const CollectiveRow& row, const std::optional<CollectiveSide>& side, int ranks) {
  if (!side) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>5}", "N/A", "N/A", "N/A", "N/A");
  const double us = side->seconds * 1e6, algbw = row.algbw(*side);
  const std::string time = us < 100    ? fmt::format("{:.2f}", us)
                           : us < 1000 ? fmt::format("{:.1f}", us)
                                       : fmt::format("{:.0f}", us);
  return fmt::format("  {:>7}  {:>6.2f}  {:>6.2f}  {:>5}", time, algbw, algbw * bus_factor(row.kind.collective, ranks),
                     side->wrong);
}

}  // namespace

std::span<const CollectiveKind> collective_kinds() { return kKinds; }

double bus_factor(Collective collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::alltoall:
      return others;
    case Collective::broadcast:
    case Collective::sendrecv:
      return 1;
  }
  return 1;
}

int64_t bytes_needed(int64_t max_bytes) { return 4 * max_bytes; }

std::vector<CollectiveRow> run_collectives(RankGroup& here, const CollectiveRequest& request,
                                           const std::function<void(const CollectiveRow&)>& done) {
  const int ranks = here.group.size();
  Arena arena("collectives", 2 * round_up(request.max_bytes, Arena::kAlignment),
              [&](int64_t bytes) { return here.backend.allocate(bytes); });
  const int64_t most = request.max_bytes / 4;
  const Tensor first = arena.take({most}, DType::f32), second = arena.take({most}, DType::f32);
  std::vector<CollectiveRow> rows;
  for (const CollectiveKind& kind : kKinds) {
    if (!request.only.empty() && std::ranges::find(request.only, kind.collective) == request.only.end()) continue;
    for (int64_t bytes = request.min_bytes; bytes <= request.max_bytes; bytes *= 2) {
      const int64_t whole = bytes / 4 / (kind.is_cut ? ranks : 1) * (kind.is_cut ? ranks : 1);
      if (whole == 0) continue;
      CollectiveRow row{.kind = kind, .bytes = 4 * whole, .count = kind.is_cut ? whole / ranks : whole};
      const auto run = [&](Place place) {
        return measure(here, Trial(here, kind, place, first.flat_range(0, {whole}), second.flat_range(0, {whole})),
                       request.seconds_per_row, row.wrong_ranks);
      };
      if (kind.out_of_place) row.out_of_place = run(Place::out_of_place);
      if (kind.in_place) row.in_place = run(Place::in_place);
      if (here.group.rank() != 0) continue;
      if (done) done(row);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string collective_heading(const CollectiveKind& kind, int ranks) {
  return fmt::format(
      "# {} over {} ranks, {}\n"
      "#                                                              out-of-place                       in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n",
      kind.name, ranks,
      kind.out_of_place && kind.in_place ? "out of place and in place"
      : kind.in_place                    ? "in place only"
                                         : "out of place only");
}

std::string line_of(const CollectiveRow& row, int ranks) {
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", row.bytes, row.count, "float", row.kind.reduction,
                     row.kind.root, side_text(row, row.out_of_place, ranks), side_text(row, row.in_place, ranks));
}

std::string closing_lines(std::span<const CollectiveRow> rows, int ranks) {
  int64_t wrong = 0, sides = 0;
  double bandwidth = 0;
  for (const CollectiveRow& row : rows)
    for (const auto* side : {&row.out_of_place, &row.in_place}) {
      if (!*side) continue;
      wrong += (*side)->wrong;
      bandwidth += row.algbw(**side) * bus_factor(row.kind.collective, ranks);
      ++sides;
    }
  return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g} \n#\n", wrong, wrong == 0 ? "OK" : "FAILED",
                     sides == 0 ? 0 : bandwidth / static_cast<double>(sides));
}

}  // namespace trireme
