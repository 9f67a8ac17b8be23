// trireme data prepare: from text files to a dataset of tokens.
//
//   inputs -> units -> parts --- readers: unfold, cut into blocks -> workers: parse, tokenize -> writers, in order ---> part
//   files
//   -> assemble: the dataset's own files, which nobody sees before they are whole
//
// Everything unfinished lives in a folder beside the output, PREFIX.preparing. A run that was stopped, by whatever, goes on from
// there; ranks of one run share it and nothing else.
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
  std::string files;  // numbers of those inputs that count; empty: all
  std::string output;
  OutputFormat format = OutputFormat::megatron;
  std::string tokenizer;                         // its name, for reports
  std::optional<EndOfDocument> end_of_document;  // none: what the format's own tools do
  std::string key = "text";
  int64_t workers = 0;  // 0: one for each core this process may use
  int64_t memory = 0;   // bytes; 0: 1 GiB, or what that many workers need
  Rank rank;
  OnError on_error = OnError::stop;
  DryRun dry_run = DryRun::no;

  // Of the flat format.
  double validation = 0.0005;
  int64_t seed = 2357;
  SplitBy split_by = SplitBy::documents;
  // Of llm.c's.
  int64_t shard_tokens = 100'000'000;
};

struct PrepareHooks {
  Stopwatch since_start = Stopwatch();           // the time of the report
  std::function<bool()> stop;                    // asked now and then: whether to save and leave
  std::function<void(const std::string&)> tell;  // a line for the user
};

enum class PrepareOutcome : uint8_t {
  planned,   // a dry run
  complete,  // the dataset is there
  waiting,   // this rank is done, others are not
  stopped,   // by PrepareHooks::stop; the same command goes on
};

struct PrepareResult {
  PrepareOutcome outcome = PrepareOutcome::complete;
  nlohmann::json report;
};

PrepareResult prepare_data(const PrepareSettings& settings, const Tokenizer& tokenizer, const PrepareHooks& hooks);

}  // namespace trireme::prepare
