// Damaged and hostile files: whatever their bytes are, import answers with one line, and its memory stays bounded.
#include <sys/resource.h>

#include <random>

#include "convert/megatron_fixture.h"
#include "convert/torch/file_set.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Changes that files suffer from and that attackers make: an end that is missing, other bytes, numbers at their limits, and
// pieces put elsewhere.
void mutate(std::string& bytes, std::mt19937& random) {
  const auto below = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  switch (below(5)) {
    case 0:
      bytes.resize(below(bytes.size()));
      return;
    case 1:
      for (size_t i = 0, count = 1 + below(8); i < count; ++i) bytes[below(bytes.size())] = static_cast<char>(below(256));
      return;
    case 2: {
      const std::string limits[] = {std::string(4, '\xff'), std::string(8, '\xff'), std::string("\xff\xff\xff\x7f", 4),
                                    std::string(8, '\0')};
      const std::string& limit = limits[below(4)];
      const size_t at = below(bytes.size() - limit.size());
      bytes.replace(at, limit.size(), limit);
      return;
    }
    case 3: {
      const size_t length = 1 + below(std::min<size_t>(64, bytes.size())), from = below(bytes.size() - length + 1);
      bytes.insert(below(bytes.size()), bytes.substr(from, length));
      return;
    }
    default: {
      const size_t length = 1 + below(std::min<size_t>(64, bytes.size()));
      bytes.erase(below(bytes.size() - length + 1), length);
    }
  }
}

int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

// Imports a checkpoint with one file changed `count` times in different ways; `from` is the whole one.
void fuzz(const std::string& golden, const std::string& file, int count, uint32_t seed) {
  const TemporaryFolder folder;
  if (fs::is_directory(megatron_golden(golden)))
    fs::copy(megatron_golden(golden), folder / "model", fs::copy_options::recursive);
  else
    fs::copy(megatron_golden(golden), folder / "model");
  const fs::path target = file.empty() ? folder / "model" : folder / "model" / file;
  const std::string whole = read_file(target, 1 << 24);
  std::mt19937 random(seed);
  int64_t refused = 0;
  for (int i = 0; i < count; ++i) {
    std::string bytes = whole;
    for (auto changes = 1 + random() % 3; changes > 0 && bytes.size() > 16; --changes) mutate(bytes, random);
    {
      File to = File::create(target);
      to.write(bytes);
    }
    try {
      MegatronImport(folder / "model", {}).write(folder / "run");
    } catch (const UserError&) {
      ++refused;
    } catch (const Failure&) {
      ++refused;
    }
    remove_tree(folder / "run");
  }
  EXPECT_GT(refused, count / 2);  // some changes are in what nobody reads
}

TEST(MegatronFuzz, AnswersInOneLineAndInBoundedMemory) {
  const int64_t before = peak_memory();
  fuzz("gpt3-torch", "iter_0000007/mp_rank_00_000/model_optim_rng.pt", 400, 1);
  fuzz("llama-dist", "iter_0000007/.metadata", 400, 2);
  fuzz("llama-dist", "iter_0000007/__0_0.distcp", 200, 3);
  fuzz("llama-dist", "iter_0000007/common.pt", 200, 4);
  fuzz("gpt3.nemo", "", 200, 5);
  EXPECT_LT(peak_memory() - before, int64_t{256} << 20);
}

// A tar archive that is not compressed is read in place, so damage reaches every reader of it.
TEST(MegatronFuzz, ReadsDamagedTarArchives) {
  const TemporaryFolder folder;
  ASSERT_EQ(std::system(
                fmt::format("gzip -dc {} > {}", megatron_golden("gpt3.nemo").string(), (folder / "whole.nemo").string()).c_str()),
            0);
  const std::string whole = read_file(folder / "whole.nemo", 1 << 24);
  EXPECT_EQ(MegatronImport(folder / "whole.nemo", {}).model().vocab_size, 30);
  std::mt19937 random(6);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole;
    mutate(bytes, random);
    const std::string file = folder.write("model.nemo", bytes);
    try {
      MegatronImport(file, {}).parameters();
    } catch (const UserError&) {
    } catch (const Failure&) {
    }
  }
}

}  // namespace
}  // namespace trireme
