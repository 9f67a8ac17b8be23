#include "train/announcement.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/build_info.h"
#include "base/units.h"
#include "comm/control.h"
#include "model/parameter_table.h"
#include "train/run_size.h"

namespace trireme {
namespace {

const char* precision_text(const Settings& settings) {
  if (settings.trainer.precision == Precision::f32) return "f32";
  if (settings.trainer.precision == Precision::f16) return "fp16 with f32 masters and loss scaling";
  return settings.model.fp8.enabled ? "FP8 linear layers in bf16 blocks with f32 masters" : "bf16 with f32 masters";
}

std::string data_text(const RunSetup& setup) {
  const auto count = [](double number) { return format_count(number); };
  const double taken = static_cast<double>(setup.settings.trainer.max_steps) * static_cast<double>(setup.model.global_batch_size);
  const auto there = static_cast<double>(setup.train_data->epoch_size());
  const int64_t threads = std::max<int64_t>(setup.model.data.num_workers, 1);
  const std::string what = setup.model.data.is_made_up()
                               ? fmt::format("made up; the run takes {}", counted(taken, "sample"))
                               : fmt::format("{} in the data; the run takes {}, {:.3g} epochs", counted(there, "training sample"),
                                             count(taken), taken / there);
  return fmt::format("{}: {}; {} ahead of the step", name_of(setup.model.data.data_impl), what,
                     counted(static_cast<double>(threads), "thread"));
}

// Where masters and moments are and in which types, where that is not the usual way; else nothing.
std::string optimizer_text(const RunSetup& setup) {
  const OptimSettings& optim = setup.model.optim;
  const auto name = [](MomentType type) { return type == MomentType::bf16 ? "bf16" : "f32"; };
  std::string text;
  if (moment_bytes(optim) < 2 * size_of(DType::f32))
    text = fmt::format("first moment {}, second moment {}", name(optim.exp_avg_dtype), name(optim.exp_avg_sq_dtype));
  if (const int64_t bytes = setup.plan.arenas.host_states.peak(); bytes > 0)
    text += fmt::format("{}{} of states in host memory, copied bucket by bucket", text.empty() ? "" : "; ", format_bytes(bytes));
  return text;
}

// The mesh, and what each rank holds of the model and where.
std::string layout_lines(const RunSetup& setup) {
  const MeshShape& shape = setup.place.shape;
  const int64_t chunks = setup.model.virtual_pipeline_model_parallel_size;
  const std::string sizes = fmt::format("TP {}, PP {}{}, DP {}, CP {}", shape.tp, shape.pp,
                                        chunks > 1 ? fmt::format(", VP {}", chunks) : "", shape.dp, shape.cp);
  if (setup.world.size() == 1) return "layout  1 rank: " + sizes;
  const std::vector<RankPlace>& places = setup.control.places();
  const RankPlace& here = places[static_cast<size_t>(setup.world.rank())];
  std::string own = fmt::format("rank {}: {}", setup.world.rank(), setup.plan.holdings);
  const auto slice = [&](const char* what, const Communicator& group) {
    if (group.size() > 1) own += fmt::format(", {} slice {} of {}", what, group.rank() + 1, group.size());
  };
  slice("tensor", *setup.mesh.tp);
  slice("context", *setup.mesh.cp);
  slice("data", *setup.mesh.dp);
  own += fmt::format("; {}, process {}, cores {}, {}; {}", here.host, here.process, here.core_text(),
                     setup.machine.backend().description(), format_bytes(setup.plan.total()));
  std::vector<std::string> lines = setup.control.gather("layout", own);
  if (lines.empty()) return "layout  " + own;
  constexpr size_t kMostShown = 64;  // every rank's own log has its line
  const size_t left_out = lines.size() - std::min(lines.size(), kMostShown);
  lines.resize(lines.size() - left_out);
  if (left_out > 0) lines.push_back(fmt::format("and {} more", left_out));
  return fmt::format("layout  {} ranks on {} {}: {}\n        {}", setup.world.size(), hosts_of(places),
                     hosts_of(places) == 1 ? "machine" : "machines", sizes, fmt::join(lines, "\n        "));
}

}  // namespace

void announce(const RunSetup& setup, RunLogs& logs) {
  const Dims d = dims_of(setup.model, setup.model.micro_batch_size, setup.model.encoder_seq_length);
  const auto table = parameter_table(setup.model);
  logs.say(fmt::format("trireme {} ({})  {}", kVersion, kCommit, setup.backend.description()));
  logs.say("backend " + setup.machine.chosen().text());
  if (const std::string& warning = setup.machine.chosen().warning; !warning.empty() && setup.is_first()) logs.warn(warning);
  logs.say(fmt::format("model   {} parameters: {}, {} wide, {}, vocabulary {} (padded to {}), sequence {}, {}",
                       format_count(static_cast<double>(parameter_count(table))), plural(d.L, "layer"), d.C, plural(d.H, "head"),
                       d.V, d.V_padded, d.T, precision_text(setup.settings)));
  logs.say(fmt::format("batch   {} per step in micro-batches of {}, {} tokens per step; {}",
                       plural(setup.model.global_batch_size, "sample"), setup.model.micro_batch_size,
                       format_count(static_cast<double>(setup.model.global_batch_size * d.T)),
                       plural(setup.settings.trainer.max_steps, "step")));
  logs.say("data    " + data_text(setup));
  logs.say(layout_lines(setup));
  if (setup.mesh.size() > 1) logs.say("overlap " + overlaps_text(setup.settings));
  if (const std::string text = setup.machine.communication_text(); !text.empty()) logs.say("comm    " + text);
  if (const std::string text = optimizer_text(setup); !text.empty()) logs.say("optim   " + text);
  logs.say(memory_table(setup.plan, setup.other_memory));
  logs.say("rates   " + setup.rates.description());
  if (setup.prediction) logs.say("plan    " + setup.prediction->text());
  for (const std::string& line : setup.request.notices) logs.say(line);
  if (setup.restored) logs.say(fmt::format("weights {}, unless the run has a checkpoint of its own", setup.restored->named));
  logs.say(fmt::format("run     {}", setup.folder.path().string()));
  if (setup.model.profile.enabled)
    logs.say(
        fmt::format("profile steps {} to {} are marked for a profiler; to record them:\n        nsys profile --trace={} "
                    "--capture-range=cudaProfilerApi --capture-range-end=stop --output={}/profile {}",
                    setup.model.profile.start_step, setup.model.profile.end_step, fmt::join(setup.model.profile.trace, ","),
                    setup.folder.path().string(), setup.request.command));
}

}  // namespace trireme
