#include "telemetry/mllog.h"

#include <array>

#include "base/python_json.h"

namespace trireme {

using Json = nlohmann::ordered_json;

MllogSink::MllogSink(const std::string& path, const MllogFacts& facts, Notify notify, const Clock& clock)
    : facts_(facts), clock_(clock), file_(path, std::move(notify)) {
  file_.keep_lines([](std::string_view) { return true; });
  const Json none = Json::object();
  write(Event::point, "global_batch_size", facts.global_batch_size, none);
  write(Event::point, "max_sequence_length", facts.sequence_length, none);
  write(Event::point, "max_steps", facts.steps, none);
  write(Event::point, "opt_base_learning_rate", facts.learning_rate, none);
  write(Event::point, "opt_learning_rate_warmup_steps", facts.warmup_steps, none);
  write(Event::point, "seed", facts.seed, none);
  write(Event::begin, "run_start", nullptr, none);
}

void MllogSink::step(const StepRecord& record) {
  samples_ = record.consumed_samples;
  if (!record.logged) return;
  const double samples_per_second =
      record.step_seconds > 0 ? static_cast<double>(record.global_batch_size) / record.step_seconds : 0;
  const Json value{{"throughput", samples_per_second},
                   {"train_step_timing in s", record.step_seconds},
                   {"reduced_train_loss", record.loss},
                   {"lr", record.learning_rate}};
  write(Event::point, "tracked_stats", value, progress());
}

void MllogSink::validation(const ValidationRecord& record) { write(Event::point, "eval_accuracy", record.loss, progress()); }

void MllogSink::finish(const RunEnding& ending) {
  Json metadata = progress();
  metadata["status"] = ending.outcome == RunOutcome::finished ? "success" : "aborted";
  write(Event::end, "run_stop", nullptr, metadata);
}

void MllogSink::write(Event event, std::string_view key, const Json& value, const Json& metadata) {
  static constexpr std::array<const char*, 3> kEvents{"POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"};
  const Json record{{"namespace", ""},
                    {"time_ms", clock_.unix_microseconds() / 1000},
                    {"event_type", kEvents[static_cast<size_t>(event)]},
                    {"key", key},
                    {"value", value},
                    {"metadata", metadata}};
  line_ = ":::MLLOG ";
  append_python_json(line_, record);
  file_.append_line(line_);
}

}  // namespace trireme
