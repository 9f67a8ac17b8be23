// The folders under src/ include each other as the table of src/README.md says.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "docs/markdown.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Folders = std::vector<std::string>;

// A row of the table: a folder and the ones that it may include.
struct Layer {
  std::string folder;
  Folders may_include;
};

// Names in `code`.
Folders names_in(const std::string& text) {
  static const std::regex name("`([^`]+)`");
  Folders names;
  for (std::sregex_iterator found(text.begin(), text.end(), name), end; found != end; ++found) names.push_back((*found)[1]);
  return names;
}

// Rows of the form | [`folder`](link) | what it is | `folder`, ... |
std::vector<Layer> layers_of(const std::string& page) {
  static const std::regex row(R"(\| \[`([^`]+)`\]\([^)]*\) \|(.*)\|([^|]*)\|\s*)");
  std::vector<Layer> layers;
  for (const MarkdownBlock& block : markdown_blocks(page))
    if (std::smatch cells; !block.is_code && std::regex_match(block.text, cells, row))
      layers.push_back({.folder = cells[1], .may_include = names_in(cells[3])});
  return layers;
}

bool contains(const Folders& folders, const std::string& folder) { return std::ranges::find(folders, folder) != folders.end(); }

// Every row comes after the folders that it includes, so that no two folders include each other.
Folders order_faults(const std::vector<Layer>& layers) {
  Folders faults, above;
  for (const Layer& layer : layers) {
    for (const std::string& folder : layer.may_include)
      if (!contains(above, folder)) faults.push_back(layer.folder + " may include " + folder + ", which has no earlier row");
    above.push_back(layer.folder);
  }
  return faults;
}

// The row of the folder or, where it has none, of the nearest folder around it; null: there is none.
const Layer* layer_of(const std::vector<Layer>& layers, fs::path folder) {
  for (; !folder.empty(); folder = folder.parent_path())
    for (const Layer& layer : layers)
      if (layer.folder == folder.string()) return &layer;
  return nullptr;
}

Folders includes_of(const std::string& code) {
  static const std::regex include(R"re(\s*#\s*include\s*"([^"]+)".*)re");
  Folders files;
  std::istringstream lines(code);
  for (std::string line; std::getline(lines, line);)
    if (std::smatch parts; line.find('#') != line.npos && std::regex_match(line, parts, include)) files.push_back(parts[1]);
  return files;
}

// What is wrong with the includes of a file, whose path counts from src/.
Folders include_faults(const std::vector<Layer>& layers, const fs::path& file, const std::string& code) {
  const Layer* own = layer_of(layers, file.parent_path());
  if (own == nullptr) return {file.string() + ": its folder has no row"};
  Folders faults;
  for (const std::string& included : includes_of(code)) {
    const Layer* other = layer_of(layers, fs::path(included).parent_path());
    if (other == nullptr || (other != own && !contains(own->may_include, other->folder)))
      faults.push_back(file.string() + " includes " + included);
  }
  return faults;
}

// The names in the paragraphs of a README that say what its folder may include; a README should have one.
Folders may_include_of(const std::string& readme) {
  Folders names;
  int paragraphs = 0;
  for (const MarkdownBlock& block : markdown_blocks(readme)) {
    if (!block.text.starts_with("May include ")) continue;
    for (const std::string& name : names_in(block.text)) names.push_back(name);
    paragraphs += 1;
  }
  if (paragraphs != 1) names.push_back(std::to_string(paragraphs) + " paragraphs begin with May include");
  return names;
}

std::vector<Layer> layers_of_src() { return layers_of(text_of(kRepository / "src/README.md")); }

bool is_code(const fs::path& file) {
  static const std::set<std::string> extensions{".h", ".cpp", ".cu", ".cuh", ".inc"};
  return extensions.contains(file.extension());
}

TEST(IncludeLayers, HoldForEveryFile) {
  const std::vector<Layer> layers = layers_of_src();
  EXPECT_EQ(order_faults(layers), Folders{});
  const fs::path source = kRepository / "src";
  int files = 0;
  for (const fs::path& path : fs::recursive_directory_iterator(source)) {
    if (!is_code(path)) continue;
    EXPECT_EQ(include_faults(layers, path.lexically_relative(source), text_of(path)), Folders{});
    files += 1;
  }
  EXPECT_GT(files, 500);
}

TEST(IncludeLayers, AreThoseOfTheFoldersReadmes) {
  const std::vector<Layer> layers = layers_of_src();
  EXPECT_GT(layers.size(), 20U);
  for (const Layer& layer : layers)
    EXPECT_EQ(may_include_of(text_of(kRepository / "src" / layer.folder / "README.md")), layer.may_include) << layer.folder;
}

TEST(IncludeLayers, FaultsAreFound) {
  const std::vector<Layer> layers = layers_of(
      "| folder | what it is | may include |\n|---|---|---|\n"
      "| [`base`](base/README.md) | Files. | nothing |\n"
      "| [`data`](data/README.md) | `Dataset` and others. | `base` |\n"
      "| [`data/recipe`](data/recipe/README.md) | By name. | `base`, `data` |\n");
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(order_faults(layers), Folders{});
  EXPECT_EQ(order_faults({layers[1], layers[0]}), Folders{"data may include base, which has no earlier row"});
  const auto faults = [&](const char* file, const char* code) { return include_faults(layers, file, code); };
  EXPECT_EQ(faults("data/recipe/a.h", "#include \"data/c.h\"\n"), Folders{});
  EXPECT_EQ(faults("data/a.h", "\n  # include \"data/recipe/b.h\"\n"), Folders{"data/a.h includes data/recipe/b.h"});
  EXPECT_EQ(faults("base/a.h", "#include \"data/b.h\"\n"), Folders{"base/a.h includes data/b.h"});
  EXPECT_EQ(faults("data/a.h", "#include \"b.h\"\n"), Folders{"data/a.h includes b.h"}) << "a path counts from src/";
  EXPECT_EQ(faults("fetch/a.h", ""), Folders{"fetch/a.h: its folder has no row"});
  EXPECT_EQ(may_include_of("# data\n\nFiles.\n\nMay include `base`\nand `data`.\n"), (Folders{"base", "data"}));
  EXPECT_EQ(may_include_of("# data\n\nFiles.\n"), Folders{"0 paragraphs begin with May include"});
}

}  // namespace
}  // namespace trireme
