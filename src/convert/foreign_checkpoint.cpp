#include "convert/foreign_checkpoint.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct ForeignRow {
  std::string_view begins, ends;  // of the name of a file or folder in it, or of the file itself
  const char *what, *remedy;
};
// The first row that fits holds.
constexpr std::array kForeign = {
    ForeignRow{"", "optim_states.pt", "a checkpoint of DeepSpeed",
               "convert it with the zero_to_fp32.py beside it, load the result in transformers and call save_pretrained"},
    ForeignRow{"zero_to_fp32", ".py", "a checkpoint of DeepSpeed",
               "run its zero_to_fp32.py, load the result in transformers and call save_pretrained"},
    ForeignRow{"global_step", "", "a checkpoint of DeepSpeed",
               "convert it with zero_to_fp32.py, load the result in transformers and call save_pretrained"},
    ForeignRow{"pytorch_model_fsdp", "", "a checkpoint of PyTorch FSDP, as accelerate writes it",
               "merge it with accelerate merge-weights, and import the folder of the merged model"},
    ForeignRow{".metadata", "", "a checkpoint of torch.distributed.checkpoint (PyTorch FSDP) that is not Megatron's",
               "load it in the program that wrote it and save the model with save_pretrained"},
    ForeignRow{"", ".distcp", "a file of torch.distributed.checkpoint", "name its folder"},
    ForeignRow{"lit_model", ".pth", "a checkpoint of LitGPT",
               "convert it with litgpt convert_from_litgpt, load it in transformers and call save_pretrained"},
    ForeignRow{"consolidated.", ".pth", "a model in Meta's own format", "import the same model in the format of transformers"},
    ForeignRow{"", ".gguf", "a model of llama.cpp", "import the model that it was made from"},
    ForeignRow{"", ".zarray", "a checkpoint of Megatron stored as zarr",
               "load it there and save it with --ckpt-format torch_dist"},
    ForeignRow{"tf_model", ".h5", "a model of TensorFlow", "load it in transformers with from_tf=True and call save_pretrained"},
    ForeignRow{"flax_model", ".msgpack", "a model of Flax",
               "load it in transformers with from_flax=True and call save_pretrained"},
    ForeignRow{"", ".ckpt", "a checkpoint of PyTorch Lightning that is not NeMo's",
               "load the model in its program and save it with save_pretrained"},
};

bool fits(const ForeignRow& row, const std::string& name) { return name.starts_with(row.begins) && name.ends_with(row.ends); }

}  // namespace

void require_no_foreign_checkpoint(const fs::path& named) {
  std::error_code failed;
  if (fs::exists(named / "config.json", failed)) return;
  std::vector<std::string> names;
  if (fs::is_regular_file(named, failed)) names.push_back(named.filename().string());
  for (const auto& entry : fs::directory_iterator(named, failed)) {
    names.push_back(entry.path().filename().string());
    if (entry.is_directory(failed) && fs::exists(entry.path() / ".zarray", failed)) names.emplace_back(".zarray");
  }
  for (const ForeignRow& row : kForeign)
    if (std::ranges::any_of(names, [&](const std::string& name) { return fits(row, name); }))
      throw UserError("{} is {}, which is not read here; {}", named.string(), row.what, row.remedy);
}

}  // namespace trireme
