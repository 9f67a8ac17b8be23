#include "telemetry/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "event files are little endian, and so are the machines we know");

template <class T>
void append_bytes(std::string& out, T value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  out.append(bytes.data(), bytes.size());
}

// ------------------------------------------------------------------------------------------------------------- protobuf

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, uint32_t field, Wire wire) { append_varint(out, field << 3 | static_cast<uint32_t>(wire)); }

void append_field(std::string& out, uint32_t field, double value) {
  append_key(out, field, Wire::fixed64);
  append_bytes(out, value);
}
void append_field(std::string& out, uint32_t field, float value) {
  append_key(out, field, Wire::fixed32);
  append_bytes(out, value);
}
void append_field(std::string& out, uint32_t field, int64_t value) {
  append_key(out, field, Wire::varint);
  append_varint(out, static_cast<uint64_t>(value));
}
void append_field(std::string& out, uint32_t field, std::string_view value) {
  append_key(out, field, Wire::bytes);
  append_varint(out, value.size());
  out += value;
}

// -------------------------------------------------------------------------------------------------------------- records

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return std::rotr(crc, 15) + 0xa282ead8;
}

// Removes an incomplete record at the end of a file, walking from record to record by their lengths. If a length has a wrong
// checksum, the file is damaged in another way and stays unchanged.
void cut_torn_record(const std::filesystem::path& path) {
  constexpr int64_t kHeader = sizeof(uint64_t) + sizeof(uint32_t), kFooter = sizeof(uint32_t);
  const File file = File::open(path);
  const int64_t size = file.size();
  int64_t whole = 0;
  std::string header(static_cast<size_t>(kHeader), '\0');
  while (size - whole >= kHeader) {
    file.read_at(whole, std::as_writable_bytes(std::span(header)));
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, header.data(), sizeof(length));
    std::memcpy(&crc, header.data() + sizeof(length), sizeof(crc));
    if (crc != masked_crc(std::string_view(header).substr(0, sizeof(length)))) return;
    const int64_t record = kHeader + narrow<int64_t>(length) + kFooter;
    if (record > size - whole) break;
    whole += record;
  }
  std::error_code ignored;
  if (whole < size) std::filesystem::resize_file(path, static_cast<uint64_t>(whole), ignored);
}

constexpr std::string_view kFilePrefix = "events.out.tfevents.";

std::vector<std::filesystem::path> event_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;  // a missing folder has no files
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with(kFilePrefix)) files.push_back(entry.path());
  return files;
}

// Readers take the files of a folder in the order of their names, and only then does START discard earlier records. So the name
// starts with a time later than that of every other file, even if this machine's clock is behind.
std::string new_file_path(const std::string& folder, const Clock& clock) {
  int64_t stamp = clock.unix_microseconds() / 1'000'000;
  for (const std::filesystem::path& file : event_files(folder)) {
    const std::string name = file.filename().string();
    int64_t other = 0;
    std::from_chars(name.data() + kFilePrefix.size(), name.data() + name.size(), other);
    stamp = std::max(stamp, other + 1);
  }
  return (std::filesystem::path(folder) / fmt::format("{}{:010}.{}.{}", kFilePrefix, stamp, host_name(), getpid())).string();
}

}  // namespace

TensorboardSink::TensorboardSink(const std::string& folder, const TensorboardOptions& options, Notify notify, const Clock& clock)
    : options_(options), clock_(clock), file_(new_file_path(folder, clock), std::move(notify)) {
  for (const std::filesystem::path& file : event_files(folder)) cut_torn_record(file);
  begin_event(0);
  append_field(event_, 3, std::string_view("brain.Event:2"));
  write_event();

  constexpr int64_t kStart = 1;
  begin_event(options.first_step);
  value_.clear();
  append_field(value_, 1, kStart);
  append_field(event_, 7, value_);
  write_event();
}

void TensorboardSink::step(const StepRecord& record) {
  if (!record.logged) return;
  visit_step_values(record, options_.timing, [&](const char* name, double value, NumberKind) { add_value(name, value); });
  write_summary(record.step);
}

void TensorboardSink::validation(const ValidationRecord& record) {
  add_value("val_loss", record.loss);
  if (record.batches > 0) add_value("validation_step_timing in s", record.seconds / static_cast<double>(record.batches));
  // Written at the last step run: at the next step it would be discarded when the run resumes from a checkpoint taken here.
  write_summary(std::max<int64_t>(record.steps_done - 1, 0));
}

void TensorboardSink::task_scores(const TaskScoresRecord& record) {
  for (const TaskScore& score : record.scores) add_value(score.name(), score.value);
  write_summary(std::max<int64_t>(record.steps_done - 1, 0));
}

void TensorboardSink::scalar(std::string_view tag, double value, int64_t step) {
  add_value(tag, value);
  write_summary(step);
}

void TensorboardSink::begin_event(int64_t step) {
  event_.clear();
  append_field(event_, 1, static_cast<double>(clock_.unix_microseconds()) * 1e-6);
  append_field(event_, 2, step);
}

void TensorboardSink::add_value(std::string_view tag, double value) {
  value_.clear();
  append_field(value_, 1, tag);
  append_field(value_, 2, static_cast<float>(value));
  append_field(summary_, 1, value_);
}

void TensorboardSink::write_summary(int64_t step) {
  begin_event(step);
  append_field(event_, 5, summary_);
  summary_.clear();
  write_event();
}

// Appends a field that no version of Event has; readers ignore it. A few sizes cannot be reached by a field and stay unfilled.
void TensorboardSink::fill_event(size_t bytes) {
  constexpr uint32_t kUnusedField = 2047;
  constexpr size_t kShortHead = 3, kLongHead = 4, kLongestShort = 127;  // bytes of key and length before the contents
  if (bytes < kShortHead || bytes == kShortHead + kLongestShort + 1) return;
  const size_t content = bytes - (bytes <= kShortHead + kLongestShort ? kShortHead : kLongHead);
  value_.assign(content, '\0');
  append_field(event_, kUnusedField, value_);
}

void TensorboardSink::write_event() {
  constexpr size_t kFraming = sizeof(uint64_t) + 2 * sizeof(uint32_t);
  fill_event(file_.filler_for(event_.size() + kFraming));
  record_.clear();
  append_bytes(record_, uint64_t{event_.size()});
  append_bytes(record_, masked_crc(record_));
  record_ += event_;
  append_bytes(record_, masked_crc(event_));
  file_.append(record_);
}

}  // namespace trireme
