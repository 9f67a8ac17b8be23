#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "report/readers.h"
#include "telemetry/fixtures.h"
#include "telemetry/tensorboard.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class EventReaderTest : public testing::Test {
 protected:
  void write_run(int64_t begin, int64_t end, double loss) {
    TensorboardSink sink(folder_.path(), {begin}, {});
    for (int64_t step = begin; step < end; ++step) {
      StepRecord record = ordinary_record(step);
      record.loss = loss;
      sink.step(record);
    }
  }
  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(folder_.path())) paths.push_back(entry.path().string());
    return paths;
  }

  TemporaryFolder folder_;
};

TEST_F(EventReaderTest, ReadsWhatWeWrite) {
  write_run(0, 3, 1.5);
  const RunLog log = read_event_files(files());
  for (const auto& [name, value] : {std::pair("reduced_train_loss", 1.5), {"lr", 2.93e-3}, {"train_step_timing in s", 0.0641}}) {
    const Series* const series = log.find(name);
    ASSERT_NE(series, nullptr) << name;
    ASSERT_EQ(series->points.size(), 3u);
    EXPECT_EQ(series->points[2].step, 2);
    EXPECT_EQ(series->points[2].value, static_cast<double>(static_cast<float>(value)));  // scalars are f32 in these files
  }
  EXPECT_TRUE(log.notes.empty());
}

TEST_F(EventReaderTest, AResumedRunIsOneCurve) {
  write_run(0, 10, 3);
  write_run(6, 8, 1);  // killed before it came to where the first had been
  const Series loss = *read_event_files(files()).find("reduced_train_loss");
  ASSERT_EQ(loss.points.size(), 8u);
  for (const Point& point : loss.points) EXPECT_EQ(point.value, point.step < 6 ? 3 : 1) << point.step;
}

// Whatever happens to the record of the second step, the first is there, and a note; whatever happens before, nothing is.
TEST_F(EventReaderTest, ReadsUpToTheFirstRecordThatIsTornOrDamaged) {
  write_run(0, 1, 3);
  const std::string path = files().front();
  const size_t one_step = read_file(path, 1 << 20).size();
  fs::remove(path);
  write_run(0, 2, 3);
  const std::string bytes = read_file(files().front(), 1 << 20);
  const auto expect_whole_records = [&](const std::string& content, size_t trouble_at) {
    folder_.write("events.out.tfevents.1.x", content);
    const std::vector<std::string> file{folder_ / "events.out.tfevents.1.x"};
    if (trouble_at < one_step) {
      EXPECT_THROW(read_event_files(file), UserError) << trouble_at;
      return;
    }
    const RunLog log = read_event_files(file);
    EXPECT_EQ(log.find("reduced_train_loss")->points.size(), 1u) << trouble_at;
    EXPECT_EQ(log.notes.size(), trouble_at == one_step && content.size() == one_step ? 0u : 1u) << trouble_at;
  };
  for (size_t at = 0; at < bytes.size(); at += 3) {
    expect_whole_records(bytes.substr(0, at), at);
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    expect_whole_records(damaged, at);
  }
}

TEST_F(EventReaderTest, AnswersOtherFilesInOneLine) {
  const std::string path = folder_.write("events.out.tfevents.1.x", "this is not an event file at all");
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_event_files({path}); }), "is not a TensorBoard event file"));
  folder_.write("events.out.tfevents.1.x", "");
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_event_files({path}); }), "holds no scalars"));
}

}  // namespace
}  // namespace trireme
