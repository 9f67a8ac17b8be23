#include "plan/machine_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/build_info.h"
#include "base/units.h"
#include "train/ceilings.h"

namespace trireme {
namespace {

constexpr double kGigabyte = 1e9, kTeraflop = 1e12;

// Shapes that models have, on CPUs with as few tokens as a GEMM is fast with.
const std::vector<ProbeModel>& cpu_models() {
  static const std::vector<ProbeModel> models{
      {.width = 128, .heads = 4, .sequence = 768, .micro_batch = 1, .vocabulary = 257},
      {.width = 256, .heads = 4, .sequence = 512, .micro_batch = 2, .vocabulary = 8192},
      {.width = 384, .heads = 6, .sequence = 512, .micro_batch = 1, .vocabulary = 50304, .layers = 1},
      {.width = 512, .heads = 8, .sequence = 1024, .micro_batch = 1, .vocabulary = 8192, .layers = 1},
      {.width = 512, .heads = 8, .sequence = 2048, .micro_batch = 1, .vocabulary = 4096, .layers = 1},
      {.width = 768, .heads = 12, .sequence = 1024, .micro_batch = 1, .vocabulary = 8192, .layers = 1},
      {.width = 1024, .heads = 16, .sequence = 512, .micro_batch = 1, .vocabulary = 4096, .layers = 1},
      {.width = 2048, .heads = 16, .sequence = 256, .micro_batch = 1, .vocabulary = 4096, .layers = 1},
      {.width = 384,
       .heads = 6,
       .groups = 2,
       .sequence = 1024,
       .micro_batch = 1,
       .vocabulary = 8192,
       .layers = 1,
       .is_llama = true},
      {.width = 1024,
       .heads = 16,
       .groups = 4,
       .sequence = 512,
       .micro_batch = 1,
       .vocabulary = 4096,
       .layers = 1,
       .is_llama = true},
      {.width = 256, .heads = 4, .sequence = 512, .micro_batch = 1, .vocabulary = 4096, .dropout = 0.1},
      {.width = 768, .heads = 12, .sequence = 512, .micro_batch = 1, .vocabulary = 4096, .layers = 1, .dropout = 0.1},
  };
  return models;
}

const std::vector<ProbeModel>& gpu_models() {
  static const std::vector<ProbeModel> models{
      {.width = 768, .heads = 12, .sequence = 2048, .micro_batch = 1, .vocabulary = 50304, .layers = 4},
      {.width = 768, .heads = 12, .sequence = 2048, .micro_batch = 8, .vocabulary = 50304},
      {.width = 1024, .heads = 16, .sequence = 2048, .micro_batch = 4, .vocabulary = 32000},
      {.width = 1536, .heads = 16, .sequence = 1024, .micro_batch = 8, .vocabulary = 32000},
      {.width = 2048, .heads = 16, .sequence = 2048, .micro_batch = 2, .vocabulary = 50304},
      {.width = 2048, .heads = 16, .sequence = 2048, .micro_batch = 8, .vocabulary = 50304},
      {.width = 4096, .heads = 32, .sequence = 2048, .micro_batch = 2, .vocabulary = 50304},
      {.width = 4096, .heads = 32, .sequence = 2048, .micro_batch = 8, .vocabulary = 50304, .layers = 1},
      {.width = 8192, .heads = 64, .sequence = 2048, .micro_batch = 2, .vocabulary = 32000, .layers = 1},
      {.width = 12288, .heads = 96, .sequence = 2048, .micro_batch = 1, .vocabulary = 50304, .layers = 1},
      {.width = 12288, .heads = 96, .sequence = 2048, .micro_batch = 4, .vocabulary = 50304, .layers = 1},
      {.width = 2048, .heads = 16, .groups = 4, .sequence = 8192, .micro_batch = 1, .vocabulary = 32000, .is_llama = true},
      {.width = 4096, .heads = 32, .groups = 8, .sequence = 4096, .micro_batch = 2, .vocabulary = 32000, .is_llama = true},
      {.width = 1024, .heads = 16, .sequence = 2048, .micro_batch = 4, .vocabulary = 32000, .dropout = 0.1},
      {.width = 4096, .heads = 32, .sequence = 2048, .micro_batch = 2, .vocabulary = 32000, .layers = 1, .dropout = 0.1},
  };
  return models;
}

constexpr std::array kCollectives{Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                  Collective::sendrecv};

class MachineMeasure {
 public:
  MachineMeasure(RankGroup& here, const MeasureRequest& request) : here_(here), request_(request) {
    machine_.ranks = here.group.size();
    machine_.threads = request.threads;
    machine_.device = request.threads > 0 ? RecordedDevice::cpu : RecordedDevice::gpu;
  }

