#include "train/trainer.h"

#include <utility>

#include "base/build_info.h"
#include "base/process.h"
#include "comm/control.h"
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

RunOutcome Trainer::run(StopSignal& stop) {
  claim_folder();
  stop.notice();  // from here on there is a run to resume
  control_.set_watch({});
  open_text_log();
  try {
    announce();
    start();
    open_logs();
    const RunOutcome outcome = train_to_the_end(stop);
    finish(outcome);
    return outcome;
  } catch (const std::exception& error) {
    close_logs({.outcome = RunOutcome::failed, .steps_done = step_, .reason = error.what()});
    throw;
  }
}

// Of the ranks that read the same tokens one counts their targets.
bool Trainer::counts_targets() const { return mesh_.tp->rank() == 0 && mesh_.pp->rank() == 0; }

int64_t Trainer::micro_batches_of(int64_t global_batch) const {
  return div_exact(global_batch, model_.micro_batch_size * mesh_.dp->size());
}

SamplerLayout Trainer::sampler_layout() const {
  return {.micro_batch = model_.micro_batch_size,
          .rank = mesh_.dp->rank(),
          .size = mesh_.dp->size(),
          .cut = {.rank = mesh_.cp->rank(), .ranks = mesh_.cp->size()},
          .documents = documents_};
}

// Where the host is ahead of the device, the results of a step are read when the next one has been enqueued.
RunOutcome Trainer::train_to_the_end(const StopSignal& stop) {
  const Stopwatch watch;
  const double limit = settings_.trainer.max_time;
  const size_t ahead = backend_->runs_ahead() ? 1 : 0;
  while (step_ < settings_.trainer.max_steps) {
    const bool out_of_time = limit > 0 && watch.seconds() >= limit;
    const auto reason = start_one_step({.signal = static_cast<double>(stop.number()), .out_of_time = out_of_time ? 1.0 : 0.0});
    const bool validates = due(settings_.trainer.val_check_interval),
               saves = due(settings_.exp_manager.checkpoint.every_n_train_steps);
    const bool watched = !started_.empty() && started_.back().profiled;  // its time is its own
    finish_steps(reason || validates || saves || watched ? 0 : ahead);
    if (reason && stop.number() != 0) drop_output_nobody_reads();
    if (reason) return *reason;
    if (validates) validate();
    if (saves) save_checkpoint();
  }
  finish_steps(0);
  set_profiling(Profiling::off);  // where the window goes beyond the last step
  return RunOutcome::finished;
}

std::optional<RunOutcome> Trainer::reason_to_stop(const std::vector<StepVote>& votes) {
  for (size_t rank = 0; rank < votes.size(); ++rank)
    if (const int signal = static_cast<int>(votes[rank].signal); signal != 0) {
      const std::string where = votes.size() > 1 ? fmt::format(" on rank {}", rank) : "";
      say(fmt::format("{}{}: saving and leaving; start again with --resume to go on", signal_name(signal), where));
      return RunOutcome::stopped_by_signal;
    }
  if (votes[0].out_of_time == 0) return std::nullopt;  // the clock of rank 0 decides
  say(fmt::format("trainer.max_time is over after {} steps", step_));
  return RunOutcome::out_of_time;
}

