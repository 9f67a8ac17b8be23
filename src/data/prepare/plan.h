// The plan of a run: units, parts and files. It is the same for every rank and after every restart.
#pragma once

#include <filesystem>

#include "data/prepare/input_files.h"
#include "data/prepare/prepare.h"

namespace trireme::prepare {

struct Part {
  int64_t first_unit = 0, end_unit = 0;
};

struct Plan {
  std::vector<InputFile> files;
  std::vector<Unit> units;
  std::vector<Part> parts;
  int64_t lanes = 1;  // parts that this process reads concurrently
  std::filesystem::path work_folder;
  std::vector<std::string> passed_over;  // one line per matched path that is not read
  nlohmann::json identity;               // everything the output depends on, comparable between runs

  int64_t bytes_of(const Part& part) const;
  int64_t bytes() const;
  // Returns the parts of a rank, in order.
  std::vector<int64_t> parts_of(const Rank& rank) const;
};

Plan make_plan(const PrepareSettings& settings, const Tokenizer& tokenizer, int64_t workers);

}  // namespace trireme::prepare
