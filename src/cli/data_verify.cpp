// trireme data verify: a full check of datasets.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/data_commands.h"
#include "cli/data_progress.h"
#include "data/indexed/indexed_verify.h"
#include "data/indexed/written_checksums.h"

namespace trireme {
namespace {

struct VerifyArguments {
  std::vector<std::string> prefixes;
  int64_t vocabulary = 0;
  bool json = false;
};

// Returns the result as JSON, and prints it if `prints_result`. UserError if the dataset is damaged.
nlohmann::ordered_json verify_one(const std::string& prefix, std::optional<int64_t> vocabulary, bool prints_result) {
  const Stopwatch watch;
  const IndexedDataset data(prefix);
  VerifiedDataset verified;
  {
    DataProgress progress(prefix, data.bin_bytes() + data.idx_bytes());
    verified = verify_dataset(data, vocabulary, [&](int64_t bytes) { progress(bytes); });
  }
  const auto written = find_written_checksums(data.prefix());
  if (written) {
    require_written(*written, data.bin_path(), verified.crc32c_bin);
    require_written(*written, data.idx_path(), verified.crc32c_idx);
  }
  nlohmann::ordered_json json{{"prefix", prefix}, {"good", true}};
  json["documents"] = verified.documents;
  json["empty_documents"] = verified.empty_documents;
  json["sequences"] = verified.sequences;
  json["tokens"] = verified.tokens;
  json["largest_token"] = verified.largest_token;
  json["crc32c"] = {{"bin", fmt::format("{:08x}", verified.crc32c_bin)}, {"idx", fmt::format("{:08x}", verified.crc32c_idx)}};
  json["compared_with"] = written ? nlohmann::ordered_json(written->report) : nlohmann::ordered_json(nullptr);
  if (!prints_result) return json;
  const double bytes_per_second = static_cast<double>(data.bin_bytes() + data.idx_bytes()) / watch.seconds();
  fmt::print("{}: good: {} documents ({} empty), {} tokens, largest {}; crc32c bin {:08x} idx {:08x}, {}; {}/s\n", prefix,
             verified.documents, verified.empty_documents, verified.tokens, verified.largest_token, verified.crc32c_bin,
             verified.crc32c_idx,
             written ? "as in " + written->report : "with no report of data prepare beside it to compare them with",
             format_bytes(static_cast<int64_t>(bytes_per_second)));
  return json;
}

// Checks every dataset, also after a bad one, so that one run reports all.
int verify(const VerifyArguments& arguments) {
  const std::optional<int64_t> vocabulary = arguments.vocabulary > 0 ? std::optional(arguments.vocabulary) : std::nullopt;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  int bad = 0;
  std::string first_fault;
  for (const std::string& prefix : arguments.prefixes) {
    try {
      all.push_back(verify_one(prefix, vocabulary, !arguments.json));
    } catch (const UserError& error) {
      if (bad++ == 0) first_fault = error.what();
      all.push_back({{"prefix", prefix}, {"good", false}, {"fault", error.what()}});
      if (!arguments.json && arguments.prefixes.size() > 1) fmt::print("{}: bad: {}\n", prefix, error.what());
    }
  }
  if (arguments.json) print_json(all);
  if (bad == 0) return kDone;
  if (bad > 1) throw UserError("{} of {} datasets are bad; the first: {}", bad, arguments.prefixes.size(), first_fault);
  throw UserError("{}", first_fault);
}

}  // namespace

void add_data_verify_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command = data.add_subcommand("verify",
                                          "Read all of Megatron datasets and check that everything in them fits together.\n\n"
                                          "examples:  trireme data verify my_text_document\n"
                                          "           trireme data verify --vocabulary 50257 shard_*.idx\n");
  command->add_option("prefix", arguments->prefixes, "datasets: their names without .bin and .idx, or with one of them")
      ->required();
  command->add_option("--vocabulary", arguments->vocabulary, "tokens must be below this")->check(CLI::Range(1, 1 << 30));
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments, &status] { status = verify(*arguments); });
}

}  // namespace trireme
