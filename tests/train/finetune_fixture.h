// Fine-tuning of the small model of tests/evaluate on eight examples of which any two fit into a sample and no three do. A step
// is over all of them in four samples, whatever their order.
#pragma once

#include <sstream>

#include "evaluate/evaluation_fixture.h"

namespace trireme {

inline const std::filesystem::path kFinetuneTests = std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/train/finetune";

inline std::string finetune_arguments(const std::string& model, const std::string& output, const std::string& more = "") {
  return fmt::format(
      "finetune {} 'model.data.data_prefix=[{}/chats.jsonl]' trainer.max_steps=20 trainer.precision=32 trainer.threads=1 "
      "model.encoder_seq_length=32 model.global_batch_size=4 model.micro_batch_size=2 model.optim.lr=2e-3 "
      "model.optim.weight_decay=0.1 trainer.gradient_clip_val=1 model.optim.sched.name=constant model.optim.sched.warmup_steps=0 "
      "exp_manager.explicit_log_dir={} {}",
      model, kFinetuneTests.string(), output, more);
}

// Begins with an adapter that PEFT saved.
inline std::string lora_arguments(const std::string& adapter = (kFinetuneTests / "adapter").string()) {
  return fmt::format(
      "model.peft.peft_scheme=lora model.peft.lora_tuning.adapter_dim=4 model.peft.lora_tuning.alpha=12 "
      "'model.peft.lora_tuning.target_modules=[all]' model.peft.restore_from_path={}",
      adapter);
}

inline std::vector<double> losses_of(const std::filesystem::path& run) {
  std::istringstream lines(read_file(run / "metrics.csv", 1 << 24));
  std::string line;
  std::getline(lines, line);
  std::vector<double> losses;
  while (std::getline(lines, line)) {
    size_t begin = 0;
    for (int column = 0; column < 3; ++column) begin = line.find(',', begin) + 1;
    losses.push_back(std::stod(line.substr(begin)));
  }
  return losses;
}

// Both sides compute in f32; what they round differently grows slowly over the steps. Measured: 2e-7.
constexpr double kLossTolerance = 5e-6;

inline void expect_losses(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], kLossTolerance * expected[i]) << "step " << i;
}

}  // namespace trireme
