#include "train/trainer.h"

#include <cmath>
#include <utility>

#include "base/build_info.h"
#include "base/exit_status.h"
#include "base/process.h"
#include "comm/control.h"
#include "train/announcement.h"
#include "train/batch_ramp.h"
#include "train/learning_rate.h"

namespace trireme {
namespace {

HostBatch view_of(const Batch& batch) {
  return {.tokens = batch.tokens,
          .targets = batch.targets,
          .positions = batch.positions,
          .row_keys = batch.row_keys,
          .document_starts = batch.document_starts};
}

}  // namespace

Trainer::Trainer(RunRequest request, World& world) : setup_(std::move(request), world), logs_(setup_), tracer_(setup_) {
  if (setup_.request.make_task_scorer) task_scorer_ = setup_.request.make_task_scorer(setup_);
}

void Trainer::announce() { trireme::announce(setup_, logs_); }

RunOutcome Trainer::run(StopSignal& stop) {
  setup_.claim_folder();
  stop.notice();  // from here on there is a run to resume
  setup_.control.set_watch({});
  logs_.open_text_log();
  try {
    announce();
    watch_.emplace(setup_, logs_);
    start_run(state_, setup_, logs_);
    rehearse_task_scores();
    watch_->begin_training(state_.first_step);
    tracer_.set_first_step(state_.first_step);
    logs_.open(state_.first_step);
    const RunOutcome outcome = train_to_the_end(stop);
    finish(outcome);
    return outcome;
  } catch (const std::exception& error) {
    logs_.close({.outcome = RunOutcome::failed, .steps_done = state_.step, .reason = error.what()});
    if (watch_) watch_->note_failure(error);
    throw;
  }
}

// Where the host is ahead of the device, the results of a step are read when the next one has been enqueued.
RunOutcome Trainer::train_to_the_end(const StopSignal& stop) {
  const Stopwatch watch;
  const double limit = settings_.trainer.max_time;
  const size_t ahead = setup_.backend.runs_ahead() ? 1 : 0;
  while (state_.step < settings_.trainer.max_steps) {
    const bool out_of_time = limit > 0 && watch.seconds() >= limit;
    const auto reason = start_one_step({.signal = stop.number(), .out_of_time = out_of_time});
    const bool validates = due(settings_.trainer.val_check_interval),
               saves = due(settings_.exp_manager.checkpoint.every_n_train_steps), scores = scores_tasks(validates);
    const bool watched = !started_.empty() && started_.back().profiled;  // its time is its own
    const bool checks = watch_->checks_replicas_after(state_.step);
    finish_steps(reason || validates || saves || scores || watched || checks ? 0 : ahead);
    watch_->note_step(state_.step - std::ssize(started_));
    if (reason && stop.number() != 0) drop_output_nobody_reads();
    if (reason) return *reason;
    if (checks && !saves) watch_->check_replicas(*state_.engine, state_.step);
    if (validates) validate();
    if (scores) score_tasks();
    if (saves) save_checkpoint();
  }
  finish_steps(0);
  set_profiling(Profiling::off);  // where the window goes beyond the last step
  return RunOutcome::finished;
}

std::optional<RunOutcome> Trainer::start_one_step(StepVote vote) {
  if (started_.empty()) last_done_ = system_clock().seconds();
  setup_.control.activity().begin_step(state_.step, setup_.backend.runs_ahead() ? RunPhase::device_step : RunPhase::step);
  const int64_t global_batch = global_batch_at(model_, state_.consumed_samples),
                micro_batches = setup_.micro_batches_of(global_batch);
  const double waited_before = data_wait();
  const int64_t own_targets = state_.loader->upcoming_targets(micro_batches);
  vote.targets = setup_.counts_targets() ? own_targets : 0;
  vote.compute_seconds = last_compute_;
  const std::vector<StepVote>& votes = setup_.agreement.exchange(vote);
  watch_->find_stragglers(votes, state_.step, last_step_seconds_);
  if (const std::optional<RunOutcome> reason = reason_to_stop(votes)) return reason;
  // As in NeMo, the learning rate does not move on with a step that the loss scale made overflow.
  const int64_t scheduled = state_.step - state_.overflows;
  const StepInput input{.learning_rate = learning_rate(model_.optim, settings_.trainer.max_steps, scheduled),
                        .targets = total_targets(votes),
                        .micro_batches = micro_batches,
                        .batch = [&](int64_t micro_batch) { return view_of(next_batch(*state_.loader, micro_batch)); }};
  watch_->begin_compute(waited_before);
  start_step(input);
  state_.consumed_samples += global_batch;
  record_.step = state_.step++;
  record_.consumed_samples = state_.consumed_samples;
  record_.global_batch_size = global_batch;
  record_.tokens = global_batch * model_.encoder_seq_length;
  record_.learning_rate = input.learning_rate;
  record_.data_wait_seconds = data_wait() - waited_before;
  record_.profiled = tracer_.is_traced(record_.step) || tracer_.is_profiled(record_.step);
  started_.push_back(record_);
  record_.validation_loss.reset();
  record_.after_checkpoint = record_.after_task_scores = false;
  return std::nullopt;
}

const Batch& Trainer::next_batch(Loader& loader, int64_t micro_batch) {
  ActivityBoard& activity = setup_.control.activity();
  activity.begin_micro_batch(micro_batch);
  const DuringPhase waiting(activity, RunPhase::data);
  return loader.next();
}

std::optional<RunOutcome> Trainer::reason_to_stop(const std::vector<StepVote>& votes) {
  for (size_t rank = 0; rank < votes.size(); ++rank)
    if (const int signal = votes[rank].signal; signal != 0) {
      const std::string where = votes.size() > 1 ? fmt::format(" on rank {}", rank) : "";
      logs_.say(fmt::format("{}{}: saving and leaving; start again with --resume to continue", signal_name(signal), where));
      return RunOutcome::stopped_by_signal;
    }
  if (!votes[0].out_of_time) return std::nullopt;  // the clock of rank 0 decides
  logs_.say(fmt::format("trainer.max_time is over after {} steps", state_.step));
  return RunOutcome::out_of_time;
}

// Steps that are traced or profiled do not overlap others.
void Trainer::start_step(const StepInput& input) {
  const int64_t step = state_.step;
  set_profiling(tracer_.is_profiled(step) ? Profiling::on : Profiling::off);
  if (!tracer_.is_traced(step) || tracer_.is_profiled(step)) return state_.engine->start_step(input);
  finish_steps(0);
  const DuringPhase profiling(setup_.control.activity(), RunPhase::profiling);
  last_done_ = system_clock().seconds();
  tracer_.start_traced_step(step, *state_.engine, input);
}

void Trainer::set_profiling(Profiling wanted) {
  if (wanted == tracer_.profiling()) return;
  finish_steps(0);
  const DuringPhase profiling(setup_.control.activity(), RunPhase::profiling);
  tracer_.set_profiling(wanted);
}

void Trainer::finish_steps(size_t left) {
  while (started_.size() > left) {
    const StepResult result = state_.engine->finish_step();
    StepRecord record = started_.front();
    last_compute_ = record.profiled ? 0 : watch_->end_compute(data_wait());
    started_.erase(started_.begin());
    record.step_seconds = last_step_seconds_ = result.done_at - std::exchange(last_done_, result.done_at);
    log_step(std::move(record), result);
  }
}

void Trainer::log_step(StepRecord record, const StepResult& result) {
  record.loss = result.loss;
  record.grad_norm = result.grad_norm;
  record.backward_seconds = result.backward_seconds;
  record.skipped = !result.finite;
  record.nonfinite_where = result.nonfinite;
  const bool is_scaled = settings_.trainer.precision == Precision::f16;
  const bool is_overflow = is_scaled && !result.finite && std::isfinite(result.loss);
  if (is_scaled) record.loss_scale = result.loss_scale;
  if (is_scaled && !result.finite) state_.overflows += 1;
  const MemoryUse memory = setup_.memory_in_use();
  record.memory_bytes = memory.now;
  record.peak_memory_bytes = memory.peak;
  logs_.telemetry().step(record);
  if (!result.finite && !is_overflow && settings_.trainer.on_nonfinite == OnNonfinite::stop)
    throw Failure("step {}: {}; stopped, because trainer.on_nonfinite=stop", record.step + 1, result.nonfinite);
}

void Trainer::validate() {
  if (setup_.validation_data == nullptr) return;
  const DuringPhase validating(setup_.control.activity(), std::exchange(validation_phase_, RunPhase::validation));
  const Stopwatch watch;
  const int64_t batches = setup_.validation_batches;
  Loader loader(*setup_.validation_data, setup_.sampler_layout(), 0);
  int64_t targets = 0;
  const auto next = [&](int64_t micro_batch) {
    const Batch& batch = next_batch(loader, micro_batch);
    targets += batch.unmasked_targets;
    return view_of(batch);
  };
  const double loss_sum =
      state_.engine->evaluate({.micro_batches = setup_.micro_batches_of(batches * model_.global_batch_size), .batch = next});
  const auto& votes = setup_.agreement.exchange({.targets = setup_.counts_targets() ? targets : 0});
  const double loss = loss_sum / static_cast<double>(total_targets(votes));
  state_.validation_loss = record_.validation_loss = loss;
  logs_.telemetry().validation({.steps_done = state_.step, .loss = loss, .batches = batches, .seconds = watch.seconds()});
}

bool Trainer::scores_tasks(bool validates) const {
  const int64_t interval = model_.validation_tasks.every_n_steps;
  return task_scorer_ != nullptr && (interval > 0 ? due(interval) : validates);
}

// A step's scratch memory is the backend's again afterwards.
void Trainer::rehearse_task_scores() {
  if (task_scorer_ == nullptr) return;
  task_scorer_->rehearse(*state_.engine);
  state_.memory->lend_scratch();
}

void Trainer::score_tasks() {
  const DuringPhase validating(setup_.control.activity(), RunPhase::validation);
  const Stopwatch watch;
  TaskScoresRecord record{.steps_done = state_.step, .scores = task_scorer_->score(*state_.engine)};
  state_.memory->lend_scratch();
  record.seconds = watch.seconds();
  record_.after_task_scores = true;
  if (setup_.is_first()) logs_.telemetry().task_scores(record);
}

void Trainer::save_checkpoint() {
  if (state_.writer == nullptr || state_.saved_step == state_.step) return;
  watch_->check_replicas(*state_.engine, state_.step);
  const DuringPhase saving(setup_.control.activity(), RunPhase::checkpoint);
  const Stopwatch exposed;
  finish_saving(SaveUntil::next_is_free);
  take_snapshot();
  watch_->note_save(exposed.seconds());
}

void Trainer::take_snapshot() {
  try {
    state_.writer->snapshot({.step = state_.step,
                             .consumed_samples = state_.consumed_samples,
                             .validation_loss = state_.validation_loss,
                             .commit = kCommit,
                             .settings = setup_.request.settings_text,
                             .state = {{"updates", state_.engine->updates()}}});
    state_.saved_step = state_.step;
    record_.after_checkpoint = true;
    watch_->recorder().note_saved(state_.step);
  } catch (const JobEnded&) {
    throw;
  } catch (const Failure& failure) {
    // Training goes on: the next checkpoint may find room, and the earlier ones are untouched.
    logs_.warn(failure.what());
  }
}

void Trainer::finish_saving(SaveUntil until) {
  if (state_.writer == nullptr) return;
  try {
    until == SaveUntil::stored ? state_.writer->wait() : state_.writer->wait_until_free();
  } catch (const JobEnded&) {
    throw;
  } catch (const Failure& failure) {
    state_.saved_step = -1;
    logs_.warn(failure.what());
  }
}

void Trainer::finish(RunOutcome outcome) {
  setup_.control.activity().enter(RunPhase::stopping);
  save_checkpoint();
  {
    const DuringPhase saving(setup_.control.activity(), RunPhase::checkpoint);
    finish_saving(SaveUntil::stored);
  }
  const bool unsaved = state_.writer != nullptr && state_.saved_step != state_.step;
  const std::string trouble = unsaved ? fmt::format("the last checkpoint, of step {}, could not be saved", state_.step) : "";
  const Summary summary = logs_.summarise(outcome, state_, *watch_);
  logs_.close({.outcome = unsaved ? RunOutcome::failed : outcome, .steps_done = state_.step, .reason = trouble});
  if (setup_.is_first()) logs_.report(summary);
  if (!unsaved)
    watch_->recorder().end(outcome == RunOutcome::stopped_by_signal ? kStoppedAfterSaving : kDone,
                           fmt::format("after step {}", state_.step));
  tracer_.report(logs_);
  if (!unsaved && state_.writer != nullptr) state_.writer->remove_local_copies();
  setup_.control.share("reported", "");  // a rank that failed before that would cut it short
  if (unsaved) throw Failure(trouble);
}

}  // namespace trireme
