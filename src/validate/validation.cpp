#include "validate/validation.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/clock.h"
#include "base/process.h"
#include "base/units.h"
#include "plan/usual_cluster.h"
#include "validate/dcgm.h"
#include "validate/fleet_speed.h"
#include "validate/node_survey.h"
#include "validate/pair_test.h"

namespace trireme {
namespace {

// How much each depth measures.
struct Extent {
  double window;                     // seconds of each measurement of a device
  double seconds_per_row;            // of a collective at one size
  int64_t host_bytes, device_bytes;  // the largest collective
  int64_t host_pair, device_pair;    // bytes between the ranks of a pair
};
constexpr int64_t kMiB = 1 << 20;
constexpr Extent kQuick{0.5, 0.01, 1 * kMiB, 128 * kMiB, 1 * kMiB, 64 * kMiB};
constexpr Extent kFull{1.5, 0.05, 32 * kMiB, 8192 * kMiB, 4 * kMiB, 256 * kMiB};

// Pairs of host memory share their cores with other pairs and differ by a factor; links of GPUs of one kind by some percent. CPU
// ranks of one node exchange through its memory: there is no link to judge.
constexpr double kLeastHostPair = 0.3, kLeastDevicePair = 0.8;
constexpr int64_t kLargeBytes = 64 * kMiB;  // from which a collective should reach its bandwidth

class Validation {
 public:
  Validation(RankGroup& here, const ValidationOptions& options)
      : here_(here), options_(options), extent_(options.depth == Depth::quick ? kQuick : kFull) {
    const std::vector<RankPlace>& places = here.control.places();
    for (size_t rank = 0; rank < places.size(); ++rank) {
      auto node = std::ranges::find(report_.nodes, places[rank].host, [](const NodeResult& one) { return one.inventory.node; });
      if (node == report_.nodes.end())
        node = report_.nodes.insert(node, NodeResult{.inventory = {places[rank].host, {}}, .ranks = {}});
      node->ranks.push_back(static_cast<int>(rank));
      if (static_cast<int>(rank) == here.control.rank()) is_first_ = node->ranks.size() == 1;
    }
  }

  ValidationReport run() {
    const Stopwatch watch;
    append_local_time(report_.when, system_clock().unix_microseconds());
    report_.command = command_line();
    take_inventory();
    if (may_measure()) {
      expect_speeds();
      measure_devices();
      if (here_.group.size() > 1) test_collectives(), test_pairs();
      if (here_.group.size() == 1) note("one rank: collectives and pairs need at least two, as in mpirun -n 2 trireme validate");
    }
    report_.seconds = watch.seconds();
    return std::move(report_);
  }

 private:
  bool is_root() const { return here_.control.rank() == 0; }
  bool has_devices() const { return here_.backend.device_memory().has_value(); }
  void note(const std::string& text) { report_.notes.push_back(text); }
  void add(Finding finding) { report_.findings.push_back(std::move(finding)); }
  void say(const std::string& part, double seconds) const {
    if (is_root()) options_.progress(fmt::format("{}: about {}", part, format_duration(std::ceil(seconds))));
  }

  // ------------------------------------------------------------------------------------------------------------- nodes

  void take_inventory() {
    say("inventory", 1);
    if (options_.dcgm_level > 0)
      say(fmt::format("DCGM level {}, where dcgmi is installed", options_.dcgm_level), dcgm_seconds(options_.dcgm_level));
    const std::vector<Facts> facts = survey_nodes(here_.control, {.is_first = is_first_, .dcgm_level = options_.dcgm_level});
    std::vector<NodeFacts> nodes;
    if (is_root())
      for (NodeResult& node : report_.nodes) {
        node.inventory.facts = facts[static_cast<size_t>(node.ranks.front())];
        nodes.push_back(node.inventory);
      }
    if (is_root()) report_.findings = check_inventory(nodes);
    const auto has_no_dcgm = [](const NodeFacts& node) {
      return node.facts.contains("dcgm") && node.facts.at("dcgm") == "not installed";
    };
    if (const auto without = std::ranges::count_if(nodes, has_no_dcgm); without > 0)
      note(fmt::format("DCGM was left out on {}: dcgmi is not installed", plural(without, "node")));
    for (const FolderRequest& folder : options_.folders)
      for (Finding& finding : check_folder(here_.control, is_first_, folder)) add(std::move(finding));
  }

