// Whether the inputs are still what an earlier run has read: by size, times and inode, and where those differ, by what is in
// them.
#pragma once

#include <nlohmann/json.hpp>
#include <set>

#include "data/prepare/block_reader.h"
#include "data/prepare/part_writer.h"
#include "data/prepare/plan.h"

namespace trireme::prepare {

// For plans and reports: [bytes, nanoseconds, inode, nanoseconds of the last change of any kind] of every file.
nlohmann::json stamps_to_json(const std::vector<InputFile>& files);
// The files that are not as `stamps` says.
std::set<size_t> files_that_differ(const std::vector<InputFile>& files, const nlohmann::json& stamps);

// The first of `differing` whose part was read otherwise than it is now, if there is one. `states[i]` is that of plan.parts[i];
// nothing: it was not begun. Reads these parts again, up to where their states say, without tokenizing.
const InputFile* find_changed_input(const Plan& plan, const std::set<size_t>& differing,
                                    const std::vector<std::optional<PartState>>& states, const ReaderSettings& settings);

}  // namespace trireme::prepare
