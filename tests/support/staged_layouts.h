// Layouts whose ranks have a device each, or share one, and communicate by way of the host.
#pragma once

#include "comm/staged_group.h"
#include "support/layouts.h"

namespace trireme {

// One of each kind of parallelism, and of each way that it communicates.
inline std::vector<Layout> staged_layouts(Precision precision) {
  const auto overlapped = [](ModelSettings model) {
    model.optim.name = Optimizer::distributed_fused_adam;
    model.optim.overlap_grad_sync = model.optim.overlap_param_sync = model.overlap_p2p_comm = model.ub_tp_comm_overlap = true;
    return model;
  };
  ModelSettings pieces = overlapped(small_neox());
  pieces.sequence_parallel = true;
  ModelSettings interleaved = overlapped(small_llama());
  interleaved.num_layers = 4, interleaved.virtual_pipeline_model_parallel_size = 2;
  ModelSettings single = small_gpt3();
  single.batch_p2p_comm = false;
  ModelSettings sharded = overlapped(small_neox());
  sharded.fsdp = true, sharded.num_layers = 4;
  std::vector<Layout> layouts = {layout_of("gpt3_tp2_pp2", small_gpt3(), {.tp = 2, .pp = 2}),
                                 layout_of("neox_sp2_dp2_overlapped", pieces, {.tp = 2, .dp = 2}),
                                 layout_of("llama_pp2_vp2_overlapped", interleaved, {.pp = 2}),
                                 layout_of("gpt3_pp2_single_messages", single, {.pp = 2}),
                                 layout_of("llama_cp2", small_llama(), {.cp = 2}),
                                 layout_of("neox_dp2_fsdp", sharded, {.dp = 2})};
  for (Layout& layout : layouts) layout.precision = precision;
  return layouts;
}

using MakeDevice = std::function<std::unique_ptr<Backend>(int rank)>;

inline std::vector<RankRun> train_staged(const Layout& layout, int steps, const MakeDevice& make_device) {
  return on_ranks(layout.shape.size(), [&](World& world, RankRun& run) {
    const std::unique_ptr<Backend> device = make_device(world.rank());
    StagedBackend staged(*device, *device->device_streams(), world.progress());
    Mesh mesh = Mesh::of({layout.shape, world.rank()}, [&](GroupKind group, std::vector<int> ranks) {
      return std::make_unique<StagedGroup>(group, std::move(ranks), world.transport(), staged);
    });
    run_engine(layout, steps, world.rank(), std::make_unique<TracedBackend>(staged, run.executed),
               traced(std::move(mesh), run.executed), run);
  });
}

}  // namespace trireme
