#include "train/engine.h"

#include <cmath>
#include <exception>

namespace trireme {

namespace {

RankShard shard_of(const Mesh& mesh) {
  return {.tp_rank = mesh.tp->rank(),
          .tp_size = mesh.tp->size(),
          .pp_rank = mesh.pp->rank(),
          .pp_size = mesh.pp->size(),
          .dp_rank = mesh.dp->rank(),
          .dp_size = mesh.dp->size()};
}

}  // namespace

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
    : settings_(std::move(settings)), backend_(backend), mesh_(mesh), layout_(FlatLayout::of(settings_.model, shard_of(mesh))) {
  CHECK_EQ(settings_.model.tensor_model_parallel_size, mesh.tp->size());
  const ModelSettings& model = settings_.model;
  const DType dtype = activation_dtype(settings_.precision);
  const Dims dims = dims_of(model, model.micro_batch_size, model.encoder_seq_length, layout_.shard);
  weights_.emplace(layout_, model, backend, arenas.parameters.take({layout_.count}, dtype));
  if (model.fp8.enabled) {
    fp8_.emplace(model, dims, arenas.states);
    weights_->add_fp8_copies(*fp8_, dims, arenas.parameters);
  }
  grads_.emplace(layout_, model, backend, mesh, arenas.gradients.take({layout_.count}, DType::f32));
  if (dtype != DType::f32) masters_ = arenas.masters.take({layout_.state_count}, DType::f32);
  first_moment_ = arenas.states.take({layout_.state_count}, DType::f32);
  second_moment_ = arenas.states.take({layout_.state_count}, DType::f32);
  scalars_ = arenas.states.take({kStepScalars}, DType::f64);
  for (const ParameterRow& row : parameter_table(model)) names_.push_back(row.name);
  squares_ = arenas.states.take({static_cast<int64_t>(names_.size())}, DType::f64);
  host_squares_.resize(names_.size());
  for (const Bucket& bucket : layout_.buckets) ranges_.push_back(ranges_of(bucket));
  const RankShard& shard = layout_.shard;
  // A stage never has more micro-batches alive than there are stages.
  const int64_t slots =
      slots_needed(make_schedule(ScheduleKind::one_forward_one_backward, shard.pp_size, shard.pp_size, shard.pp_rank));
  gpt_.emplace(model, shard, dims, dtype, fp8(), backend, mesh, slots, arenas.activations, arenas.scratch);
  output_sent_.resize(static_cast<size_t>(slots));
  batch_free_.resize(static_cast<size_t>(slots));
}

Engine::~Engine() {
  if (std::uncaught_exceptions() > 0) return;  // the others may be gone too
  try {
    weights_->wait_for_all();
  } catch (const std::exception&) {  // a rank that died: whoever waits next says so
  }
}

// Of the piece of a bucket that this rank owns; places are counted from its beginning.
Engine::BucketRanges Engine::ranges_of(const Bucket& bucket) const {
  BucketRanges ranges;
  for (size_t row = bucket.first_row; row < layout_.table.size(); ++row)
    if (layout_.offsets[row] < bucket.all.begin + bucket.all.count) ranges.norms.push_back({});
  for (const OwnedPart& part : bucket.parts) {
    const ParameterRow& row = layout_.table[part.row];
    const double decay = row.decay == WeightDecay::yes ? settings_.model.optim.weight_decay : 0;
    const int64_t begin = part.flat - bucket.own.begin;
    ranges.decays.push_back({begin, part.count, static_cast<float>(decay)});
    if (!counts(row, layout_.shard)) continue;
    FlatRange& norm = ranges.norms[part.row - bucket.first_row];
    if (norm.count == 0) norm.begin = begin;
    norm.count = begin + part.count - norm.begin;  // the parts of a parameter lie side by side
  }
  return ranges;
}

Tensor Engine::master(const Bucket& bucket) const {
  if (masters_) return masters_.rows(bucket.state, bucket.own.count);
  return weights_->views().flat().rows(bucket.own.begin, bucket.own.count);
}

Tensor Engine::master(const Bucket& bucket, const OwnedPart& part) const {
  return master(bucket).rows(part.state - bucket.state, part.count);
}

void Engine::initialise_weights() {
  for (const Bucket& bucket : layout_.buckets) initialise(layout_, bucket, settings_.model.seed, backend_, master(bucket));
  backend_.run(kCompute, Fill{.value = 0, .out = first_moment_});
  backend_.run(kCompute, Fill{.value = 0, .out = second_moment_});
  if (fp8_) fp8_->clear(backend_);
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
  has_scales_ = updates > 0;
  for (size_t i = 0; i < layout_.buckets.size(); ++i) {
    const Bucket& bucket = layout_.buckets[i];
    const Tensor own = weights_->views().flat().rows(bucket.own.begin, bucket.own.count);
    if (masters_) backend_.run(kCompute, Copy{.from = master(bucket), .to = own});
    weights_->gather(i, *mesh_.dp);
  }
}

const std::vector<Action>& Engine::schedule(ScheduleKind kind, int64_t micro_batches) {
  if (kind != schedule_kind_ || micro_batches != schedule_micro_batches_) {
    schedule_ = make_schedule(kind, layout_.shard.pp_size, micro_batches, layout_.shard.pp_rank);
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

// A token that the tables do not have would go unnoticed, because each rank looks only for those in its part.
void Engine::check_vocabulary(const HostBatch& host) const {
  const int64_t vocabulary = settings_.model.vocab_size;
  for (const int32_t token : host.tokens)
    if (token < 0 || token >= vocabulary) throw Failure("the data has token {}, outside the vocabulary of {}", token, vocabulary);
  for (const int32_t target : host.targets)
    if (target >= vocabulary) throw Failure("the data has token {}, outside the vocabulary of {}", target, vocabulary);
}

void Engine::upload_batch(int64_t slot, const HostBatch& host) {
  check_vocabulary(host);
  const DeviceBatch& batch = gpt_->batch(slot);
  backend_.wait(kCopy, batch_free_[static_cast<size_t>(slot)]);
  backend_.upload(kCopy, host.tokens.data(), batch.tokens);
  backend_.upload(kCopy, host.targets.data(), batch.targets);
  backend_.upload(kCopy, host.positions.data(), batch.positions);
  backend_.upload(kCopy, host.row_keys.data(), batch.row_keys);
  backend_.wait(kCompute, backend_.record(kCopy, "batch_on_device"));
}

void Engine::receive(Stream stream, Tensor values, int from) {
  // The memory may still be read by what was enqueued before.
  backend_.wait(stream, backend_.record(kCompute, "buffer_free"));
  mesh_.pp->receive(stream, values, from);
  backend_.wait(kCompute, backend_.record(stream, "received"));
}

void Engine::send(Stream stream, Tensor values, int to, Event& sent) {
  backend_.wait(stream, backend_.record(kCompute, "ready_to_send"));
  mesh_.pp->send(stream, values, to);
  sent = backend_.record(stream, "sent");
}

// The first micro-batch of the first step is scaled by itself, the others like it. Evaluations leave no scales behind.
void Engine::choose_scaling(const Action& action) {
  const bool first = action.micro_batch == 0 || action.kind == ActionKind::forward_only;
  if (fp8_) fp8_->set_scaling(first && !has_scales_ ? Fp8Scaling::current : Fp8Scaling::delayed);
}

void Engine::run(const std::vector<Action>& actions, const StepInput& input) {
  const int stage = layout_.shard.pp_rank;
  for (const Action& action : actions) {
    choose_scaling(action);
    Event& output_sent = output_sent_[static_cast<size_t>(action.slot)];
    switch (action.kind) {
      case ActionKind::receive_forward:
        receive(kReceiveForward, gpt_->input(action.slot), stage - 1);
        break;
      case ActionKind::forward:
        upload_batch(action.slot, input.batch(action.micro_batch));
        backend_.wait(kCompute, output_sent);
        gpt_->forward(action.slot, *weights_, *grads_, scalars_);
        break;
      case ActionKind::forward_only:
        upload_batch(action.slot, input.batch(action.micro_batch));
        backend_.wait(kCompute, output_sent);
        gpt_->evaluate(action.slot, *weights_, *grads_, scalars_);
        batch_free_[static_cast<size_t>(action.slot)] = backend_.record(kCompute, "batch_free");
        break;
      case ActionKind::send_forward:
        send(kSendForward, gpt_->output(action.slot), stage + 1, output_sent);
        break;
      case ActionKind::receive_backward:
        receive(kReceiveBackward, gpt_->d_output(), stage + 1);
        break;
      case ActionKind::backward:
        backend_.wait(kCompute, d_input_sent_);
        grads_->begin_micro_batch(action.micro_batch + 1 == input.micro_batches ? MicroBatch::last : MicroBatch::more_follow);
        gpt_->backward(action.slot, *weights_, *grads_);
        batch_free_[static_cast<size_t>(action.slot)] = backend_.record(kCompute, "batch_free");
        break;
      case ActionKind::send_backward:
        send(kSendBackward, gpt_->d_input(), stage - 1, d_input_sent_);
        break;
    }
  }
}

// Loss and gradient norm of the whole mesh, on every rank.
void Engine::share_results() {
  share_loss();
  for (Communicator* group : {mesh_.dp.get(), mesh_.tp.get(), mesh_.pp.get()}) group->all_reduce(kCompute, squares_, Reduce::sum);
}

void Engine::share_loss() {
  const Tensor loss = scalars_.rows(static_cast<int64_t>(StepScalar::loss_sum), 1);
  mesh_.dp->all_reduce(kCompute, loss, Reduce::sum);
  mesh_.pp->broadcast(kCompute, loss, mesh_.pp->size() - 1);
}

void Engine::update(size_t index) {
  const OptimSettings& optim = settings_.model.optim;
  const Bucket& bucket = layout_.buckets[index];
  backend_.run(kCompute, AdamW{.ranges = ranges_[index].decays,
                               .beta1 = optim.beta1,
                               .beta2 = optim.beta2,
                               .epsilon = optim.eps,
                               .grads = grads_->acquire_own(index),
                               .scalars = scalars_,
                               .master = master(bucket),
                               .m = first_moment_.rows(bucket.state, bucket.own.count),
                               .v = second_moment_.rows(bucket.state, bucket.own.count),
                               .weights = weights_->views().flat().rows(bucket.own.begin, bucket.own.count)});
  weights_->gather(index, *mesh_.dp);
}

void Engine::optimizer_step() {
  if (mesh_.pp->size() > 1) backend_.run(kCompute, Fill{.value = 0, .out = squares_});  // other stages fill in the rest
  for (size_t i = 0; i < layout_.buckets.size(); ++i) {
    const BucketRanges& ranges = ranges_[i];
    const auto first = static_cast<int64_t>(layout_.table_rows[layout_.buckets[i].first_row]);
    const Tensor squares = squares_.rows(first, static_cast<int64_t>(ranges.norms.size()));
    backend_.run(kCompute, SquaredNorms{.ranges = ranges.norms, .grads = grads_->acquire_own(i), .squares = squares});
  }
  share_results();
  backend_.run(kCompute, ApplyClip{.max_norm = settings_.gradient_clip, .squares = squares_, .scalars = scalars_});
  // The next forward begins with the embedding, which is the last bucket.
  for (size_t i = layout_.buckets.size(); i-- > 0;) update(i);
}

StepResult Engine::train_step(const StepInput& input) {
  begin(input);
  backend_.run(kCompute, Fill{.value = 0, .out = grads_->views().flat()});
  if (fp8_) fp8_->begin_step(backend_);
  run(schedule(ScheduleKind::one_forward_one_backward, input.micro_batches), input);
  if (fp8_) fp8_->update(backend_, mesh_);
  has_scales_ = true;
  optimizer_step();
  return read_result(input.targets);
}

double Engine::evaluate(const StepInput& input) {
  begin(input);
  run(schedule(ScheduleKind::forward_only, input.micro_batches), input);
  share_loss();
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
      return fmt::format("{}{}gradient of {} is {}", where, where.empty() ? "" : ", ", names_[row], kind(host_squares_[row]));
  return where;
}

}  // namespace trireme
