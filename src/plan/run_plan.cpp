#include "plan/run_plan.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "train/run_size.h"

namespace trireme {
namespace {

constexpr double kSecondsPerHour = 3600, kHoursPerDay = 24;

PlanCase case_of(const PlanRequest& request) {
  return {request.settings, layers_of(request.settings.model), device_of(request.platform)};
}

DevicePeak peak_of(const PlanRequest& request) {
  const GpuModel& gpu = request.platform.gpu;
  const bool is_fp8 = request.settings.model.fp8.enabled;
  if (request.platform.measured == nullptr)
    return {fmt::format("{}, {} dense", gpu.name, is_fp8 ? "fp8" : "bf16"), is_fp8 ? gpu.fp8_tflops : gpu.bf16_tflops};
  const std::string format = format_of(request.settings);
  const double tflops = is_fp8 ? gpu.fp8_tflops : format == "f32" ? gpu.f32_tflops : gpu.bf16_tflops;
  return {fmt::format("{}, large {} GEMMs as measured", gpu.name, format), tflops};
}

// Ranks share the cores of a machine, so as many must run as were measured.
void require_measured(const PlanRequest& request, const MeasuredMachine& measured) {
  const Settings& settings = request.settings;
  const std::string& name = request.platform.name;
  if (measured.ops_of(settings) == nullptr)
    throw UserError("--cluster {}: {} was not measured there; measure it again with this version, or change trainer.precision",
                    name, format_of(settings));
  const bool knows_network = request.platform.network_bandwidth > 0;
  if (settings.ranks() == measured.ranks || (knows_network && settings.ranks() % measured.ranks == 0)) return;
  throw UserError(
      "--cluster {}: measured with {}, and this run has {}; measure with as many: mpirun -n {} trireme plan --measure", name,
      plural(measured.ranks, "rank"), settings.ranks(), settings.ranks());
}

std::string software_text(const SoftwareProfile& software) {
  if (software.shares.empty()) return fmt::format("software profile {}", software.name);
  return fmt::format("software profile {}, with {}constants of {}", software.name, software.fitted.empty() ? "" : "other ",
                     software.shares);
}

}  // namespace

double RunPlan::tokens_per_second() const {
  const ModelSettings& model = request.settings.model;
  return static_cast<double>(model.global_batch_size * model.encoder_seq_length) / step.total;
}

double RunPlan::tflops_per_gpu() const {
  return rates.tflops_per_device(static_cast<double>(request.settings.model.global_batch_size), step.total);
}

double RunPlan::days() const { return request.tokens / tokens_per_second() / kSecondsPerHour / kHoursPerDay; }
double RunPlan::gpu_hours() const { return days() * kHoursPerDay * static_cast<double>(request.settings.ranks()); }

double RunPlan::cost() const {
  const double price = request.price_per_gpu_hour > 0 ? request.price_per_gpu_hour : request.platform.price_per_gpu_hour;
  return gpu_hours() * price;
}

GpuKind gpu_kind_of(const Platform& platform) {
  const GpuModel& gpu = platform.gpu;
  return {.name = gpu.name,
          .memory = static_cast<int64_t>(gpu.memory_gib * static_cast<double>(int64_t{1} << 30)),
          .threads = platform.measured ? platform.measured->threads : 0};
}

RecordedDevice device_of(const Platform& platform) { return platform.measured ? platform.measured->device : RecordedDevice::gpu; }

void require_timed(const PlanRequest& request) {
  const GpuModel& gpu = request.platform.gpu;
  if (const MeasuredMachine* measured = request.platform.measured.get()) return require_measured(request, *measured);
  if (request.settings.model.fp8.enabled && gpu.fp8_tflops == 0)
    throw UserError("model.fp8=true: {} has no FP8; use model.fp8=false or another --cluster", gpu.name);
}

StepTime step_of(const PlanRequest& request) {
  require_timed(request);
  return step_time(case_of(request), request.platform, request.software);
}

RunPlan plan_of(const PlanRequest& request, TargetPlan memory, const StepTime& step) {
  RunPlan plan{.request = request, .memory = std::move(memory), .step = step};
  plan.rates = {.formula = FlopsFormula::full,
                .flops_per_sample = run_size(request.settings).flops_full,
                .devices = request.settings.ranks(),
                .peak = peak_of(request)};
  return plan;
}

RunPlan plan_run(const PlanRequest& request) {
  const StepTime step = step_of(request);
  return plan_of(request, plan_for_target(request.settings, gpu_kind_of(request.platform)), step);
}

std::string parts_text(const StepTime& step) {
  std::string text;
  for (const StepPart& part : kStepParts) {
    const double seconds = step.*part.seconds;
    if (seconds < 0.0005 * step.total) continue;
    text += fmt::format("{}{} {} ({:.1f}%)", text.empty() ? "" : ", ", part.label, format_seconds(seconds),
                        100 * seconds / step.total);
  }
  return text;
}

std::string text_of(const RunPlan& plan, const std::string& name) {
  const Settings& settings = plan.request.settings;
  const auto ranks = settings.ranks();
  const double tflops = plan.tflops_per_gpu();
  std::string text = fmt::format("run     {} on {}: {} of {}, {}\n", name, plan.request.platform.name, plural(ranks, "GPU"),
                                 plan.request.platform.gpu.name, layout_text(settings));
  text += text_of(plan.memory, settings) + "\n";
  text += fmt::format("step    {}: {}\n", format_seconds(plan.step.total), parts_text(plan.step));
  text += fmt::format("rate    {} tokens/s, {:.1f} per GPU, {:.1f} TFLOP/s per GPU, MFU {:.1f}%\n",
                      format_count(plan.tokens_per_second()), plan.tokens_per_second() / static_cast<double>(ranks), tflops,
                      100 * plan.rates.mfu(tflops));
  text += fmt::format("flops   {}\n", plan.rates.description());
  if (plan.request.tokens > 0) {
    text += fmt::format("time    {} tokens: {:.1f} days, {} GPU-hours", format_count(plan.request.tokens), plan.days(),
                        format_count(plan.gpu_hours()));
    if (plan.cost() > 0) text += fmt::format(", cost {}", format_count(plan.cost()));
    text += "\n";
  }
  const std::string measured = plan.request.platform.measured ? plan.request.platform.summary + "; " : "";
  return text + fmt::format("from    {}{}\n", measured, software_text(plan.request.software));
}

nlohmann::ordered_json json_of(const RunPlan& plan, const std::string& name) {
  nlohmann::ordered_json parts;
  for (const StepPart& part : kStepParts) parts[part.name] = plan.step.*part.seconds;
  const double tflops = plan.tflops_per_gpu();
  nlohmann::ordered_json training = nullptr;
  if (plan.request.tokens > 0) {
    training = {{"tokens", plan.request.tokens}, {"days", plan.days()}, {"gpu_hours", plan.gpu_hours()}};
    training["cost"] = plan.cost() > 0 ? nlohmann::ordered_json(plan.cost()) : nlohmann::ordered_json(nullptr);
  }
  return {{"recipe", name},
          {"cluster", plan.request.platform.name},
          {"gpu", plan.request.platform.gpu.name},
          {"gpus", plan.request.settings.ranks()},
          {"layout", layout_text(plan.request.settings)},
          {"memory", json_of(plan.memory)},
          {"step_s", plan.step.total},
          {"parts_s", parts},
          {"tokens_per_s", plan.tokens_per_second()},
          {"tflops_per_gpu", tflops},
          {"mfu", plan.rates.mfu(tflops)},
          {"flops", plan.rates.description()},
          {"training", training},
          {"software", plan.request.software.name}};
}

Played timeline_of(const PlanRequest& request) {
  const PlanCase plan_case = case_of(request);
  return StepTimer(plan_case, request.platform, request.software).timeline();
}

nlohmann::ordered_json chrome_trace(const PlanRequest& request) {
  const Played played = timeline_of(request);
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (size_t stage = 0; stage < played.timeline.size(); ++stage) {
    events.push_back(
        {{"name", "process_name"}, {"ph", "M"}, {"pid", stage}, {"args", {{"name", fmt::format("stage {}", stage)}}}});
    for (const PlayedAction& played_action : played.timeline[stage])
      events.push_back({{"name", fmt::format("{} {}", name_of(played_action.action.kind), played_action.action.micro_batch)},
                        {"ph", "X"},
                        {"pid", stage},
                        {"tid", played_action.action.chunk},
                        {"ts", 1e6 * played_action.begin},
                        {"dur", 1e6 * (played_action.end - played_action.begin)}});
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

double count_from_text(const std::string& text, const std::string& option) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  const double unit = suffix.empty()  ? 1
                      : suffix == "K" ? 1e3
                      : suffix == "M" ? 1e6
                      : suffix == "B" ? 1e9
                      : suffix == "T" ? 1e12
                                      : 0;
  if (error != std::errc() || unit == 0 || !(value > 0) || value * unit > 1e18)
    throw UserError("{} {}: expected a number such as 300B or 1.4T", option, text);
  return value * unit;
}

std::vector<int64_t> counts_from_text(const std::string& text, const std::string& option) {
  constexpr int64_t kMost = int64_t{1} << 20;
  const auto expected = [&](const std::string& what) { return UserError("{} {}: {}", option, text, what); };
  std::vector<int64_t> counts;
  bool doubles = false;
  for (std::string_view rest = text; !rest.empty() || counts.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (item == "..." && !doubles && !counts.empty() && !rest.empty()) {
      doubles = true;
      continue;
    }
    int64_t count = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), count);
    if (error != std::errc() || end != item.data() + item.size() || count < 1 || count > kMost)
      throw expected("expected numbers from 1 to 1048576, such as 8,16,24 or 8,...,1024");
    if (!counts.empty() && count <= counts.back()) throw expected("the numbers must grow");
    while (doubles && 2 * counts.back() < count) counts.push_back(2 * counts.back());
    if (doubles && 2 * counts.back() != count)
      throw expected(fmt::format("... doubles, and {} doubled is not {}", counts.back(), count));
    doubles = false;
    counts.push_back(count);
  }
  return counts;
}

}  // namespace trireme
