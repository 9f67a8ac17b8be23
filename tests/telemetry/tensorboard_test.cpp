// Reads event files back with a small parser of its own, by the published format, and checks every checksum.
#include "telemetry/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <vector>

#include "base/error.h"
#include "fixtures.h"

namespace trireme {
namespace {

// Bit by bit from the definition (reflected polynomial 0x82f63b78).
uint32_t plain_crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = plain_crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

template <class T>
T take(std::string_view& from) {
  if (from.size() < sizeof(T)) throw std::runtime_error("the bytes end too early");
  T value;
  std::memcpy(&value, from.data(), sizeof(T));
  from.remove_prefix(sizeof(T));
  return value;
}

uint64_t take_varint(std::string_view& from) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const uint8_t byte = take<uint8_t>(from);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}

// A field of a message: its number, and its value as an integer or as bytes.
struct Field {
  uint64_t number = 0;
  uint64_t integer = 0;
  std::string_view bytes;
};

std::vector<Field> parse_message(std::string_view message) {
  std::vector<Field> fields;
  while (!message.empty()) {
    const uint64_t key = take_varint(message);
    Field field{.number = key >> 3, .bytes = {}};
    switch (key & 7) {
      case 0:
        field.integer = take_varint(message);
        break;
      case 1:
        field.integer = take<uint64_t>(message);
        break;
      case 5:
        field.integer = take<uint32_t>(message);
        break;
      case 2: {
        const size_t size = take_varint(message);
        if (size > message.size()) throw std::runtime_error("a field is longer than its message");
        field.bytes = message.substr(0, size);
        message.remove_prefix(size);
        break;
      }
      default:
        throw std::runtime_error("unknown wire type");
    }
    fields.push_back(field);
  }
  return fields;
}

struct Event {
  double wall_time = -1;
  int64_t step = -1;
  std::string file_version;
  std::map<std::string, float> values;
  int64_t session_status = -1;
};

Event parse_event(std::string_view message) {
  Event event;
  for (const Field& field : parse_message(message)) {
    if (field.number == 1) event.wall_time = std::bit_cast<double>(field.integer);
    if (field.number == 2) event.step = static_cast<int64_t>(field.integer);
    if (field.number == 3) event.file_version = field.bytes;
    if (field.number == 7) event.session_status = static_cast<int64_t>(parse_message(field.bytes).at(0).integer);
    if (field.number != 5) continue;
    for (const Field& value : parse_message(field.bytes)) {
      const std::vector<Field> parts = parse_message(value.bytes);
      event.values[std::string(parts.at(0).bytes)] = std::bit_cast<float>(static_cast<uint32_t>(parts.at(1).integer));
    }
  }
  return event;
}

std::vector<Event> read_events(const std::string& path) {
  const std::string contents = contents_of(path);
  std::vector<Event> events;
  for (std::string_view rest = contents; !rest.empty();) {
    const std::string_view length_bytes = rest.substr(0, 8);
    const uint64_t length = take<uint64_t>(rest);
    EXPECT_EQ(take<uint32_t>(rest), masked(length_bytes));
    const std::string_view message = rest.substr(0, length);
    rest.remove_prefix(length);
    EXPECT_EQ(take<uint32_t>(rest), masked(message));
    events.push_back(parse_event(message));
  }
  return events;
}

class Tensorboard : public testing::Test {
 protected:
  TemporaryFolder folder;
  ManualClock clock;
  std::vector<std::string> notices;
  Notify notify = [this](Severity, std::string_view text) { notices.emplace_back(text); };
};

TEST_F(Tensorboard, OpensWithVersionAndStart) {
  const TensorboardSink sink(folder.path(), {.first_step = 120}, notify, clock);
  const std::vector<Event> events = read_events(sink.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1.7e9);
  EXPECT_EQ(events[1].session_status, 1);
  EXPECT_EQ(events[1].step, 120);
}

TEST_F(Tensorboard, StepCarriesTheKnownTags) {
  TensorboardSink sink(folder.path(), {}, notify, clock);
  StepRecord record = ordinary_record(300);  // a step of two varint bytes
  record.step_seconds = 0.125;
  record.backward_seconds = 0.0625;
  sink.step(record);
  const Event event = read_events(sink.path()).at(2);
  EXPECT_EQ(event.step, 300);
  const std::map<std::string, float> expected{{"reduced_train_loss", 2.3412f},
                                              {"lr", 2.93e-3f},
                                              {"global_step", 300.f},
                                              {"consumed_samples", 2408.f},
                                              {"global_batch_size", 8.f},
                                              {"train_backward_timing in s", 0.0625f},
                                              {"grad_norm", 0.84f},
                                              {"train_step_timing in s", 0.0641f},
                                              {"steady_step", 1.0f},
                                              {"train_step_timing_raw in s", 0.125f},
                                              {"epoch", 0.f},
                                              {"tokens_per_second", 31950.f},
                                              {"tflops_per_device", 0.21f},
                                              {"mfu", 0.413f}};
  EXPECT_EQ(event.values, expected);
}

TEST_F(Tensorboard, ValidationStandsAtTheStepBeforeIt) {
  TensorboardSink sink(folder.path(), {}, notify, clock);
  sink.validation({.steps_done = 120, .loss = 2.5, .batches = 4, .seconds = 2});
  const Event event = read_events(sink.path()).at(2);
  EXPECT_EQ(event.step, 119);  // so that START at 120 does not forget it
  EXPECT_EQ(event.values, (std::map<std::string, float>{{"val_loss", 2.5f}, {"validation_step_timing in s", 0.5f}}));
}

TEST_F(Tensorboard, SingleValue) {
  TensorboardSink sink(folder.path(), {}, notify, clock);
  sink.scalar("tflops_per_sec_per_gpu", 693, 49);
  const Event event = read_events(sink.path()).at(2);
  EXPECT_EQ(event.step, 49);
  EXPECT_EQ(event.values, (std::map<std::string, float>{{"tflops_per_sec_per_gpu", 693.f}}));
}

TEST_F(Tensorboard, ALaterFileSortsAfterTheEarlierOnesEvenWhenTheClockIsBehind) {
  const TensorboardSink first(folder.path(), {}, notify, clock);
  const TensorboardSink same_second(folder.path(), {.first_step = 5}, notify, clock);
  clock.now_unix -= 3'600'000'000;
  const TensorboardSink clock_behind(folder.path(), {.first_step = 9}, notify, clock);
  EXPECT_LT(first.path(), same_second.path());
  EXPECT_LT(same_second.path(), clock_behind.path());
}

TEST_F(Tensorboard, ATornRecordOfAKilledRunGoesWhenItIsResumed) {
  std::string first;
  {
    TensorboardSink sink(folder.path(), {}, notify, clock);
    sink.step(ordinary_record(0));
    first = sink.path();
  }
  const std::string whole = contents_of(first);
  for (const size_t torn : {size_t{1}, size_t{11}, size_t{12}}) {  // within the length, within its checksum, after both
    std::ofstream(first, std::ios::binary) << whole << whole.substr(0, torn);
    const TensorboardSink resumed(folder.path(), {.first_step = 1}, notify, clock);
    EXPECT_EQ(contents_of(first), whole) << torn;
  }
  // Damage in the middle is not for us to cut away.
  std::string damaged = whole;
  damaged[0] ^= 1;
  std::ofstream(first, std::ios::binary) << damaged;
  const TensorboardSink resumed(folder.path(), {.first_step = 1}, notify, clock);
  EXPECT_EQ(contents_of(first), damaged);
}

TEST_F(Tensorboard, AFolderThatCannotBeIsSaidAtTheStart) {
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(TensorboardSink(folder / "file/events", {}, notify, clock), Failure);
}

}  // namespace
}  // namespace trireme
