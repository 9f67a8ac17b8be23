#include "telemetry/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

struct Row {
  int64_t step = 0;
  const StepRecord* record = nullptr;     // in a step's row
  std::optional<double> validation_loss;  // in a validation's row
  double train_seconds = 0, validation_seconds = 0;
  std::optional<TrainedTotals> per_second;  // over the window
  const RateBasis* rates = nullptr;
};

using Cell = std::optional<double>;  // no value: an empty cell

struct Column {
  const char* name;
  Cell (*cell)(const Row& row);
};

Cell known(double value) { return value > 0 ? Cell(value) : std::nullopt; }

template <auto member>
Cell of_step(const Row& row) {
  return row.record != nullptr ? Cell(static_cast<double>(row.record->*member)) : std::nullopt;
}
template <auto member>
Cell known_of_step(const Row& row) {
  const Cell cell = of_step<member>(row);
  return cell ? known(*cell) : std::nullopt;
}
template <auto member>
Cell rate(const Row& row) {
  return row.per_second ? Cell((*row.per_second).*member) : std::nullopt;
}
template <auto member>
Cell device_rate(const Row& row) {
  return row.per_second ? Cell((*row.per_second).*member / static_cast<double>(row.rates->devices)) : std::nullopt;
}
Cell flops_per_second(const Row& row) {
  return row.per_second ? known(row.per_second->samples * row.rates->flops_per_sample) : std::nullopt;
}
Cell device_flops_per_second(const Row& row) {
  const Cell all = flops_per_second(row);
  return all ? Cell(*all / static_cast<double>(row.rates->devices)) : std::nullopt;
}
Cell mfu(const Row& row) {
  const Cell device = device_flops_per_second(row);
  return device ? known(row.rates->mfu(*device / 1e12)) : std::nullopt;
}

constexpr const char *kTrainTime = "time/train", *kValidationTime = "time/val";

// The last column has a number in every row: filler spaces (log_file.h) after an empty cell would turn it into text.
constexpr std::array kColumns{
    Column{"step", [](const Row& row) { return Cell(static_cast<double>(row.step)); }},
    Column{"epoch", of_step<&StepRecord::epoch>},
    Column{"samples", of_step<&StepRecord::consumed_samples>},
    Column{"reduced_train_loss", of_step<&StepRecord::loss>},
    Column{"val_loss", [](const Row& row) { return row.validation_loss; }},
    Column{"lr", of_step<&StepRecord::learning_rate>},
    Column{"grad_norm", of_step<&StepRecord::grad_norm>},
    Column{"global_batch_size", of_step<&StepRecord::global_batch_size>},
    Column{"train_step_timing in s", of_step<&StepRecord::mean_step_seconds>},
    Column{"train_step_timing_raw in s", of_step<&StepRecord::step_seconds>},
    Column{"steady_step",
           [](const Row& row) { return row.record != nullptr ? Cell(row.record->left_out() ? 0 : 1) : std::nullopt; }},
    Column{"memory_allocated", known_of_step<&StepRecord::memory_bytes>},
    Column{"peak_memory_usage", known_of_step<&StepRecord::peak_memory_bytes>},
    Column{"throughput/batches_per_sec", rate<&TrainedTotals::batches>},
    Column{"throughput/samples_per_sec", rate<&TrainedTotals::samples>},
    Column{"throughput/tokens_per_sec", rate<&TrainedTotals::tokens>},
    Column{"throughput/flops_per_sec", flops_per_second},
    Column{"throughput/device/batches_per_sec", device_rate<&TrainedTotals::batches>},
    Column{"throughput/device/samples_per_sec", device_rate<&TrainedTotals::samples>},
    Column{"throughput/device/tokens_per_sec", device_rate<&TrainedTotals::tokens>},
    Column{"throughput/device/flops_per_sec", device_flops_per_second},
    Column{"throughput/device/mfu", mfu},
    Column{kTrainTime, [](const Row& row) { return Cell(row.train_seconds); }},
    Column{kValidationTime, [](const Row& row) { return Cell(row.validation_seconds); }},
    Column{"time/total", [](const Row& row) { return Cell(row.train_seconds + row.validation_seconds); }},
};

