#include "convert/megatron/megatron_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "convert/megatron/parameter_names.h"
#include "convert/torch/distributed_files.h"
#include "convert/torch/tar_archive.h"
#include "train/checkpoint/json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Kind = PickleValue::Kind;

constexpr const char* kNewestFile = "latest_checkpointed_iteration.txt";
constexpr const char* kOptimizerFile = "distrib_optim.pt";
constexpr int64_t kMaxConfigBytes = int64_t{1} << 24;

// mp_rank_00, mp_rank_00_001, tp_rank_00_pp_rank_001, each with the tensor parallel rank and the stage.
const std::regex& rank_folder() {
  static const std::regex pattern("(mp_rank_([0-9]{2,3})(_([0-9]{3}))?|tp_rank_([0-9]{2,3})_pp_rank_([0-9]{3}))");
  return pattern;
}

bool is_rank_folder(const std::string& name) { return std::regex_match(name, rank_folder()); }

std::optional<int64_t> iteration_of_folder(const std::string& name) {
  int64_t iteration = 0;
  if (!name.starts_with("iter_") || name.size() > 15) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), iteration);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(iteration) : std::nullopt;
}

// Of a folder with several checkpoints, the one that Megatron would load; otherwise the folder itself.
fs::path newest_checkpoint(const fs::path& folder) {
  const fs::path newest = folder / kNewestFile;
  if (fs::is_regular_file(newest)) {
    std::string text = read_file(newest, 100);
    text.erase(std::ranges::find_if(text, [](char c) { return c == '\n' || c == ' ' || c == '\r'; }), text.end());
    int64_t iteration = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), iteration);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    fs::path named = folder / (is_number ? fmt::format("iter_{:07}", iteration) : "release");
    if (!fs::is_directory(named)) throw UserError("{} names {}, which is not there", newest.string(), named.string());
    return named;
  }
  fs::path found = folder;
  int64_t last = -1;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const auto iteration = iteration_of_folder(entry.path().filename().string()); iteration && *iteration > last) {
      last = *iteration;
      found = entry.path();
    }
  return found;
}

bool is_torch_file(const fs::path& file) {
  if (fs::file_size(file) < 4) return false;
  const MappedFile mapped = MappedFile::open(file);
  const ByteView view{mapped.bytes(), file.string()};
  return ZipArchive::is_archive(view) || view.number(0, 1) == 0x80;
}

FileSet open_files(const fs::path& named) {
  if (fs::is_directory(named)) return FileSet::open(newest_checkpoint(named));
  if (!fs::is_regular_file(named)) throw UserError("{} is not there", named.string());
  if (!is_torch_file(named)) return FileSet::open(named);
  const fs::path folder = fs::absolute(named).parent_path();
  return is_rank_folder(folder.filename().string()) ? FileSet::open(folder.parent_path()) : FileSet::of_file(named);
}

// Tensors in nested dicts, by their names joined with dots.
class Flattener {
 public:
  Flattener(const TorchFile& file, std::map<std::string, TorchTensor>& to) : file_(file), to_(to) {}

  void add(const std::string& prefix, const PickleValue& value, int depth = 0) {
    // A dict that contains itself, or the same dicts again and again, must end.
    constexpr int kDeepest = 12;
    constexpr size_t kMostValues = 1 << 17, kLongestName = 512;
    if (++seen_ > kMostValues) throw Failure("{}: damaged: its dicts have more than {} entries", file_.where(), kMostValues);
    if (const auto tensor = file_.tensor(value)) {
      to_.insert_or_assign(prefix, *tensor);
      return;
    }
    const bool is_dict = value.is(Kind::dict) || value.is_object_of("collections.OrderedDict");
    if (!is_dict || value.dict() == nullptr || depth > kDeepest) return;
    const PickleValue::Items& items = value.dict()->items;
    for (size_t i = 0; i + 1 < items.size(); i += 2)
      if (items[i]->is(Kind::text)) {
        if (prefix.size() + items[i]->text.size() > kLongestName)
          throw Failure("{}: damaged: a name of more than {} bytes", file_.where(), kLongestName);
        add(prefix + (prefix.empty() ? "" : ".") + std::string(items[i]->text), *items[i + 1], depth + 1);
      }
  }

