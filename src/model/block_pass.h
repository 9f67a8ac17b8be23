// What the functions of one block share in a pass over one micro-batch.
#pragma once

#include "model/activations.h"
#include "model/context.h"
#include "model/weights.h"

namespace trireme {

struct BlockPass {
  const Context& context;
  int64_t layer;
  const BlockParameters& weights;
  BlockActivations& a;

  LinearSite site(BlockLinear linear) const { return {layer, linear}; }
};

}  // namespace trireme
