#include "cli/config_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/terminal.h"
#include "train/run_size.h"
#include "train/schedule_replay.h"

namespace trireme {
namespace {

const char* name_of(const Pipeline& pipeline) {
  switch (pipeline.kind) {
    case ScheduleKind::gpipe:
      return "gpipe";
    case ScheduleKind::zero_bubble:
      return "zb-h1";
    case ScheduleKind::one_forward_one_backward:
      return pipeline.chunks > 1 ? "interleaved 1f1b" : "1f1b";
    case ScheduleKind::forward_only:
      break;
  }
  return "forward only";
}

// Returns f3, b3 or w3: forward, backward or wgrad of micro-batch 3. With several chunks a letter names the chunk.
std::string label(const Pipeline& pipeline, const Action& action) {
  const char kind = action.kind == ActionKind::forward ? 'f' : action.kind == ActionKind::backward_weight ? 'w' : 'b';
  const std::string chunk = pipeline.chunks > 1 ? std::string(1, static_cast<char>('a' + action.chunk % 26)) : "";
  return fmt::format("{}{}{}", kind, action.micro_batch, chunk);
}

const char* colour(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "\033[44;97m";
    case ActionKind::backward_weight:
      return "\033[46;30m";
    default:
      return "\033[42;30m";
  }
}

// A computation takes time in proportion to the layers of its chunk; the unit is the forward pass of the shortest chunk.
Duration layer_time(const ModelSettings& model, int64_t stages) {
  int64_t least = model.layers_of_stage(stages, 0);
  for (int64_t stage = 1; stage < stages; ++stage) least = std::min(least, model.layers_of_stage(stages, stage));
  return [&model, stages, least](int64_t stage, const Action& action) {
    return unit_time(stage, action) * static_cast<double>(model.layers_of_stage(stages, stage)) / static_cast<double>(least);
  };
}

class Drawing {
 public:
  Drawing(const Pipeline& pipeline, const Replay& played) : pipeline_(pipeline), played_(played) {
    for (const auto& stage : played.stages)
      for (const TimedAction& timed : stage) cell_ = std::max(cell_, label(pipeline, timed.action).size() + 1);
  }

  // Prints panels of the terminal's width: all of them if they are few, otherwise the first and the last ones.
  void print(const Terminal& terminal) const {
    constexpr size_t kMostPanels = 6;
    const size_t margin = row_name(pipeline_.stages - 1).size();
    const size_t width = std::max<size_t>((static_cast<size_t>(terminal.columns) - std::min<size_t>(margin, 40)) / cell_, 4);
    const auto units = static_cast<size_t>(std::ceil(played_.length));
    const size_t panels = (units + width - 1) / width;
    for (size_t panel = 0; panel < panels; ++panel) {
      const size_t begin = panel * width;
      if (panels > kMostPanels && panel >= kMostPanels / 2 && panel < panels - kMostPanels / 2) {
        if (panel == kMostPanels / 2) fmt::print("... to {}\n", (panels - kMostPanels / 2) * width);
        continue;
      }
      if (panels > 1) fmt::print("{:<{}}{}\n", "", margin, begin);
      for (size_t stage = 0; stage < played_.stages.size(); ++stage)
        fmt::print("{}{}\n", row_name(static_cast<int64_t>(stage)),
                   row(stage, begin * cell_, std::min(begin + width, units) * cell_, terminal.colour));
    }
  }

 private:
  static std::string row_name(int64_t stage) { return fmt::format("stage {:<2} ", stage); }

  // Returns characters begin .. end - 1 of a stage's line.
  std::string row(size_t stage, size_t begin, size_t end, bool in_colour) const {
    std::string line;
    size_t at = begin;
    const auto column = [&](double time) { return static_cast<size_t>(std::llround(time * static_cast<double>(cell_))); };
    for (const TimedAction& timed : played_.stages[stage]) {
      const size_t from = std::max(column(timed.begin), begin), to = std::min(column(timed.end), end);
      if (from >= to) continue;
      line.append(from - at, '.');
      std::string text = label(pipeline_, timed.action);
      const size_t whole = column(timed.end) - column(timed.begin);
      text.resize(std::max<size_t>(whole, 1) - 1, in_colour ? ' ' : '-');
      text += ' ';
      text = text.substr(from - column(timed.begin), to - from);
      line += in_colour ? colour(timed.action.kind) + text + "\033[0m" : text;
      at = to;
    }
    line.append(end - at, '.');
    return line;
  }