  Tree measure() && {
    const size_t models = request_.formats.size() * request_.models.size();
    parts_ = static_cast<size_t>(request_.rounds) * models + 1 + (here_.group.size() > 1 ? 2 : 0);
    for (int round = 0; round < request_.rounds; ++round)
      for (const std::string& format : request_.formats)
        for (const ProbeModel& model : request_.models) measure_ops(format, model);
    for (auto& [format, ops] : times_) machine_.formats.emplace(format, MeasuredOps(medians_of(ops)));
    fit_gaps();
    say("peaks");
    Tree file = describe();
    if (here_.group.size() > 1) measure_collectives(), measure_overlap();
    add_network(file);
    file.set("measured", to_tree(machine_));
    return file;
  }

 private:
  // A step of a model, for what it takes besides its ops.
  struct Gap {
    double step_seconds = 0, ops_seconds = 0, ops = 0;
  };

  // Of one shape, from every round and every model that has it.
  struct ShapeTimes {
    PlanCall call;
    std::vector<double> seconds;
  };

  void say(const std::string& what) {
    part_ += 1;
    if (here_.group.rank() == 0) request_.progress(fmt::format("measuring {} of {}: {}", part_, parts_, what));
  }
  void meet() { here_.control.gather("ready", ""), here_.control.share("ready", ""); }

  // Whether every rank has the memory.
  bool all_have_room(const Settings& settings) {
    const bool has_room = has_room_for(settings, here_.backend, request_.memory);
    const std::vector<std::string> rooms = here_.control.gather("room", has_room ? "yes" : "no");
    const bool all = std::ranges::find(rooms, "no") == rooms.end();
    return here_.control.share("room", all ? "yes" : "no") == "yes";
  }

  void measure_ops(const std::string& format, const ProbeModel& model) {
    say(fmt::format("{}, {}", format, model.text()));
    const Settings settings = settings_of_probe(model, format);
    if (!all_have_room(settings)) return;
    const ProbeResult result = run_probe(settings, here_.backend, request_.window, [this] { meet(); });
    gaps_.push_back({result.step_seconds, result.ops_seconds, result.ops});
    for (const auto& [name, calls] : result.calls)
      for (const MeasuredCall& one : calls) {
        std::vector<ShapeTimes>& shapes = times_[format][name];
        auto known = std::ranges::find_if(shapes, [&](const ShapeTimes& shape) { return shape.call.is_same_work(one.call); });
        if (known == shapes.end()) known = shapes.insert(shapes.end(), {one.call, {}});
        known->seconds.push_back(one.seconds);
      }
  }

  static MeasuredCalls medians_of(std::map<std::string, std::vector<ShapeTimes>>& ops) {
    MeasuredCalls calls;
    for (auto& [name, shapes] : ops)
      for (ShapeTimes& shape : shapes) {
        calls[name].push_back({shape.call, median_of(std::move(shape.seconds))});
      }
    return calls;
  }

  // step = ops + op_seconds * number of ops + step_seconds, with the least sum of squared relative errors.
  void fit_gaps() {
    double nn = 0, n1 = 0, ones = 0, nr = 0, r1 = 0;
    for (const Gap& gap : gaps_) {
      const double n = gap.ops / gap.step_seconds, one = 1 / gap.step_seconds, rest = 1 - gap.ops_seconds / gap.step_seconds;
      nn += n * n, n1 += n * one, ones += one * one, nr += n * rest, r1 += rest * one;
    }
    const double determinant = nn * ones - n1 * n1;
    if (determinant > 1e-9 * nn * ones) {
      machine_.op_seconds = (nr * ones - r1 * n1) / determinant;
      machine_.step_seconds = (r1 * nn - nr * n1) / determinant;
    }
    if (determinant > 1e-9 * nn * ones && machine_.step_seconds >= 0) return;
    machine_.op_seconds = nn > 0 ? nr / nn : 0, machine_.step_seconds = 0;
  }

