#include "data/prepare/rank.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace trireme::prepare {
namespace {

// Array indices have user-chosen starts and steps; null means start 0 or step 1.
struct IndexRow {
  const char* index;
  const char* count;  // null: --ranks is required
  const char* first;
  const char* step;
};
constexpr IndexRow kIndices[] = {
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP"},
    {"SGE_TASK_ID", nullptr, "SGE_TASK_FIRST", "SGE_TASK_STEPSIZE"},
    {"PBS_ARRAY_INDEX", nullptr, nullptr, nullptr},
    {"AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE", nullptr, nullptr},
    {"JOB_COMPLETION_INDEX", nullptr, nullptr, nullptr},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr, nullptr},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr, nullptr},
};

std::optional<int64_t> number(const Environment& environment, const char* name) {
  if (name == nullptr) return std::nullopt;
  const auto text = environment(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  // Grid Engine sets "undefined" outside an array.
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

Rank find_rank(int64_t rank, int64_t ranks, const Environment& environment) {
  if (rank >= 0) {
    if (ranks < 1) throw UserError("--rank {} needs --ranks, how many there are", rank);
    if (rank >= ranks) throw UserError("--rank {} is not below --ranks {}; ranks count from 0", rank, ranks);
    return {.rank = rank, .ranks = ranks, .source = "--rank"};
  }
  if (ranks == 1) return {};
  for (const IndexRow& row : kIndices) {
    const auto index = number(environment, row.index);
    const auto count = ranks > 1 ? ranks : number(environment, row.count).value_or(1);
    if (!index || count <= 1) continue;
    const int64_t offset = *index - number(environment, row.first).value_or(0);
    const int64_t step = number(environment, row.step).value_or(1);
    if (offset < 0 || step < 1 || offset % step != 0 || offset / step >= count)
      throw UserError("{}={} is none of {} evenly spaced indices; give --rank and --ranks", row.index, *index, count);
    return {.rank = offset / step, .ranks = count, .source = row.index};
  }
  if (ranks > 1) throw UserError("--ranks {} needs --rank, or a job array's index in the environment", ranks);
  return {};
}

}  // namespace trireme::prepare
