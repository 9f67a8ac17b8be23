#include "convert/torch/pickle_globals.h"

#include <algorithm>
#include <array>

namespace trireme {
namespace {

// What tensors, dicts and arrays are made of. Their meaning is known to the readers that look for them.
constexpr std::array<std::string_view, 58> kNames = {
    "argparse.Namespace",
    "types.SimpleNamespace",
    "collections.OrderedDict",
    "collections.defaultdict",
    "collections.deque",
    "builtins.dict",
    "builtins.list",
    "builtins.tuple",
    "builtins.set",
    "builtins.frozenset",
    "builtins.int",
    "builtins.float",
    "builtins.str",
    "builtins.bool",
    "builtins.complex",
    "builtins.slice",
    "builtins.bytearray",
    "builtins.object",
    "__builtin__.set",
    "__builtin__.object",
    "__builtin__.list",
    "__builtin__.dict",
    "copy_reg._reconstructor",
    "copyreg._reconstructor",
    "_codecs.encode",
    "_io.BytesIO",
    "io.BytesIO",
    "enum.Enum",
    "pathlib.Path",
    "pathlib.PosixPath",
    "pathlib._local.PosixPath",
    "pathlib.PurePosixPath",
    "datetime.timedelta",
    "signal.Signals",
    "typing.Any",
    "numpy.dtype",
    "numpy.ndarray",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._tensor._rebuild_from_type_v2",
    "torch.nn.parameter.Parameter",
    "torch.Tensor",
    "torch.Size",
    "torch.device",
    "torch.memory_format",
    "torch.serialization._get_layout",
    "torch.strided",
    "torch.contiguous_format",
    "torch.preserve_format",
    "torch.nn.functional.gelu",
    "torch.nn.functional.silu",
};

// torch.float32, torch.bfloat16, torch.FloatStorage, torch.storage.UntypedStorage.
bool is_torch_type(std::string_view name) {
  if (name.starts_with("torch.cuda.")) name = name.substr(11);
  if (name.starts_with("torch.storage.")) name = name.substr(14);
  if (name.starts_with("torch.")) name = name.substr(6);
  if (name.find('.') != std::string_view::npos) return false;
  const bool has_width = name.starts_with("float") || name.starts_with("int") || name.starts_with("uint") ||
                         name.starts_with("bfloat") || name.starts_with("complex") || name.starts_with("q");
  return name.ends_with("Storage") || name == "bool" || name == "half" || name == "long" || name == "double" || has_width;
}

// Settings and records of these programs; they are kept as data without meaning.
constexpr std::array<std::string_view, 12> kPackages = {
    "megatron.",
    "nemo.",
    "omegaconf.",
    "torch.distributed.checkpoint.",
    "pytorch_lightning.",
    "lightning.",
    "lightning_fabric.",
    "transformer_engine.",
    "nemo_text_processing.",
    "torch.distributed._shard.",
    "fiddle.",
    "apex.",
};

}  // namespace

bool is_accepted_global(std::string_view name) {
  return std::ranges::find(kNames, name) != kNames.end() || (name.starts_with("torch.") && is_torch_type(name)) ||
         std::ranges::any_of(kPackages, [&](std::string_view package) { return name.starts_with(package); });
}

}  // namespace trireme
