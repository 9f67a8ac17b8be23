// Files of torch and archives of NeMo with contents that a test chooses.
#pragma once

#include "convert/convert_fixture.h"
#include "convert/megatron/megatron_export.h"
#include "convert/megatron/megatron_import.h"

namespace trireme {

// A file of torch as Megatron's are: {"model": tensors, "checkpoint_version": version, "arguments": texts}.
struct TensorToWrite {
  std::string name;
  Shape shape;
  std::vector<float> values;
};
inline void write_torch(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                        const std::vector<std::pair<std::string, std::string>>& arguments, double version = 3) {
  using Field = TorchFileWriter::Field;
  std::filesystem::create_directories(path.parent_path());
  std::vector<TorchOutput> outputs;
  for (const TensorToWrite& tensor : tensors) outputs.push_back({tensor.name, tensor.shape});
  TorchFileWriter file(path,
                       {{.key = "checkpoint_version", .kind = Field::Kind::real, .real = version, .texts = {}},
                        {.key = "arguments", .kind = Field::Kind::texts, .texts = arguments}},
                       outputs, DType::f32);
  for (const TensorToWrite& tensor : tensors) file.write(tensor.values);
  file.close();
}

inline StoredCheckpoint import_megatron(const std::filesystem::path& from, const std::filesystem::path& run,
                                        const MegatronImportOptions& options = {}) {
  MegatronImport(from, options).write(run);
  return *open_named_checkpoint(run).checkpoint;
}

inline std::filesystem::path megatron_golden(const std::string& name) {
  return std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/convert/golden/megatron" / name;
}

}  // namespace trireme
