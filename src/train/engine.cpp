#include "train/engine.h"

#include <cmath>
#include <exception>

#include "train/run_size.h"

namespace trireme {

namespace {

RankShard shard_of(const ModelSettings& model, const Mesh& mesh) {
  const bool shared_out = model.shards_optimizer();
  return {.tp_rank = mesh.tp->rank(),
          .tp_size = mesh.tp->size(),
          .pp_rank = mesh.pp->rank(),
          .pp_size = mesh.pp->size(),
          .dp_rank = shared_out ? mesh.dp_cp->rank() : 0,
          .dp_size = shared_out ? mesh.dp_cp->size() : 1,
          .copy = shared_out ? 0 : mesh.dp_cp->rank(),
          .chunks = narrow<int>(model.virtual_pipeline_model_parallel_size),
          .cp_rank = mesh.cp->rank(),
          .cp_size = mesh.cp->size()};
}

// Micro-batches of the longest step. Schedules other than GPipe need no more memory for longer steps than this.
int64_t most_micro_batches(const ModelSettings& model, const Mesh& mesh) {
  const int64_t stages = mesh.pp->size(), planned = ceil_div(model.global_batch_size, model.micro_batch_size * mesh.dp->size());
  return model.pipeline_schedule == PipelineSchedule::gpipe ? planned : std::max(round_up(planned, stages), 2 * stages);
}

}  // namespace

Arenas Arenas::measuring() {
  return {Arena("parameters"),  Arena("gradients"),   Arena("masters"), Arena("states"),
          Arena("host states"), Arena("activations"), Arena("scratch")};
}

Arenas Arenas::like(const Arenas& measured, BackendMemory& memory) {
  const auto real = [&](const Arena& arena) {
    return Arena(arena.name(), arena.peak(), [&](int64_t bytes) { return memory.allocate(bytes); });
  };
  const auto on_host = [&](const Arena& arena) {
    return Arena(arena.name(), arena.peak(), [&](int64_t bytes) { return bytes > 0 ? memory.allocate_host(bytes) : Memory{}; });
  };
  return {real(measured.parameters),     real(measured.gradients),   real(measured.masters), real(measured.states),
          on_host(measured.host_states), real(measured.activations), real(measured.scratch)};
}

Engine::Engine(EngineSettings settings, Backend& backend, const Mesh& mesh, Arenas& arenas, StepMemory& memory)
    : settings_(std::move(settings)),
      backend_(backend),
      mesh_(mesh),
      memory_(memory),
      layout_(FlatLayout::of(settings_.model, shard_of(settings_.model, mesh))) {
  CHECK_EQ(settings_.model.tensor_model_parallel_size, mesh.tp->size());
  CHECK_EQ(settings_.model.context_parallel_size, mesh.cp->size());
  const ModelSettings& model = settings_.model;
  const DType dtype = activation_dtype(settings_.precision);
  weights_.emplace(layout_, model, backend, arenas.parameters.take({layout_.weights.count}, dtype), mesh.dp_cp.get());
  if (dtype != DType::f32)
    states_.master =
        (model.optim.optimizer_cpu_offload ? arenas.host_states : arenas.masters).take({layout_.state_count}, DType::f32);
  if (model.fp8.enabled) {
    fp8_.emplace(model, layout_.shard, arenas.states);
    weights_->add_fp8_copies(model, *fp8_, arenas.parameters, states_.master);
  }
  const Tensor gradients = arenas.gradients.take({layout_.gradients.count}, DType::f32);
  const bool has_adapters = model.peft.scheme == PeftScheme::lora;
  const bool narrow_sums = !has_adapters && model.grad_sync_dtype() == SyncType::bf16 && mesh.dp_cp->size() > 1;
  NarrowSums narrow;
  if (narrow_sums)
    narrow = {
        .bucket = layout_.state_count < layout_.count ? arenas.gradients.take({layout_.most_in_bucket()}, DType::bf16) : Tensor{},
        .own = arenas.gradients.take({layout_.state_count}, DType::bf16)};
  grads_.emplace(layout_, model, backend, mesh, gradients, narrow);
  if (has_adapters) {
    const auto master_of = [&](const Bucket& bucket, const OwnedPart& part) { return master(bucket, part); };
    lora_.emplace(settings_.model, layout_, backend, mesh, master_of, arenas.states);
    grads_->hand_over([this](int64_t layer) { lora_->add_gradients(layer, grads_->views()); });
  } else {
    add_moments(arenas);
  }
  scalars_ = arenas.states.take({kStepScalars}, DType::f64);
  if (lora_)
    names_ = adapter_names(model);
  else
    for (const ParameterRow& row : parameter_table(model)) names_.push_back(row.name);
  squares_ = arenas.states.take({static_cast<int64_t>(names_.size())}, DType::f64);
  add_results();
  for (const Bucket& bucket : layout_.buckets) ranges_.push_back(ranges_of(bucket));
  add_chunks(arenas);
}

void Engine::add_moments(Arenas& arenas) {
  const OptimSettings& optim = settings_.model.optim;
  const auto take = [&](MomentType type) {
    return (optim.optimizer_cpu_offload ? arenas.host_states : arenas.states)
        .take({layout_.state_count}, type == MomentType::bf16 ? DType::bf16 : DType::f32);
  };
  states_.first_moment = take(optim.exp_avg_dtype);
  states_.second_moment = take(optim.exp_avg_sq_dtype);
  if (optim.optimizer_cpu_offload) host_states_.emplace(layout_, states_, backend_, arenas.states);
}

void Engine::add_results() {
  const size_t each = kStepScalars + names_.size();
  results_memory_ = backend_.allocate_host(static_cast<int64_t>(kStepsAhead * each * sizeof(double)));
  auto* values = static_cast<double*>(results_memory_.block.get());
  for (size_t i = 0; i < kStepsAhead; ++i) {
    results_[i].scalars = {values + i * each, kStepScalars};
    results_[i].squares = {values + i * each + kStepScalars, names_.size()};
  }
}

void Engine::add_chunks(Arenas& arenas) {
  const ModelSettings& model = settings_.model;
  const DType dtype = activation_dtype(settings_.precision);
  const RankShard& shard = layout_.shard;
  const Pipeline longest = pipeline(most_micro_batches(model, mesh_));
  const auto dims = [&](int64_t chunk) { return dims_of(model, model.micro_batch_size, model.encoder_seq_length, shard, chunk); };
  const Dims d = dims(0);  // all chunks of a stage are alike
  wgrad_ = choose_wgrad(longest.kind, d);
  slots_ = slots_needed(make_schedule(longest, shard.pp_rank));
  chunks_.reserve(static_cast<size_t>(shard.chunks));
  for (int64_t chunk = 0; chunk < shard.chunks; ++chunk)
    chunks_.emplace_back(model, shard, chunk, dims(chunk), dtype, backend_, mesh_, slots_, memory_, fp8());
  for (int64_t i = 0; i < slots_.batch; ++i)
    batches_.push_back(
        {.tokens = arenas.activations.take({d.N()}, DType::i32),
         .targets = arenas.activations.take({d.N()}, DType::i32),
         .positions = arenas.activations.take({d.N()}, DType::i32),
         .row_keys = arenas.activations.take({d.N()}, DType::i64),
         .document_starts = model.data.reset_attention_mask ? arenas.activations.take({d.N()}, DType::i32) : Tensor{}});
  batch_free_.resize(batches_.size());
  messages_.emplace(longest, model.batch_p2p_comm ? MessageBatches::yes : MessageBatches::no, backend_, *mesh_.pp,
                    Shape{d.R, d.C}, dtype, arenas.scratch);
}

// wgrad runs concurrently with other work where a small micro-batch leaves room on the device, where its inputs are kept, and
// where no other rank waits for its results.
Wgrad Engine::choose_wgrad(ScheduleKind schedule, const Dims& dims) const {
  if (schedule == ScheduleKind::zero_bubble) return Wgrad::deferred;
  const bool keeps_inputs = !fp8_ && !lora_ && settings_.model.activations_checkpoint_granularity == RecomputeGranularity::none;
  const bool beside = mesh_.size() == 1 && keeps_inputs && backend_.has_room_for_wgrad(dims.N(), dims.C);
  return beside ? Wgrad::concurrent : Wgrad::with_dgrad;
}

Pipeline Engine::pipeline(int64_t micro_batches) const {
  return pipeline_of(settings_.model, layout_.shard.pp_size, micro_batches);
}

Engine::~Engine() {
  backend_.forget_repeated_work();
  if (std::uncaught_exceptions() > 0) return;  // the others may be gone too
  try {
    weights_->wait_for_all();
    messages_->wait_for_sent();
  } catch (const std::exception&) {  // a rank died: the next wait reports it
  }
}

// Of the piece of a bucket that this rank owns; offsets are relative to that piece.
Engine::BucketRanges Engine::ranges_of(const Bucket& bucket) const {
  BucketRanges ranges;
  ranges.norms.resize(bucket.end_row - bucket.first_row);
  for (const OwnedPart& part : bucket.parts) {
    const ParameterRow& row = layout_.table[part.row];
    const double decay = row.decay == WeightDecay::yes ? settings_.model.optim.weight_decay : 0;
    const int64_t begin = part.flat - bucket.own.begin;
    ranges.decays.push_back({begin, part.count, static_cast<float>(decay)});
    if (!counts(row, layout_.shard)) continue;
    FlatRange& norm = ranges.norms[part.row - bucket.first_row];
    if (norm.count == 0) norm.begin = begin;
    norm.count = begin + part.count - norm.begin;  // the parts of a parameter are contiguous
  }
  return ranges;
}

Tensor Engine::master(const Bucket& bucket) const {
  if (states_.master) return states_.master.rows(bucket.state, bucket.own.count);
  return weights_->own(layout_.index_of(bucket));
}

Tensor Engine::master(const Bucket& bucket, const OwnedPart& part) const {
  return master(bucket).rows(part.state - bucket.state, part.count);
}

Tensor Engine::loss_scale() const {
  static_assert(static_cast<int>(StepScalar::patience) == static_cast<int>(StepScalar::loss_scale) + 2);
  return scales_loss() ? scalars_.rows(static_cast<int64_t>(StepScalar::loss_scale), 3) : Tensor{};
}

// The states of a bucket where ops can work on them. Those in host memory must be released after that.
OptimizerStates Engine::acquire_states(size_t index) {
  const Bucket& bucket = layout_.buckets[index];
  if (host_states_) return host_states_->acquire(index);
  return states_.rows(bucket.state, bucket.own.count);
}

void Engine::initialise_bucket(size_t index) {
  const Bucket& bucket = layout_.buckets[index];
  if (!host_states_) return initialise(layout_, bucket, settings_.model.seed, backend_, master(bucket));
  const OptimizerStates states = host_states_->acquire_unread(index);
  initialise(layout_, bucket, settings_.model.seed, backend_, states.master ? states.master : weights_->own(index));
  backend_.run(kCompute, Fill{.value = 0, .out = states.first_moment});
  backend_.run(kCompute, Fill{.value = 0, .out = states.second_moment});
  host_states_->release(index, HostStates::Written::yes);
}

void Engine::initialise_weights() {
  for (size_t i = 0; i < layout_.buckets.size(); ++i) initialise_bucket(i);
  if (lora_) {
    lora_->initialise();
    lora_->adopt_base();
  } else if (!host_states_) {
    backend_.run(kCompute, Fill{.value = 0, .out = states_.first_moment});
    backend_.run(kCompute, Fill{.value = 0, .out = states_.second_moment});
  }
  if (fp8_) fp8_->clear(backend_);
  const LossScaleSettings& scaling = settings_.model.loss_scale;
  host_scalars_ = {};
  host_scalars_[static_cast<size_t>(StepScalar::loss_scale)] = scales_loss() ? scaling.init_scale : 1;
  host_scalars_[static_cast<size_t>(StepScalar::patience)] = static_cast<double>(scaling.hysteresis);
  backend_.upload(kCompute, host_scalars_.data(), scalars_);
  restore_updates(0);
  if (host_states_) host_states_->synchronize();
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
  read_scalars();  // the loss scale may have been loaded
  host_scalars_[static_cast<size_t>(StepScalar::updates)] = static_cast<double>(updates);
  backend_.upload(kCompute, host_scalars_.data(), scalars_);
  has_scales_ = updates > 0;
  if (lora_) lora_->merge();
  for (size_t i = 0; i < layout_.buckets.size(); ++i) {
    if (states_.master) set_weights(i);
    weights_->gather(i);
  }
}

// From their masters.
void Engine::set_weights(size_t index) {
  if (!host_states_) return weights_->set(index, master(layout_.buckets[index]));
  weights_->set(index, host_states_->acquire(index).master);
  host_states_->release(index, HostStates::Written::no);
}

void Engine::forget_scales() {
  if (fp8_) fp8_->clear(backend_);
  has_scales_ = false;
}

void Engine::begin(const StepInput& input) {
  static_assert(static_cast<int>(StepScalar::learning_rate) == 0 && static_cast<int>(StepScalar::inverse_targets) == 1);
  host_scalars_[0] = input.learning_rate;
  host_scalars_[1] = input.targets > 0 ? 1.0 / static_cast<double>(input.targets) : 0;
  backend_.upload(kCompute, host_scalars_.data(), scalars_.rows(0, 2));
  if (scales_loss()) backend_.run(kCompute, ScaleLoss{.scalars = scalars_});
  backend_.run(kCompute, Fill{.value = 0, .out = scalars_.rows(static_cast<int64_t>(StepScalar::loss_sum), 1)});
}

// Sums loss and gradient norm over the mesh, on every rank.
void Engine::share_results() {
  share_loss();
  for (Communicator* group : {mesh_.dp_cp.get(), mesh_.tp.get(), mesh_.pp.get()})
    group->all_reduce(kCompute, squares_, Reduce::sum);
}

void Engine::share_loss() {
  const Tensor loss = scalars_.rows(static_cast<int64_t>(StepScalar::loss_sum), 1);
  mesh_.dp_cp->all_reduce(kCompute, loss, Reduce::sum);
  mesh_.pp->broadcast(kCompute, loss, mesh_.pp->size() - 1);
}

void Engine::update(size_t index) {
  const OptimSettings& optim = settings_.model.optim;
  const OptimizerStates states = acquire_states(index);
  if (host_states_ && index > 0) host_states_->prefetch(index - 1);
  const Tensor master = states.master ? states.master : weights_->own(index);
  backend_.run(kCompute, AdamW{.ranges = ranges_[index].decays,
                               .beta1 = optim.beta1,
                               .beta2 = optim.beta2,
                               .epsilon = optim.eps,
                               .grads = grads_->own(index),
                               .scalars = scalars_,
                               .master = master,
                               .m = states.first_moment,
                               .v = states.second_moment,
                               .weights = weights_->updated(index, master)});
  weights_->set_updated(index, master);
  if (host_states_) host_states_->release(index, HostStates::Written::yes);
  weights_->gather(index);
}

// The states of the buckets that are updated first come while the last micro-batch computes: after its tokens in the copy stream.
void Engine::prefetch_states() {
  const size_t buckets = layout_.buckets.size();
  for (size_t i = buckets; i-- > 0 && i + 2 >= buckets;) host_states_->prefetch(i);
}

// Writes the sums of squares of this rank's gradients, once those are summed.
void Engine::measure_gradients() {
  if (lora_) return lora_->finish_gradients(squares_);
  if (mesh_.pp->size() > 1) backend_.run(kCompute, Fill{.value = 0, .out = squares_});  // other stages fill in the rest
  for (size_t i = 0; i < layout_.buckets.size(); ++i) {
    const BucketRanges& ranges = ranges_[i];
    const auto first = static_cast<int64_t>(layout_.table_rows[layout_.buckets[i].first_row]);
    const Tensor squares = squares_.rows(first, static_cast<int64_t>(ranges.norms.size()));
    backend_.run(kCompute, SquaredNorms{.ranges = ranges.norms, .grads = grads_->acquire_own(i), .squares = squares});
  }
}

// Makes the weights of a bucket from masters that changed.
void Engine::renew(size_t index) {
  if (!lora_->changes(layout_.buckets[index])) return;
  if (states_.master) set_weights(index);
  weights_->gather(index);
}

void Engine::optimizer_step() {
  measure_gradients();
  share_results();
  backend_.run(kCompute, ApplyClip{.max_norm = settings_.gradient_clip, .squares = squares_, .scalars = scalars_});
  if (lora_) lora_->update(scalars_);
  // The next forward begins with the embedding, which is the last bucket.
  for (size_t i = layout_.buckets.size(); i-- > 0;) lora_ ? renew(i) : update(i);
  if (!settings_.model.optim.overlap_param_sync) weights_->wait_for_all();
}

void Engine::start_step(const StepInput& input) {
  CHECK(steps_started_ - steps_finished_ < kStepsAhead);
  begin(input);
  const auto clear = [&] {
    grads_->clear();
    if (lora_) lora_->clear_gradients();
  };
  if (repeats())
    backend_.repeat(kCompute, {.kind = WorkKind::clear_gradients}, clear);
  else
    clear();
  if (fp8_) fp8_->begin_step(backend_);
  run(pipeline(input.micro_batches), input);
  if (host_states_) prefetch_states();
  grads_->finished_step();
  if (fp8_) fp8_->update(backend_, mesh_);
  has_scales_ = true;
  optimizer_step();
  fetch_results(input.targets);
  if (!scales_loss()) return;
  const LossScaleSettings& scaling = settings_.model.loss_scale;
  backend_.run(kCompute, UpdateLossScale{
                             .growth_interval = scaling.growth_interval, .hysteresis = scaling.hysteresis, .scalars = scalars_});
}

double Engine::evaluate(const StepInput& input) {
  begin(input);
  Pipeline forward_only = pipeline(input.micro_batches);
  forward_only.kind = ScheduleKind::forward_only;
  run(forward_only, input);
  share_loss();
  read_scalars();
  return host_scalars_[static_cast<size_t>(StepScalar::loss_sum)];
}

void Engine::fetch_results(int64_t targets) {
  Results& results = results_[steps_started_++ % kStepsAhead];
  backend_.download(kCompute, squares_, results.squares.data());
  backend_.download(kCompute, scalars_, results.scalars.data());
  results.targets = targets;
  results.backward_seconds = std::exchange(backward_seconds_, 0);
  backend_.note_time(kCompute, &results.done_at);
  results.arrived = backend_.record(kCompute, "results_read");
}

StepResult Engine::finish_step() {
  CHECK(steps_finished_ < steps_started_);
  const Results& results = results_[steps_finished_++ % kStepsAhead];
  backend_.synchronize(results.arrived);
  if (host_states_ && steps_finished_ == steps_started_) host_states_->synchronize();
  backend_.read_times();
  const auto value = [&](StepScalar slot) { return results.scalars[static_cast<size_t>(slot)]; };
  StepResult result;
  result.loss = value(StepScalar::loss_sum) / static_cast<double>(results.targets);
  result.grad_norm = value(StepScalar::grad_norm);
  result.loss_scale = value(StepScalar::loss_scale);
  result.finite = value(StepScalar::finite) != 0;
  result.done_at = results.done_at;
  result.backward_seconds = results.backward_seconds;
  if (!result.finite) result.nonfinite = locate_nonfinite(result.loss, results.squares);
  return result;
}

std::string Engine::locate_nonfinite(double loss, std::span<const double> squares) const {
  const auto kind = [](double x) { return std::isnan(x) ? "NaN" : "Inf"; };
  std::string where = std::isfinite(loss) ? "" : fmt::format("loss is {}", kind(loss));
  // The table is in the order of backward, so the first non-finite gradient is where the fault entered.
  for (size_t row = 0; row < squares.size(); ++row)
    if (!std::isfinite(squares[row]))
      return fmt::format("{}{}gradient of {} is {}", where, where.empty() ? "" : ", ", names_[row], kind(squares[row]));
  return where;
}

}  // namespace trireme
