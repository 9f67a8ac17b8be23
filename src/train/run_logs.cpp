#include "train/run_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/build_info.h"
#include "base/json.h"
#include "base/process.h"
#include "base/terminal.h"
#include "base/wrap.h"
#include "comm/control.h"
#include "model/parameter_table.h"
#include "telemetry/console.h"
#include "telemetry/csv.h"
#include "telemetry/mllog.h"
#include "telemetry/task_scores.h"
#include "train/part_seconds.h"
#include "train/run_files.h"
#include "train/run_state.h"
#include "train/run_watch.h"

namespace trireme {
namespace {

// The lines at the end of a run, whose labels are so wide, in 80 columns. The command to type next stays in one line.
std::string fitted(const std::string& text, int label_width) {
  const size_t next = std::min(text.find("\nnext "), text.size());
  return wrapped(text.substr(0, next), kPlainColumns, label_width) + text.substr(next);
}

// The change that gives the same recipe another folder, where it names its own: this run's logs stay.
std::string elsewhere(const ExpManagerSettings& logs) {
  const auto change = [](const char* key, const std::string& value) {
    return " " + shell_word(fmt::format("exp_manager.{}={}-trace", key, value));
  };
  if (!logs.explicit_log_dir.empty()) return change("explicit_log_dir", logs.explicit_log_dir);
  return logs.version.empty() ? "" : change("version", logs.version);
}

}  // namespace

void RunLogs::tell(Severity severity, std::string_view text) {
  if (telemetry_ != nullptr) return telemetry_->message(severity, text);
  if (setup_.is_first()) print_message(severity, text);
  if (text_log_ != nullptr) text_log_->message(severity, text);
}

void RunLogs::open_text_log() {
  const int rank = setup_.world.rank();
  stack_dump_.emplace(setup_.folder.file(fmt::format("stack_globalrank-{}.txt", rank)));
  const Notify only_on_stderr = [this](Severity, std::string_view text) {
    if (setup_.is_first()) print_message(Severity::warning, text);
  };
  // The first rank opens the file that all share before the others do.
  if (!setup_.is_first()) setup_.control.share("logs", "");
  const ErrorLogOf errors = setup_.world.size() == 1 ? ErrorLogOf::one_rank
                            : setup_.is_first()      ? ErrorLogOf::first_rank
                                                     : ErrorLogOf::other_rank;
  text_log_ = std::make_unique<TextLogSink>(
      setup_.folder.file(text_log_name(rank, local_rank_of(setup_.control.places(), rank))).string(),
      setup_.folder.file(kErrorLogName).string(), setup_.settings.trainer.max_steps, only_on_stderr, system_clock(), errors);
  if (!setup_.is_first()) return;
  write_start_files(setup_.folder, setup_.settings.exp_manager,
                    {.recipe_text = setup_.request.settings_text,
                     .hparams_text = setup_.request.hparams_text,
                     .arguments = setup_.request.arguments,
                     .commit = kCommit,
                     .ranks = setup_.mesh.size(),
                     .nodes = setup_.settings.trainer.num_nodes},
                    only_on_stderr);
  setup_.control.share("logs", "");
}

void RunLogs::open(int64_t first_step) {
  const ExpManagerSettings& logs = setup_.settings.exp_manager;
  const TrainerSettings& trainer = setup_.settings.trainer;
  const int64_t planned = trainer.max_steps - first_step;
  telemetry_ = std::make_unique<Telemetry>(TelemetryOptions{.rates = setup_.rates,
                                                            .timing_buffer = logs.step_timing_buffer,
                                                            .planned_steps = planned,
                                                            .log_every_n_steps = trainer.log_every_n_steps});
  const Notify notify = telemetry_->notify();
  telemetry_->add(std::move(text_log_));
  if (setup_.is_first()) add_run_logs(first_step, notify);
  summary_ = &telemetry_->add<SummarySink>(setup_.rates, planned);
}

// The logs that describe the run as a whole.
void RunLogs::add_run_logs(int64_t first_step, const Notify& notify) {
  const ExpManagerSettings& logs = setup_.settings.exp_manager;
  const TrainerSettings& trainer = setup_.settings.trainer;
  const StepTiming timing = logs.log_step_timing ? StepTiming::logged : StepTiming::left_out;
  const int64_t console_steps = trainer.console_every_n_steps > 0 ? trainer.console_every_n_steps : trainer.log_every_n_steps;
  telemetry_->add<Console>(ConsoleOptions{.total_steps = trainer.max_steps, .every_n_steps = console_steps});
  telemetry_->add<LightningLogSink>(setup_.folder.file("lightning_logs.txt").string(), trainer.max_steps, notify);
  telemetry_->add<CsvSink>(setup_.folder.file("metrics.csv").string(), first_step, setup_.rates, notify);
  if (setup_.request.make_task_scorer)
    telemetry_->add<TaskScoresSink>(setup_.folder.file(kTaskScoresName).string(), first_step, notify);
  if (logs.create_dllogger_logger)
    telemetry_->add<DlloggerSink>(setup_.folder.dllogger(logs).string(),
                                  DlloggerOptions{.first_step = first_step, .timing = timing}, setup_.request.logged_parameters,
                                  notify);
  if (logs.create_dllogger_logger && logs.dllogger_stdout) telemetry_->add<DlloggerStdout>(timing);
  if (logs.create_tensorboard_logger)
    tensorboard_ = &telemetry_->add<TensorboardSink>(setup_.folder.path().string(),
                                                     TensorboardOptions{.first_step = first_step, .timing = timing}, notify);
  if (setup_.request.mllog == Mllog::yes)
    telemetry_->add<MllogSink>(setup_.folder.file("mllog.txt").string(),
                               MllogFacts{.global_batch_size = setup_.model.global_batch_size,
                                          .sequence_length = setup_.model.encoder_seq_length,
                                          .steps = trainer.max_steps,
                                          .warmup_steps = static_cast<double>(setup_.model.optim.sched.warmup_steps),
                                          .learning_rate = setup_.model.optim.lr,
                                          .seed = setup_.model.seed},
                               notify);
}

void RunLogs::close(const RunEnding& ending) {
  if (std::exchange(closed_, true)) return;
  if (telemetry_ != nullptr)
    telemetry_->finish(ending);
  else
    text_log_->finish(ending);
  if (!setup_.is_first()) return;
  const Notify notify = [this](Severity severity, std::string_view text) { tell(severity, text); };
  write_end_files(setup_.folder, ending, notify);
}

// ------------------------------------------------------------------------------------------------------------------ end

std::string RunLogs::next_command(RunOutcome outcome, const RunState& state) const {
  if (state.writer == nullptr) return setup_.request.command + " --trace-ops" + elsewhere(setup_.settings.exp_manager);
  if (outcome != RunOutcome::finished) return setup_.request.command + " --resume";
  if (setup_.model.data.is_text())
    return fmt::format("trireme generate {} --prompt \"Once upon a time\"", shell_word(setup_.folder.path().string()));
  return fmt::format("tensorboard --logdir {}", shell_word(setup_.folder.path().string()));
}

// What each rank used; on rank 0 of all of them, elsewhere of none.
void RunLogs::gather_ranks(RunEnd& end) const {
  int64_t announced = setup_.plan.total();
  for (const auto& [label, bytes] : setup_.other_memory) announced += bytes;
  const nlohmann::json own = {
      {"seconds", summary_->mean_seconds()}, {"memory", setup_.memory_in_use().peak}, {"announced", announced}};
  for (const std::string& text : setup_.control.gather("end", json_text(own, kOneLine))) {
    const auto rank = parse_json(text);
    end.ranks.push_back({.rank = std::ssize(end.ranks), .mean_seconds = rank.at("seconds"), .memory_bytes = rank.at("memory")});
    end.memory_announced = std::max(end.memory_announced, rank.at("announced").get<int64_t>());
  }
}

// Of the rank that computed longest; on rank 0.
PartSeconds RunLogs::gather_parts() const {
  const PartSeconds own = part_seconds(setup_.trace);
  nlohmann::json text = nlohmann::json::array();
  for (const auto& [name, seconds] : own) text.push_back({name, seconds});
  PartSeconds longest;
  for (const std::string& of_rank : setup_.control.gather("parts", json_text(text, kOneLine))) {
    PartSeconds parts;
    for (const nlohmann::json& part : parse_json(of_rank)) parts.emplace_back(part.at(0), part.at(1));
    if (longest.empty() || (!parts.empty() && parts.front().second > longest.front().second)) longest = std::move(parts);
  }
  return longest;
}

RunEnd RunLogs::run_end(RunOutcome outcome, const RunState& state, RunWatch& watch) const {
  const ExpManagerSettings& logs = setup_.settings.exp_manager;
  RunEnd end{.ranks = {}, .places = {}, .next_command = next_command(outcome, state)};
  end.prediction = setup_.prediction;
  if (end.prediction) end.prediction->measured_parts = gather_parts();
  gather_ranks(end);
  watch.add_to(end);
  end.places.push_back({"run", setup_.folder.path().string()});
  if (setup_.request.purpose == RunPurpose::benchmark)
    end.places.push_back({"report", setup_.folder.file("benchmark.json").string()});
  if (state.saved_step >= 0)
    end.places.push_back({"checkpoint", (setup_.folder.checkpoints() / checkpoint_name(state.saved_step)).string()});
  if (logs.create_dllogger_logger) end.places.push_back({"dllogger", setup_.folder.dllogger(logs).string()});
  if (logs.create_tensorboard_logger) end.places.push_back({"tensorboard", setup_.folder.path().string()});
  return end;
}

BenchmarkFacts RunLogs::benchmark_facts() const {
  return {.recipe = setup_.request.recipe,
          .command = setup_.request.command,
          .machine = setup_.machine.backend().description(),
          .version = kVersion,
          .commit = kCommit,
          .precision = name_of(setup_.settings.trainer.precision),
          .parameters = parameter_count(parameter_table(setup_.model)),
          .layers = setup_.model.num_layers,
          .width = setup_.model.hidden_size,
          .heads = setup_.model.num_attention_heads,
          .vocabulary = setup_.model.padded_vocabulary(),
          .sequence_length = setup_.model.encoder_seq_length,
          .global_batch_size = setup_.model.global_batch_size,
          .micro_batch_size = setup_.model.micro_batch_size,
          .ranks = setup_.mesh.size(),
          .tensor_parallel = setup_.mesh.tp->size(),
          .pipeline_parallel = setup_.mesh.pp->size(),
          .data_parallel = setup_.mesh.dp->size(),
          .context_parallel = setup_.mesh.cp->size()};
}

void RunLogs::report(const Summary& summary) {
  const bool is_benchmark = setup_.request.purpose == RunPurpose::benchmark;
  const nlohmann::ordered_json json = is_benchmark ? benchmark_json(benchmark_facts(), summary) : summary.json();
  const bool is_news =
      summary.steps > 0 || !std::filesystem::exists(setup_.folder.summary());  // not of a run that was finished before
  if (is_news) write_report(summary.json(), setup_.folder.summary().string(), telemetry_->notify());
  if (is_benchmark) write_report(json, setup_.folder.file("benchmark.json").string(), telemetry_->notify());
  if (setup_.request.report_format == ReportFormat::json)
    print_json(json);
  else if (is_benchmark)
    fmt::print("{}", fitted(benchmark_text(benchmark_facts(), summary), 13));
  else
    fmt::print("{}", fitted(summary.text(), 8));
}

Summary RunLogs::summarise(RunOutcome outcome, const RunState& state, RunWatch& watch) {
  Summary summary = summary_->summary(run_end(outcome, state, watch));
  if (tensorboard_ != nullptr && setup_.settings.exp_manager.log_tflops_per_sec_per_gpu && summary.averaged > 0) {
    // The first is the name of older versions of NeMo, the other two are those of newer ones.
    const int64_t last_step = state.step - 1;
    tensorboard_->scalar("tflops_per_sec_per_gpu", summary.tflops_per_device, last_step);
    tensorboard_->scalar("TFLOPS_per_GPU", summary.tflops_per_device, last_step);
    tensorboard_->scalar("TFLOPS", summary.tflops_per_device * static_cast<double>(setup_.rates.devices), last_step);
  }
  if (tensorboard_ != nullptr && summary.end.time)
    tensorboard_->scalar("goodput", summary.end.time->share(TimeUse::step), state.step - 1);
  return summary;
}

}  // namespace trireme
