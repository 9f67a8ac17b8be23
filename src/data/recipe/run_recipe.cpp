#include "data/recipe/run_recipe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "data/prepare/output_files.h"
#include "data/prepare/report.h"
#include "data/recipe/stage_usage.h"
#include "data/tokenizer/load_tokenizer.h"
#include "fetch/transfer_error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using prepare::OutputFormat;
using prepare::PrepareOutcome;
using prepare::PrepareSettings;

// Assumed tokenizing speed of jsonl per core, for the estimate; the summary has measured speeds.
constexpr double kTokenizeBytesPerCoreSecond = 100e6;
constexpr int64_t kMeasuredBytes = 4 << 20;
constexpr auto kLockInterval = std::chrono::milliseconds(100);
constexpr int64_t kWaitsBeforeNotice = 20;
constexpr int64_t kMaxReportBytes = 64 << 20, kMaxProductReportBytes = int64_t{1} << 30;

// A dataset to be made from one downloaded file or from all of them.
struct Product {
  PrepareSettings settings;
  std::vector<RecipeFile> files;

  // UserError if it was made and part of it is missing.
  bool is_there() const {
    const fs::path report = prepare::report_file(settings);
    if (!fs::exists(prepare::last_file(settings)) || !fs::exists(report)) return false;
    const json made = try_parse_json(read_file(report, kMaxProductReportBytes));
    if (made.is_object()) prepare::require_output(made);
    return made.is_object();
  }
};

class RecipeRunner {
 public:
  RecipeRunner(const RecipeRun& run, const RecipeHooks& hooks)
      : run_(run),
        recipe_(run.recipe),
        hooks_(hooks),
        output_(run.output),
        downloads_(output_ / "downloads"),
        products_(find_products()) {}

  RecipeResult run() {
    plan();
    announce();
    if (run_.dry_run == prepare::DryRun::yes) return {RecipeOutcome::planned, planned_report()};
    create_folders(output_);
    load_report();
    for (const auto stage : {&RecipeRunner::fetch_vocabulary, &RecipeRunner::download, &RecipeRunner::tokenize}) {
      const RecipeOutcome outcome = (this->*stage)();
      save_report();
      if (outcome != RecipeOutcome::complete) return {outcome, report_};
    }
    return {RecipeOutcome::complete, report_};
  }

 private:
  std::vector<Product> find_products() const {
    const std::vector<RecipeFile> files = files_of(recipe_);
    const fs::path base = output_ / recipe_.output_name;
    std::vector<Product> products;
    if (recipe_.format == OutputFormat::megatron && !files.front().number.empty())
      for (const RecipeFile& file : files) products.push_back({settings_for(base.string() + "_" + file.number, {file}), {file}});
    else
      products.push_back({settings_for(base.string(), files), files});
    return products;
  }

  PrepareSettings settings_for(const std::string& output, const std::vector<RecipeFile>& files) const {
    PrepareSettings settings{.output = output,
                             .format = recipe_.format,
                             .tokenizer = tokenizer_path().string(),
                             .workers = run_.workers,
                             .memory = run_.memory,
                             .validation = recipe_.validation,
                             .seed = recipe_.seed};
    for (const RecipeFile& file : files) settings.inputs.push_back((downloads_ / file.name).string());
    settings.end_of_document = recipe_.append_eod ? prepare::EndOfDocument::append : prepare::EndOfDocument::none;
    return settings;
  }

  fs::path tokenizer_path() const { return output_ / recipe_.tokenizer_save_dir; }

  // Returns the files that unfinished products still need.
  std::vector<RecipeFile> files_needed() const {
    std::vector<RecipeFile> files;
    for (const Product& product : products_)
      if (!product.is_there() || !recipe_.preprocess_data) files.insert(files.end(), product.files.begin(), product.files.end());
    return files;
  }

  FetchRequest request_for(const std::vector<std::string>& urls, const fs::path& folder) const {
    FetchRequest request = run_.fetch;
    request.urls = urls;
    request.output = folder;
    return request;
  }