std::optional<RunOutcome> Trainer::start_one_step(StepVote vote) {
  if (started_.empty()) last_done_ = system_clock().seconds();
  control_.set_step(step_);
  const int64_t global_batch = global_batch_at(model_, consumed_samples_), micro_batches = micro_batches_of(global_batch);
  const double waited_before = loader_->waited().seconds;
  const int64_t own_targets = loader_->upcoming_targets(micro_batches);
  vote.targets = counts_targets() ? static_cast<double>(own_targets) : 0;
  const std::vector<StepVote>& votes = agreement_.exchange(vote);
  if (const std::optional<RunOutcome> reason = reason_to_stop(votes)) return reason;
  const StepInput input{.learning_rate = learning_rate(model_.optim, settings_.trainer.max_steps, step_),
                        .targets = total_targets(votes),
                        .micro_batches = micro_batches,
                        .batch = [&](int64_t) { return view_of(loader_->next()); }};
  start_step(input);
  consumed_samples_ += global_batch;
  record_.step = step_++;
  record_.consumed_samples = consumed_samples_;
  record_.global_batch_size = global_batch;
  record_.tokens = global_batch * model_.encoder_seq_length;
  record_.learning_rate = input.learning_rate;
  record_.data_wait_seconds = loader_->waited().seconds - waited_before;
  record_.profiled = is_traced(record_.step) || is_profiled(record_.step);
  started_.push_back(record_);
  record_.validation_loss.reset();
  record_.after_checkpoint = false;
  return std::nullopt;
}

void Trainer::finish_steps(size_t left) {
  while (started_.size() > left) {
    const StepResult result = engine_->finish_step();
    StepRecord record = started_.front();
    started_.erase(started_.begin());
    record.step_seconds = result.done_at - std::exchange(last_done_, result.done_at);
    log_step(std::move(record), result);
  }
}

void Trainer::log_step(StepRecord record, const StepResult& result) {
  record.loss = result.loss;
  record.grad_norm = result.grad_norm;
  record.backward_seconds = result.backward_seconds;
  record.skipped = !result.finite;
  record.nonfinite_where = result.nonfinite;
  const MemoryUse memory = memory_in_use();
  record.memory_bytes = memory.now;
  record.peak_memory_bytes = memory.peak;
  telemetry_->step(record);
  if (!result.finite && settings_.trainer.on_nonfinite == OnNonfinite::stop)
    throw Failure("step {}: {}; stopped, because trainer.on_nonfinite=stop", record.step + 1, result.nonfinite);
}

MemoryUse Trainer::memory_in_use() const {
  const auto device = backend_->device_memory();
  return device ? MemoryUse{.now = device->used, .peak = device->used} : memory_use();  // a device's is allocated once
}

void Trainer::validate() {
  if (validation_data_ == nullptr) return;
  const Stopwatch watch;
  const int64_t batches = validation_batches_;
  Loader loader(*validation_data_, sampler_layout(), 0);
  int64_t targets = 0;
  const auto next = [&](int64_t) {
    const Batch& batch = loader.next();
    targets += batch.unmasked_targets;
    return view_of(batch);
  };
  const double loss_sum =
      engine_->evaluate({.micro_batches = micro_batches_of(batches * model_.global_batch_size), .batch = next});
  const auto& votes = agreement_.exchange({.targets = counts_targets() ? static_cast<double>(targets) : 0});
  const double loss = loss_sum / static_cast<double>(total_targets(votes));
  validation_loss_ = record_.validation_loss = loss;
  telemetry_->validation({.steps_done = step_, .loss = loss, .batches = batches, .seconds = watch.seconds()});
}

void Trainer::save_checkpoint() {
  if (writer_ == nullptr || saved_step_ == step_) return;
  finish_saving();
  try {
    writer_->snapshot({.step = step_,
                       .consumed_samples = consumed_samples_,
                       .validation_loss = validation_loss_,
                       .commit = kCommit,
                       .settings = request_.settings_text,
                       .state = {{"updates", engine_->updates()}}});
    saved_step_ = step_;
    record_.after_checkpoint = true;
  } catch (const JobEnded&) {
    throw;
  } catch (const Failure& failure) {
    // Training goes on: the next checkpoint may find room, and the earlier ones are untouched.
    warn(failure.what());
  }
}

void Trainer::finish_saving() {
  if (writer_ == nullptr) return;
  try {
    writer_->wait();
  } catch (const JobEnded&) {
    throw;
  } catch (const Failure& failure) {
    saved_step_ = -1;
    warn(failure.what());
  }
}

}  // namespace trireme