  Tree describe() {
    Backend& backend = here_.backend;
    const bool is_gpu = request_.threads == 0;
    const Ceilings wide = measure_ceilings(backend, DType::f32, GemmPrecision::plain);
    const Ceilings narrow = measure_ceilings(backend, DType::bf16, GemmPrecision::plain);
    const bool has_fp8 = std::ranges::find(request_.formats, "fp8") != request_.formats.end();
    const Ceilings fp8 = has_fp8 ? measure_ceilings(backend, DType::bf16, GemmPrecision::fp8) : Ceilings{};
    Tree gpu;
    gpu.set("summary", Tree(is_gpu ? backend.device_name() : fmt::format("{} of a CPU", plural(request_.threads, "core"))));
    const auto set = [](Tree& tree, const char* key, double value) { tree.set(key, Tree(std::round(value * 1000) / 1000)); };
    set(gpu, "f32_tflops", wide.flops / kTeraflop);
    set(gpu, "bf16_tflops", narrow.flops / kTeraflop);
    set(gpu, "fp8_tflops", fp8.flops / kTeraflop);
    set(gpu, "memory_gib", static_cast<double>(request_.memory) / std::exp2(30));
    set(gpu, "memory_bandwidth", narrow.bytes / kGigabyte);
    for (const char* key : {"multiprocessors", "tile_us", "launch_us", "bf16_share", "copy_share"})
      gpu.set(key, Tree(int64_t{1}));
    Tree file;
    // Every plan from this file prints the summary.
    const char* how =
        request_.depth == MeasureDepth::quick ? "measured with --quick, which is too little to rely on" : "measured";
    file.set("summary", Tree(fmt::format("{}: {} with {}", how, plural(machine_.ranks, "rank"), backend.description())));
    file.set("source", Tree(fmt::format("trireme plan --measure, commit {}", kCommit)));
    file.set("gpu", std::move(gpu));
    file.set("gpus_per_node", Tree(request_.ranks_per_node));
    file.set("nvlink_domain", Tree(request_.ranks_per_node));
    return file;
  }

  void measure_collectives() {
    say("collectives");
    const CollectiveRequest request{.min_bytes = 1024,
                                    .max_bytes = request_.largest_collective,
                                    .seconds_per_row = request_.window / 20,
                                    .only = kCollectives};
    std::map<std::string, std::map<int64_t, std::vector<double>>> times;  // by name and bytes
    for (int round = 0; round < request_.rounds; ++round)
      for (const CollectiveRow& row : run_collectives(here_, request, {})) {
        // The trainer's own are in place.
        const CollectiveSide& side = row.in_place ? *row.in_place : *row.out_of_place;
        times[row.kind.name][row.bytes].push_back(side.seconds);
      }
    for (auto& [name, by_bytes] : times) {
      std::vector<CollectiveTimes::Point> points;
      for (auto& [bytes, seconds] : by_bytes) points.push_back({static_cast<double>(bytes), median_of(seconds)});
      machine_.collectives.emplace(name, CollectiveTimes(std::move(points)));
    }
  }