  const Pipeline& pipeline_;
  const Replay& played_;
  size_t cell_ = 2;  // characters per unit of time
};

std::vector<int64_t> layers_by_stage(const ModelSettings& model, int64_t stages) {
  std::vector<int64_t> layers;
  for (int64_t stage = 0; stage < stages; ++stage) layers.push_back(model.layers_of_stage(stages, stage));
  return layers;
}

bool is_even(const std::vector<int64_t>& layers) { return std::ranges::count(layers, layers[0]) == std::ssize(layers); }

void draw(const Settings& settings, const Pipeline& pipeline, const Replay& played) {
  const std::vector<int64_t> layers = layers_by_stage(settings.model, pipeline.stages);
  fmt::print("{}: {} pipeline rank{}, {} micro-batch{} per step, ", name_of(pipeline), pipeline.stages,
             pipeline.stages == 1 ? "" : "s", pipeline.micro_batches, pipeline.micro_batches == 1 ? "" : "es");
  if (pipeline.chunks > 1) fmt::print("{} chunks per rank, ", pipeline.chunks);
  if (is_even(layers))
    fmt::print("{} layer{} per rank\n", layers[0], layers[0] == 1 ? "" : "s");
  else
    fmt::print("layers {}\n", fmt::join(layers, ", "));
  fmt::print("bubble {:.1f}% of the work", 100 * played.bubble());
  if (is_even(layers)) fmt::print(" (closed form {:.1f}%)", 100 * closed_form_bubble(pipeline));
  fmt::print(", {} messages, {:g} units of time\n", played.messages, played.length);
  Drawing(pipeline, played).print(detect_terminal(STDOUT_FILENO));
  fmt::print("f forward, b backward{}; number: micro-batch{}\n",
             pipeline.kind == ScheduleKind::zero_bubble ? " of activations, w of weights" : "",
             pipeline.chunks > 1 ? "; letter: chunk" : "");
}

nlohmann::ordered_json as_json(const Settings& settings, const Pipeline& pipeline, const Replay& played) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const auto& stage : played.stages) {
    nlohmann::ordered_json actions = nlohmann::ordered_json::array();
    for (const TimedAction& timed : stage)
      actions.push_back({{"action", name_of(timed.action.kind)},
                         {"micro_batch", timed.action.micro_batch},
                         {"chunk", timed.action.chunk},
                         {"begin", timed.begin},
                         {"end", timed.end}});
    stages.push_back(std::move(actions));
  }
  const std::vector<int64_t> layers = layers_by_stage(settings.model, pipeline.stages);
  return {{"schedule", name_of(pipeline)},
          {"pipeline_ranks", pipeline.stages},
          {"chunks", pipeline.chunks},
          {"micro_batches", pipeline.micro_batches},
          {"layers", layers},
          {"bubble", played.bubble()},
          {"bubble_closed_form",
           is_even(layers) ? nlohmann::ordered_json(closed_form_bubble(pipeline)) : nlohmann::ordered_json(nullptr)},
          {"messages", played.messages},
          {"units", played.length},
          {"stages", stages}};
}

}  // namespace

void print_schedule(const Settings& settings, ScheduleFormat format) {
  const int64_t stages = settings.model.pipeline_model_parallel_size;
  const Pipeline pipeline = pipeline_of(settings.model, stages, run_size(settings).micro_batches);
  const Replay played = replay(pipeline, layer_time(settings.model, stages));
  if (format == ScheduleFormat::json)
    print_json(as_json(settings, pipeline, played));
  else
    draw(settings, pipeline, played);
}

}  // namespace trireme
