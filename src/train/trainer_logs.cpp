// The part of the trainer that speaks: which logs a run has, and what it reports at its end.
#include <fmt/format.h>
#include <unistd.h>

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
#include "train/run_files.h"
#include "train/trainer.h"

namespace trireme {
namespace {

// The lines at the end of a run, whose labels are so wide, in 80 columns. The command to type next stays in one line.
std::string fitted(const std::string& text, int label_width) {
  const size_t next = std::min(text.find("\nnext "), text.size());
  return wrapped(text.substr(0, next), kPlainColumns, label_width) + text.substr(next);
}

// What nobody reads is dropped: it is not a reason to end a run.
void print_to_stderr(Severity severity, std::string_view text) {
  const Terminal terminal = detect_terminal(STDERR_FILENO);
  std::fputs((message_text(severity, text, terminal.columns, terminal) + "\n").c_str(), stderr);
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

void Trainer::tell(Severity severity, std::string_view text) {
  if (telemetry_ != nullptr) return telemetry_->message(severity, text);
  if (is_first()) print_to_stderr(severity, text);
  if (text_log_ != nullptr) text_log_->message(severity, text);
}

void Trainer::open_text_log() {
  const int rank = world_.rank();
  stack_dump_.emplace(folder_.file(fmt::format("stack_globalrank-{}.txt", rank)));
  const Notify only_on_stderr = [this](Severity, std::string_view text) {
    if (is_first()) print_to_stderr(Severity::warning, text);
  };
  // The first rank opens the file that all share before the others do.
  if (!is_first()) control_.share("logs", "");
  const ErrorLogOf errors = world_.size() == 1 ? ErrorLogOf::one_rank
                            : is_first()       ? ErrorLogOf::first_rank
                                               : ErrorLogOf::other_rank;
  text_log_ = std::make_unique<TextLogSink>(folder_.file(text_log_name(rank, local_rank_of(control_.places(), rank))).string(),
                                            folder_.file(kErrorLogName).string(), settings_.trainer.max_steps, only_on_stderr,
                                            system_clock(), errors);
  if (!is_first()) return;
  write_start_files(folder_, settings_.exp_manager,
                    {.recipe_text = request_.settings_text,
                     .hparams_text = request_.hparams_text,
                     .arguments = request_.arguments,
                     .commit = kCommit,
                     .ranks = mesh_.size(),
                     .nodes = settings_.trainer.num_nodes},
                    only_on_stderr);
  control_.share("logs", "");
}

void Trainer::open_logs() {
  const ExpManagerSettings& logs = settings_.exp_manager;
  const TrainerSettings& trainer = settings_.trainer;
  const int64_t planned = trainer.max_steps - step_;
  telemetry_ = std::make_unique<Telemetry>(TelemetryOptions{.rates = rates_,
                                                            .timing_buffer = logs.step_timing_buffer,
                                                            .planned_steps = planned,
                                                            .log_every_n_steps = trainer.log_every_n_steps});
  const Notify notify = telemetry_->notify();
  telemetry_->add(std::move(text_log_));
  if (is_first()) add_run_logs(notify);
  summary_ = &telemetry_->add<SummarySink>(rates_, planned);
}

// The logs that describe the run as a whole.
void Trainer::add_run_logs(const Notify& notify) {
  const ExpManagerSettings& logs = settings_.exp_manager;
  const TrainerSettings& trainer = settings_.trainer;
  const StepTiming timing = logs.log_step_timing ? StepTiming::logged : StepTiming::left_out;
  const int64_t console_steps = trainer.console_every_n_steps > 0 ? trainer.console_every_n_steps : trainer.log_every_n_steps;
  telemetry_->add<Console>(ConsoleOptions{.total_steps = trainer.max_steps, .every_n_steps = console_steps});
  telemetry_->add<LightningLogSink>(folder_.file("lightning_logs.txt").string(), trainer.max_steps, notify);
  telemetry_->add<CsvSink>(folder_.file("metrics.csv").string(), step_, rates_, notify);
  if (logs.create_dllogger_logger)
    telemetry_->add<DlloggerSink>(folder_.dllogger(logs).string(), DlloggerOptions{.first_step = step_, .timing = timing},
                                  request_.logged_parameters, notify);
  if (logs.create_dllogger_logger && logs.dllogger_stdout) telemetry_->add<DlloggerStdout>(timing);
  if (logs.create_tensorboard_logger)
    tensorboard_ = &telemetry_->add<TensorboardSink>(folder_.path().string(),
                                                     TensorboardOptions{.first_step = step_, .timing = timing}, notify);
  if (request_.mllog == Mllog::yes)
    telemetry_->add<MllogSink>(folder_.file("mllog.txt").string(),
                               MllogFacts{.global_batch_size = model_.global_batch_size,
                                          .sequence_length = model_.encoder_seq_length,
                                          .steps = trainer.max_steps,
                                          .warmup_steps = static_cast<double>(model_.optim.sched.warmup_steps),
                                          .learning_rate = model_.optim.lr,
                                          .seed = model_.seed},
                               notify);
}

void Trainer::close_logs(const RunEnding& ending) {
  if (std::exchange(logs_closed_, true)) return;
  if (telemetry_ != nullptr)
    telemetry_->finish(ending);
  else
    text_log_->finish(ending);
  if (!is_first()) return;
  const Notify notify = [this](Severity severity, std::string_view text) { tell(severity, text); };
  write_end_files(folder_, ending, notify);
}

// ------------------------------------------------------------------------------------------------------------------ end

std::string Trainer::next_command(RunOutcome outcome) const {
  if (writer_ == nullptr) return request_.command + " --trace-ops" + elsewhere(settings_.exp_manager);
  if (outcome != RunOutcome::finished) return request_.command + " --resume";
  if (model_.data.data_impl == "text")
    return fmt::format("trireme generate {} --prompt \"Once upon a time\"", shell_word(folder_.path().string()));
  return fmt::format("tensorboard --logdir {}", shell_word(folder_.path().string()));
}

// What each rank used; on rank 0 of all of them, elsewhere of none.
void Trainer::gather_ranks(RunEnd& end) {
  int64_t announced = plan_.total();
  for (const auto& [label, bytes] : other_memory_) announced += bytes;
  const nlohmann::json own = {{"seconds", summary_->mean_seconds()}, {"memory", memory_in_use().peak}, {"announced", announced}};
  for (const std::string& text : control_.gather("end", json_text(own, kOneLine))) {
    const auto rank = parse_json(text);
    end.ranks.push_back({.rank = std::ssize(end.ranks), .mean_seconds = rank.at("seconds"), .memory_bytes = rank.at("memory")});
    end.memory_announced = std::max(end.memory_announced, rank.at("announced").get<int64_t>());
  }
}

RunEnd Trainer::run_end(RunOutcome outcome) {
  const ExpManagerSettings& logs = settings_.exp_manager;
  RunEnd end{.ranks = {}, .places = {}, .next_command = next_command(outcome)};
  gather_ranks(end);
  end.places.push_back({"run", folder_.path().string()});
  if (request_.purpose == RunPurpose::benchmark) end.places.push_back({"report", folder_.file("benchmark.json").string()});
  if (saved_step_ >= 0) end.places.push_back({"checkpoint", (folder_.checkpoints() / checkpoint_name(saved_step_)).string()});
  if (logs.create_dllogger_logger) end.places.push_back({"dllogger", folder_.dllogger(logs).string()});
  if (logs.create_tensorboard_logger) end.places.push_back({"tensorboard", folder_.path().string()});
  return end;
}

BenchmarkFacts Trainer::benchmark_facts() const {
  return {.recipe = request_.recipe,
          .command = request_.command,
          .machine = machine_.backend().description(),
          .version = kVersion,
          .commit = kCommit,
          .precision = settings_.trainer.precision == Precision::bf16 ? "bf16" : "32",
          .parameters = parameter_count(parameter_table(model_)),
          .layers = model_.num_layers,
          .width = model_.hidden_size,
          .heads = model_.num_attention_heads,
          .vocabulary = model_.padded_vocabulary(),
          .sequence_length = model_.encoder_seq_length,
          .global_batch_size = model_.global_batch_size,
          .micro_batch_size = model_.micro_batch_size,
          .ranks = mesh_.size(),
          .tensor_parallel = mesh_.tp->size(),
          .pipeline_parallel = mesh_.pp->size(),
          .data_parallel = mesh_.dp->size(),
          .context_parallel = mesh_.cp->size()};
}

void Trainer::report(const Summary& summary) {
  const bool is_benchmark = request_.purpose == RunPurpose::benchmark;
  const nlohmann::ordered_json json = is_benchmark ? benchmark_json(benchmark_facts(), summary) : summary.json();
  const bool is_news = summary.steps > 0 || !std::filesystem::exists(folder_.summary());  // not of a run that was finished before
  if (is_news) write_report(summary.json(), folder_.summary().string(), telemetry_->notify());
  if (is_benchmark) write_report(json, folder_.file("benchmark.json").string(), telemetry_->notify());
  if (request_.report_format == ReportFormat::json)
    print_json(json);
  else if (is_benchmark)
    fmt::print("{}", fitted(benchmark_text(benchmark_facts(), summary), 13));
  else
    fmt::print("{}", fitted(summary.text(), 8));
}

void Trainer::finish(RunOutcome outcome) {
  save_checkpoint();
  finish_saving();
  const bool unsaved = writer_ != nullptr && saved_step_ != step_;
  const std::string trouble = unsaved ? fmt::format("the last checkpoint, of step {}, could not be saved", step_) : "";
  const Summary summary = summary_->summary(run_end(outcome));
  if (tensorboard_ != nullptr && settings_.exp_manager.log_tflops_per_sec_per_gpu && summary.averaged > 0) {
    // The first is the name of older versions of NeMo, the other two are those of newer ones.
    tensorboard_->scalar("tflops_per_sec_per_gpu", summary.tflops_per_device, step_ - 1);
    tensorboard_->scalar("TFLOPS_per_GPU", summary.tflops_per_device, step_ - 1);
    tensorboard_->scalar("TFLOPS", summary.tflops_per_device * static_cast<double>(rates_.devices), step_ - 1);
  }
  close_logs({.outcome = unsaved ? RunOutcome::failed : outcome, .steps_done = step_, .reason = trouble});
  if (is_first()) report(summary);
  report_trace();
  control_.share("reported", "");  // a rank that failed before that would cut it short
  if (unsaved) throw Failure(trouble);
}

}  // namespace trireme
