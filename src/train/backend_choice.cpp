#include "train/backend_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace trireme {
namespace {

const char* name_of(BackendKind kind) {
  constexpr const char* kNames[] = {"auto", "cpu", "cuda", "reference"};
  return kNames[static_cast<size_t>(kind)];
}

std::string gpus_text(int64_t count) { return fmt::format("{} GPU{}", count, count == 1 ? "" : "s"); }

// GPUs that ranks see and do not use, if each takes one in turn, or none does.
struct GpuCount {
  int64_t seen = 0, spare = 0;
};

GpuCount count_gpus(const std::vector<DeviceOffer>& offers) {
  std::map<std::pair<std::string, std::string>, std::pair<int, int>> views;  // ranks and GPUs of each
  for (const DeviceOffer& offer : offers) {
    auto& [ranks, gpus] = views[{offer.host, offer.visible}];
    ranks += 1;
    gpus = offer.devices;
  }
  GpuCount count;
  for (const auto& [view, sizes] : views) {
    count.seen += sizes.second;
    count.spare += std::max(sizes.second - sizes.first, 0);
  }
  return count;
}

BackendChoice on_gpus(const std::vector<DeviceOffer>& offers, std::string reason) {
  const GpuCount gpus = count_gpus(offers);
  BackendChoice choice{.kind = BackendKind::cuda, .reason = std::move(reason), .warning = ""};
  if (gpus.spare > 0)
    choice.warning = fmt::format(
        "{} of {} GPUs stay unused: every rank uses one; start {} ranks (mpirun -n {}), or hide them with CUDA_VISIBLE_DEVICES",
        gpus.spare, gpus.seen, gpus.seen, gpus.seen);
  return choice;
}

BackendChoice automatic(const std::vector<DeviceOffer>& offers, const GpuObstacle& obstacle) {
  const auto ranks = std::ssize(offers);
  const int64_t seen = count_gpus(offers).seen;
  if (seen == 0)
    return {.kind = BackendKind::cpu,
            .reason = obstacle.text,
            .warning = obstacle.has_gpu ? fmt::format("there is a driver for GPUs, and none is used: {}; docs/gpu.md says how to "
                                                      "build for them, trainer.backend=cpu leaves this out",
                                                      obstacle.text)
                                        : ""};
  const auto without = std::ranges::find(offers, 0, &DeviceOffer::devices);
  if (without != offers.end())
    return {
        .kind = BackendKind::cpu,
        .reason = fmt::format("rank {} on {} has no GPU", without - offers.begin(), without->host),
        .warning = fmt::format("{} of other ranks stay unused, because rank {} on {} has none; start ranks only where a GPU is",
                               gpus_text(seen), without - offers.begin(), without->host)};
  if (choose_device(offers, 0).groups == DeviceGroups::nccl || ranks == 1)
    return on_gpus(offers, ranks == 1 ? "a GPU was found" : "there is a GPU for each rank");
  return {.kind = BackendKind::cpu,
          .reason = fmt::format("{} ranks see {}", ranks, gpus_text(seen)),
          .warning = fmt::format("{} {} unused, because there are {} ranks; start {}, or let ranks share GPUs with "
                                 "trainer.backend=cuda",
                                 gpus_text(seen), seen == 1 ? "stays" : "stay", ranks, seen)};
}

}  // namespace

BackendChoice choose_backend(BackendKind asked, const std::vector<DeviceOffer>& offers, const GpuObstacle& obstacle) {
  if (asked == BackendKind::automatic) return automatic(offers, obstacle);
  if (asked == BackendKind::cuda) return on_gpus(offers, "trainer.backend=cuda");
  return {.kind = asked, .reason = fmt::format("trainer.backend={}", name_of(asked)), .warning = ""};
}

std::string BackendChoice::text() const { return fmt::format("{}: {}", name_of(kind), reason); }

}  // namespace trireme
