#include "launch/local/gpu_list.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "base/error.h"

namespace trireme {
namespace {

std::vector<std::string> words_of_list(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  if (list.ends_with(',')) words.emplace_back();
  return words;
}

std::optional<int64_t> gpu_number(const std::string& word) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = error == std::errc() && end == word.data() + word.size() && number >= 0;
  return is_whole ? std::optional(number) : std::nullopt;
}

void require_enough(int64_t ranks, int64_t gpus, const std::string& where) {
  if (ranks > gpus)
    throw UserError("{} rank{} and {} GPU{} {}: every rank needs its own; use --ranks {}", ranks, ranks == 1 ? "" : "s", gpus,
                    gpus == 1 ? "" : "s", where, std::max<int64_t>(gpus, 1));
}

}  // namespace

GpuList choose_gpus(const std::string& option, const char* variable, int64_t visible, int64_t ranks) {
  const std::vector<std::string> seen = variable == nullptr ? std::vector<std::string>{} : words_of_list(variable);
  GpuList list;
  if (option.empty()) {
    require_enough(ranks, visible, variable == nullptr ? "on this machine" : "in CUDA_VISIBLE_DEVICES");
    list.visible = variable == nullptr ? "" : variable;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto number = variable == nullptr ? std::optional(rank) : gpu_number(seen[static_cast<size_t>(rank)]);
      if (!number) return {list.visible, {}};
      list.of_rank.push_back(*number);
    }
    return list;
  }
  for (const std::string& word : words_of_list(option)) {
    const auto number = gpu_number(word);
    if (!number) throw UserError("--gpus {}: \"{}\" is not the number of a GPU; use a list as in 2,3,4,5", option, word);
    if (std::ranges::find(list.of_rank, *number) != list.of_rank.end())
      throw UserError("--gpus {}: {} is there twice, and every rank needs a GPU of its own", option, *number);
    list.of_rank.push_back(*number);
  }
  for (const int64_t number : list.of_rank) {
    if (variable == nullptr && number >= visible)
      throw UserError("--gpus {}: this machine has {} GPU{}{}", option, visible, visible == 1 ? "" : "s",
                      visible == 0 ? "" : ", counted from 0");
    if (variable != nullptr && std::ranges::find(seen, fmt::format("{}", number)) == seen.end())
      throw UserError("--gpus {}: {} is not in CUDA_VISIBLE_DEVICES={}", option, number, variable);
  }
  require_enough(ranks, std::ssize(list.of_rank), "in --gpus " + option);
  list.of_rank.resize(static_cast<size_t>(ranks));
  list.visible = option;
  return list;
}

}  // namespace trireme