  FetchRequest vocabulary_request() const {
    FetchRequest request = request_for(recipe_.tokenizer_urls, tokenizer_path());
    request.checksums = {};
    return request;
  }

  void plan() {
    if (recipe_.preprocess_data) vocabulary_plan_ = plan_fetch(vocabulary_request());
    require_found(vocabulary_plan_, "download_vocab_url=URL download_merges_url=URL, or download_tokenizer_url=URL");
    std::vector<std::string> urls;
    for (const RecipeFile& file : files_needed()) urls.push_back(shown_inside(recipe_.download_urls.front(), file.name));
    FetchRequest files = request_for(urls, downloads_);
    files.mirrors.assign(recipe_.download_urls.begin() + 1, recipe_.download_urls.end());
    files.mirrors.insert(files.mirrors.end(), run_.fetch.mirrors.begin(), run_.fetch.mirrors.end());
    if (recipe_.download_files) download_plan_ = plan_fetch(files);
    require_found(download_plan_, "--url or --mirror");
  }

  // `remedy` says where these files come from.
  static void require_found(const FetchPlan& plan, const char* remedy) {
    for (const FetchEntry& entry : plan.entries)
      if (entry.action == FetchEntry::Action::failed) throw Failure("{}; name another place with {}", entry.error, remedy);
  }

  static std::string shown_inside(const std::string& folder, const std::string& name) {
    return folder + (folder.ends_with('/') ? "" : "/") + name;
  }

  int64_t expected_bytes(const RecipeFile& file) const {
    for (const FetchEntry& entry : download_plan_.entries)
      if (entry.name == file.name && entry.file.remote.size >= 0) return entry.file.remote.size;
    std::error_code failed;
    const auto there = fs::file_size(downloads_ / file.name, failed);
    return failed ? recipe_.expected_file_bytes : narrow<int64_t>(there);
  }

  // The tokens of a product are written to parts, then assembled, and then the parts are removed. So the largest product needs
  // its disk space twice.
  RecipeEstimate estimate() {
    RecipeEstimate result{.files = narrow<int64_t>(files_of(recipe_).size())};
    int64_t largest = 0;
    for (const Product& product : products_) {
      if (product.is_there()) {
        result.files_done += narrow<int64_t>(product.files.size());
        continue;
      }
      int64_t bytes = 0;
      for (const RecipeFile& file : product.files) bytes += expected_bytes(file);
      const double text = static_cast<double>(bytes) * recipe_.text_bytes_per_byte;
      const auto tokens = static_cast<int64_t>(text * recipe_.token_bytes_per_text_byte);
      result.text_bytes += static_cast<int64_t>(text);
      result.token_bytes += tokens;
      largest = std::max(largest, tokens);
    }
    for (const FetchEntry& entry : download_plan_.entries)
      if (entry.action == FetchEntry::Action::fetch)
        result.download_bytes +=
            (entry.file.remote.size >= 0 ? entry.file.remote.size : recipe_.expected_file_bytes) - entry.bytes_there;
    if (!recipe_.preprocess_data) result.token_bytes = result.text_bytes = largest = 0;
    result.disk_needed = vocabulary_plan_.bytes_to_write() + result.download_bytes + result.token_bytes + largest;
    result.disk_free = free_bytes(existing_folder(output_));
    const int64_t cores = run_.workers > 0 ? run_.workers : std::max(1U, std::thread::hardware_concurrency());
    result.tokenize_rate = kTokenizeBytesPerCoreSecond * static_cast<double>(cores);
    result.download_rate = result.download_bytes > 0 ? measure_download() : 0;
    return result;
  }

