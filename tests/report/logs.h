// Logs for the tests of this folder, as their writers make them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace trireme {

inline std::string dllogger_line(std::string_view step, std::string_view data) {
  return fmt::format(
      "DLLL {{\"timestamp\": \"1727486904.618568\", \"datetime\": \"2024-09-28 01:28:24.618568\", \"elapsedtime\": "
      "\"444.305037\", "
      "\"type\": \"LOG\", \"step\": {}, \"data\": {{{}}}}}\n",
      step, data);
}

// The settings that NeMo logs, of a model as small as can be: a sample has
//   3 T (L (2*4*C*C + 2*2*C*4C + 4 T C) + 2 C V) FLOPs by the full formula, with C = 8, L = 2, T = 16, V = 128.
inline std::string nemo_parameters(std::string_view more = "") {
  return dllogger_line(
      "\"PARAMETER\"",
      fmt::format("\"cfg/micro_batch_size\": 1, \"cfg/global_batch_size\": 4, \"cfg/tensor_model_parallel_size\": 2, "
                  "\"cfg/pipeline_model_parallel_size\": 1, \"cfg/encoder_seq_length\": 16, \"cfg/num_layers\": 2, "
                  "\"cfg/hidden_size\": 8, \"cfg/ffn_hidden_size\": 32, \"cfg/num_attention_heads\": 2, "
                  "\"cfg/kv_channels\": null, \"cfg/num_query_groups\": null, \"cfg/vocab_size\": 100, "
                  "\"cfg/make_vocab_size_divisible_by\": 64, \"cfg/activation\": \"gelu\"{}",
                  more));
}

inline std::string nemo_step(int64_t step, double loss, double seconds) {
  return dllogger_line(
      std::to_string(step),
      fmt::format("\"reduced_train_loss\": {}, \"lr\": 0.0001, \"global_step\": {}.0, \"consumed_samples\": {}.0, "
                  "\"grad_norm\": 1.5, \"train_step_timing in s\": {}, \"epoch\": 0",
                  loss, step, 4 * (step + 1), seconds));
}

// Steps 0 to count-1; step i takes i + 1 seconds.
inline std::string nemo_log(int64_t count, std::string_view more_parameters = "") {
  std::string text = nemo_parameters(more_parameters);
  for (int64_t step = 0; step < count; ++step)
    text += nemo_step(step, 10.0 - static_cast<double>(step) / 100, static_cast<double>(step + 1));
  return text;
}

}  // namespace trireme
