// The result of `trireme train --benchmark`: a printed table and benchmark.json.
#pragma once

#include <string>

#include "telemetry/summary.h"

namespace trireme {

// What was measured, so that a figure can be judged and reproduced without its run folder.
struct BenchmarkFacts {
  std::string recipe, command;
  std::string machine;  // "cpu: 2 threads, avx512"
  std::string version, commit;
  std::string precision;  // as in the recipe: "bf16"
  int64_t parameters = 0, layers = 0, width = 0, heads = 0, vocabulary = 0, sequence_length = 0;
  int64_t global_batch_size = 0, micro_batch_size = 0;
  int64_t ranks = 1, tensor_parallel = 1, pipeline_parallel = 1, data_parallel = 1, context_parallel = 1;
};

std::string benchmark_text(const BenchmarkFacts& facts, const Summary& summary);
nlohmann::ordered_json benchmark_json(const BenchmarkFacts& facts, const Summary& summary);

}  // namespace trireme
