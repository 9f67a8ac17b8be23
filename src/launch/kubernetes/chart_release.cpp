#include "launch/kubernetes/chart_release.h"

#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "config/yaml.h"
#include "launch/kubernetes/helm_values.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSecondsToRender = 60;

// A folder that is removed at the end of the scope.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "trireme-chart-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Failure("cannot make a folder in {}", fs::temp_directory_path().string());
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  fs::path write(const std::string& name, const std::string& text) const {
    File::create(path_ / name).write(text);
    return path_ / name;
  }

 private:
  fs::path path_;
};

// What the user adds for helm, after our own values so that it wins.
void add_own_values(std::vector<std::string>& arguments, const LaunchOptions& options) {
  for (const std::string& file : options.values) arguments.insert(arguments.end(), {"--values", fs::absolute(file).string()});
  for (const std::string& value : options.set) arguments.insert(arguments.end(), {"--set", value});
}

std::vector<std::string> chart_arguments(const fs::path& chart, const fs::path& values, const fs::path& recipe,
                                         const LaunchOptions& options) {
  std::vector<std::string> arguments{chart.string(), "--values", values.string()};
  if (!recipe.empty()) arguments.insert(arguments.end(), {"--set-file", "recipe.text=" + recipe.string()});
  add_own_values(arguments, options);
  return arguments;
}

std::string rendered(const std::vector<std::string>& command) {
  const CommandOutput result = run_with_limit(command, kSecondsToRender);
  if (result.status != 0) throw UserError("the chart cannot be rendered: {}", helm_complaint(result.errors));
  return result.output;
}

}  // namespace

ChartRelease chart_release(const Job& job, const std::vector<Job>& all, const LaunchOptions& options, const fs::path& chart) {
  for (const std::string& file : options.values)
    if (std::error_code failed; !fs::is_regular_file(file, failed)) throw UserError("--values {}: there is no such file", file);
  ChartRelease release;
  release.values_file = job.folder / (job.name + "-values.yaml");
  release.values = write_yaml(helm_values(job, all, options));
  release.arguments = chart_arguments(chart, release.values_file, job.recipe, options);
  return release;
}

std::string render(const Job& job, const ChartRelease& release, const std::string& name_space) {
  const ScratchFolder scratch;
  std::vector<std::string> command{"helm", "template", job.name};
  for (const std::string& argument : release.arguments) {
    if (argument == release.values_file.string())
      command.push_back(scratch.write("values.yaml", release.values).string());
    else if (!job.recipe.empty() && argument == "recipe.text=" + job.recipe.string())
      command.push_back("recipe.text=" + scratch.write("recipe.yaml", job.recipe_text).string());
    else
      command.push_back(argument);
  }
  command.insert(command.end(), {"--namespace", name_space});
  return rendered(command);
}

std::string helm_complaint(const std::string& errors) {
  std::istringstream lines(errors);
  std::string found, first;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("- ")) found += (found.empty() ? "" : "; ") + line.substr(2);
    if (line.starts_with("Error: ") && first.empty()) first = line.substr(7);
  }
  if (!found.empty()) return found;
  if (first.empty()) return last_line(errors);
  // "execution error at (trireme/templates/workload.yaml:3:10): why"
  if (const size_t place = first.find("): "); first.starts_with("execution error at (") && place != std::string::npos)
    return first.substr(place + 3);
  return first;
}

std::string render_reader(const Release& release, const fs::path& folder, const LaunchOptions& options) {
  std::vector<std::string> command{"helm", "template", release.name};
  for (std::string& argument : chart_arguments(find_chart(options.chart), folder / (release.name + "-values.yaml"), "", options))
    command.push_back(std::move(argument));
  command.insert(command.end(),
                 {"--set", "reader=true", "--show-only", "templates/reader.yaml", "--namespace", release.name_space});
  return rendered(command);
}

}  // namespace trireme
