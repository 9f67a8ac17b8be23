// Formats a Summary: the lines at the end of a run, and summary.json.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "telemetry/summary.h"
#include "telemetry/task_scores.h"

namespace trireme {
namespace {

std::string left_out_text(const Summary& summary) {
  std::string text;
  for (size_t reason = 0; reason < kLeftOutReasons; ++reason) {
    if (summary.left_out[reason] == 0) continue;
    fmt::format_to(std::back_inserter(text), "{}{} {}", text.empty() ? "; left out: " : ", ", summary.left_out[reason],
                   name_of(static_cast<LeftOut>(reason)));
  }
  return text;
}

std::string result_text(const Summary& summary) {
  std::string text = fmt::format("{} steps, {} tokens in {}", summary.steps, format_count(static_cast<double>(summary.tokens)),
                                 format_duration(summary.wall_seconds));
  if (summary.steps_done > summary.steps) text += fmt::format(" ({} steps since the run began)", summary.steps_done);
  if (summary.final_loss) text += fmt::format("; loss {:.4f}", *summary.final_loss);
  if (summary.loss_scale) text += fmt::format(" with loss scale {:g}", *summary.loss_scale);
  if (summary.validation) {
    text += fmt::format(", validation {:.4f} after step {}", summary.validation->loss, summary.validation->steps_done);
  }
  return text;
}

std::string data_wait_text(const Summary& summary) {
  if (summary.data_wait_steps == 0) return "";
  return fmt::format(", {} waited for data, {} in all", summary.data_wait_steps, format_seconds(summary.data_wait_seconds));
}

// Ranks wait for each other in every step, so their times differ little; the longest is reported too.
std::string slowest_text(const Summary& summary) {
  if (summary.end.ranks.size() < 2) return "";
  const RankEnd* slowest = summary.slowest_rank();
  return fmt::format(", slowest rank {} with {}", slowest->rank, format_seconds(slowest->mean_seconds));
}

std::string speed_text(const Summary& summary) {
  if (summary.averaged == 0) return "no step to average" + left_out_text(summary);
  return fmt::format("{} per step (median {}, 95th percentile {}{}), {} tokens/s; mean of {} steady steps, {} to {}{}{}",
                     format_seconds(summary.mean_seconds), format_seconds(summary.median_seconds),
                     format_seconds(summary.percentile95_seconds), slowest_text(summary),
                     format_count(std::round(summary.tokens_per_second)), summary.averaged, summary.first_averaged,
                     summary.last_averaged, data_wait_text(summary), left_out_text(summary));
}

std::string rates_text(const Summary& summary) {
  const std::string rate = fmt::format("{} per device by the {} formula", format_flops(summary.tflops_per_device * 1e12),
                                       name_of(summary.rates.formula));
  const DevicePeak& peak = summary.rates.peak;
  if (peak.tflops == 0) return rate + ", no MFU: the peak of this device is not known";
  return fmt::format("{}, MFU {:.1f}% of {} ({}){}", rate, summary.mfu * 100, format_flops(peak.tflops * 1e12), peak.name,
                     impossible_mfu_text(summary.mfu));
}

std::string memory_text(const Summary& summary) {
  const auto amount = [](int64_t bytes) { return bytes > 0 ? format_bytes(bytes) : "not known"; };
  return fmt::format("announced {}, measured peak {}", amount(summary.end.memory_announced), amount(summary.most_memory()));
}

std::string saves_text(const SaveTimes& saves) {
  if (saves.count == 0) return "";
  return fmt::format("; a checkpoint delays training by {}, {} at most",
                     format_seconds(saves.exposed_seconds / static_cast<double>(saves.count)),
                     format_seconds(saves.most_exposed_seconds));
}

// Ranks that were slow when the run ended.
std::string slow_text(const std::vector<StragglerNote>& notes) {
  std::string text;
  for (size_t i = 0; i < notes.size(); ++i) {
    const StragglerFinding& finding = notes[i].finding;
    const auto is_later = [&](const StragglerNote& note) { return note.finding.rank == finding.rank; };
    if (std::any_of(notes.begin() + static_cast<std::ptrdiff_t>(i) + 1, notes.end(), is_later)) continue;
    if (finding.kind == StragglerFinding::Kind::recovered) continue;
    text += fmt::format("{}rank {} since step {}: {:.0f}% more compute than its peers, {:.0f}% of every step",
                        text.empty() ? "" : "; ", finding.rank, notes[i].step, finding.excess * 100, finding.cost * 100);
  }
  return text;
}

nlohmann::ordered_json json_of(const StragglerNote& note) {
  const StragglerFinding& finding = note.finding;
  return {{"step", note.step},
          {"rank", finding.rank},
          {"slow", finding.kind == StragglerFinding::Kind::slow},
          {"compute_seconds", finding.seconds},
          {"peer_compute_seconds", finding.peer_seconds},
          {"excess", finding.excess},
          {"cost", finding.cost}};
}

std::string places_text(const RunEnd& end) {
  std::string text;
  for (const Place& place : end.places) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", place.label, place.path);
  return text;
}

}  // namespace

std::string Summary::text() const {
  std::string text;
  const auto line = [&](std::string_view label, const std::string& content) {
    if (!content.empty()) fmt::format_to(std::back_inserter(text), "{:<8}{}\n", label, content);
  };
  line("done", result_text(*this));
  line("speed", speed_text(*this));
  if (averaged > 0) line("rates", rates_text(*this));
  if (end.prediction) {
    line("plan", end.prediction->text(averaged > 0 ? median_seconds : 0));
    line("parts", end.prediction->rows_text());
  }
  if (end.memory_announced > 0 || most_memory() > 0) line("memory", memory_text(*this));
  if (end.time) line("time", end.time->text() + saves_text(end.saves));
  line("slow", slow_text(end.stragglers));
  line("files", places_text(end));
  line("next", end.next_command);
  return text;
}

nlohmann::ordered_json Summary::json() const {
  nlohmann::ordered_json json;
  json["steps"] = steps;
  json["steps_done"] = steps_done;
  json["consumed_samples"] = consumed_samples;
  json["tokens"] = tokens;
  json["wall_seconds"] = wall_seconds;
  json["final_loss"] = final_loss ? nlohmann::ordered_json(*final_loss) : nullptr;
  if (loss_scale) json["loss_scale"] = *loss_scale;
  json["validation_loss"] = validation ? nlohmann::ordered_json(validation->loss) : nullptr;
  json["validation_steps_done"] = validation ? nlohmann::ordered_json(validation->steps_done) : nullptr;
  json["task_scores"] = task_scores ? json_of(*task_scores) : nlohmann::ordered_json(nullptr);

  json["averaged_steps"] = averaged;
  json["first_averaged_step"] = averaged > 0 ? nlohmann::ordered_json(first_averaged) : nullptr;
  json["last_averaged_step"] = averaged > 0 ? nlohmann::ordered_json(last_averaged) : nullptr;
  for (size_t reason = 0; reason < kLeftOutReasons; ++reason) {
    std::string key = name_of(static_cast<LeftOut>(reason));
    std::ranges::replace_if(
        key, [](char c) { return c == ' ' || c == '-'; }, '_');
    json["left_out_steps"][key] = left_out[reason];
  }
  // Without averaged steps the rate is null, which differs from a rate of 0.
  const auto rate = [&](double value) { return averaged > 0 ? nlohmann::ordered_json(value) : nullptr; };
  json["step_seconds"]["mean"] = rate(mean_seconds);
  json["step_seconds"]["median"] = rate(median_seconds);
  json["step_seconds"]["percentile95"] = rate(percentile95_seconds);
  json["step_seconds"]["min"] = rate(least_seconds);
  json["step_seconds"]["max"] = rate(most_seconds);
  if (const RankEnd* slowest = slowest_rank()) json["step_seconds"]["slowest_rank"] = rate(slowest->mean_seconds);
  json["data_wait"]["steps"] = data_wait_steps;
  json["data_wait"]["seconds"] = data_wait_seconds;
  json["tokens_per_second"] = rate(tokens_per_second);
  json["tflops_per_device"] = rate(tflops_per_device);
  json["mfu"] = rates.peak.tflops > 0 ? rate(mfu) : nullptr;

  json["flops_formula"] = name_of(rates.formula);
  json["flops_per_sample"] = rates.flops_per_sample;
  json["devices"] = rates.devices;
  json["peak_tflops_per_device"] = rates.peak.tflops > 0 ? nlohmann::ordered_json(rates.peak.tflops) : nullptr;
  json["peak_name"] = rates.peak.name;

  if (end.prediction) json["plan"] = end.prediction->json(averaged > 0 ? median_seconds : 0);
  if (end.time) json["time"] = end.time->json();
  json["checkpoints"] = {{"saved", end.saves.count},
                         {"exposed_seconds", end.saves.exposed_seconds},
                         {"most_exposed_seconds", end.saves.most_exposed_seconds}};
  json["stragglers"] = nlohmann::ordered_json::array();
  for (const StragglerNote& note : end.stragglers) json["stragglers"].push_back(json_of(note));
  json["memory_announced_bytes"] = end.memory_announced;
  json["memory_measured_bytes"] = most_memory();
  json["places"] = nlohmann::ordered_json::object();
  for (const Place& place : end.places) json["places"][place.label] = place.path;
  json["next_command"] = end.next_command;
  return json;
}

}  // namespace trireme