  // Returns bytes per second of one connection, measured at the start of the first file; 0 if that fails.
  double measure_download() const {
    const auto entry = std::ranges::find(download_plan_.entries, FetchEntry::Action::fetch, &FetchEntry::action);
    if (entry->file.sources.front().tool || entry->file.remote.size <= 0 || !entry->file.remote.ranges) return 0;
    const int64_t end = std::min(entry->file.remote.size, kMeasuredBytes);
    SourceReader reader({.timeout_seconds = run_.fetch.download.timeout_seconds, .stop = nullptr});
    try {
      const Stopwatch watch;
      reader.read(
          entry->file.sources.front().location, 0, end, "", [](const RemoteFile&) {}, [](std::span<const std::byte>) {});
      return static_cast<double>(end) / watch.seconds();
    } catch (const TransferError&) {
      return 0;
    }
  }

  void announce() {
    estimate_ = estimate();
    const RecipeEstimate& e = estimate_;
    hooks_.tell(fmt::format("{}: {} of {} to do; {} to download, about {} of text to read", recipe_.name, e.files - e.files_done,
                            plural(e.files, "file"), format_bytes(e.download_bytes), format_bytes(e.text_bytes)));
    hooks_.tell(fmt::format("disk: about {} needed in {}, {} free", format_bytes(e.disk_needed), output_.string(),
                            format_bytes(e.disk_free)));
    std::string time = fmt::format("time: about {}", format_duration(e.seconds()));
    if (e.download_rate > 0) time += fmt::format("; download at {:.1f} MB/s (one connection, measured)", e.download_rate / 1e6);
    if (e.download_bytes > 0 && e.download_rate <= 0) time += "; not counting the download, whose speed is not known";
    if (e.text_bytes > 0) time += fmt::format("; tokenize at {:.0f} MB/s (100 MB/s a core, assumed)", e.tokenize_rate / 1e6);
    hooks_.tell(time);
    if (e.disk_needed > e.disk_free)
      throw UserError("--output {}: about {} are needed and {} is free; choose another disk or fewer --files", output_.string(),
                      format_bytes(e.disk_needed), format_bytes(e.disk_free));
  }

  RecipeOutcome fetch(const char* name, const FetchPlan& fetch_plan) {
    if (fetch_plan.files_to_fetch() == 0) return RecipeOutcome::complete;
    const StageMeter meter(name);
    std::atomic<bool> stop = false;
    DownloadOptions options = run_.fetch.download;
    options.stop = &stop;
    const FetchReport result = carry_out(fetch_plan, options, [&](const FetchProgress& progress) {
      stop = stop || hooks_.stop();
      hooks_.show_download(&progress);
    });
    hooks_.show_download(nullptr);
    add_stage(meter.finish(result.bytes_brought));
    for (const FetchedFile& file : result.files)
      if (file.outcome == FetchedFile::Outcome::failed) hooks_.tell(file.error);
    if (result.count(FetchedFile::Outcome::failed) > 0) return RecipeOutcome::failed;
    return result.count(FetchedFile::Outcome::stopped) > 0 ? RecipeOutcome::stopped : RecipeOutcome::complete;
  }

  // Processes that prepare files of one dataset share the vocabulary: the first fetches it, the others wait and find it there.
  RecipeOutcome fetch_vocabulary() {
    if (!recipe_.preprocess_data || vocabulary_plan_.files_to_fetch() == 0) return RecipeOutcome::complete;
    File turn = File::open_update(output_ / ".vocabulary.lock");
    for (int64_t waits = 0; !turn.lock(); ++waits) {
      if (hooks_.stop()) return RecipeOutcome::stopped;
      if (waits == kWaitsBeforeNotice) hooks_.tell("waiting for another process that fetches the vocabulary");
      std::this_thread::sleep_for(kLockInterval);
    }
    vocabulary_plan_ = plan_fetch(vocabulary_request());
    return fetch("vocabulary", vocabulary_plan_);
  }

  RecipeOutcome download() { return recipe_.download_files ? fetch("download", download_plan_) : RecipeOutcome::complete; }

