// Executes the schedule of a step, micro-batch by micro-batch and chunk by chunk.
#include "train/engine.h"

namespace trireme {
namespace {

WorkKind work_kind_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return WorkKind::forward;
    case ActionKind::forward_only:
      return WorkKind::forward_only;
    case ActionKind::backward:
      return WorkKind::backward;
    case ActionKind::backward_input:
      return WorkKind::backward_input;
    case ActionKind::backward_weight:
      return WorkKind::backward_weight;
    default:
      CHECK_NEVER("p2p sends and receives are not replayed");
  }
}

}  // namespace

WorkKey work_key_of(const Action& action, Fp8Scaling scaling) {
  const auto& [batch, saved, inputs, gradients] = action.slots;  // all rings: one more does not compile
  return {.kind = work_kind_of(action.kind),
          .is_first_of_step = action.micro_batch == 0,
          .scaling = scaling,
          .chunk = action.chunk,
          .slots = {batch, saved, inputs, gradients}};
}

// With the vocabulary cut over ranks, no rank would notice a token outside of all parts.
void Engine::check_vocabulary(const HostBatch& host) const {
  const int64_t vocabulary = settings_.model.vocab_size;
  for (const int32_t token : host.tokens)
    if (token < 0 || token >= vocabulary) throw Failure("the data has token {}, outside the vocabulary of {}", token, vocabulary);
  for (const int32_t target : host.targets)
    if (target >= vocabulary) throw Failure("the data has token {}, outside the vocabulary of {}", target, vocabulary);
}

// A dry run has no batch to copy.
void Engine::upload_batch(const DeviceBatch& to, const HostBatch& host) {
  check_vocabulary(host);
  const auto upload = [&](const auto& values, const Tensor& tensor) {
    if (!values.empty()) CHECK_EQ(std::ssize(values), tensor.count());
    backend_.upload(kCopy, values.empty() ? nullptr : values.data(), tensor);
  };
  upload(host.tokens, to.tokens);
  upload(host.targets, to.targets);
  upload(host.positions, to.positions);
  upload(host.row_keys, to.row_keys);
  if (to.document_starts) upload(host.document_starts, to.document_starts);
  backend_.wait(kCompute, backend_.record(kCopy, "batch_on_device"));
}

ChunkPass Engine::pass_of(const Action& action) const {
  return {.at = action.slots,
          .batch = batches_[static_cast<size_t>(action.slots.batch)],
          .weight_grads = action.micro_batch == 0 ? GradSum::replaces : GradSum::adds};
}

void Engine::forward(const Action& action, Mode mode) {
  const RankShard& shard = layout_.shard;
  const ChunkPass pass = pass_of(action);
  const Tensor input = shard.embeds(action.chunk) ? Tensor{} : messages_->arrived(Direction::forward);
  const Tensor output = shard.has_head(action.chunk) ? Tensor{} : messages_->outgoing(Direction::forward);
  chunks_[static_cast<size_t>(action.chunk)].forward(pass, mode, input, output, *weights_, *grads_, scalars_);
}

void Engine::backward(const Action& action, WeightProducts when) {
  const RankShard& shard = layout_.shard;
  const ChunkPass pass = pass_of(action);
  const Tensor d_output = shard.has_head(action.chunk) ? Tensor{} : messages_->arrived(Direction::backward);
  const Tensor d_input = shard.embeds(action.chunk) ? Tensor{} : messages_->outgoing(Direction::backward);
  chunks_[static_cast<size_t>(action.chunk)].backward(pass, when, d_output, d_input, *weights_, *grads_);
}

// With delayed scaling, the first micro-batch of the first step uses current scaling and the others its scales. Evaluations do
// not change scales.
Fp8Scaling Engine::choose_scaling(const Action& action) {
  if (!fp8_) return Fp8Scaling::delayed;
  const bool first = action.micro_batch == 0 || action.kind == ActionKind::forward_only;
  const bool by_itself = settings_.model.fp8.recipe == Fp8Recipe::tensorwise || (first && !has_scales_);
  const Fp8Scaling scaling = by_itself ? Fp8Scaling::current : Fp8Scaling::delayed;
  fp8_->set_scaling(scaling);
  return scaling;
}

// A single rank enqueues the same kernels on the same memory in every step.
bool Engine::repeats() const { return mesh_.size() == 1 && settings_.model.cuda_graph != CudaGraph::no; }

void Engine::repeat(const WorkKey& key, const std::function<void()>& work) {
  if (!repeats()) return work();
  backend_.repeat(kCompute, key, work);
}

void Engine::compute(const Action& action, const StepInput& input) {
  // The first chunk of a stage uploads the micro-batch.
  const bool comes = action.kind == ActionKind::forward || action.kind == ActionKind::forward_only;
  Event& batch_free = batch_free_[static_cast<size_t>(action.slots.batch)];
  if (comes && action.chunk == 0) {
    backend_.wait(kCopy, batch_free);
    upload_batch(batches_[static_cast<size_t>(action.slots.batch)], input.batch(action.micro_batch));
  }
  messages_->exchange();
  grads_->begin_micro_batch(action.micro_batch + 1 == input.micro_batches ? MicroBatch::last : MicroBatch::more_follow);
  const Fp8Scaling scaling = choose_scaling(action);
  if (fp8_ && repeats()) weights_->make_fp8_copies();  // here, because what is repeated does the same every time
  const Stopwatch watch;
  repeat(work_key_of(action, scaling), [&] { enqueue(action); });
  if (!comes) backward_seconds_ += watch.seconds();
  if (action.kind != ActionKind::backward_weight) batch_free = backend_.record(kCompute, "batch_free");
}

void Engine::enqueue(const Action& action) {
  memory_.begin(action);
  switch (action.kind) {
    case ActionKind::forward:
      return forward(action, Mode::training);
    case ActionKind::forward_only:
      return forward(action, Mode::evaluation);
    case ActionKind::backward:
      return backward(action, weight_products_);
    case ActionKind::backward_input:
      return backward(action, WeightProducts::later);
    case ActionKind::backward_weight:
      return chunks_[static_cast<size_t>(action.chunk)].backward_weight(pass_of(action), *weights_, *grads_);
    default:
      CHECK_NEVER("a message is no computation");
  }
}

void Engine::run(const Pipeline& pipeline, const StepInput& input) {
  if (pipeline != scheduled_ || schedule_.empty()) {
    schedule_ = make_schedule(pipeline, layout_.shard.pp_rank);
    scheduled_ = pipeline;
  }
  for (const Action& action : schedule_) switch (action.kind) {
      case ActionKind::receive_forward:
        messages_->receive(Direction::forward);
        break;
      case ActionKind::receive_backward:
        messages_->receive(Direction::backward);
        break;
      case ActionKind::send_forward:
        messages_->send(Direction::forward);
        break;
      case ActionKind::send_backward:
        messages_->send(Direction::backward);
        break;
      default:
        compute(action, input);
    }
  messages_->exchange();
}

}  // namespace trireme
