// Whether a run fits the machine it is started on. A valid recipe may be for another machine: for a thousand GPUs, or for more
// memory. The answer is one line, before data is opened or memory allocated.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "comm/world.h"
#include "config/settings.h"

namespace trireme {

// A valid run that is too large for this machine.
struct DoesNotFit : UserError {
  using UserError::UserError;
};

struct Resources {
  int64_t ranks = 1;
  int64_t memory = 0;                  // bytes that a rank may still take where its model is; 0: not known
  std::optional<int64_t> host_memory;  // where that is on a GPU: the host's, for what is kept there
};

// The memory one of several ranks may take: its share of the machine.
Resources resources_of(const World& world);

// The memory the model of a rank may take: its share of the GPU, or without a GPU of the machine.
Resources resources_of(const Backend& backend, const Resources& host, int ranks_per_device);

// What a run keeps for its parameters.
struct StateBytes {
  int64_t training = 0;         // weights, gradients, masters and Adam's two moments, where the model is
  int64_t offloaded = 0;        // masters and moments in host memory
  int64_t checkpoint_copy = 0;  // the copy that a checkpoint is saved from while training continues; 0: no checkpoints
};

StateBytes state_bytes(const Settings& settings, int64_t parameters);

// Throws a UserError if the settings ask for other ranks than there are, or if what a single rank keeps for its parameters is
// more than the memory.
void require_fit(const Settings& settings, const Resources& there);

// The same for everything a rank allocates, activations included: a row for each kind of memory.
void require_memory(const std::vector<std::pair<std::string, int64_t>>& rows, const Resources& there);

// Throws a UserError if the run needs a GPU that the backend is not, or something that a GPU does not do.
void require_device(const Settings& settings, const Backend& backend);

}  // namespace trireme
