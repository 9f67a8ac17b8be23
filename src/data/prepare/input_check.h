// Checks whether the inputs are still those that an earlier run read: by size, times and inode, and if those differ, by contents.
#pragma once

#include <nlohmann/json.hpp>
#include <set>

#include "data/prepare/block_reader.h"
#include "data/prepare/part_writer.h"
#include "data/prepare/plan.h"

namespace trireme::prepare {

// Returns [bytes, modification time in nanoseconds, inode, status change time in nanoseconds] per file, for plans and reports.
nlohmann::json stamps_to_json(const std::vector<InputFile>& files);
// Returns the files that differ from `stamps`.
std::set<size_t> files_that_differ(const std::vector<InputFile>& files, const nlohmann::json& stamps);

// Returns the first file of `differing` whose contents changed, or null. `states[i]` belongs to plan.parts[i]; no value: the part
// was not started. Reads these parts again up to the position in their states, without tokenizing.
const InputFile* find_changed_input(const Plan& plan, const std::set<size_t>& differing,
                                    const std::vector<std::optional<PartState>>& states, const ReaderSettings& settings);

}  // namespace trireme::prepare
