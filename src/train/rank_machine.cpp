#include "train/rank_machine.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda_module.h"
#include "backend/reference/reference_backend.h"
#include "base/process.h"
#include "comm/control.h"
#include "comm/nccl_group.h"
#include "comm/staged_group.h"

namespace trireme {
namespace {

// What every rank has in view, on every rank.
std::vector<DeviceOffer> share_offers(World& world) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string own = fmt::format("{} {}", cuda_device_count(), visible != nullptr ? visible : "");
  Control& control = world.control();
  if (world.size() == 1)
    return {{.host = host_name(), .visible = visible != nullptr ? visible : "", .devices = cuda_device_count()}};
  const std::string all = control.share("devices", fmt::format("{}", fmt::join(control.gather("device", own), "\n")));
  std::vector<DeviceOffer> offers;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    offers.push_back({.host = control.places()[offers.size()].host,
                      .visible = line.substr(space + 1),
                      .devices = std::atoi(line.substr(0, space).c_str())});
  }
  CHECK_EQ(offers.size(), static_cast<size_t>(world.size()));
  return offers;
}

}  // namespace

std::unique_ptr<Backend> make_backend(const TrainerSettings& settings, int device, HostStreams* streams) {
  if (settings.backend == BackendKind::cuda) return make_cuda_backend(device);
  if (settings.backend == BackendKind::automatic && cuda_device_count() > 0) return make_cuda_backend(device);
  std::unique_ptr<HostBackend> host;
  if (settings.backend == BackendKind::reference)
    host = std::make_unique<ReferenceBackend>();
  else
    host = std::make_unique<CpuBackend>(static_cast<int>(settings.threads));
  host->set_streams(streams);
  return host;
}

bool may_use_gpu(BackendKind asked) {
  return (asked == BackendKind::cuda || asked == BackendKind::automatic) && cuda_device_count() > 0;
}

RankMachine::RankMachine(World& world, TrainerSettings settings) : world_(world) {
  const bool is_alone = world.size() == 1;
  const bool may_use_gpus = settings.backend == BackendKind::cuda || settings.backend == BackendKind::automatic;
  std::vector<DeviceOffer> offers;
  if (may_use_gpus) offers = share_offers(world);
  chosen_ = choose_backend(settings.backend, offers, cuda_obstacle());
  settings.backend = chosen_.kind;
  if (!is_alone && may_use_gpus) choice_ = choose_device(offers, world.rank());
  // Ranks of one machine share its cores, unless somebody bound them to their own or the recipe says how many each takes.
  if (settings.threads == 0 && !is_alone) settings.threads = threads_of(world.control().places(), world.rank());
  device_ = make_backend(settings, choice_.device, world.streams());
  DeviceStreams* const streams = device_->device_streams();
  if (streams == nullptr) choice_ = {};
  if (is_alone || choice_.groups == DeviceGroups::none) return;
  if (choice_.groups == DeviceGroups::staged)
    staged_ = std::make_unique<StagedBackend>(*device_, *streams, world.progress());
  else
    nccl_ = std::make_unique<NcclSession>(*device_, *streams, world.progress());
}

Mesh RankMachine::connect(const MeshPlace& place) {
  if (!staged_ && !nccl_) return Mesh::of(place.shape, world_);
  CHECK_EQ(place.shape.size(), world_.size());
  Mesh mesh = Mesh::of(place, [&](GroupKind group, std::vector<int> ranks) -> std::unique_ptr<Communicator> {
    if (ranks.size() == 1) return std::make_unique<SoloCommunicator>();
    if (staged_) return std::make_unique<StagedGroup>(group, std::move(ranks), world_.transport(), *staged_);
    std::span<const NcclChannel> channels;
    if (group == GroupKind::pp) channels = kNcclStages;
    if (group == GroupKind::cp) channels = kNcclRing;
    return std::make_unique<NcclGroup>(group, std::move(ranks), channels, world_.transport(), world_.progress(), *nccl_);
  });
  if (nccl_) nccl_->require_network();
  return mesh;
}

std::string RankMachine::communication_text() const {
  if (nccl_) return nccl_->description();
  if (!staged_) return "";
  return fmt::format("{} ranks share a GPU: its memory goes through the host's, which is slow", choice_.sharing);
}

}  // namespace trireme
