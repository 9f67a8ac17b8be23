// Estimates what a run will read, write and take, from the beginnings of some of its inputs.
#pragma once

#include "data/prepare/pipeline.h"

namespace trireme::prepare {

struct Estimate {
  double input_bytes = 0;  // after decompression
  double tokens = 0, documents = 0;
  double core_seconds = 0;

  Estimate& operator+=(const Estimate& other);
};

// Reads about two megabytes of a few files of every kind. Errors in them are ignored here; the run reports them.
Estimate estimate_work(const Plan& plan, const PipelineSettings& settings, const Tokenizer& tokenizer);

}  // namespace trireme::prepare
