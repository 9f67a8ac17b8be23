#include "validate/node_survey.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "validate/dcgm.h"

namespace trireme {
namespace {

// What the wall clock shows beyond the monotonic one, in seconds.
double wall_offset() { return static_cast<double>(system_clock().unix_microseconds()) * 1e-6 - system_clock().seconds(); }

// Seconds that the wall clock of this machine is ahead of rank 0's. Ranks without a question only take part.
double clock_skew(Control& control, bool asks) {
  const double of_rank_0 = std::strtod(control.share("wall_offset", fmt::format("{:.6f}", wall_offset())).c_str(), nullptr);
  if (!asks || control.rank() == 0) return 0;
  const double skew = wall_offset() - control.offset_to_rank_0() - of_rank_0;
  return std::abs(skew) < 0.001 ? 0 : skew;
}

void add_dcgm(int level, Facts& facts) {
  try {
    const DcgmResult result = run_dcgm(level);
    facts["dcgm"] = result.is_there ? fmt::format("level {}", level) : "not installed";
    std::string all;
    for (const DcgmFault& fault : result.faults)
      all += fmt::format("{}{}{}{}{}{}", all.empty() ? "" : "; ", fault.test, fault.device.empty() ? "" : " on ", fault.device,
                         fault.message.empty() ? "" : ": ", fault.message);
    if (!all.empty()) facts["dcgm_failed"] = all;
  } catch (const Failure& failure) {
    facts["dcgm"] = "failed";
    facts["dcgm_failed"] = failure.what();
  }
}

}  // namespace

std::vector<Facts> survey_nodes(Control& control, const SurveyRequest& request) {
  Facts own;
  const double skew = clock_skew(control, request.is_first);  // before the nodes are busy
  if (request.is_first) {
    own = read_inventory();
    own["clock_skew"] = fmt::format("{:.3f}", skew);
    if (request.dcgm_level > 0) add_dcgm(request.dcgm_level, own);
  }
  std::vector<Facts> all;
  for (const std::string& text : control.gather("facts", json_text(nlohmann::json(own), kOneLine)))
    all.push_back(parse_json(text).get<Facts>());
  return all;
}

}  // namespace trireme
