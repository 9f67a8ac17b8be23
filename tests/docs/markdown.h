// The Markdown pages of the repository, as far as tests need to read them.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace trireme {

inline const std::filesystem::path kRepository = TRIREME_SOURCE_DIR;

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every .md file but those of build folders, caches and runs.
inline std::vector<std::filesystem::path> markdown_pages() {
  std::vector<std::filesystem::path> pages;
  for (auto entry = std::filesystem::recursive_directory_iterator(kRepository);
       entry != std::filesystem::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename();
    if (entry.depth() == 0 && (name.starts_with('.') || name.starts_with("build") || name == "runs"))
      entry.disable_recursion_pending();
    if (name.ends_with(".md") && entry->is_regular_file()) pages.push_back(entry->path());
  }
  std::sort(pages.begin(), pages.end());
  return pages;
}

// A paragraph, a row of a table, a list item, or a block of code.
struct MarkdownBlock {
  std::string text;
  int line = 0;  // of the page, from 1
  bool is_code = false;
};

inline std::vector<MarkdownBlock> markdown_blocks(const std::string& page) {
  std::vector<MarkdownBlock> blocks;
  bool in_code = false, begin = true;
  size_t at = 0;
  for (int line = 1; at < page.size(); ++line) {
    const size_t end = std::min(page.find('\n', at), page.size());
    const std::string text = page.substr(at, end - at);
    at = end + 1;
    const bool is_fence = text.find("```") == text.find_first_not_of(' ') && text.find("```") != std::string::npos;
    if (is_fence) {
      in_code = !in_code;
      begin = true;
    } else if (!in_code && text.empty()) {
      begin = true;
    } else {
      const bool stands_alone = !in_code && (text.starts_with('|') || text.starts_with("- ") || text.starts_with('#'));
      if (begin || stands_alone) blocks.push_back({"", line, in_code});
      blocks.back().text += text + "\n";
      begin = !in_code && (text.starts_with('|') || text.starts_with('#'));
    }
  }
  return blocks;
}

// Targets of [text](target), without `code`.
inline std::vector<std::string> links_in(const std::string& text) {
  static const std::regex code("`[^`]*`"), link(R"(\]\(([^()\s]+)(?:\s+"[^"]*")?\))");
  const std::string plain = std::regex_replace(text, code, "code");
  std::vector<std::string> targets;
  for (std::sregex_iterator found(plain.begin(), plain.end(), link), end; found != end; ++found) targets.push_back((*found)[1]);
  return targets;
}

inline bool is_web_address(const std::string& target) {
  return target.find("://") != std::string::npos || target.starts_with("mailto:");
}

// The fragment that GitHub gives a heading: lower case, spaces as dashes, without punctuation.
inline std::string fragment_of(const std::string& heading) {
  std::string fragment;
  for (const char character : heading.substr(std::min(heading.find_first_not_of("# "), heading.size()))) {
    const auto byte = static_cast<unsigned char>(character);
    if (std::isalnum(byte) || character == '-' || character == '_' || byte >= 0x80)
      fragment += static_cast<char>(std::tolower(byte));
    if (character == ' ') fragment += '-';
  }
  return fragment;
}

}  // namespace trireme