 private:
  const TorchFile& file_;
  std::map<std::string, TorchTensor>& to_;
  size_t seen_ = 0;
};

// The parts of a model that one file has: one, or with virtual stages several.
std::vector<const PickleValue*> model_chunks(const PickleValue& root) {
  std::vector<const PickleValue*> chunks;
  if (const PickleValue* model = root.find("model"); model != nullptr && model->dict() != nullptr) return {model};
  if (const PickleValue* state = root.find("state_dict");
      state != nullptr && state->dict() != nullptr && !state->dict()->items.empty())
    return {state};
  for (int64_t chunk = 0; chunk < 128; ++chunk) {
    const PickleValue* model = root.find(fmt::format("model{}", chunk));
    if (model == nullptr) break;
    chunks.push_back(model);
  }
  if (chunks.empty()) chunks.push_back(&root);
  return chunks;
}

double number_of(const PickleValue* value, double missing) {
  if (value == nullptr) return missing;
  if (value->is(Kind::real)) return value->real;
  return value->is(Kind::integer) ? static_cast<double>(value->integer) : missing;
}

// The steps of Adam: a number in optimizer.state.common_step. Without it, as many as there were iterations.
int64_t updates_in(const TorchFile& file, int64_t iterations) {
  const PickleValue* value = &file.root();
  for (const char* key : {"optimizer", "state", "common_step"})
    if (value != nullptr) value = value->find(key);
  const std::optional<TorchTensor> tensor = value != nullptr ? file.tensor(*value) : std::nullopt;
  if (!tensor || tensor->shape.count() != 1 || tensor->type.type == TorchType::other) return iterations;
  float steps = 0;
  tensor->read(0, {&steps, 1});
  return steps >= 0 && steps < 1e8f ? static_cast<int64_t>(steps) : iterations;
}

}  // namespace

bool MegatronFiles::is_checkpoint(const fs::path& named) {
  std::error_code failed;
  if (fs::is_regular_file(named, failed)) {
    if (named.extension() == ".nemo") return true;
    if (fs::file_size(named, failed) < 512) return false;
    const std::string folder = fs::absolute(named).parent_path().filename().string();
    return is_torch_file(named) && (is_rank_folder(folder) || named.filename() == "model_weights.ckpt");
  }
  if (!fs::is_directory(named, failed)) return false;
  if (fs::exists(named / kNewestFile, failed)) return true;
  const auto is_ours = [](const fs::path& folder, auto&& self, int depth) -> bool {
    std::error_code unreadable;
    if (fs::exists(folder / "common.pt", unreadable) || fs::exists(folder / "model_weights.ckpt", unreadable)) return true;
    for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_directory(unreadable)) continue;
      if (is_rank_folder(name)) return true;
      if (depth < 1 && (iteration_of_folder(name) || name == "model_weights" || name == "weights" || name == "release"))
        if (self(entry.path(), self, depth + 1)) return true;
    }
    return false;
  };
  return is_ours(named, is_ours, 0);
}

MegatronFiles::MegatronFiles(const fs::path& named) : files_(open_files(named)) {
  const bool is_file = fs::is_regular_file(named) && is_torch_file(named);
  find_files(is_file ? named.filename().string() : "");
  find_config();
}

const char* MegatronFiles::format() const { return is_distributed_ ? "torch_dist" : "torch"; }

void MegatronFiles::find_files(const std::string& asked_file) {
  for (const char* folder : {"", "model_weights/", "weights/"})
    if (files_.has(std::string(folder) + ".metadata")) return read_distributed(folder);
  for (const std::string& name : files_.names()) {
    if (name.ends_with(".zarray"))
      throw UserError("{} is stored as zarr; load it in Megatron or NeMo and save it with ckpt_format torch_dist", where());
    if (name.ends_with("optim_states.pt"))
      throw UserError("{} is a checkpoint of DeepSpeed; convert it with its zero_to_fp32.py, or save it as a transformers model",
                      where());
  }
  const std::vector<RankFile> ranks = rank_files(asked_file);
  if (ranks.empty())
    throw UserError(
        "{} has no mp_rank_XX, no tp_rank_XX_pp_rank_XXX and no .metadata; name the folder of a checkpoint of "
        "Megatron-LM or a .nemo archive",
        where());
  read_ranks(ranks);
}