  RecipeOutcome tokenize() {
    if (!recipe_.preprocess_data || std::ranges::all_of(products_, &Product::is_there)) return RecipeOutcome::complete;
    const StageMeter meter("tokenize");
    const auto tokenizer = load_tokenizer(tokenizer_path().string());
    int64_t bytes = 0;
    RecipeOutcome outcome = RecipeOutcome::complete;
    for (const Product& product : products_) {
      if (!product.is_there()) {
        const prepare::PrepareHooks hooks{.stop = hooks_.stop, .tell = hooks_.tell};
        const prepare::PrepareResult result = prepare::prepare_data(product.settings, *tokenizer, hooks);
        bytes += result.report.value("input_bytes", int64_t{0});
        report_["products"].push_back({{"output", product.settings.output},
                                       {"documents", result.report.value("documents", int64_t{0})},
                                       {"tokens", result.report.value("tokens", int64_t{0})}});
        if (result.outcome == PrepareOutcome::stopped) outcome = RecipeOutcome::stopped;
      }
      if (outcome != RecipeOutcome::complete) break;
      if (recipe_.rm_downloaded) remove_downloads(product);
    }
    add_stage(meter.finish(bytes));
    return outcome;
  }

  void remove_downloads(const Product& product) const {
    std::error_code ignored;
    for (const RecipeFile& file : product.files) fs::remove(downloads_ / file.name, ignored);
    fs::remove(downloads_, ignored);  // fails silently unless empty
  }

  void add_stage(const StageUsage& usage) {
    hooks_.tell(fmt::format("{}: {} in {} ({:.1f} MB/s), {:.0f}% CPU, {} of memory", usage.name, format_bytes(usage.bytes),
                            format_duration(usage.wall_seconds), usage.mb_per_second(), usage.cpu_percent(),
                            format_bytes(usage.peak_memory_bytes)));
    json& stages = report_["stages"];
    const auto earlier = std::ranges::find_if(stages, [&](const json& stage) { return stage.value("name", "") == usage.name; });
    if (earlier == stages.end())
      stages.push_back(to_json(usage));
    else
      *earlier = to_json(sum_of(stage_from_json(*earlier), usage));
  }

  json planned_report() const {
    return {{"recipe", recipe_.name},
            {"files", estimate_.files},
            {"files_done", estimate_.files_done},
            {"bytes_to_download", estimate_.download_bytes},
            {"expected_text_bytes", estimate_.text_bytes},
            {"expected_token_bytes", estimate_.token_bytes},
            {"disk_needed_bytes", estimate_.disk_needed},
            {"disk_free_bytes", estimate_.disk_free},
            {"expected_seconds", estimate_.seconds()}};
  }

  // A resumed run adds to the recorded usage. An unreadable report is replaced.
  void load_report() {
    std::error_code failed;
    if (!fs::exists(output_ / "report.json", failed)) return;
    json earlier = try_parse_json(read_file(output_ / "report.json", kMaxReportBytes));
    const auto is_list = [&](const char* key) { return earlier.contains(key) && earlier[key].is_array(); };
    if (earlier.is_object() && is_list("stages") && is_list("products")) report_ = std::move(earlier);
  }

  void save_report() {
    if (!report_.contains("plan")) report_["plan"] = planned_report();
    atomic_write(output_ / "report.json", bytes_of(json_text(report_) + "\n"));
  }

  const RecipeRun& run_;
  const DataRecipe& recipe_;
  const RecipeHooks& hooks_;
  const fs::path output_, downloads_;
  std::vector<Product> products_;
  FetchPlan vocabulary_plan_, download_plan_;
  RecipeEstimate estimate_;
  json report_ = {{"stages", json::array()}, {"products", json::array()}};
};

}  // namespace

double RecipeEstimate::seconds() const {
  const double download = download_rate > 0 ? static_cast<double>(download_bytes) / download_rate : 0;
  return download + static_cast<double>(text_bytes) / tokenize_rate;
}

RecipeResult run_data_recipe(const RecipeRun& run, const RecipeHooks& hooks) { return RecipeRunner(run, hooks).run(); }

}  // namespace trireme