  // All ranks decide as rank 0 does.
  bool may_measure() {
    if (!options_.has_speeds) return false;
    const bool has_fault = std::ranges::find(report_.findings, "dcgm_failed", &Finding::check) != report_.findings.end();
    const bool stops = has_fault && !options_.runs_after_dcgm_fault;
    const bool goes_on = here_.control.share("after_dcgm", stops ? "stop" : "continue") == "continue";
    if (!goes_on) note("devices, collectives and pairs were left out, because DCGM found a fault; --nccl runs them all the same");
    return goes_on;
  }

  // -------------------------------------------------------------------------------------------------------------- speed

  void expect_speeds() {
    std::string name = options_.cluster;
    if (name.empty()) name = usual_cluster_of_device(here_.backend.device_name()).value_or("");
    if (name.empty()) return;
    const WorldSize size{.nodes = static_cast<int>(report_.nodes.size()),
                         .ranks_per_node = static_cast<int>(report_.nodes.front().ranks.size())};
    report_.expected = expectation_of(load_platform(name), size);
  }

  void measure_devices() {
    const double windows = has_devices() ? 4 : 2;
    say("compute and memory", windows * extent_.window + 2);
    FleetSpeed fleet = measure_fleet(here_, {.window = extent_.window, .expected = report_.expected}, options_.progress);
    report_.ranks = std::move(fleet.ranks);
    for (Finding& finding : fleet.findings) add(std::move(finding));
  }

  // The most that every rank has memory for.
  int64_t largest_collective() {
    const int64_t wanted = options_.max_bytes > 0 ? options_.max_bytes
                           : has_devices()        ? extent_.device_bytes
                                                  : extent_.host_bytes;
    const auto memory = here_.backend.device_memory();
    const int sharing = ranks_on_host(here_.control.places(), here_.control.rank());
    const int64_t room = memory ? memory->total - memory->used : available_memory_bytes() / sharing;
    int64_t most = wanted;
    for (const std::string& text : here_.control.gather("room", std::to_string(room)))
      while (most > kMiB && bytes_needed(most) > std::stoll(text) / 10 * 9) most /= 2;
    if (most < wanted) note(fmt::format("collectives up to {}: the memory that is free holds no more", format_bytes(most)));
    return std::stoll(here_.control.share("largest", std::to_string(most)));
  }

  void test_collectives() {
    const CollectiveRequest request{.max_bytes = largest_collective(), .seconds_per_row = extent_.seconds_per_row};
    const double sizes = std::log2(static_cast<double>(request.max_bytes) / 8) + 1;
    const double moved = 30.0 * static_cast<double>(request.max_bytes) * here_.group.size();  // by all rows together, about
    say("collectives", sizes * 9 * (2 * extent_.seconds_per_row + 0.01) + moved / (has_devices() ? 50e9 : 1e9));
    const char* last = "";
    const int ranks = here_.group.size();
    report_.collectives = run_collectives(here_, request, [&](const CollectiveRow& row) {
      if (row.kind.name != last) options_.print(collective_heading(row.kind, ranks));
      last = row.kind.name;
      options_.print(line_of(row, ranks));
    });
    if (!is_root()) return;
    options_.print(closing_lines(report_.collectives, ranks));
    judge_collectives();
  }

