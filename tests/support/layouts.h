// Small models on any layout: ranks are threads of this process that exchange messages, with completions late at random.
#pragma once

#include <gtest/gtest.h>

#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "comm/local_transport.h"
#include "support/engine_fixture.h"
#include "support/scribbling_backend.h"
#include "support/traced_backend.h"
#include "support/traced_communicator.h"

namespace trireme {

struct Layout {
  std::string name;
  ModelSettings model;  // with the sizes of the layout
  MeshShape shape;
  Precision precision = Precision::f32;
  int not_evaluated = 1;  // micro-batches of a global batch that an evaluation leaves out, so that their number is any
};

inline std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << layout.name; }

// GPT-3, GPT-NeoX and Llama, very small, with dropout.
inline ModelSettings small_gpt3() {
  ModelSettings model = small_model();
  model.micro_batch_size = 1;
  model.global_batch_size = 8;
  model.hidden_dropout = model.attention_dropout = 0.1;
  // With Adam's usual 1e-8 a gradient of nothing but rounding errors would move its weight as far as any other.
  model.optim.eps = 1e-3;
  return model;
}

inline ModelSettings small_neox() {
  ModelSettings model = small_gpt3();
  model.position_embedding_type = PositionEmbedding::rope;
  model.rotary_percentage = 0.5;
  model.parallel_residual = true;
  model.share_embeddings_and_output_weights = false;
  model.normalization = Normalization::layernorm1p;
  return model;
}

inline ModelSettings small_llama() {
  ModelSettings model = small_gpt3();
  model.position_embedding_type = PositionEmbedding::rope;
  model.normalization = Normalization::rmsnorm;
  model.activation = MlpActivation::swiglu;
  model.ffn_hidden_size = 96;
  model.num_attention_heads = 8;
  model.num_query_groups = 4;
  model.bias = false;
  model.share_embeddings_and_output_weights = false;
  return model;
}

// The model with the parallel sizes of `shape`.
inline Layout layout_of(std::string name, ModelSettings model, const MeshShape& shape, Precision precision = Precision::f32) {
  model.tensor_model_parallel_size = shape.tp;
  model.context_parallel_size = shape.cp;
  model.pipeline_model_parallel_size = shape.pp;
  return {std::move(name), std::move(model), shape, precision, shape.dp};
}

// What one rank did: its results, what it executed in its first step, and what was planned for it.
struct RankRun {
  std::vector<StepResult> results;
  double evaluated = 0;  // sum of losses after the last step
  StepLog executed, planned;
};

class TracedCpu {
 public:
  TracedCpu(World& world, StepLog& log) : scribbling_(make_cpu(world)), log_(log) {}
  std::unique_ptr<Backend> backend() { return std::make_unique<TracedBackend>(scribbling_, log_); }

 private:
  static std::unique_ptr<Backend> make_cpu(World& world) {
    auto cpu = std::make_unique<CpuBackend>(1);
    cpu->set_streams(world.streams());
    return cpu;
  }

  ScribblingBackend scribbling_;
  StepLog& log_;
};

// The micro-batches of a rank in a step.
inline std::vector<Batch> batches_of(const ModelSettings& model, const MeshShape& shape, int rank, int step) {
  const int64_t micro = model.micro_batch_size, data_rank = rank / (shape.tp * shape.cp) % shape.dp;
  const SequenceCut cut{.rank = rank / shape.tp % shape.cp, .ranks = shape.cp};
  // With a small vocabulary this token ends a few documents in every sample.
  const DocumentRules documents{
      .end_token = 3, .resets_positions = model.data.reset_position_ids, .resets_attention = model.data.reset_attention_mask};
  std::vector<Batch> batches;
  for (int64_t first = data_rank * micro; first < model.global_batch_size; first += micro * shape.dp)
    batches.push_back(
        make_batch(micro, model.encoder_seq_length, model.vocab_size, step * model.global_batch_size + first, cut, documents));
  return batches;
}

// Some steps and an evaluation on a backend and a mesh that are traced into `run`.
inline void run_engine(const Layout& layout, int steps, int rank, std::unique_ptr<Backend> backend, Mesh mesh, RankRun& run) {
  const EngineSettings settings{.model = layout.model, .precision = layout.precision, .gradient_clip = 1.0};
  EngineFixture engine(settings, std::move(backend), std::move(mesh), {layout.shape, rank});
  run.planned = engine.planned();
  using Kind = Arena Arenas::*;
  for (const Kind kind : {&Arenas::parameters, &Arenas::gradients, &Arenas::masters, &Arenas::states, &Arenas::host_states,
                          &Arenas::activations, &Arenas::scratch})
    EXPECT_EQ((engine.arenas().*kind).used(), (engine.plan().arenas.*kind).peak()) << (engine.arenas().*kind).name();
  run.executed.clear();
  StepLog first_step;
  const ModelSettings& model = layout.model;
  for (int step = 0; step < steps; ++step) {
    run.results.push_back(
        engine.step(batches_of(model, layout.shape, rank, step), 1e-2, model.global_batch_size * model.encoder_seq_length));
    if (step == 0) first_step = run.executed;
  }
  run.executed = std::move(first_step);
  std::vector<Batch> batches = batches_of(model, layout.shape, rank, steps);
  batches.erase(batches.end() - layout.not_evaluated / layout.shape.dp, batches.end());
  StepLog training = run.executed;
  run.evaluated = engine->evaluate({.micro_batches = std::ssize(batches),
                                    .batch = [&](int64_t i) { return EngineFixture::view(batches[static_cast<size_t>(i)]); }});
  run.executed = std::move(training);
}

