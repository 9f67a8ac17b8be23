#include "train/engine.h"

#include <cmath>

namespace trireme {

Arenas Arenas::measuring() {
  return {Arena("parameters"), Arena("gradients"), Arena("masters"), Arena("states"), Arena("activations"), Arena("scratch")};
}

Arenas Arenas::like(const Arenas& measured, Backend& backend) {
  const auto real = [&](const Arena& arena) {
    return Arena(arena.name(), arena.peak(), [&](int64_t bytes) { return backend.allocate(bytes); });
  };
  return {real(measured.parameters), real(measured.gradients),   real(measured.masters),
          real(measured.states),     real(measured.activations), real(measured.scratch)};
}

Engine::Engine(EngineSettings settings, Backend& backend, const Mesh& mesh, Arenas& arenas)
    : settings_(std::move(settings)), backend_(backend), layout_(FlatLayout::of(settings_.model)) {
  const ModelSettings& model = settings_.model;
  const DType dtype = activation_dtype(settings_.precision);
  const Tensor weights = arenas.parameters.take({layout_.count}, dtype);
  // In f32 the weights are their own masters.
  const Tensor masters = dtype == DType::f32 ? weights : arenas.masters.take({layout_.count}, DType::f32);
  weights_.emplace(layout_, model, weights);
  masters_.emplace(layout_, model, masters);
  grads_.emplace(layout_, model, backend, mesh, arenas.gradients.take({layout_.count}, DType::f32));
  first_moment_.emplace(layout_, model, arenas.states.take({layout_.count}, DType::f32));
  second_moment_.emplace(layout_, model, arenas.states.take({layout_.count}, DType::f32));
  scalars_ = arenas.states.take({kStepScalars}, DType::f64);
  squares_ = arenas.states.take({static_cast<int64_t>(layout_.table.size())}, DType::f64);
  host_squares_.resize(layout_.table.size());
  for (size_t row = 0; row < layout_.table.size(); ++row) {
    const ParameterRow& parameter = layout_.table[row];
    const double decay = parameter.decay == WeightDecay::yes ? model.optim.weight_decay : 0;
    norm_ranges_.push_back({layout_.offsets[row], parameter.count()});
    decay_ranges_.push_back({layout_.offsets[row], parameter.count(), static_cast<float>(decay)});
  }
  const Dims dims = dims_of(model, model.micro_batch_size, model.encoder_seq_length);
  const int64_t slots = slots_needed(make_schedule(ScheduleKind::one_forward_one_backward, 1, 1, 0));
  gpt_.emplace(model, dims, dtype, backend, mesh, slots, arenas.activations, arenas.scratch);
}

void Engine::initialise_weights() {
  initialise(layout_, settings_.model.seed, backend_, masters_->flat());
  backend_.run(kCompute, Fill{.value = 0, .out = first_moment_->flat()});
  backend_.run(kCompute, Fill{.value = 0, .out = second_moment_->flat()});
  restore_updates(0);
}

void Engine::read_scalars() {
  backend_.download(kCompute, scalars_, host_scalars_.data());
  backend_.synchronize(backend_.record(kCompute, "scalars_read"));
}

int64_t Engine::updates() {
  read_scalars();
  return static_cast<int64_t>(host_scalars_[static_cast<size_t>(StepScalar::updates)]);
}

void Engine::restore_updates(int64_t updates) {
  host_scalars_ = {};
  host_scalars_[static_cast<size_t>(StepScalar::updates)] = static_cast<double>(updates);
  backend_.upload(kCompute, host_scalars_.data(), scalars_);
  if (weights_->views().flat().dtype != DType::f32)
    backend_.run(kCompute, Copy{.from = masters_->flat(), .to = weights_->views().flat()});
}

const std::vector<Action>& Engine::schedule(ScheduleKind kind, int64_t micro_batches) {
  if (kind != schedule_kind_ || micro_batches != schedule_micro_batches_) {
    schedule_ = make_schedule(kind, 1, micro_batches, 0);
    schedule_kind_ = kind;
    schedule_micro_batches_ = micro_batches;
  }
  return schedule_;
}

void Engine::begin(const StepInput& input) {
  static_assert(static_cast<int>(StepScalar::learning_rate) == 0 && static_cast<int>(StepScalar::inverse_targets) == 1);
  host_scalars_[0] = input.learning_rate;
  host_scalars_[1] = input.targets > 0 ? 1.0 / static_cast<double>(input.targets) : 0;
  backend_.upload(kCompute, host_scalars_.data(), scalars_.rows(0, 2));
  backend_.run(kCompute, Fill{.value = 0, .out = scalars_.rows(static_cast<int64_t>(StepScalar::loss_sum), 1)});
}

void Engine::upload_batch(int64_t slot, const HostBatch& host) {
  const DeviceBatch& batch = gpt_->batch(slot);
  backend_.upload(kCopy, host.tokens.data(), batch.tokens);
  backend_.upload(kCopy, host.targets.data(), batch.targets);
  backend_.upload(kCopy, host.positions.data(), batch.positions);
  backend_.upload(kCopy, host.row_keys.data(), batch.row_keys);
  backend_.wait(kCompute, backend_.record(kCopy, "batch_on_device"));
}

void Engine::run(const std::vector<Action>& actions, const StepInput& input) {
  for (const Action& action : actions) {
    switch (action.kind) {
      case ActionKind::forward:
        upload_batch(action.slot, input.batch(action.micro_batch));
        gpt_->forward(action.slot, *weights_, *grads_, scalars_);
        break;
      case ActionKind::backward:
        grads_->begin_micro_batch(action.micro_batch + 1 == input.micro_batches ? MicroBatch::last : MicroBatch::more_follow);
        gpt_->backward(action.slot, *weights_, *grads_);
        break;
      case ActionKind::forward_only:
        upload_batch(action.slot, input.batch(action.micro_batch));
        gpt_->evaluate(action.slot, *weights_, *grads_, scalars_);
        break;
      case ActionKind::receive_forward:
      case ActionKind::send_forward:
      case ActionKind::receive_backward:
      case ActionKind::send_backward:
        CHECK_NEVER("one stage has nobody to talk to");
    }
  }
}

void Engine::optimizer_step() {
  const OptimSettings& optim = settings_.model.optim;
  const Tensor grads = grads_->views().flat();
  backend_.wait(kCompute, backend_.record(kDataParallel, "gradients_reduced"));
  backend_.run(kCompute, SquaredNorms{.ranges = norm_ranges_, .grads = grads, .squares = squares_});
  backend_.run(kCompute, ApplyClip{.max_norm = settings_.gradient_clip, .squares = squares_, .scalars = scalars_});
  backend_.run(kCompute, AdamW{.ranges = decay_ranges_,
                               .beta1 = optim.beta1,
                               .beta2 = optim.beta2,
                               .epsilon = optim.eps,
                               .grads = grads,
                               .scalars = scalars_,
                               .master = masters_->flat(),
                               .m = first_moment_->flat(),
                               .v = second_moment_->flat(),
                               .weights = weights_->views().flat()});
}

StepResult Engine::train_step(const StepInput& input) {
  begin(input);
  backend_.run(kCompute, Fill{.value = 0, .out = grads_->views().flat()});
  run(schedule(ScheduleKind::one_forward_one_backward, input.micro_batches), input);
  optimizer_step();
  return read_result(input.targets);
}

double Engine::evaluate(const StepInput& input) {
  begin(input);
  run(schedule(ScheduleKind::forward_only, input.micro_batches), input);
  read_scalars();
  return host_scalars_[static_cast<size_t>(StepScalar::loss_sum)];
}

StepResult Engine::read_result(int64_t targets) {
  backend_.download(kCompute, squares_, host_squares_.data());
  read_scalars();
  const auto value = [&](StepScalar slot) { return host_scalars_[static_cast<size_t>(slot)]; };
  StepResult result;
  result.loss = value(StepScalar::loss_sum) / static_cast<double>(targets);
  result.grad_norm = value(StepScalar::grad_norm);
  result.finite = value(StepScalar::finite) != 0;
  if (!result.finite) result.nonfinite = locate_nonfinite(result.loss);
  return result;
}

std::string Engine::locate_nonfinite(double loss) const {
  const auto kind = [](double x) { return std::isnan(x) ? "NaN" : "Inf"; };
  std::string where = std::isfinite(loss) ? "" : fmt::format("loss is {}", kind(loss));
  // The table is in the order of backward, so the first bad gradient is where the trouble entered.
  for (size_t row = 0; row < host_squares_.size(); ++row)
    if (!std::isfinite(host_squares_[row]))
      return fmt::format("{}{}gradient of {} is {}", where, where.empty() ? "" : ", ", layout_.table[row].name,
                         kind(host_squares_[row]));
  return where;
}

}  // namespace trireme
