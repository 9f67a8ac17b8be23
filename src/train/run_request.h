// What the user asks of `trireme train`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/settings.h"
#include "telemetry/dllogger.h"
#include "telemetry/step_prediction.h"
#include "train/task_scorer.h"

namespace trireme {

enum class TraceOps : uint8_t { no, yes };
enum class TuneGemms : uint8_t { no, yes };
enum class RunPurpose : uint8_t { training, benchmark };  // how the run ends: with a model, or with a report of its speed
enum class Mllog : uint8_t { no, yes };
enum class ChangedSettings : uint8_t { refused, accepted };  // where they change the mathematics of a run that is resumed
enum class ReportFormat : uint8_t { text, json };

struct RunRequest {
  Settings settings;
  std::string settings_text;             // the resolved recipe as YAML
  std::vector<std::string> notices;      // what the user should know of the recipe, a line each
  LoggedParameters logged_parameters;    // the resolved recipe, flat, for the log files
  std::string hparams_text;              // the model's settings as YAML
  std::string recipe;                    // as the user named it
  std::string command;                   // how the user started this, for "what to type next"
  std::string arguments;                 // exactly how, for the log
  TraceOps trace_ops = TraceOps::no;     // whether a few steps are traced op by op
  TuneGemms tune_gemms = TuneGemms::no;  // whether their plans are compared in the steps
  RunPurpose purpose = RunPurpose::training;
  ChangedSettings changed_settings = ChangedSettings::refused;
  Mllog mllog = Mllog::no;                          // whether MLPerf's log lines are written
  ReportFormat report_format = ReportFormat::text;  // of what is printed at the end
  // If the user asks how long a step should take: answers for the device of that name, which is empty for CPUs.
  std::function<StepPrediction(const std::string& device)> predict = nullptr;
  MakeTaskScorer make_task_scorer = nullptr;  // for model.validation_tasks
};

}  // namespace trireme