inline void run_rank(const Layout& layout, int steps, World& world, RankRun& run) {
  TracedCpu cpu(world, run.executed);
  run_engine(layout, steps, world.rank(), cpu.backend(), traced(Mesh::of(layout.shape, world), run.executed), run);
}

// Every rank is a thread that does `work`.
using RankWork = std::function<void(World&, RankRun&)>;
inline std::vector<RankRun> on_ranks(int ranks, const RankWork& work) {
  auto transports = LocalTransport::connect(ranks);
  std::vector<RankRun> runs(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        World world(
            std::move(transports[static_cast<size_t>(rank)]),
            {.timeout = std::chrono::seconds(120), .hostility = Hostility::late_completion, .seed = static_cast<uint64_t>(rank)});
        work(world, runs[static_cast<size_t>(rank)]);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        std::exit(1);  // the others would wait for it
      }
    });
  for (std::thread& thread : threads) thread.join();
  return runs;
}

inline std::vector<RankRun> train(const Layout& layout, int steps) {
  return on_ranks(layout.shape.size(), [&](World& world, RankRun& run) { run_rank(layout, steps, world, run); });
}

// The same model on one rank.
inline Layout on_one_rank(Layout layout) {
  layout.shape = {};
  ModelSettings& model = layout.model;
  // Padding rows of the vocabulary are not part of the model, but the model is drawn and trained without them anyway.
  model.tensor_model_parallel_size = model.context_parallel_size = model.pipeline_model_parallel_size = 1;
  model.virtual_pipeline_model_parallel_size = 1;
  model.num_layers_in_first_pipeline_stage = model.num_layers_in_last_pipeline_stage = 0;
  model.pipeline_schedule = PipelineSchedule::one_forward_one_backward;
  model.sequence_parallel = false;
  return layout;
}

// f32 sums of the same terms in another order: a relative difference of some 1e-8 of the loss, which training multiplies. In five
// steps losses were seen to differ by 2e-7 at most, gradient norms by 3e-6.
constexpr double kLayoutTolerance = 2e-6;

// Losses and gradient norms of `steps` steps are those of one rank, and all ranks report the same.
inline void expect_same_as_one_rank(const Layout& layout, const std::vector<RankRun>& runs, const RankRun& one_rank) {
  const std::vector<StepResult>& one = one_rank.results;
  // In bf16 the master weights differ in the last bit of f32 now and then, which may round a weight the other way: 2^-9 of it.
  const double tolerance = layout.precision == Precision::f32 ? kLayoutTolerance : 2e-3;
  for (const RankRun& run : runs) {
    EXPECT_NEAR(run.evaluated, one_rank.evaluated, tolerance * one_rank.evaluated);
    for (size_t step = 0; step < one.size(); ++step) {
      EXPECT_NEAR(run.results[step].loss, one[step].loss, tolerance * one[step].loss) << "step " << step;
      EXPECT_NEAR(run.results[step].grad_norm, one[step].grad_norm, 10 * tolerance * one[step].grad_norm) << "step " << step;
      EXPECT_EQ(run.results[step].loss, runs[0].results[step].loss) << "all ranks say the same";
    }
  }
  double loss = 0, norm = 0;
  for (size_t step = 0; step < one.size(); ++step) {
    loss = std::max(loss, std::abs(runs[0].results[step].loss / one[step].loss - 1));
    norm = std::max(norm, std::abs(runs[0].results[step].grad_norm / one[step].grad_norm - 1));
  }
  std::printf("%s: losses within %.1e, gradient norms within %.1e\n", layout.name.c_str(), loss, norm);
}

inline std::string text(const OpRecord& r) {
  return fmt::format("{} {} on stream {}: {} flops, {} bytes read, {} written, group {}, peer {}", static_cast<int>(r.kind),
                     r.name, r.stream.number(), r.flops, r.bytes_read, r.bytes_written, r.group, r.peer);
}

// What was executed is what was planned, record by record.
inline void expect_as_planned(const RankRun& run) {
  const auto &executed = run.executed.records, &planned = run.planned.records;
  ASSERT_EQ(executed.size(), planned.size());
  for (size_t i = 0; i < executed.size(); ++i)
    ASSERT_TRUE(executed[i] == planned[i]) << "record " << i << "\nexecuted " << text(executed[i]) << "\nplanned  "
                                           << text(planned[i]);
}

}  // namespace trireme
