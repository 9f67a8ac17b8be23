// trireme data prepare: from text files to a dataset of tokens.
//
//   inputs -> units -> parts
//     -> readers: decompress, cut into blocks -> workers: parse, tokenize -> writers, in order -> part files
//     -> assemble: the dataset's own files, visible only when complete
//
// All unfinished work is in the folder PREFIX.preparing beside the output. A run that was stopped for any reason continues from
// there. The ranks of a run share this folder and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "data/prepare/block_worker.h"
#include "data/prepare/rank.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme::prepare {

enum class OutputFormat : uint8_t { megatron, flat, llmc };
enum class SplitBy : uint8_t { documents, characters };
enum class DryRun : uint8_t { no, yes };

struct PrepareSettings {
  std::vector<std::string> inputs;
  std::string files;  // numbers of the inputs to use; empty: all
  std::string output;
  OutputFormat format = OutputFormat::megatron;
  std::string tokenizer;                         // name for reports
  std::optional<EndOfDocument> end_of_document;  // no value: as the format's own tools do
  std::string key = "text";
  int64_t workers = 0;  // 0: one per core available to this process
  int64_t memory = 0;   // bytes; 0: 1 GiB, or more if so many workers need it
  Rank rank;
  OnError on_error = OnError::stop;
  DryRun dry_run = DryRun::no;

  // For the flat format.
  double validation = 0.0005;
  int64_t seed = 2357;
  SplitBy split_by = SplitBy::documents;
  // For llm.c's format.
  int64_t shard_tokens = 100'000'000;
};

struct PrepareHooks {
  Stopwatch since_start = Stopwatch();           // start of the time in the report
  std::function<bool()> stop;                    // polled: whether to save and return
  std::function<void(const std::string&)> tell;  // shows one line to the user
};

enum class PrepareOutcome : uint8_t {
  planned,   // a dry run
  complete,  // the dataset exists
  waiting,   // this rank is done, other ranks are not
  stopped,   // by PrepareHooks::stop; the same command resumes
};

struct PrepareResult {
  PrepareOutcome outcome = PrepareOutcome::complete;
  nlohmann::json report;
};

PrepareResult prepare_data(const PrepareSettings& settings, const Tokenizer& tokenizer, const PrepareHooks& hooks);

}  // namespace trireme::prepare
