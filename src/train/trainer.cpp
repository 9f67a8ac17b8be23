#include "train/trainer.h"

#include <version.h>

#include "base/process.h"
#include "train/batch_ramp.h"
#include "train/learning_rate.h"

namespace trireme {
namespace {

HostBatch view_of(const Batch& batch) {
  return {.tokens = batch.tokens, .targets = batch.targets, .positions = batch.positions, .row_keys = batch.row_keys};
}

}  // namespace

RunOutcome Trainer::run() {
  folder_.claim();
  open_text_log();
  try {
    announce();
    start();
    open_logs();
    const RunOutcome outcome = train_to_the_end();
    finish(outcome);
    return outcome;
  } catch (const std::exception& error) {
    close_logs({.outcome = RunOutcome::failed, .steps_done = step_, .reason = error.what()});
    throw;
  }
}

RunOutcome Trainer::train_to_the_end() {
  const StopSignal stop;
  const Stopwatch watch;
  while (step_ < settings_.trainer.max_steps) {
    train_one_step();
    if (due(settings_.trainer.val_check_interval)) validate();
    if (due(settings_.exp_manager.checkpoint.every_n_train_steps)) save_checkpoint();
    if (const char* signal = stop.received()) {
      say(fmt::format("{}: saving and leaving; start again with --resume to go on", signal));
      return RunOutcome::stopped_by_signal;
    }
    const double limit = settings_.trainer.max_time;
    if (limit > 0 && watch.seconds() >= limit && step_ < settings_.trainer.max_steps) {
      say(fmt::format("trainer.max_time is over after {} steps", step_));
      return RunOutcome::out_of_time;
    }
  }
  return RunOutcome::finished;
}

void Trainer::train_one_step() {
  const Stopwatch watch;
  const int64_t global_batch = global_batch_at(model_, consumed_samples_);
  const int64_t micro_batches = div_exact(global_batch, model_.micro_batch_size * mesh_.dp->size());
  const double lr = learning_rate(model_.optim, settings_.trainer.max_steps, step_);
  const double waited_before = loader_->waited().seconds;
  const StepResult result = engine_->train_step({.learning_rate = lr,
                                                 .targets = loader_->upcoming_targets(micro_batches),
                                                 .micro_batches = micro_batches,
                                                 .batch = [&](int64_t) { return view_of(loader_->next()); }});
  consumed_samples_ += global_batch;
  record_.step = step_++;
  record_.consumed_samples = consumed_samples_;
  record_.global_batch_size = global_batch;
  record_.tokens = global_batch * model_.encoder_seq_length;
  record_.loss = result.loss;
  record_.grad_norm = result.grad_norm;
  record_.learning_rate = lr;
  record_.step_seconds = watch.seconds();
  record_.data_wait_seconds = loader_->waited().seconds - waited_before;
  record_.skipped = !result.finite;
  record_.nonfinite_where = result.nonfinite;
  const MemoryUse memory = memory_in_use();
  record_.memory_bytes = memory.now;
  record_.peak_memory_bytes = memory.peak;
  telemetry_->step(record_);
  record_.validation_loss.reset();
  record_.after_checkpoint = false;
  if (!result.finite && settings_.trainer.on_nonfinite == OnNonfinite::stop)
    throw Failure("step {}: {}; stopped, because trainer.on_nonfinite=stop", step_, result.nonfinite);
}

MemoryUse Trainer::memory_in_use() const {
  const auto device = backend_->device_memory();
  return device ? MemoryUse{.now = device->used, .peak = device->used} : memory_use();  // a device's is allocated once
}

void Trainer::validate() {
  if (validation_data_ == nullptr) return;
  const Stopwatch watch;
  const int64_t batches = validation_batches_;
  const int64_t micro_batches = batches * model_.global_batch_size / model_.micro_batch_size;
  const SamplerLayout layout{.micro_batch = model_.micro_batch_size, .rank = mesh_.dp->rank(), .size = mesh_.dp->size()};
  Loader loader(*validation_data_, layout, 0);
  int64_t targets = 0;
  const auto next = [&](int64_t) {
    const Batch& batch = loader.next();
    targets += batch.unmasked_targets;
    return view_of(batch);
  };
  const double loss_sum = engine_->evaluate({.micro_batches = micro_batches, .batch = next});
  const double loss = loss_sum / static_cast<double>(targets);
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
                       .commit = TRIREME_COMMIT,
                       .settings = request_.settings_text,
                       .state = {{"updates", engine_->updates()}}});
    saved_step_ = step_;
    record_.after_checkpoint = true;
  } catch (const Failure& failure) {
    // Training goes on: the next checkpoint may find room, and the earlier ones are untouched.
    warn(failure.what());
  }
}

void Trainer::finish_saving() {
  if (writer_ == nullptr) return;
  try {
    writer_->wait();
  } catch (const Failure& failure) {
    saved_step_ = -1;
    warn(failure.what());
  }
}

}  // namespace trireme
