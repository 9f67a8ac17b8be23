// Pages link to files that are there, and figures of the README are in the reports that it links to.
#include <gtest/gtest.h>

#include <set>

#include "docs/markdown.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool has_heading(const std::string& page, const std::string& fragment) {
  for (const MarkdownBlock& block : markdown_blocks(page)) {
    if (block.is_code || !block.text.starts_with('#')) continue;
    if (fragment_of(block.text.substr(0, block.text.find('\n'))) == fragment) return true;
  }
  return false;
}

// What is wrong with a link of a page; empty: nothing.
std::string fault_of(const fs::path& page, const std::string& target) {
  if (is_web_address(target)) return "";
  const size_t hash = target.find('#');
  const fs::path file = hash == 0 ? page : page.parent_path() / target.substr(0, hash);
  if (!fs::exists(file)) return "there is no " + target;
  const bool is_line = hash != std::string::npos && target.compare(hash, 2, "#L") == 0;  // of source code
  if (hash == std::string::npos || is_line || file.extension() != ".md") return "";
  return has_heading(text_of(file), target.substr(hash + 1)) ? "" : "there is no heading for " + target;
}

TEST(Links, LeadToFilesAndHeadingsThatAreThere) {
  int links = 0;
  for (const fs::path& page : markdown_pages()) {
    for (const MarkdownBlock& block : markdown_blocks(text_of(page))) {
      if (block.is_code) continue;
      for (const std::string& target : links_in(block.text)) {
        EXPECT_EQ(fault_of(page, target), "") << page.string() << ":" << block.line;
        links += 1;
      }
    }
  }
  EXPECT_GT(links, 100);
}

TEST(Links, AreFoundAsGitHubFindsThem) {
  EXPECT_EQ(links_in("see [a](b.md), [c](d/e.md#part \"title\"); `[no](code)`\n"),
            (std::vector<std::string>{"b.md", "d/e.md#part"}));
  EXPECT_EQ(fragment_of("## What `--json` prints, in full"), "what---json-prints-in-full");
  const std::string page = "# A\ntext\nmore\n\n| a |\n| b |\n```\n[no](x.md)\n\ny\n```\n- c\n- d\n  e\n";
  std::vector<std::string> texts;
  for (const MarkdownBlock& block : markdown_blocks(page)) texts.push_back((block.is_code ? "code " : "") + block.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"# A\n", "text\nmore\n", "| a |\n", "| b |\n", "code [no](x.md)\n\ny\n", "- c\n",
                                             "- d\n  e\n"}));
}

// ------------------------------------------------------------------------------------------------------------ figures of the
// README

// A report, and what it links to under bench/.
void add_report(const fs::path& path, std::set<fs::path>& seen, std::string& text) {
  if (!fs::is_regular_file(path) || !seen.insert(fs::canonical(path)).second) return;
  const std::string content = text_of(path);
  text += content;
  if (path.extension() != ".md") return;
  for (const std::string& target : links_in(content)) {
    const fs::path linked = path.parent_path() / target.substr(0, target.find('#'));
    if (!is_web_address(target) && linked.lexically_normal().string().find("/bench/") != std::string::npos)
      add_report(linked, seen, text);
  }
}

bool is_report(const std::string& target) { return target.starts_with("bench/") && target != "bench/README.md"; }

// Numbers that stand alone: not part of a name such as FP8, GPT-3, 124M or H200.
std::vector<std::string> numbers_in(const std::string& text) {
  static const std::regex link(R"(\]\([^)]*\))"), number(R"((^|[^\w.,/-])(\d+(?:,\d{3})*(?:\.\d+)?k?)(?![\w-]|\.\d))");
  const std::string plain = std::regex_replace(text, link, "]");
  std::vector<std::string> numbers;
  for (std::sregex_iterator found(plain.begin(), plain.end(), number), end; found != end; ++found) numbers.push_back((*found)[2]);
  return numbers;
}

bool contains_number(const std::string& text, const std::string& number) {
  for (size_t at = text.find(number); at != std::string::npos; at = text.find(number, at + 1)) {
    const auto is_digit = [&](size_t place) {
      return place < text.size() && std::isdigit(static_cast<unsigned char>(text[place]));
    };
    const size_t after = at + number.size();
    const bool begins = at == 0 || !(is_digit(at - 1) || (text[at - 1] == '.' && at > 1 && is_digit(at - 2)));
    if (begins && !is_digit(after) && !(after < text.size() && text[after] == '.' && is_digit(after + 1))) return true;
  }
  return false;
}

// A measured quantity, which needs a report.
bool states_a_measurement(const std::string& text) {
  static const std::regex measured(R"(\d(?:\.\d+)?k?\s*(?:times\b|tokens/s|tok/s|TFLOP/s|[MG]B/s|ms\b|% of))");
  return std::regex_search(text, measured);
}

struct Figures {
  std::vector<std::string> missing;  // what no report has
  int checked = 0;
};

Figures check_figures(const std::string& page) {
  Figures figures;
  std::string reports;  // of the block before, which a block of code shows a part of
  for (const MarkdownBlock& block : markdown_blocks(page)) {
    if (block.is_code) {
      for (size_t at = 0; !reports.empty() && at < block.text.size();) {
        const size_t end = block.text.find('\n', at);
        const std::string line = block.text.substr(at, end - at);
        at = end + 1;
        if (line.empty() || line == "...") continue;
        figures.checked += 1;
        if (reports.find(line) == std::string::npos) figures.missing.push_back(line);
      }
      reports.clear();
      continue;
    }
    reports.clear();
    std::set<fs::path> seen;
    for (const std::string& target : links_in(block.text))
      if (is_report(target)) add_report(kRepository / target, seen, reports);
    if (reports.empty() && states_a_measurement(block.text))
      figures.missing.push_back("no report is linked beside: " + block.text);
    if (reports.empty()) continue;
    for (const std::string& number : numbers_in(block.text)) {
      figures.checked += 1;
      if (!contains_number(reports, number)) figures.missing.push_back(number + " in: " + block.text);
    }
  }
  return figures;
}

TEST(Figures, OfTheReadmeAreInTheReportsItLinksTo) {
  const Figures figures = check_figures(text_of(kRepository / "README.md"));
  EXPECT_EQ(figures.missing, std::vector<std::string>{});
  EXPECT_GT(figures.checked, 20);
}

TEST(Figures, ThatAreNotInAReportAreFound) {
  const std::string report = "[report](bench/demo/2026-11-17.md)";
  EXPECT_EQ(check_figures("A loss of 0.1059 after 600 steps, " + report + ".\n").missing.size(), 0U);
  EXPECT_EQ(check_figures("A loss of 0.1058 after 600 steps, " + report + ".\n").missing.size(), 1U);
  EXPECT_EQ(check_figures("A loss of 0.105, " + report + ".\n").missing.size(), 1U) << "a part of a number is another number";
  EXPECT_EQ(check_figures("It is 2.5 times as fast.\n").missing.size(), 1U) << "no report";
  EXPECT_EQ(check_figures(report + ":\n\n```\nstep    1/600  loss  9.9\n```\n").missing.size(), 1U) << "not in the raw log";
}

}  // namespace
}  // namespace trireme
