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
  const GradSum sum = action.micro_batch == 0 ? GradSum::replaces : GradSum::adds;
  return {.at = action.slots,
          .batch = batches_[static_cast<size_t>(action.slots.batch)],
          .head_grads = sum,
          .block_grads = layout_.shards_gradients || lora_ ? GradSum::replaces : sum};
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

void Engine::compute(const Action& action, const StepInput& input) {
  // The first chunk of a stage uploads the micro-batch.
  const bool is_forward = action.kind == ActionKind::forward || action.kind == ActionKind::forward_only;
  Event& batch_free = batch_free_[static_cast<size_t>(action.slots.batch)];
  if (is_forward && action.chunk == 0) {
    backend_.wait(kCopy, batch_free);
    upload_batch(batches_[static_cast<size_t>(action.slots.batch)], input.batch(action.micro_batch));
  }
  messages_->exchange();
  grads_->begin_micro_batch(action.micro_batch + 1 == input.micro_batches ? MicroBatch::last : MicroBatch::more_follow);
  const Fp8Scaling scaling = choose_scaling(action);
  if (fp8_ && repeats()) weights_->make_fp8_copies();  // here, because what is repeated does the same every time
  const Stopwatch watch;
  if (repeats())
    backend_.repeat(kCompute, work_key_of(action, scaling), [&] { enqueue(action); });
  else
    enqueue(action);
  if (!is_forward) backward_seconds_ += watch.seconds();
  if (action.kind != ActionKind::backward_weight) batch_free = backend_.record(kCompute, "batch_free");
}

void Engine::enqueue(const Action& action) {
  const RankShard& shard = layout_.shard;
  const bool is_first = shard.embeds(action.chunk), is_last = shard.has_head(action.chunk);
  const ChunkPass pass = pass_of(action);
  Gpt& chunk = chunks_[static_cast<size_t>(action.chunk)];
  const auto received = [&](Direction direction, bool is_end) { return is_end ? Tensor{} : messages_->arrived(direction); };
  const auto to_send = [&](Direction direction, bool is_end) { return is_end ? Tensor{} : messages_->outgoing(direction); };
  memory_.begin(action);
  switch (action.kind) {
    case ActionKind::forward:
    case ActionKind::forward_only: {
      const Mode mode = action.kind == ActionKind::forward ? Mode::training : Mode::evaluation;
      const Tensor input = received(Direction::forward, is_first), output = to_send(Direction::forward, is_last);
      return chunk.forward(pass, mode, input, output, *weights_, *grads_, scalars_);
    }
    case ActionKind::backward:
    case ActionKind::backward_input: {
      const Wgrad when = action.kind == ActionKind::backward ? wgrad_ : Wgrad::deferred;
      const Tensor d_output = received(Direction::backward, is_last), d_input = to_send(Direction::backward, is_first);
      return chunk.backward(pass, when, d_output, d_input, *weights_, *grads_);
    }
    case ActionKind::backward_weight:
      return chunk.backward_weight(pass, *weights_, *grads_);
    default:
      CHECK_NEVER("a send or receive is not a computation");
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
