#include "evaluate/dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/sha256.h"
#include "base/text.h"
#include "evaluate/python_literal.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestDataset = int64_t{4} << 30;

bool is_archive(const std::string& url) { return url.ends_with(".zip") || url.ends_with(".tar.gz") || url.ends_with(".tgz"); }

std::string how_to_get(const TaskDataset& dataset, const fs::path& path) {
  if (dataset.from.empty()) return "put it there";
  const fs::path folder = path.parent_path();
  const bool packed = is_archive(dataset.from);
  // Single files, such as those of the examples, are side by side there too.
  const std::string url = packed ? dataset.from : dataset.from.substr(0, dataset.from.rfind('/') + 1) + path.filename().string();
  return fmt::format("get it with: trireme data fetch {} --output {}{}", url,
                     shell_word((packed ? folder.parent_path() : folder).string()), packed ? ", and unpack it there" : "");
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Document parse(const fs::path& file, const std::string& place, std::string_view text) {
  Document document = Document::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) throw UserError("{}, {}: not JSON: {}", file.string(), place, text.substr(0, 60));
  return document;
}

struct Files {
  std::string documents, labels;
};

Files files_of(const TaskDataset& dataset, Documents which) {
  if (which == Documents::asked || dataset.fewshot_file.empty()) return {dataset.file, dataset.labels};
  return {dataset.fewshot_file, dataset.fewshot_labels};
}

constexpr const char* kParquet =
    "is a parquet file, which is not read here; write it as JSON lines, for example with Python: "
    "pandas.read_parquet(\"IN\").to_json(\"OUT.jsonl\", orient=\"records\", lines=True)";

class Reader {
 public:
  Reader(const Task& task, const fs::path& data, int64_t limit, Documents which)
      : task_(task), data_(data), limit_(limit), which_(which), files_(files_of(task.dataset, which)) {
    found_.file = data / files_.documents;
  }

  TaskDocuments read() {
    if (const std::string missing = missing_files(task_, data_, which_); !missing.empty()) throw UserError("{}", missing);
    switch (task_.dataset.format) {
      case DatasetFormat::jsonl:
        read_json();
        break;
      case DatasetFormat::race:
        read_race();
        break;
      case DatasetFormat::wikitext:
        read_wikitext();
    }
    if (found_.documents.empty()) throw UserError("{} has no documents", found_.file.string());
    found_.digest = digest_.finish();
    return std::move(found_);
  }

 private:
  std::string read_text(const fs::path& file) {
    if (fs::is_directory(file)) throw UserError("{} is a folder, and task {} reads a file", file.string(), task_.name);
    std::string text = read_file(file, kLargestDataset);
    if (text.starts_with("PAR1")) throw UserError("{} {}", file.string(), kParquet);
    digest_.add(bytes_of(text));
    return text;
  }

  bool is_full() const { return limit_ > 0 && std::ssize(found_.documents) >= limit_; }

  void add(Document document, std::string place) {
    if (is_full()) return;
    if (!document.is_object()) throw UserError("{}, {}: expected an object with fields", found_.file.string(), place);
    found_.documents.push_back(std::move(document));
    found_.places.push_back(std::move(place));
  }

  // A document per line, or one list.
  void read_json() {
    const std::string text = read_text(found_.file);
    if (trimmed(text, " \t\r\n").starts_with('[')) {
      Document list = parse(found_.file, "document 1", text);
      for (size_t i = 0; i < list.size(); ++i) add(std::move(list[i]), fmt::format("document {}", i + 1));
    } else {
      const std::vector<std::string_view> lines = lines_of(text);
      for (size_t i = 0; i < lines.size() && !is_full(); ++i)
        if (const std::string place = fmt::format("line {}", i + 1); !trimmed(lines[i], " \t").empty())
          add(parse(found_.file, place, lines[i]), place);
    }
    if (!files_.labels.empty()) add_labels();
  }

  void add_labels() {
    const fs::path file = data_ / files_.labels;
    const std::string text = read_text(file);
    const std::vector<std::string_view> lines = lines_of(text);
    const size_t needed = found_.documents.size();
    if (lines.size() < needed || (limit_ == 0 && lines.size() != needed))
      throw UserError("{} has {} labels, and {} has {} documents; they do not belong together", file.string(), lines.size(),
                      found_.file.string(), needed);
    for (size_t i = 0; i < needed; ++i) found_.documents[i]["label"] = std::string(trimmed(lines[i], " \t"));
  }

