// What a run will read, write and take, from a look at the beginnings of some of its inputs.
#pragma once

#include "data/prepare/pipeline.h"

namespace trireme::prepare {

struct Estimate {
  double input_bytes = 0;  // unfolded
  double tokens = 0, documents = 0;
  double core_seconds = 0;

  Estimate& operator+=(const Estimate& other);
};

// Reads about two megabytes of each of a few files of every kind. What is wrong with them is left for the run itself to say.
Estimate estimate_work(const Plan& plan, const PipelineSettings& settings, const Tokenizer& tokenizer);

}  // namespace trireme::prepare
