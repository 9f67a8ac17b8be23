#include "comm/device_choice.h"

#include <algorithm>

namespace trireme {

DeviceChoice choose_device(const std::vector<DeviceOffer>& offers, int rank) {
  const auto sees_the_same = [](const DeviceOffer& a, const DeviceOffer& b) {
    return a.host == b.host && a.visible == b.visible;
  };
  const auto place_of = [&](size_t r) {  // counted among ranks that see the same GPUs
    return static_cast<int>(std::count_if(offers.begin(), offers.begin() + static_cast<std::ptrdiff_t>(r),
                                          [&](const DeviceOffer& other) { return sees_the_same(other, offers[r]); }));
  };
  DeviceChoice choice;
  if (std::ranges::any_of(offers, [](const DeviceOffer& offer) { return offer.devices == 0; })) return choice;
  choice.groups = DeviceGroups::nccl;
  for (size_t r = 0; r < offers.size(); ++r)
    if (place_of(r) >= offers[r].devices) choice.groups = DeviceGroups::staged;
  const auto own = static_cast<size_t>(rank);
  choice.device = place_of(own) % offers[own].devices;
  choice.sharing = 0;
  for (size_t r = 0; r < offers.size(); ++r)
    if (sees_the_same(offers[r], offers[own]) && place_of(r) % offers[own].devices == choice.device) ++choice.sharing;
  return choice;
}

}  // namespace trireme