// The files of all ranks that have the same name as the one that was asked for.
std::vector<MegatronFiles::RankFile> MegatronFiles::rank_files(const std::string& asked_file) const {
  std::vector<RankFile> ranks;
  std::set<std::string> bases;
  for (const std::string& name : files_.names()) {
    const size_t slash = name.find('/');
    if (name.ends_with(kOptimizerFile) || name.find("optimizer") != std::string::npos) continue;
    if (!name.ends_with(".pt") && !name.ends_with(".ckpt")) continue;
    std::smatch match;
    const std::string folder = slash == std::string::npos ? "" : name.substr(0, slash), base = name.substr(slash + 1);
    if (!asked_file.empty() && base != asked_file) continue;
    if (!folder.empty() && !std::regex_match(folder, match, rank_folder())) continue;
    const auto number = [&](size_t a, size_t b) {
      const std::string text = folder.empty() ? "" : match[a].matched ? match[a].str() : match[b].matched ? match[b].str() : "";
      return text.empty() ? int64_t{0} : std::stoll(text);
    };
    bases.insert(base);
    ranks.push_back({number(2, 5), number(4, 6), name});
  }
  if (bases.size() > 1)
    throw UserError("{} has several checkpoints: {}; name the file of one, in the folder of any rank", where(),
                    fmt::join(bases, ", "));
  return ranks;
}

void MegatronFiles::read_facts(const TorchFile& file) {
  const PickleValue& root = file.root();
  arguments_ = root.find("args");
  if (arguments_ == nullptr) arguments_ = root.find("arguments");  // a dict of texts, as export writes it
  if (arguments_ != nullptr && arguments_->dict() == nullptr) arguments_ = nullptr;
  // Megatron's first checkpoints had no version. NeMo's have none either, and the order of rows of version 2.
  const bool is_megatron = root.find("model") != nullptr || root.find("model0") != nullptr;
  version_ = number_of(root.find("checkpoint_version"), is_megatron ? 0 : 3);
  for (const char* key : {"iteration", "global_step"})
    if (const PickleValue* value = root.find(key); value != nullptr && value->is(Kind::integer))
      iteration_ = std::clamp<int64_t>(value->integer, 0, 99'999'999);
  updates_ = updates_in(file, iteration_);
  has_optimizer_ |= root.find("optimizer") != nullptr || root.find("optimizer_states") != nullptr;
}

