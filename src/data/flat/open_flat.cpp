// Resolves model.data.data_prefix to files for flat files and llm.c shards.
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "data/flat/flat_dataset.h"
#include "data/flat/flat_description.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<std::string>;

UserError refuse_flat(const std::string& entry, const std::string& why) {
  return UserError("model.data.data_prefix: '{}' {}", entry, why);
}

Files flat_files_of_pattern(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&globfree)> owner(&found, &globfree);
  Files files;
  // GLOB_NOSORT because glob's own order depends on the locale.
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  if (files.empty()) throw refuse_flat(pattern, "matches no file");
  std::ranges::sort(files);
  return files;
}

Files files_of(const Files& entries) {
  Files files;
  for (const std::string& entry : entries) {
    std::error_code ignored;
    if (fs::is_regular_file(entry, ignored)) {
      files.push_back(entry);
    } else if (entry.find_first_of("*?[") != std::string::npos) {
      const Files more = flat_files_of_pattern(entry);
      files.insert(files.end(), more.begin(), more.end());
    } else {
      throw refuse_flat(entry, fs::exists(entry, ignored) ? "is not a file" : "does not exist");
    }
  }
  return files;
}

// Returns the file names that a folder may use for a split.
Files names_of(Split split) {
  if (split == Split::validation) return {"val", "validation"};
  return {name_of(split)};
}

Files files_in_folder(const std::string& folder, Split split, bool shards) {
  for (const std::string& name : names_of(split)) {
    const fs::path file = fs::path(folder) / (name + ".bin");
    if (shards) {
      try {
        return flat_files_of_pattern((fs::path(folder) / ("*" + name + "*.bin")).string());
      } catch (const UserError&) {
        continue;
      }
    }
    if (fs::exists(file)) return {file.string()};
  }
  throw refuse_flat(folder, fmt::format("holds no {}.bin for {}",
                                        (shards ? "*" : "") + names_of(split).front() + (shards ? "*" : ""), name_of(split)));
}

class FlatOpener {
 public:
  FlatOpener(const DataSettings& settings, const DatasetRequest& request) : settings_(settings), request_(request) {}

  DatasetsBySplit open() const {
    DatasetsBySplit datasets;
    for (const Split split : kAllSplits) {
      const auto& samples = request_.samples_needed[static_cast<size_t>(split)];
      if (!samples) continue;
      const FlatRequest flat{.order = settings_.window_order,
                             .sequence = request_.sequence,
                             .samples_needed = *samples,
                             .seed = request_.seed,
                             .split = split,
                             .vocabulary = request_.vocabulary};
      datasets[static_cast<size_t>(split)] = std::make_unique<FlatDataset>(segments(split), flat);
    }
    return datasets;
  }

 private:
  bool shards() const { return settings_.data_impl == DataImpl::llmc; }

  // Returns the token type of the file's description, or else the convention of the programs that write such files.
  TokenType type_of(const std::string& path) const {
    const auto description = read_flat_description(path);
    if (!description) return flat_token_type_for(request_.vocabulary);
    if (description->vocabulary > request_.vocabulary)
      throw UserError("{}: tokens of a vocabulary of {}, but model.vocab_size is {}; is it the data of another tokenizer?", path,
                      description->vocabulary, request_.vocabulary);
    return description->type;
  }

  std::vector<TokenSegment> open_files(const Files& files) const {
    std::vector<TokenSegment> segments;
    for (const std::string& path : files) {
      auto file = std::make_shared<TokenFile>(shards() ? TokenFile::open_llmc(path) : TokenFile::open_flat(path, type_of(path)));
      const int64_t tokens = file->tokens();
      segments.push_back({.file = std::move(file), .tokens = {0, tokens}});
    }
    return segments;
  }

  std::vector<TokenSegment> segments(Split split) const {
    const Files& entries = prefixes_of(settings_, split);
    if (entries.empty())
      throw UserError("{} is empty; model.data.data_impl={} needs a folder or files", prefix_key(settings_, split),
                      name_of(settings_.data_impl));
    if (has_own_datasets(settings_)) return open_files(files_of(entries));
    std::error_code ignored;
    if (entries.size() == 1 && fs::is_directory(entries[0], ignored))
      return open_files(files_in_folder(entries[0], split, shards()));
    return share(open_files(files_of(entries)), split);
  }

  // Concatenates all segments and returns the split's range, cut at file boundaries.
  std::vector<TokenSegment> share(const std::vector<TokenSegment>& all, Split split) const {
    int64_t total = 0;
    for (const TokenSegment& segment : all) total += segment.tokens.count();
    const Range owned = split_range(parse_splits(settings_.splits_string), split, total);
    std::vector<TokenSegment> part;
    int64_t begin = 0;
    for (const TokenSegment& segment : all) {
      const int64_t end = begin + segment.tokens.count();
      const Range tokens{std::max(begin, owned.begin) - begin, std::min(end, owned.end) - begin};
      if (tokens.begin < tokens.end) part.push_back({.file = segment.file, .tokens = tokens});
      begin = end;
    }
    if (part.empty())
      throw UserError("model.data.splits_string={} leaves no tokens for {}", settings_.splits_string, name_of(split));
    return part;
  }

  const DataSettings& settings_;
  const DatasetRequest& request_;
};

}  // namespace

DatasetsBySplit open_flat_datasets(const DataSettings& settings, const DatasetRequest& request) {
  return FlatOpener(settings, request).open();
}

}  // namespace trireme
