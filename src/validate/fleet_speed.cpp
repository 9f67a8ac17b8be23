#include "validate/fleet_speed.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/units.h"

namespace trireme {
namespace {

// A rate that is judged, with what its line says.
struct JudgedRate {
  const char* check;
  const char* what;
  double DeviceRates::*rate;       // compared with the fleet's
  double DeviceRates::*unlimited;  // compared with the catalogue's, which knows no limits of power
  double Expectation::*expected;
  std::string (*text)(double);
};

std::string rate_text(double bytes) { return fmt::format("{:.2f} GB/s", bytes / 1e9); }

constexpr JudgedRate kJudged[] = {
    {"compute", "GEMM", &DeviceRates::flops, &DeviceRates::burst_flops, &Expectation::flops, format_flops},
    {"memory_bandwidth", "copy", &DeviceRates::bytes, &DeviceRates::bytes, &Expectation::bytes, rate_text},
    {"host_to_device", "host to device", &DeviceRates::to_device, nullptr, nullptr, rate_text},
    {"device_to_host", "device to host", &DeviceRates::to_host, nullptr, nullptr, rate_text},
};

constexpr int kTries = 3;  // a rank is slow if it is in each of them: noise is never at the same rank three times

DType dtype_for(const Backend& backend) { return backend.device_memory() ? DType::bf16 : DType::f32; }
const Tolerance& tolerance_for(const Backend& backend) { return backend.device_memory() ? kDeviceTolerance : kHostTolerance; }

std::vector<DeviceRates> gather_rates(RankGroup& here, double window) {
  const auto start_together = [&] { here.group.barrier(kCompute); };
  const DeviceRates own = measure_device(here.backend, dtype_for(here.backend), window, start_together);
  const nlohmann::json json{own.flops, own.burst_flops, own.bytes, own.to_device, own.to_host};
  std::vector<DeviceRates> all;
  for (const std::string& text : here.control.gather("rates", json_text(json, kOneLine))) {
    const nlohmann::json one = parse_json(text);
    all.push_back({.flops = one[0], .burst_flops = one[1], .bytes = one[2], .to_device = one[3], .to_host = one[4]});
  }
  return all;
}

std::vector<double> column(const std::vector<DeviceRates>& rates, const JudgedRate& judged) {
  std::vector<double> values;
  for (const DeviceRates& one : rates) values.push_back(one.*judged.rate);
  return values;
}

using Suspect = std::pair<size_t, size_t>;  // a row of kJudged, a rank

std::set<Suspect> suspects_of(const std::vector<DeviceRates>& rates, const Tolerance& tolerance) {
  std::set<Suspect> suspects;
  for (size_t row = 0; row < std::size(kJudged); ++row)
    for (const size_t rank : slow_parts(column(rates, kJudged[row]), tolerance)) suspects.insert({row, rank});
  return suspects;
}

Finding slow_finding(const JudgedRate& judged, const std::vector<DeviceRates>& rates, const RankResult& rank,
                     const Tolerance& tolerance) {
  const FleetLimit limit = limit_of(column(rates, judged), tolerance);
  return {FindingKind::failure,
          judged.check,
          rank.node,
          fmt::format("rank {} ({}): {}", rank.rank, rank.device, judged.what),
          judged.text(rank.rates.*judged.rate),
          fmt::format("at least {} (median of {} ranks {})", judged.text(limit.lowest), rates.size(), judged.text(limit.median)),
          "look for other programs, clocks, cooling and the binding of the rank"};
}

void add_catalogue_findings(const FleetRequest& request, FleetSpeed& fleet) {
  for (const RankResult& rank : fleet.ranks)
    for (const JudgedRate& judged : kJudged) {
      if (judged.expected == nullptr) continue;
      const double least = kLeastShare * request.expected.*judged.expected;
      const double rate = rank.rates.*judged.unlimited;
      if (rate >= least || rank.is_slow) continue;
      fleet.findings.push_back({FindingKind::failure, judged.check, rank.node,
                                fmt::format("rank {} ({}): {}", rank.rank, rank.device, judged.what), judged.text(rate),
                                fmt::format("at least {} on {}", judged.text(least), request.expected.platform),
                                "look for other programs, clocks and cooling; --cluster names another platform"});
    }
}

void add_errors(RankGroup& here, FleetSpeed& fleet) {
  const DeviceErrors own = check_device(here.backend, dtype_for(here.backend));
  const nlohmann::json json{own.gemm, own.memory, here.backend.device_name()};
  for (const std::string& text : here.control.gather("device_errors", json_text(json, kOneLine))) {
    const nlohmann::json one = parse_json(text);
    RankResult& rank = fleet.ranks.emplace_back();
    rank.rank = static_cast<int>(fleet.ranks.size()) - 1;
    rank.node = here.control.places()[static_cast<size_t>(rank.rank)].host;
    rank.errors = {.gemm = one[0], .memory = one[1]};
    rank.device = one[2] == "" ? "CPU" : one[2].get<std::string>();
    const auto say = [&](const char* check, const std::string& what, int64_t wrong) {
      if (wrong > 0)
        fleet.findings.push_back({FindingKind::failure, check, rank.node,
                                  fmt::format("rank {} ({}): {}", rank.rank, rank.device, what), fmt::format("{} wrong", wrong),
                                  "none", "the device computes wrong: drain the node"});
    };
    say("wrong_results", "rows of an exact GEMM", rank.errors.gemm);
    say("wrong_memory", "copied numbers", rank.errors.memory);
  }
}

}  // namespace

FleetSpeed measure_fleet(RankGroup& here, const FleetRequest& request, const std::function<void(const std::string&)>& progress) {
  FleetSpeed fleet;
  add_errors(here, fleet);
  const Tolerance& tolerance = tolerance_for(here.backend);
  std::vector<DeviceRates> rates;
  std::set<Suspect> slow;
  for (int round = 0; round < kTries; ++round) {
    rates = gather_rates(here, request.window * (1 << round));
    if (here.control.rank() == 0) {
      const std::set<Suspect> suspects = suspects_of(rates, tolerance);
      std::set<Suspect> still;
      std::ranges::set_intersection(round == 0 ? suspects : slow, suspects, std::inserter(still, still.begin()));
      slow = still;
      if (!slow.empty() && round + 1 < kTries) progress("a rank looks slow: measuring again, longer");
    }
    if (here.control.share("slow_ranks", slow.empty() ? "none" : "some") == "none") break;
  }
  for (size_t rank = 0; rank < fleet.ranks.size(); ++rank) fleet.ranks[rank].rates = rates[rank];
  for (const auto& [row, rank] : slow) {
    fleet.ranks[rank].is_slow = true;
    fleet.findings.push_back(slow_finding(kJudged[row], rates, fleet.ranks[rank], tolerance));
  }
  if (!request.expected.platform.empty()) add_catalogue_findings(request, fleet);
  return fleet;
}

}  // namespace trireme