void MegatronFiles::read_ranks(const std::vector<RankFile>& files) {
  for (const RankFile& file : files) {
    tensor_parallel_ = std::max(tensor_parallel_, file.tensor_rank + 1);
    stages_ = std::max(stages_, file.stage + 1);
  }
  constexpr int64_t kMostRanks = 1 << 14;
  std::map<std::pair<int64_t, int64_t>, const RankFile*> of_rank;
  for (const RankFile& file : files) of_rank.emplace(std::pair(file.tensor_rank, file.stage), &file);
  for (int64_t tp = 0; tp < tensor_parallel_; ++tp)
    for (int64_t stage = 0; stage < stages_ && tp * stages_ + stage < kMostRanks; ++stage)
      if (!of_rank.contains({tp, stage}))
        throw UserError("{}: tensor parallel rank {} of stage {} is missing; copy the files of all {} ranks", where(), tp, stage,
                        tensor_parallel_ * stages_);

  // By chunk, stage and tensor parallel rank, because layers are numbered in that order.
  std::map<std::pair<size_t, int64_t>, std::vector<std::map<std::string, TorchTensor>>> tensors;
  for (const auto& [rank, file] : of_rank) {
    open_.push_back(std::make_unique<TorchFile>(files_.view(file->name)));
    if (open_.size() == 1) read_facts(*open_.back());
    const std::vector<const PickleValue*> chunks = model_chunks(open_.back()->root());
    for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
      Flattener(*open_.back(), tensors[{chunk, rank.second}].emplace_back()).add("", *chunks[chunk]);
  }
  for (const std::string& name : files_.names()) has_optimizer_ |= name.ends_with(kOptimizerFile);

  int64_t first_layer = 0;
  for (const auto& [place, ranks] : tensors) {
    if (narrow<int64_t>(ranks.size()) != tensor_parallel_)
      throw UserError("{}: the ranks of stage {} have different numbers of virtual stages", where(), place.second);
    int64_t layers = 0;
    for (const std::map<std::string, TorchTensor>& rank : ranks)
      for (const auto& [name, tensor] : rank) {
        const std::optional<FoundParameter> found = find_parameter(name);
        if (!found) throw UserError("{}: tensor {} is not one of a GPT model", where(), json_excerpt(name));
        if (found->kind == FoundParameter::Kind::ignored) ++ignored_;
        if (found->kind == FoundParameter::Kind::ignored || found->kind == FoundParameter::Kind::tied_copy) continue;
        const std::string half = found->kind == FoundParameter::Kind::gate_up ? ".second" : "";
        shards_[found->name(first_layer) + half].push_back(tensor);
        layers = std::max(layers, found->layer + 1);
      }
    first_layer += layers;
  }
}

void MegatronFiles::read_distributed(const std::string& folder) {
  is_distributed_ = true;
  version_ = 3;
  if (files_.has(folder + "common.pt")) {
    open_.push_back(std::make_unique<TorchFile>(files_.view(folder + "common.pt")));
    read_facts(*open_.back());
  }
  constexpr std::string_view kStates[] = {"optimizer.state.", "optimizer_states.0.state.", "optimizer.0.state."};
  for (auto& [name, tensor] : read_distributed_checkpoint(files_, folder)) {
    if (tensor.shape.rank() == 0) continue;
    if (name.starts_with("optimizer") || name.find(".optimizer.") != std::string::npos) {
      has_optimizer_ = true;
      for (const std::string_view prefix : kStates) {
        if (!name.starts_with(prefix)) continue;
        const std::string rest = name.substr(prefix.size()), state = rest.substr(0, rest.find('.'));
        const auto found = find_parameter(rest.substr(std::min(rest.size(), state.size() + 1)));
        if (found && found->kind == FoundParameter::Kind::parameter) optimizer_[state].insert_or_assign(found->name(), tensor);
      }
      continue;
    }
    const std::optional<FoundParameter> found = find_parameter(name);
    if (!found) {
      if (name.find('/') != std::string::npos || name.find("rng") != std::string::npos) continue;
      throw UserError("{}: tensor {} is not one of a GPT model", where(), json_excerpt(name));
    }
    if (found->kind == FoundParameter::Kind::ignored) ++ignored_;
    if (found->kind == FoundParameter::Kind::parameter) sharded_.insert_or_assign(found->name(), tensor);
  }
}

// NeMo keeps the settings in the archive, beside the folders of the ranks, or in the folder above.
void MegatronFiles::find_config() {
  for (const char* name : {"model_config.yaml", "hparams.yaml"}) {
    if (files_.has(name)) {
      const ByteView text = files_.view(name);
      if (text.size() > static_cast<uint64_t>(kMaxConfigBytes))
        throw UserError("{}: longer than {} bytes", text.where, kMaxConfigBytes);
      config_ = std::string(text.text());
      config_name_ = text.where;
      return;
    }
    fs::path folder = fs::absolute(files_.path()).parent_path();
    for (int up = 0; up < 2; ++up, folder = folder.parent_path())
      if (std::error_code failed; fs::is_regular_file(folder / name, failed)) {
        config_ = read_file(folder / name, kMaxConfigBytes);
        config_name_ = (folder / name).string();
        return;
      }
  }
}

}  // namespace trireme