  // A folder with a file per article, as published, or a file of lines whose field `problems` is a list or a Python literal of
  // one. Each article becomes one document, with its last question open and the others answered in `earlier`.
  void read_race() {
    if (!fs::is_directory(found_.file)) {
      const std::string text = read_text(found_.file);
      const std::vector<std::string_view> lines = lines_of(text);
      for (size_t i = 0; i < lines.size() && !is_full(); ++i)
        if (const std::string place = fmt::format("line {}", i + 1); !trimmed(lines[i], " \t").empty())
          add_article(parse(found_.file, place, lines[i]), place);
      return;
    }
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(found_.file))
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    std::ranges::sort(files);
    for (const fs::path& file : files) {
      if (is_full()) break;
      const std::string text = read_text(file);
      add_article(parse(file, "its text", text), file.filename().string());
    }
  }

  void add_article(const Document& article, const std::string& place) {
    try {
      Document problems = article.contains("problems") ? problems_of(article["problems"]) : published_problems(article);
      if (problems.empty()) throw WrongDocument("there are no questions");
      Document document{{"article", field_text(article, "article")}, {"earlier", ""}};
      std::string earlier;
      for (size_t i = 0; i + 1 < problems.size(); ++i) earlier += answered(problems[i]);
      const Document& last = problems.back();
      document["earlier"] = earlier;
      document["question"] = field_text(last, "question");
      document["options"] = field_texts(last, "options");
      document["answer"] = field_text(last, "answer");
      add(std::move(document), place);
    } catch (const WrongDocument& error) {
      throw UserError("{}, {}: {}", found_.file.string(), place, error.what());
    }
  }

  static Document problems_of(const Document& problems) {
    if (!problems.is_string()) return problems;
    Document read = read_python_literal(problems.get<std::string>());
    if (!read.is_array()) throw WrongDocument("field problems is not a list");
    return read;
  }

  static Document published_problems(const Document& article) {
    const std::vector<std::string> questions = field_texts(article, "questions"), answers = field_texts(article, "answers");
    Document problems = Document::array();
    for (size_t i = 0; i < questions.size(); ++i)
      problems.push_back({{"question", questions[i]},
                          {"answer", i < answers.size() ? answers[i] : ""},
                          {"options", field_texts(article, fmt::format("options.{}", i))}});
    return problems;
  }

  // An earlier question with its answer; a gap at the end of a sentence is filled.
  static std::string answered(const Document& problem) {
    const std::string question = field_text(problem, "question"), answer = field_text(problem, "answer");
    const std::vector<std::string> options = field_texts(problem, "options");
    const size_t number = answer.empty() ? options.size() : static_cast<size_t>(answer[0] - 'A');
    if (number >= options.size()) throw WrongDocument(fmt::format("answer {} is not one of {} options", answer, options.size()));
    constexpr std::string_view kGap = "  _  .";
    if (question.ends_with(kGap)) return question.substr(0, question.size() - 5) + options[number] + "\n";
    return "Question: " + question + "\nAnswer: " + options[number] + "\n";
  }

  // A document per article: from a line "= Title =" to the next.
  void read_wikitext() {
    const std::string text = read_text(found_.file);
    std::string page;
    std::string_view rest = text;
    const auto end_page = [&] {
      if (!trimmed(page, " \t\r\n").empty()) add({{"page", page}}, fmt::format("page {}", found_.documents.size() + 1));
      page.clear();
    };
    for (bool is_first = true, more = true; more;) {
      const size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      more = end != rest.npos;
      rest.remove_prefix(more ? end + 1 : rest.size());
      if (is_title(line)) end_page(), is_first = true;
      if (!is_first) page += '\n';
      page += line;
      is_first = false;
    }
    end_page();
  }

  static bool is_title(std::string_view line) {
    const std::string_view words = trimmed(line, " \t\r");
    return words.size() >= 3 && words.starts_with("= ") && words.ends_with(" =") && !words.starts_with("= =");
  }

  const Task& task_;
  const fs::path& data_;
  int64_t limit_;
  Documents which_;
  Files files_;
  TaskDocuments found_;
  Sha256 digest_;
};

}  // namespace

std::string missing_files(const Task& task, const fs::path& data, Documents which) {
  std::error_code failed;
  if (!fs::is_directory(data, failed))
    return fmt::format("{} is not a folder that can be read; name one with --data", data.string());
  const Files files = files_of(task.dataset, which);
  for (const std::string& name : {files.documents, files.labels})
    if (const fs::path path = data / name; !name.empty() && !fs::exists(path, failed))
      return fmt::format("task {} reads {}, which is missing; {}", task.name, path.string(), how_to_get(task.dataset, path));
  return "";
}

TaskDocuments read_documents(const Task& task, const fs::path& data, int64_t limit, Documents which) {
  return Reader(task, data, limit, which).read();
}

}  // namespace trireme
