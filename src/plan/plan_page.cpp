#include "plan/plan_page.h"

#include <fmt/format.h>
#include <plan_page_script.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "report/page_frame.h"
#include "train/run_size.h"

namespace trireme {
namespace {

constexpr int kColours = 8;  // that the style has

template <class... Args>
void add(std::string& html, fmt::format_string<Args...> text, Args&&... args) {
  fmt::format_to(std::back_inserter(html), text, std::forward<Args>(args)...);
}

int64_t microseconds(double seconds) { return std::llround(1e6 * seconds); }

// ------------------------------------------------------------------------------------------------------------- figures

std::string tile(std::string_view title, std::string_view figure, std::string_view how) {
  return fmt::format("<div class=tile><dt>{}</dt><dd><div class=figure>{}</div><div class=how>{}</div></dd></div>\n",
                     html_escaped(title), html_escaped(figure), html_escaped(how));
}

std::string tiles_of(const RunPlan& plan) {
  const double tflops = plan.tflops_per_gpu();
  const int64_t left = plan.memory.left();
  const std::string gpu_memory = format_bytes(plan.memory.gpu.memory);
  std::string html = "<dl class=tiles>\n";
  html += tile("time of a step", format_seconds(plan.step.total),
               fmt::format("{} samples of {} tokens", plan.request.settings.model.global_batch_size,
                           plan.request.settings.model.encoder_seq_length));
  html += tile("speed", format_count(plan.tokens_per_second()) + " tokens/s",
               fmt::format("{:.1f} per GPU", plan.tokens_per_second() / static_cast<double>(plan.request.settings.ranks())));
  html += tile("TFLOP/s per GPU", fmt::format("{:.1f}", tflops),
               fmt::format("model FLOPs by the {} formula", name_of(plan.rates.formula)));
  html += tile("MFU", fmt::format("{:.1f}%", 100 * plan.rates.mfu(tflops)), plan.rates.peak.name);
  html += tile("memory", format_bytes(plan.memory.total),
               left >= 0 ? fmt::format("fits, {} of {} left", format_bytes(left), gpu_memory)
                         : fmt::format("does not fit, {} of {} missing", format_bytes(-left), gpu_memory));
  if (plan.request.tokens > 0)
    html += tile(format_count(plan.request.tokens) + " tokens", fmt::format("{:.1f} days", plan.days()),
                 format_count(plan.gpu_hours()) + " GPU-hours" +
                     (plan.cost() > 0 ? ", cost " + format_count(plan.cost()) : std::string()));
  return html + "</dl>\n";
}

// ---------------------------------------------------------------------------------------------------------------- bars

struct Part {
  std::string label, text;
  double size = 0;
  int colour = 0;
};

// A bar whose parts are as long as their shares of the whole, and a table of them.
std::string stacked_bar(const std::vector<Part>& parts, double whole, std::string_view column, std::string_view share_column) {
  std::string bar = "<div class=stack>", rows;
  for (const Part& part : parts) {
    const std::string label = html_escaped(part.label), share = fmt::format("{:.1f}%", 100 * part.size / whole);
    add(bar, "<span style=\"flex:{:.6f};background:var(--run{})\" title=\"{}: {}, {}\"></span>", part.size / whole, part.colour,
        label, part.text, share);
    add(rows,
        "<tr><th scope=row><i class=spot style=\"background:var(--run{})\"></i>{}</th><td class=number>{}</td><td>{}</td></tr>\n",
        part.colour, label, part.text, share);
  }
  return bar + "</div>\n" +
         fmt::format(
             "<div class=scroll><table><thead><tr><th scope=col>part</th><th scope=col>{}</th><th scope=col>{}</th></tr>"
             "</thead><tbody>\n{}</tbody></table></div>\n",
             column, share_column, rows);
}

// The colours of the parts that the timeline draws too.
int colour_of(const StepPart& part) {
  const std::string_view name = part.name;
  return name == "compute"     ? 0
         : name == "tp"        ? 1
         : name == "cp"        ? 4
         : name == "pp"        ? 5
         : name == "bubble"    ? 7
         : name == "dp"        ? 3
         : name == "optimizer" ? 6
                               : 2;
}

std::string time_parts(const StepTime& step) {
  std::vector<Part> parts;
  for (const StepPart& part : kStepParts)
    if (const double seconds = step.*part.seconds; seconds > 0)
      parts.push_back({part.label, format_seconds(seconds), seconds, colour_of(part)});
  return "<h2>Where the time of a step goes</h2>\n<p class=about>On the stage that works longest.</p>\n" +
         stacked_bar(parts, step.total, "time", "of the step");
}

// -------------------------------------------------------------------------------------------------------------- memory

std::string memory_parts(const TargetPlan& memory) {
  std::vector<Part> parts;
  for (const auto& [label, bytes] : memory.rows)
    if (bytes > 0)
      parts.push_back({label, format_bytes(bytes), static_cast<double>(bytes),
                       static_cast<int>(parts.size() % static_cast<size_t>(kColours))});
  return fmt::format("<h2>Memory</h2>\n<p class=about>Of rank {}, which takes most{}.</p>\n", memory.rank,
                     memory.holdings.empty() ? "" : " and holds " + html_escaped(memory.holdings)) +
         stacked_bar(parts, static_cast<double>(std::max(memory.total, memory.gpu.memory)), "bytes",
                     memory.left() >= 0 ? "of the GPU" : "of what it takes");
}

// An area over the calls of a step.
std::string memory_over_step(const MemoryProfile& profile) {
  constexpr double kWidth = 1200, kHeight = 180;
  const auto columns = profile.over_step.size();
  const double step = kWidth / static_cast<double>(columns);
  const auto peak = static_cast<double>(std::max<int64_t>(profile.peak, 1));
  std::string path = fmt::format("M0 {}", kHeight);
  for (size_t i = 0; i < columns; ++i)
    add(path, "V{:.1f}H{:.1f}", kHeight * (1 - static_cast<double>(profile.over_step[i]) / peak),
        step * static_cast<double>(i + 1));
  std::string html = fmt::format(
      "<figure class=over><figcaption><b>In use over a step</b><span class=unit>up to {}, in {}</span></figcaption>\n"
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" preserveAspectRatio=none role=img aria-label=\"memory in use over a step\">"
      "<path d=\"{}V{:.0f}Z\" style=\"fill:var(--run0);opacity:.55\"></path></svg>\n",
      format_bytes(profile.peak), html_escaped(profile.peak_at), kWidth, kHeight, path, kHeight);
  html += "<p class=under>From the first call of a step to the last. In use means written and still to be read. At the peak: ";
  for (size_t i = 0; i < profile.at_peak.size(); ++i) {
    const MemoryProfile::Alive& alive = profile.at_peak[i];
    add(html, "{}{} {} {}", i == 0 ? "" : ", ", alive.count, html_escaped(alive.name), format_bytes(alive.bytes));
  }
  return html + ".</p></figure>\n";
}

// ------------------------------------------------------------------------------------------------------------ timeline

nlohmann::ordered_json timeline_json(const RunPlan& plan) {
  const Played played = timeline_of(plan.request);
  nlohmann::ordered_json data, stages = nlohmann::ordered_json::array(), after = nlohmann::ordered_json::array();
  std::vector<std::string> kinds;
  int64_t chunks = 1;
  for (const std::vector<PlayedAction>& stage : played.timeline) {
    std::vector<int64_t> fields;
    for (const PlayedAction& one : stage) {
      const auto kind = std::ranges::find(kinds, std::string(name_of(one.action.kind)));
      const auto index = kind - kinds.begin();
      if (kind == kinds.end()) kinds.emplace_back(name_of(one.action.kind));
      chunks = std::max(chunks, one.action.chunk + 1);
      for (const int64_t field : {static_cast<int64_t>(index), one.action.chunk, one.action.micro_batch, microseconds(one.begin),
                                  microseconds(one.end - one.begin)})
        fields.push_back(field);
    }
    stages.push_back(std::move(fields));
  }
  double end = played.length;
  for (const StepPart& part : kStepParts)
    if (const double seconds = plan.step.*part.seconds;
        seconds > 0 &&
        (part.seconds == &StepTime::dp || part.seconds == &StepTime::optimizer || part.seconds == &StepTime::other)) {
      after.push_back({{"label", part.label},
                       {"begin", microseconds(end)},
                       {"length", microseconds(seconds)},
                       {"paint", fmt::format("--run{}", colour_of(part))}});
      end += seconds;
    }
  return {{"total_us", std::max<int64_t>(microseconds(end), 1)},
          {"kinds", kinds},
          {"chunks", chunks},
          {"stages", stages},
          {"after", after}};
}

std::string spot(int colour, std::string_view label) {
  return fmt::format("<i class=spot style=\"background:var(--run{})\"></i>{} ", colour, label);
}

std::string timeline_figure(const nlohmann::ordered_json& timeline) {
  const nlohmann::ordered_json& kinds = timeline.at("kinds");
  const bool splits_backward = std::ranges::find(kinds, name_of(ActionKind::backward_weight)) != kinds.end();
  return "<h2>Timeline of a step</h2>\n<figure id=timeline><figcaption><b>Pipeline stages</b><span class=tools>"
         "<button type=button data-part=\"0 1\">whole</button><button type=button data-part=\"0 .1\">begin</button>"
         "<button type=button data-part=\".9 1\">end</button></span></figcaption>\n"
         "<canvas role=img aria-label=\"what every pipeline stage does over a step\"></canvas><div class=tip hidden></div>\n"
         "<p class=\"under unit\">" +
         spot(0, "forward") + spot(2, splits_backward ? "input gradients" : "backward") +
         (splits_backward ? spot(4, "weight gradients") : "") + spot(3, "DP communication that nothing hides") +
         spot(6, "optimizer") + (timeline.at("chunks") > 1 ? "(later chunks are paler)</p>\n" : "</p>\n") +
         "<noscript><p>The timeline is drawn by a script in this page, which is not allowed to run "
         "here.</p></noscript></figure>\n";
}

}  // namespace

std::string plan_page(const RunPlan& plan, const std::string& name) {
  const PlanRequest& request = plan.request;
  const std::string about =
      fmt::format("{} of {} on {}, {}; software {}", plural(request.settings.ranks(), "GPU"), request.platform.gpu.name,
                  request.platform.name, layout_text(request.settings), request.software.name);
  std::string html = page_begin("trireme plan", fmt::format("{}, planned", name), html_escaped(about));
  html += tiles_of(plan);
  const nlohmann::ordered_json timeline = timeline_json(plan);
  html += timeline_figure(timeline);
  html += time_parts(plan.step);
  html += memory_parts(plan.memory);
  if (plan.memory.step && !plan.memory.step->over_step.empty()) html += memory_over_step(*plan.memory.step);
  return html + page_end("Drag over the timeline to look closer, double-click to go back.", timeline, kPlanScript);
}

}  // namespace trireme