  // By how much gradient sums delay the GEMMs that hide them.
  void measure_overlap() {
    say("overlap");
    Backend& backend = here_.backend;
    const bool is_gpu = request_.threads == 0;
    const int64_t n = is_gpu ? 8192 : 512, count = request_.largest_collective / 4 / 8;
    Arena arena("overlap", 3 * n * n * 4 + 4 * count + 8 * Arena::kAlignment, [&](int64_t all) { return backend.allocate(all); });
    const Tensor x = arena.take({n, n}, DType::f32), weight = arena.take({n, n}, DType::f32),
                 out = arena.take({n, n}, DType::f32);
    const Tensor values = arena.take({count}, DType::f32);
    for (const Tensor& tensor : {x, weight, values}) backend.run(kCompute, Fill{.value = 0, .out = tensor});
    const LinearForward op{.x = x, .weight = weight, .bias = {}, .pre = {}, .out = out};
    const int64_t bytes = std::max<int64_t>(backend.scratch_bytes(op), 1);
    Arena scratch("scratch", round_up(bytes, Arena::kAlignment), [&](int64_t all) { return backend.allocate(all); });
    backend.set_scratch(kCompute, scratch.take({bytes}, DType::u8));
    const auto seconds_of = [&](int gemms, int collectives) {
      meet();
      std::array<double, 3> times{};
      backend.wait(kDataParallel, backend.record(kCompute, "overlap_begins"));
      backend.note_time(kCompute, times.data());
      for (int i = 0; i < collectives; ++i) here_.group.all_reduce(kDataParallel, values, Reduce::sum);
      for (int i = 0; i < gemms; ++i) backend.run(kCompute, op);
      backend.note_time(kCompute, &times[1]);
      backend.note_time(kDataParallel, &times[2]);
      backend.collect_times();
      return std::max(times[1], times[2]) - times[0];
    };
    const auto least = [&](int gemms, int collectives) {
      double best = seconds_of(gemms, collectives);
      for (int i = 0; i < 4; ++i) best = std::min(best, seconds_of(gemms, collectives));
      return best;
    };
    const double sum = least(0, 1), gemm = least(4, 0) / 4;
    const int gemms = std::stoi(here_.control.share("gemms", std::to_string(static_cast<int>(std::ceil(2 * sum / gemm)))));
    const double alone = least(gemms, 0);
    constexpr double kMost = 2;
    machine_.overlap_cost = std::clamp((least(gemms, 1) - alone) / sum, 0.0, kMost);
  }

  // For groups of another size than the measured one: the rate of large collectives, the time of small ones.
  void add_network(Tree& file) {
    if (machine_.ranks == 1) {
      file.set("nvlink_bandwidth", Tree(1.0)), file.set("nvlink_latency_us", Tree(1.0));
      return;
    }
    if (machine_.collectives.empty()) return;  // not rank 0
    const auto& points = machine_.collectives.at("all_reduce").points();
    const double bandwidth =
        points.back().bytes * bus_factor(Collective::all_reduce, narrow<int>(machine_.ranks)) / points.back().seconds / kGigabyte;
    const double latency = points.front().seconds / kMicrosecond / 2 / static_cast<double>(machine_.ranks - 1);
    for (const char* key : {"nvlink_bandwidth", "network_bandwidth"}) file.set(key, Tree(std::round(bandwidth * 1000) / 1000));
    for (const char* key : {"nvlink_share", "network_share"}) file.set(key, Tree(1.0));
    for (const char* key : {"nvlink_latency_us", "network_latency_us"}) file.set(key, Tree(std::round(latency * 100) / 100));
  }

  RankGroup& here_;
  const MeasureRequest& request_;
  MeasuredMachine machine_;
  std::map<std::string, std::map<std::string, std::vector<ShapeTimes>>> times_;  // by format and op
  std::vector<Gap> gaps_;
  size_t part_ = 0, parts_ = 0;
};

}  // namespace

MeasureRequest measure_request(Backend& backend, int64_t threads, MeasureDepth depth) {
  MeasureRequest request{.depth = depth, .threads = threads};
  request.models = threads > 0 ? cpu_models() : gpu_models();
  request.formats = {"f32", "bf16"};
  if (backend.has_fp8() && threads == 0) request.formats.emplace_back("fp8");
  request.largest_collective = int64_t{threads > 0 ? 64 : 1024} << 20;
  if (depth == MeasureDepth::full) return request;
  request.models = {{.width = 64, .heads = 2, .sequence = 64, .micro_batch = 1, .vocabulary = 256},
                    {.width = 128, .heads = 2, .sequence = 128, .micro_batch = 1, .vocabulary = 512}};
  request.window = 0.05;
  request.rounds = 1;
  request.largest_collective = int64_t{1} << 20;
  return request;
}

Tree measure_machine(RankGroup& here, const MeasureRequest& request) { return MachineMeasure(here, request).measure(); }

}  // namespace trireme
