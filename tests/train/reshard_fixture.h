// Ranks as threads of this process, each with an engine, that save and load checkpoints together.
#pragma once

#include <exception>
#include <mutex>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "comm/control.h"
#include "comm/local_transport.h"
#include "support/engine_fixture.h"
#include "support/temporary_folder.h"
#include "train/engine_checkpoint.h"

namespace trireme {

struct NamedShape {
  const char* name;
  MeshShape shape;
};

inline std::ostream& operator<<(std::ostream& out, const NamedShape& named) { return out << named.name; }

// Four layers, with a table that first and last stage share, and an odd vocabulary of which the last ranks hold only padding.
using ModelChange = void (*)(ModelSettings&);
inline EngineSettings reshard_settings(const MeshShape& shape, ModelChange change = nullptr) {
  EngineSettings settings{.model = small_model(), .precision = Precision::bf16, .gradient_clip = 1.0};
  ModelSettings& model = settings.model;
  model.num_layers = 4;
  model.make_vocab_size_divisible_by = 16;
  model.micro_batch_size = 1;
  model.global_batch_size = 4;
  model.hidden_dropout = model.attention_dropout = 0.1;
  model.tensor_model_parallel_size = shape.tp;
  model.sequence_parallel = shape.tp == 4;
  model.pipeline_model_parallel_size = shape.pp;
  model.virtual_pipeline_model_parallel_size = shape.pp == 2 && shape.tp == 1 ? 2 : 1;
  model.context_parallel_size = shape.cp;
  // Two data parallel ranks have all of the optimizer's state each, more of them share it, and some shard their weights too.
  model.fsdp = shape.dp == 4 || (shape.tp == 2 && shape.dp == 2 && shape.pp == 1);
  model.optim.name = shape.size() == 2 ? Optimizer::adamw : Optimizer::distributed_fused_adam;
  if (change != nullptr) change(model);
  return settings;
}

// One rank of a run: trains on the samples of its place.
class ReshardRank {
 public:
  ReshardRank(const MeshShape& shape, World& world, ModelChange change)
      : settings_(reshard_settings(shape, change)),
        shape_(shape),
        rank_(world.rank()),
        control_(world.control()),
        engine_(settings_, backend_on(world), Mesh::of(shape, world), {shape, world.rank()}) {}

  Control& control() { return control_; }
  Engine& engine() { return *engine_; }

  double step() {
    const ModelSettings& model = settings_.model;
    const int64_t data_rank = rank_ / (shape_.tp * shape_.cp) % shape_.dp;
    const SequenceCut cut{.rank = rank_ / shape_.tp % shape_.cp, .ranks = shape_.cp};
    std::vector<Batch> batches;
    for (int64_t first = data_rank; first < model.global_batch_size; first += shape_.dp)
      batches.push_back(make_batch(1, model.encoder_seq_length, model.vocab_size, step_ * model.global_batch_size + first, cut));
    ++step_;
    return engine_.step(batches, 1e-2, model.global_batch_size * model.encoder_seq_length).loss;
  }

  void save(const std::filesystem::path& folder) {
    CheckpointWriter writer(folder, checkpoint_tensors(*engine_, CheckpointUse::save), {.keep_last = 100}, &control_);
    writer.snapshot({.step = step_, .state = {{"updates", engine_->updates()}}});
    writer.wait();
  }

  void load(const std::filesystem::path& folder) {
    const auto wanted = [&](const CheckpointManifest&) {
      std::vector<CheckpointTensor> tensors = checkpoint_tensors(*engine_, CheckpointUse::load);
      if (engine_->lora() != nullptr)
        std::erase_if(tensors, [](const CheckpointTensor& tensor) { return is_made_from_adapters(tensor.name); });
      return tensors;
    };
    const NewestCheckpoint newest = load_newest(folder, wanted, &control_);
    const CheckpointInfo& info = newest.checkpoint->manifest.info;
    engine_->restore_updates(info.state.at("updates").get<int64_t>());
    step_ = info.step;
  }

 private:
  static std::unique_ptr<Backend> backend_on(World& world) {
    auto backend = std::make_unique<CpuBackend>(1);
    backend->set_streams(world.streams());
    return backend;
  }

  EngineSettings settings_;
  MeshShape shape_;
  int rank_;
  Control& control_;
  EngineFixture engine_;
  int64_t step_ = 0;
};

// Does `work` on every rank of `shape`; what a rank throws is thrown here.
template <class Work>
void on_mesh(const MeshShape& shape, Work work, ModelChange change = nullptr) {
  auto transports = LocalTransport::connect(shape.size());
  std::mutex mutex;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.size(); ++rank)
    threads.emplace_back([&, rank] {
      World world(std::move(transports[static_cast<size_t>(rank)]), {.timeout = std::chrono::seconds(60)});
      try {
        world.connect_control(LastResort::none);
        ReshardRank run(shape, world, change);
        work(run);
        run.control().first_of("end", "");
      } catch (const std::exception& failure) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        world.control().settle({.status = 1, .line = failure.what()}, true);
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

// Saves after two steps on one layout; returns the losses of the two steps that follow there.
inline std::vector<double> train_save_train(const MeshShape& shape, const std::filesystem::path& folder,
                                            ModelChange change = nullptr) {
  std::vector<double> losses(2);
  const auto work = [&](ReshardRank& run) {
    run.step();
    run.step();
    run.save(folder);
    const double third = run.step(), fourth = run.step();
    if (run.control().rank() == 0) losses = {third, fourth};
  };
  on_mesh(shape, work, change);
  return losses;
}

inline std::vector<double> load_train(const MeshShape& shape, const std::filesystem::path& folder, ModelChange change = nullptr) {
  std::vector<double> losses(2);
  const auto work = [&](ReshardRank& run) {
    run.load(folder);
    const double third = run.step(), fourth = run.step();
    if (run.control().rank() == 0) losses = {third, fourth};
  };
  on_mesh(shape, work, change);
  return losses;
}

}  // namespace trireme
