// The documents of an evaluation task, read from the files of the public dataset.
#pragma once

#include <filesystem>
#include <vector>

#include "evaluate/task.h"

namespace trireme {

struct TaskDocuments {
  std::filesystem::path file;
  std::vector<Document> documents;
  std::vector<std::string> places;  // of each: "line 12", or the name of its file
  std::string digest;               // of what was read
};

enum class Documents : uint8_t { asked, examples };  // what a task scores, and what solved examples are drawn from

// Reads at most `limit` documents; 0: all. UserError, naming the file and how to get it, if it is missing.
TaskDocuments read_documents(const Task& task, const std::filesystem::path& data, int64_t limit,
                             Documents which = Documents::asked);

// What `data` lacks of the task's files: empty, or the file and how to get it.
std::string missing_files(const Task& task, const std::filesystem::path& data, Documents which = Documents::asked);

}  // namespace trireme
