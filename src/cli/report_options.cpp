#include "cli/report_options.h"

#include "base/error.h"
#include "report/model_types.h"

namespace trireme {

void FactArguments::add_to(CLI::App& command) {
  command.add_option("--batch_size,--batch-size", said.batch_size, "samples per step, over all ranks");
  command.add_option("--num_accelerators,--num-accelerators", said.num_accelerators, "devices of the run");
  command.add_option("--model_type,--model-type", said.model_type,
                     fmt::format("FLOPs of a sample as Google's gpu-recipes has them: {}", model_type_names()));
  command.add_option("--model_flops,--model-flops", said.model_flops, "FLOPs of a sample, forward and backward: 2.2e15");
  command.add_option("--accelerator_type,--accelerator-type", said.accelerator_type,
                     "whose peak MFU is of: h100, h200, b200, a100, ...");
  command.add_option("--max_flops,--max-flops", said.max_flops, "that peak itself, in TFLOP/s of one device");
  command.add_option("--precision", precision, "which peak: bf16 or fp8; as the run trained unless said");
}

FactOptions FactArguments::options() const {
  FactOptions options = said;
  if (precision == "bf16") options.precision = PeakPrecision::bf16;
  if (precision == "fp8") options.precision = PeakPrecision::fp8;
  if (!precision.empty() && !options.precision) throw UserError("--precision {} is not known; use bf16 or fp8", precision);
  return options;
}

}  // namespace trireme
