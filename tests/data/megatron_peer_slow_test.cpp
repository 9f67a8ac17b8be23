// Datasets, sample indices and samples beside those that megatron-core itself makes. Needs a Python with torch and megatron-core:
// the one that TRIREME_PEER_PYTHON names.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "data/dataset_fixture.h"
#include "data/indexed/indexed_dataset.h"
#include "data/indexed/indexed_tools.h"
#include "data/open/open_dataset.h"
#include "data/open/open_indexed.h"
#include "support/skip.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) { return read_file(path, 1 << 26); }

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files[entry.path().filename().string()] = contents(entry.path());
  return files;
}

DataSettings settings_of(const nlohmann::json& expected, const fs::path& cache) {
  DataSettings settings;
  settings.data_impl = DataImpl::mmap;
  const nlohmann::json& prefix = expected["data_prefix"];
  if (prefix.is_object()) {
    settings.data_prefix = prefix["train"].get<std::vector<std::string>>();
    settings.validation_prefix = prefix["validation"].get<std::vector<std::string>>();
  } else {
    settings.data_prefix = prefix.get<std::vector<std::string>>();
  }
  if (expected["splits_string"].is_string()) settings.splits_string = expected["splits_string"];
  settings.validation_drop_last = expected["validation_drop_last"];
  settings.no_seqlen_plus_one_input_tokens = expected["no_extra"];
  settings.index_mapping_dir = cache.string();
  return settings;
}

void compare_case(const nlohmann::json& expected, const fs::path& folder) {
  const fs::path theirs = folder / ("cache_" + expected["name"].get<std::string>()), ours = theirs.string() + "_ours";
  const DatasetRequest request{
      .vocabulary = 60000,
      .sequence = 16,
      .seed = 1234,
      .samples_needed = {expected["sizes"][0].get<int64_t>(), expected["sizes"][1].get<int64_t>(), std::nullopt}};
  for (const fs::path& cache : {ours, theirs}) {  // made here, and read from what was made there
    const DatasetsBySplit datasets =
        open_datasets(settings_of(expected, cache), request, [](const std::string& line) { ADD_FAILURE() << line; });
    for (size_t split = 0; split < 2; ++split) {
      const nlohmann::json& samples = expected["splits"][split];
      ASSERT_EQ(datasets[split]->size(), std::ssize(samples));
      for (size_t i = 0; i < samples.size(); ++i) {
        const Sample sample = sample_of(*datasets[split], static_cast<int64_t>(i));
        ASSERT_EQ(sample.tokens, samples[i][0].get<std::vector<int32_t>>()) << "split " << split << " sample " << i;
        ASSERT_EQ(sample.targets, samples[i][1].get<std::vector<int32_t>>()) << "split " << split << " sample " << i;
      }
    }
  }
  // Every file that was made here is there under the same name with the same bytes; Megatron also made the test split.
  const auto reference = files_in(theirs);
  for (const auto& [name, bytes] : files_in(ours)) {
    ASSERT_TRUE(reference.contains(name)) << name;
    EXPECT_EQ(bytes, reference.at(name)) << name;
  }
}

TEST(MegatronPeer, FilesIndicesAndSamplesAreEqual) {
  const char* python = std::getenv("TRIREME_PEER_PYTHON");
  if (python == nullptr) SKIP_FOR(peer) << "set TRIREME_PEER_PYTHON to a Python with torch and megatron-core";
  if (std::system(fmt::format("{} -c 'import megatron.core.datasets.gpt_dataset' 2>/dev/null", python).c_str()) != 0)
    SKIP_FOR(peer) << python << " has no megatron-core";
  const TemporaryFolder folder;
  const std::string script = TRIREME_SOURCE_DIR "/tests/data/megatron_peer.py";
  ASSERT_EQ(std::system(fmt::format("timeout 300 {} {} {} > /dev/null 2>&1", python, script, folder.path().string()).c_str()), 0);

  // Megatron's files, copied document by document through our reader and writer.
  for (const char* name : {"a", "b", "c", "wide"}) {
    const std::string prefix = (folder / name).string(), copy = prefix + "_copy";
    copy_documents(prefix, {0, IndexedDataset(prefix).documents()}, copy, Replace::no, [](int64_t) {});
    EXPECT_EQ(contents(copy + ".idx"), contents(prefix + ".idx")) << name;
    EXPECT_EQ(contents(copy + ".bin"), contents(prefix + ".bin")) << name;
  }
  merge_datasets({(folder / "a").string(), (folder / "b").string()}, (folder / "ab").string(), Replace::no, [](int64_t) {});
  EXPECT_EQ(contents(folder / "ab.idx"), contents(folder / "merged.idx"));
  EXPECT_EQ(contents(folder / "ab.bin"), contents(folder / "merged.bin"));

  for (const nlohmann::json& expected : nlohmann::json::parse(contents(folder / "expected.json"))) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    compare_case(expected, folder.path());
  }
}

}  // namespace
}  // namespace trireme