void append_row(std::string& out, const Row& row) {
  for (const char* separator = ""; const Column& column : kColumns) {
    out += std::exchange(separator, ",");
    const Cell cell = column.cell(row);
    if (cell) fmt::format_to(std::back_inserter(out), "{}", *cell);
  }
}

// Returns the cell of a column; 0 if it is empty or missing. None of our cells contains a comma.
double number_in(std::string_view line, std::string_view column) {
  const auto at = std::ranges::find(kColumns, column, [](const Column& c) { return std::string_view(c.name); });
  for (auto skip = at - kColumns.begin(); skip > 0; --skip) {
    const size_t comma = line.find(',');
    if (comma == std::string_view::npos) return 0;
    line.remove_prefix(comma + 1);
  }
  double number = 0;
  std::from_chars(line.data(), line.data() + line.size(), number);
  return number;
}

// Renames a file with other columns to the first free name: metrics.1.csv, ...
void keep_aside_unless_ours(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  std::string line(CsvSink::header().size(), '\0');
  const File file = File::open(path);
  if (file.size() == 0) return;
  if (file.size() >= static_cast<int64_t>(line.size())) file.read_at(0, std::as_writable_bytes(std::span(line)));
  if (line == CsvSink::header()) return;
  const std::filesystem::path aside = numbered_name(path);
  std::error_code error;
  std::filesystem::rename(path, aside, error);
  if (error)
    throw Failure("cannot rename {}, which has other columns, to {}: {}", path.string(), aside.string(), error.message());
}

std::string checked(const std::string& path) {
  keep_aside_unless_ours(path);
  return path;
}

}  // namespace

std::string CsvSink::header() {
  std::string line;
  for (const char* separator = ""; const Column& column : kColumns) {
    line += std::exchange(separator, ",");
    line += column.name;
  }
  return line + '\n';
}

CsvSink::CsvSink(const std::string& path, int64_t first_step, const RateBasis& rates, Notify notify)
    : rates_(rates), file_(checked(path), std::move(notify)) {
  go_on(first_step);
  if (file_.size() == 0) file_.append(header());
}

void CsvSink::go_on(int64_t first_step) {
  bool in_header = true;
  file_.keep_lines([&](std::string_view line) {
    if (std::exchange(in_header, false)) return first_step > 0;
    if (number_in(line, "step") >= static_cast<double>(first_step)) return false;
    totals_.seconds = number_in(line, kTrainTime);
    validation_seconds_ = number_in(line, kValidationTime);
    return true;
  });
}

void CsvSink::step(const StepRecord& record) {
  totals_.seconds += record.step_seconds;
  totals_.batches += 1;
  totals_.samples += static_cast<double>(record.global_batch_size);
  totals_.tokens += static_cast<double>(record.tokens);
  window_[steps_seen_ % window_.size()] = totals_;
  ++steps_seen_;
  if (!record.logged) return;

  Row row{.step = record.step,
          .record = &record,
          .validation_loss = {},
          .train_seconds = totals_.seconds,
          .validation_seconds = validation_seconds_,
          .per_second = {},
          .rates = &rates_};
  const TrainedTotals& first = window_[steps_seen_ > window_.size() ? steps_seen_ % window_.size() : 0];
  if (const double seconds = totals_.seconds - first.seconds; seconds > 0)
    row.per_second = TrainedTotals{.seconds = 1,
                                   .batches = (totals_.batches - first.batches) / seconds,
                                   .samples = (totals_.samples - first.samples) / seconds,
                                   .tokens = (totals_.tokens - first.tokens) / seconds};
  line_.clear();
  append_row(line_, row);
  file_.append_line(line_);
}

void CsvSink::validation(const ValidationRecord& record) {
  validation_seconds_ += record.seconds;
  line_.clear();
  append_row(line_, {.step = std::max<int64_t>(record.steps_done - 1, 0),
                     .validation_loss = record.loss,
                     .train_seconds = totals_.seconds,
                     .validation_seconds = validation_seconds_,
                     .per_second = {},
                     .rates = &rates_});
  file_.append_line(line_);
}

}  // namespace trireme