  void judge_collectives() {
    for (const CollectiveRow& row : report_.collectives) {
      for (const int rank : row.wrong_ranks)
        add({FindingKind::failure, "wrong_collective", here_.control.places()[static_cast<size_t>(rank)].host,
             fmt::format("rank {}: {} of {}", rank, row.kind.name, format_bytes(row.bytes)), "wrong elements", "none",
             "a device, a card or the memory of a node changes data: run again with half of the nodes"});
      const bool is_large = row.kind.collective == Collective::all_reduce && row.bytes >= kLargeBytes && row.in_place;
      if (!is_large || report_.expected.bus <= 0) continue;
      const double bus = 1e9 * row.algbw(*row.in_place) * bus_factor(row.kind.collective, here_.group.size());
      if (bus < kLeastShare * report_.expected.bus && row.bytes * 2 > report_.collectives.back().bytes)
        add({FindingKind::failure, "busbw", "", fmt::format("busbw of all_reduce of {}", format_bytes(row.bytes)),
             fmt::format("{:.1f} GB/s", bus / 1e9),
             fmt::format("at least {:.1f} GB/s on {}", kLeastShare * report_.expected.bus / 1e9, report_.expected.platform),
             "look at the pairs below; NCCL_DEBUG=INFO says which network NCCL took"});
    }
  }

  // -------------------------------------------------------------------------------------------------------------- pairs

  void test_pairs() {
    PairRequest request{.units = {},
                        .bytes = has_devices() ? extent_.device_pair : extent_.host_pair,
                        .depth = options_.depth,
                        .least = has_devices()              ? kLeastDevicePair
                                 : report_.nodes.size() > 1 ? kLeastHostPair
                                                            : 0};
    if (report_.nodes.size() > 1)
      for (const NodeResult& node : report_.nodes)
        request.units.push_back(node.ranks), report_.units.push_back(node.inventory.node);
    else
      for (int rank = 0; rank < here_.group.size(); ++rank)
        request.units.push_back({rank}), report_.units.push_back(fmt::format("rank {}", rank));
    const int count = static_cast<int>(request.units.size());
    say("pairs", 0.5 * rounds_to_run(count, options_.depth));
    PairResult result = run_pairs(here_, request);
    report_.pairs = std::move(result.rates);
    report_.pair_reference = result.reference;
    if (is_root()) judge_pairs(result.blame, request.least);
  }

  std::string unit_node(int unit) const {
    return report_.nodes.size() > 1 ? report_.units[static_cast<size_t>(unit)] : report_.nodes.front().inventory.node;
  }

  void judge_pairs(const Blame& found, double least) {
    const auto gb = [](double rate) { return fmt::format("{:.3f} GB/s", rate / 1e9); };
    const std::string expected = fmt::format("at least {} (the fleet's usual pair has {})", gb(least * report_.pair_reference),
                                             gb(report_.pair_reference));
    const auto name = [&](int unit) { return report_.units[static_cast<size_t>(unit)]; };
    for (const int unit : found.parts) {
      double best = 0;
      for (const PairRate& one : report_.pairs)
        if (one.pair.first == unit || one.pair.second == unit) best = std::max(best, one.rate);
      add({FindingKind::failure, "network", unit_node(unit), name(unit) + " is slow with its partners", "at best " + gb(best),
           expected, "check the card, its cable and its port: the partners are fast with others"});
    }
    for (const auto* links : {&found.links, &found.unsure})
      for (const PairRate& link : *links)
        add({FindingKind::failure, "link", name(link.pair.first) + kLinkSeparator + name(link.pair.second), "the link is slow",
             gb(link.rate), expected,
             links == &found.links ? "both ends are fast with others: check the switch between them"
                                   : "test with more nodes to tell the ends apart"});
    if (report_.expected.pair <= 0) return;
    const double lowest = kLeastShare * report_.expected.pair;
    if (report_.pair_reference < lowest)
      add({FindingKind::failure, "network", "", "usual bandwidth of a pair", gb(report_.pair_reference),
           fmt::format("at least {} on {}", gb(lowest), report_.expected.platform),
           "NCCL_DEBUG=INFO says which network NCCL took"});
  }

  RankGroup& here_;
  const ValidationOptions& options_;
  const Extent& extent_;
  ValidationReport report_;
  bool is_first_ = false;
};

}  // namespace

ValidationReport run_validation(RankGroup& here, const ValidationOptions& options) { return Validation(here, options).run(); }

}  // namespace trireme
